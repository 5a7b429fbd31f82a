//! What happens to a kind's definition while its objects are followed: it is edited, deleted and made again, its versions
//! come and go, its conversion breaks. A kind that is missing at the start is `parked`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Cluster, Crier, DEFINITIONS, Objects, agrees, eventually, outline, what};

const LIMIT: Duration = Duration::from_secs(30);
const FILE: &str = "sinks: { out: { file: { path: {dir}/events } } }
routes:
  - { name: apps, watch: { resources: [myapps.example.com] }, sinks: [out] }
";

fn definition() -> String {
    format!("{DEFINITIONS}/myapps.example.com")
}

async fn settle(crier: &Crier, objects: &Objects) -> Vec<Value> {
    // While a definition takes effect, its objects are not to be had for a moment.
    objects.until_served().await;
    crier.until_told(objects.mark().await, LIMIT).await;
    crier.lines("events")
}

async fn until(crier: &Crier, state: &str) {
    until_because(crier, state, "").await;
}

/// Waits for a state that has a reason with this in it.
async fn until_because(crier: &Crier, state: &str, reason: &str) {
    let reached = |status: &Value| {
        let feed = &status["feeds"][0];
        feed["state"] == state && feed["reason"].as_str().unwrap_or_default().contains(reason)
    };
    crier.until(&format!("the feed is {state}: {reason}"), LIMIT, reached).await;
}

