//! Custom resources of a real API server arrive as events, and what happened while nobody watched is told.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crier::driver::{Driver, DriverRoute, Status};
use crier::engine::{Initial, RouteSettings};
use crier::event::{Encoder, PayloadMode, RouteAttributes};
use crier::kubernetes::{Collection, Requests};
use crier::sink::file::LineSink;
use crier::store::{DiskStore, OpenOptions, Store, StoreError};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::support::Cluster;

const OBJECTS: &str = "/apis/example.com/v1/namespaces/default/myapps";

async fn call(client: &kube::Client, method: &str, path: &str, body: Option<Value>) -> kube::Result<Value> {
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", if method == "PATCH" { "application/merge-patch+json" } else { "application/json" });
    let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
    client.request(request.body(body).unwrap()).await
}

async fn create(client: &kube::Client, name: &str) {
    let body =
        json!({"apiVersion": "example.com/v1", "kind": "MyApp", "metadata": {"name": name}, "spec": {"replicas": 0}});
    call(client, "POST", OBJECTS, Some(body)).await.unwrap();
}

async fn scale(client: &kube::Client, name: &str, replicas: u32) {
    let body = json!({"spec": {"replicas": replicas}});
    call(client, "PATCH", &format!("{OBJECTS}/{name}"), Some(body)).await.unwrap();
}

async fn delete(client: &kube::Client, name: &str) {
    call(client, "DELETE", &format!("{OBJECTS}/{name}"), None).await.unwrap();
}

async fn install(client: &kube::Client) {
    let definition = json_of(include_str!("../../config/samples/myapp-crd.yaml"));
    call(client, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", Some(definition)).await.unwrap();
    // Served some moments after it is accepted.
    let served = async {
        while call(client, "GET", OBJECTS, None).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), served).await.expect("the kind is served");
}

/// The sample's YAML as JSON.
fn json_of(yaml: &str) -> Value {
    use saphyr::{LoadableYamlNode, Scalar, Yaml};
    fn convert(node: &Yaml<'_>) -> Value {
        match node {
            Yaml::Value(Scalar::Boolean(value)) => (*value).into(),
            Yaml::Value(Scalar::Integer(value)) => (*value).into(),
            Yaml::Value(Scalar::String(value)) => value.to_string().into(),
            Yaml::Sequence(items) => items.iter().map(convert).collect(),
            Yaml::Mapping(members) => {
                members.iter().map(|(key, value)| (key.as_str().unwrap().to_owned(), convert(value))).collect()
            }
            other => panic!("the sample has something that the test does not know: {other:?}"),
        }
    }
    convert(&Yaml::load_from_str(yaml).unwrap()[0])
}

/// The parts of the program put together as it will be, with its state and events in one directory.
struct Running {
    task: JoinHandle<()>,
    stop: watch::Sender<bool>,
    status: watch::Receiver<Status>,
}

impl Running {
    async fn start(cluster: &Cluster, directory: &Path) -> Self {
        let store = Self::open(directory).await;
        let (epoch, key) = (store.identity().epoch, store.identity().fingerprint_key);
        let collection = Collection {
            group: "example.com".into(),
            version: "v1".into(),
            resource: "myapps".into(),
            kind: "MyApp".into(),
            namespace: None,
            label_selector: String::new(),
            field_selector: String::new(),
        };
        let routes = ["one", "two"].map(|name| {
            let attributes = RouteAttributes {
                cluster: "test".into(),
                group: "example.com".into(),
                resource: "myapps".into(),
                api_version: "example.com/v1".into(),
                kind: "MyApp".into(),
                type_prefix: "dev.crier.resource".into(),
                epoch,
            };
            DriverRoute {
                name: name.into(),
                settings: RouteSettings {
                    quiet: Duration::from_millis(if name == "one" { 0 } else { 100 }),
                    max_wait: Duration::from_secs(1),
                    initial: Initial::Observed,
                    max_in_flight: 64,
                },
                encoder: Encoder::new(
                    attributes,
                    PayloadMode::Object,
                    vec!["metadata.managedFields".parse().unwrap()],
                    key,
                ),
                sink: Arc::new(LineSink::append(&directory.join(name)).unwrap()),
            }
        });
        let requests = Requests::new(cluster.client(), collection);
        let (driver, status) =
            Driver::new("myapps".into(), requests, routes.into(), Arc::new(Mutex::new(store)), 1).unwrap();
        let (stop, stopped) = watch::channel(false);
        Self { task: tokio::spawn(driver.run(stopped)), stop, status }
    }

