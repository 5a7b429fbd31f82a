//! Both ways of reading a whole collection give the same.

use std::time::Duration;

use futures::StreamExt;
use futures::stream::iter;

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
