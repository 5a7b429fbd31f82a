//! Both ways of reading a whole collection give the same.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::iter;

use crier::kubernetes::{Collection, Connection, Requests, WatchLine};
use crier::model::{Object, ResourceVersion};
use serde_json::json;

use crate::support::{Cluster, Crier, Objects, agrees, what};

/// More than two pages of 500.
const APPS: usize = 1_100;
const FILE: &str = "sinks: { out: { file: { path: {dir}/events } } }
routes:
  - { name: apps, watch: { resources: [myapps.example.com] }, sinks: [out] }
";

/// What a list told, and how it was asked for, by the API server's own account.
async fn told_from(arguments: &[&str]) -> (usize, bool) {
    let cluster = Cluster::start_with(arguments).await;
    let objects = Objects::of(&cluster);
    objects.install().await;
    iter(0..APPS).for_each_concurrent(16, async |number| objects.create(&format!("app-{number}")).await).await;
    let mut crier = Crier::prepare(&cluster, FILE);
    crier.start();
    crier.until_told(objects.mark().await, Duration::from_secs(30)).await;
    let events = crier.lines("events");
    agrees(&events, &objects.all().await).unwrap();
    let metrics = cluster.metrics().await;
    let streamed = metrics.lines().any(|line| {
        line.starts_with("apiserver_watch_list_duration_seconds_count") && line.contains("resource=\"myapps\"")
    });
    (events.iter().filter(|event| what(event) == "observed").count(), streamed)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_collection_is_read_whole_as_a_stream_and_in_pages_where_the_server_has_no_streams() {
    let (streamed, paged) = tokio::join!(told_from(&[]), told_from(&["--feature-gates=WatchList=false"]));
    // The mark may have been made before or after the list.
    assert!(streamed.0 >= APPS && paged.0 >= APPS, "{streamed:?} {paged:?}");
    assert!(streamed.1, "the first server was asked for a stream");
    assert!(!paged.1, "the second one had none to give");
}

/// The first object in a stream that has this name.
async fn first(
    mut lines: impl futures::Stream<Item = Result<WatchLine, crier::kubernetes::Failure>> + Unpin,
) -> Object {
    loop {
        match lines.next().await.expect("the object comes").unwrap() {
            WatchLine::Added(object) | WatchLine::Modified(object) if object.metadata.key.name() == "same" => {
                return object;
            }
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_has_the_same_bytes_however_it_is_read() {
    let cluster = Cluster::start().await;
    let objects = Objects::of(&cluster);
    objects.install().await;
    let before: ResourceVersion = objects.mark().await.to_string().parse().unwrap();
    objects.create("same").await;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "same"}, "data": {"a": "<b>"}});
    objects.call("POST", "/api/v1/namespaces/default/configmaps", Some(map)).await.unwrap();
    for (group, resource) in [("example.com", "myapps"), ("", "configmaps")] {
        let collection = Collection {
            group: group.into(),
            version: None,
            resource: resource.into(),
            namespace: Some("default".into()),
            label_selector: String::new(),
            field_selector: String::new(),
        };
        let requests = Requests::new(Connection::of_client(cluster.client()), collection, None);
        let watched = first(requests.watch(before, Duration::from_secs(30)).await.unwrap()).await;
        let streamed = first(requests.stream_list(false).await.unwrap()).await;
        let fetched = requests.get(&watched.metadata.key).await.unwrap().unwrap();
        let mut paged = None;
        let take = |object: Object| paged = Some(object).filter(|it| it.metadata.key.name() == "same").or(paged.take());
        requests.list_page(None, false, take).await.unwrap();
        let text = |object: &Object| String::from_utf8(object.bytes.to_vec()).unwrap();
        assert_eq!(text(&streamed), text(&watched), "a streaming list");
        assert_eq!(text(&fetched), text(&watched), "a get");
        assert_eq!(text(&paged.unwrap()), text(&watched), "a page");
    }
}