    /// A predecessor that was ended may still hold the state for the rest of one commit.
    async fn open(directory: &Path) -> DiskStore {
        let options = OpenOptions { must_exist: false, now: 1_700_000_000, fingerprint_key: [7; 16] };
        let opened = async {
            loop {
                match DiskStore::open(directory, &options) {
                    Err(StoreError::Locked(_)) => tokio::time::sleep(Duration::from_millis(5)).await,
                    opened => return opened.unwrap(),
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(10), opened).await.expect("the state is let go")
    }

    /// Waits until everything that the cluster holds now has been read and told.
    async fn catch_up(&mut self, client: &kube::Client) {
        let list = call(client, "GET", &format!("{OBJECTS}?limit=1"), None).await.unwrap();
        let newest = call(client, "GET", OBJECTS, None).await.unwrap()["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|item| item["metadata"]["resourceVersion"].as_str().unwrap().parse::<u128>().unwrap())
            .max();
        // A deletion leaves no item; its version is at most the list's own.
        let list: u128 = list["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        let told = self.status.wait_for(|status| {
            let read = status.position.is_some_and(|position| position.get() >= newest.unwrap_or(list));
            read && status.routes.values().all(|route| route.synced && route.owed == 0)
        });
        tokio::time::timeout(Duration::from_secs(30), told).await.expect("everything is told in time").unwrap();
    }

    async fn stop(self) {
        self.stop.send(true).unwrap();
        tokio::time::timeout(Duration::from_secs(30), self.task).await.expect("it drains").unwrap();
    }

    /// Ends it at once, in the middle of whatever it does.
    async fn crash(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

fn events(directory: &Path, route: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(directory.join(route)).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("each line is an event")).collect()
}

fn what(event: &Value) -> &str {
    event["type"].as_str().unwrap().rsplit('.').next().unwrap()
}

/// What a consumer of these events holds, by name; no key's sequence may step back.
fn held(events: &[Value]) -> BTreeMap<String, Value> {
    let (mut held, mut sequences) = (BTreeMap::new(), BTreeMap::new());
    for event in events {
        let subject = event["subject"].as_str().unwrap().to_owned();
        let sequence = event["sequence"].as_str().unwrap();
        let newest = sequences.insert(subject.clone(), sequence);
        assert!(newest.is_none_or(|newest| newest <= sequence), "{subject} steps back: {event}");
        if what(event) == "deleted" {
            held.remove(&subject);
        } else {
            held.insert(subject, event["data"]["spec"]["replicas"].clone());
        }
    }
    held
}

async fn agree(client: &kube::Client, directory: &Path) {
    let list = call(client, "GET", OBJECTS, None).await.unwrap();
    let cluster: BTreeMap<String, Value> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| {
            (format!("default/{}", item["metadata"]["name"].as_str().unwrap()), item["spec"]["replicas"].clone())
        })
        .collect();
    for route in ["one", "two"] {
        assert_eq!(held(&events(directory, route)), cluster, "route {route}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_happens_to_objects_is_told_while_it_runs_after_a_crash_and_after_history_is_lost() {
    let mut cluster = Cluster::start().await;
    let client = cluster.client();
    install(&client).await;
    let directory = tempfile::tempdir().unwrap();

    // Live.
    let mut running = Running::start(&cluster, directory.path()).await;
    for n in 0..40 {
        create(&client, &format!("app-{n}")).await;
    }
    for n in 0..40 {
        scale(&client, &format!("app-{n}"), 1).await;
    }
    for n in 0..10 {
        delete(&client, &format!("app-{n}")).await;
    }
    scale(&client, "app-39", 2).await;
    running.catch_up(&client).await;
    agree(&client, directory.path()).await;

    // Crashes while a writer goes on.
    for round in 0..5 {
        for n in 10..20 {
            scale(&client, &format!("app-{n}"), 10 + round).await;
        }
        running.crash().await;
        scale(&client, "app-20", 10 + round).await;
        running = Running::start(&cluster, directory.path()).await;
    }
    running.catch_up(&client).await;
    agree(&client, directory.path()).await;

    // Down while things happen and the watch history is lost: exactly these are told.
    running.stop().await;
    let before = events(directory.path(), "one").len();
    for n in 20..25 {
        delete(&client, &format!("app-{n}")).await;
    }
    scale(&client, "app-30", 7).await;
    create(&client, "app-new").await;
    cluster.restart_api_server().await;
    let client = cluster.client();
    let mut running = Running::start(&cluster, directory.path()).await;
    running.catch_up(&client).await;
    agree(&client, directory.path()).await;
    running.stop().await;
    let after = events(directory.path(), "one");
    let told: BTreeSet<(&str, &str, bool)> = after[before..]
        .iter()
        .map(|event| (what(event), event["name"].as_str().unwrap(), event["inferred"] == "true"))
        .collect();
    let mut expected: BTreeSet<(&str, &str, bool)> =
        ["app-20", "app-21", "app-22", "app-23", "app-24"].map(|name| ("deleted", name, true)).into();
    expected.extend([("updated", "app-30", false), ("created", "app-new", false)]);
    assert_eq!(told, expected);
    assert_eq!(after.len(), before + expected.len(), "objects that did not change produce nothing");

    // Restarts with nothing changed.
    for _ in 0..5 {
        let mut running = Running::start(&cluster, directory.path()).await;
        running.catch_up(&client).await;
        running.stop().await;
    }
    assert_eq!(events(directory.path(), "one").len(), after.len());
}