/// Changes the schema of the first version.
async fn edit_schema(objects: &Objects, edit: impl Fn(&mut Value)) {
    let mut definition_now = objects.call("GET", &definition(), None).await.unwrap();
    edit(&mut definition_now["spec"]["versions"][0]["schema"]["openAPIV3Schema"]);
    objects.call("PUT", &definition(), Some(definition_now)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edited_definition_tells_nothing_but_what_was_written_and_what_it_has_altered() {
    let cluster = Cluster::start().await;
    let objects = Objects::of(&cluster);
    objects.install().await;
    let names: Vec<String> = (0..10).map(|number| format!("app-{number}")).collect();
    for name in &names {
        objects.create(name).await;
    }
    let mut crier = Crier::prepare(&cluster, FILE);
    crier.start();
    let before = settle(&crier, &objects).await.len();

    let done = Arc::new(AtomicBool::new(false));
    let (writer, names_of_writer) = (objects.clone(), names.clone());
    let ended = Arc::clone(&done);
    let writes = tokio::spawn(async move {
        let mut versions = BTreeSet::new();
        let mut replicas = 0;
        while !ended.load(Ordering::Relaxed) {
            replicas += 1;
            for name in &names_of_writer {
                let written = writer.patch(name, json!({"spec": {"replicas": replicas}})).await;
                versions.insert(written["metadata"]["resourceVersion"].as_str().unwrap().to_owned());
            }
        }
        versions
    });
    for edit in 0..3 {
        edit_schema(&objects, |schema| schema["description"] = format!("edit {edit}").into()).await;
        tokio::time::sleep(Duration::from_millis(700)).await;
    }
    done.store(true, Ordering::Relaxed);
    let written = writes.await.unwrap();
    let events = settle(&crier, &objects).await;
    agrees(&events, &objects.all().await).unwrap();
    let told = events[before..].iter().filter(|event| event["name"] != "mark");
    for event in told {
        let version = event["resourceversion"].as_str().unwrap();
        assert!(what(event) == "updated" && written.contains(version), "{event:#}");
    }

    // A default alters every object without a write: each is told as it is now, once.
    edit_schema(&objects, |schema| {
        schema["properties"]["spec"]["properties"]["tier"] = json!({"type": "string", "default": "web"});
    })
    .await;
    let altered = || {
        let told = crier.lines("events").split_off(events.len());
        told.into_iter().filter(|event| event["name"] != "mark").collect::<Vec<_>>()
    };
    crier.until("all are told with the default", LIMIT, |_| altered().len() >= names.len()).await;
    settle(&crier, &objects).await;
    let told = altered();
    let told_names: BTreeSet<&str> = told.iter().map(|event| event["name"].as_str().unwrap()).collect();
    assert!(told.len() == names.len() && told_names.len() == names.len(), "{told:#?}");
    assert!(told.iter().all(|event| what(event) == "updated" && event["data"]["spec"]["tier"] == "web"), "{told:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_definition_takes_its_objects_and_what_comes_back_by_their_names_is_new() {
    let mut cluster = Cluster::start().await;
    let mut objects = Objects::of(&cluster);
    objects.install().await;
    let mut crier = Crier::prepare(&cluster, FILE);
    crier.start();
    for name in ["one", "two"] {
        objects.create(name).await;
    }
    for running in [true, false] {
        let events = settle(&crier, &objects).await;
        agrees(&events, &objects.all().await).unwrap();
        let old: Vec<Value> = objects.all().await.values().map(|it| it["metadata"]["uid"].clone()).collect();
        if !running {
            crier.terminate().await;
        }
        objects.call("DELETE", &definition(), None).await.unwrap();
        let gone = async || objects.call("GET", &definition(), None).await.is_err().then_some(());
        eventually("the definition is gone", LIMIT, gone).await;
        if running {
            until(&crier, "parked").await;
            let told = |name: &str, crier: &Crier| outline(&crier.lines("events")).contains(&("deleted", name));
            crier.until("all are told as gone", LIMIT, |_| told("one", &crier) && told("two", &crier)).await;
        }
        objects.install().await;
        for name in ["one", "two"] {
            objects.create(name).await;
        }
        if !running {
            cluster.compact().await;
            cluster.restart_api_server().await;
            objects = Objects::of(&cluster);
            objects.until_served().await;
            crier.start();
        }
        let after = settle(&crier, &objects).await;
        agrees(&after, &objects.all().await).unwrap();
        let since = &after[events.len()..];
        for name in ["one", "two"] {
            let of_name: Vec<&Value> = since.iter().filter(|event| event["name"] == name).collect();
            let said: Vec<&str> = of_name.iter().map(|event| what(event)).collect();
            assert_eq!(said, ["deleted", "created"], "running: {running}, {name}");
            assert!(old.contains(&of_name[0]["uid"]) && !old.contains(&of_name[1]["uid"]), "{of_name:#?}");
        }
    }
}

/// The sample kind in the versions v1, which is stored, and v2, which the API server prefers.
fn two_versions() -> Value {
    let mut definition = Objects::sample_definition();
    let mut second = definition["spec"]["versions"][0].clone();
    second["name"] = "v2".into();
    second["storage"] = false.into();
    definition["spec"]["versions"].as_array_mut().unwrap().push(second);
    definition
}

async fn edit_versions(objects: &Objects, edit: impl Fn(&mut Value)) {
    let mut definition_now = objects.call("GET", &definition(), None).await.unwrap();
    edit(&mut definition_now["spec"]);
    objects.call("PUT", &definition(), Some(definition_now)).await.unwrap();
}

/// Makes this version the one that is stored, and writes without a change until each object is stored in it, by which
/// alone its own version rises.
async fn store_as(objects: &Objects, stored: &str) {
    let versions = async || {
        let list = objects.call("GET", &objects.path(None), None).await.ok()?;
        let items = list["items"].as_array()?.iter().filter(|item| item["metadata"]["name"] != "mark");
        Some(items.map(|item| item["metadata"]["resourceVersion"].to_string()).collect::<BTreeSet<_>>())
    };
    let before = eventually("the objects are served", LIMIT, versions).await;
    edit_versions(objects, |spec| {
        for version in spec["versions"].as_array_mut().unwrap() {
            version["storage"] = (version["name"] == stored).into();
        }
    })
    .await;
    let rewritten = async || {
        for name in ["one", "two"] {
            objects.call("PATCH", &objects.path(Some(name)), Some(json!({}))).await.ok()?;
        }
        versions().await?.is_disjoint(&before).then_some(())
    };
    eventually("the objects are stored anew", LIMIT, rewritten).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_that_go_and_come_and_a_broken_conversion_take_nothing_back() {
    let cluster = Cluster::start().await;
    let objects = Objects::of(&cluster);
    objects.define(two_versions()).await;
    objects.until_served().await;
    for name in ["one", "two"] {
        objects.create(name).await;
    }
    let mut crier = Crier::prepare(&cluster, FILE);
    crier.start();
    until(&crier, "watching").await;
    let mut before = settle(&crier, &objects).await;
    assert!(before.iter().all(|event| event["apiversion"] == "example.com/v2"), "{before:#?}");
    let mut nothing_but_the_mark = async |during: &str| {
        let after = settle(&crier, &objects).await;
        assert_eq!(outline(&after[before.len()..]), [], "{during}");
        before = after;
    };

    // The version that it reads is served no more: another one is not taken in its place, and is named.
    edit_versions(&objects, |spec| spec["versions"][1]["served"] = false.into()).await;
    until_because(&crier, "parked", "it is not in version v2; its group has v1").await;
    edit_versions(&objects, |spec| spec["versions"][1]["served"] = true.into()).await;
    until(&crier, "watching").await;
    nothing_but_the_mark("a version that goes and comes").await;

    // Objects are stored anew in another version: their versions rise, and nothing has changed.
    store_as(&objects, "v2").await;
    nothing_but_the_mark("a migration of the stored version").await;

    // The conversion breaks: the API server can show no object in v1, and in v2 none that is stored in v1.
    store_as(&objects, "v1").await;
    nothing_but_the_mark("a migration back").await;
    let told = crier.lines("events").len();
    edit_versions(&objects, |spec| {
        let client = json!({"url": "https://127.0.0.1:1/convert"});
        let webhook = json!({"clientConfig": client, "conversionReviewVersions": ["v1"]});
        spec["conversion"] = json!({"strategy": "Webhook", "webhook": webhook});
    })
    .await;
    until_because(&crier, "waiting", "conversion webhook").await;
    assert_eq!(crier.lines("events").len(), told);
    // Nor does a process that begins in the middle of it take anything for gone.
    crier.kill();
    crier.start();
    until_because(&crier, "waiting", "conversion webhook").await;
    edit_versions(&objects, |spec| spec["conversion"] = json!({"strategy": "None"})).await;
    until(&crier, "watching").await;
    objects.delete("one").await;
    let after = settle(&crier, &objects).await;
    assert_eq!(outline(&after[told..]), [("deleted", "one")]);
}
