//! The main job: what happens to custom resources arrives in Kafka, NATS, at a webhook and on standard output.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::iter;

use crate::support::{Consumer, Everything, SINKS, what};

const APPS: usize = 200;
const DELETED: usize = 40;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_sinks_agree_with_the_cluster_and_with_each_other() {
    let began = std::time::Instant::now();
    let mut all = Everything::start().await;
    // Alone they take 3 s on two cores; other tests start servers meanwhile.
    assert!(began.elapsed() < Duration::from_secs(15), "the servers took {:?} to start", began.elapsed());
    all.crier.start();
    let ready = "the feed follows the changes";
    all.crier.until(ready, Duration::from_secs(15), |status| status["feeds"][0]["state"] == "watching").await;
    assert_eq!(all.crier.get("/readyz").await, Some((200, "ok\n".to_owned())));
    assert_eq!(all.crier.get("/livez").await, Some((200, "ok\n".to_owned())));

    let objects = &all.objects;
    let names: Vec<String> = (0..APPS).map(|number| format!("app-{number}")).collect();
    iter(&names).for_each_concurrent(8, async |name| objects.create(name).await).await;
    for round in 1..=3 {
        iter(&names).for_each_concurrent(8, async |name| objects.scale(name, round).await).await;
    }
    iter(&names[..DELETED]).for_each_concurrent(8, async |name| objects.delete(name).await).await;
    let events = all.settle(Duration::from_secs(60)).await;

    // Each delete is told, none is guessed; nothing was sent twice.
    for (sink, events) in &events {
        let mut consumer = Consumer::default();
        consumer.read(events);
        let deleted = events.iter().filter(|event| what(event) == "deleted");
        let deleted: BTreeSet<&str> = deleted.map(|event| event["name"].as_str().unwrap()).collect();
        assert_eq!(deleted, names[..DELETED].iter().map(String::as_str).collect(), "{sink}");
        assert!(events.iter().all(|event| event["inferred"].is_null()), "{sink}");
        assert_eq!(consumer.repeats, 0, "{sink}");
        for name in &names[DELETED..] {
            assert_eq!(consumer.newest[name]["data"]["spec"]["replicas"], 3, "{sink}: {name}");
        }
    }
    // The same change has the same id everywhere: sinks may merge differently, but never name one change two ways.
    let mut ids: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    for event in events.values().flatten().filter(|event| what(event) == "updated") {
        let text = |name: &str| event[name].as_str().unwrap().to_owned();
        ids.entry((text("uid"), text("resourceversion"))).or_default().insert(text("id"));
    }
    assert!(ids.len() >= APPS && ids.values().all(|ids| ids.len() == 1), "{ids:?}");
    let last: BTreeSet<_> = SINKS.map(|sink| BTreeMap::from_iter(newest_ids(&events[sink]))).into();
    assert_eq!(last.len(), 1, "the newest event of each key has one id in all four sinks");

    // Writes that change nothing produce nothing.
    let counts = |events: &BTreeMap<&str, Vec<_>>| SINKS.map(|sink| events[sink].len());
    for name in &names[DELETED..] {
        objects.touch(name).await;
    }
    let after = all.settle(Duration::from_secs(60)).await;
    // The mark that ends a settlement is itself one event.
    assert_eq!(counts(&after), counts(&events).map(|count| count + 1));
    let metrics = all.crier.get("/metrics").await.unwrap().1;
    for sink in SINKS {
        let line = format!(
            "crier_route_deliveries_total{{feed=\"myapps.example.com\",route=\"apps/myapps.example.com/{sink}\",verdict=\"delivered\"}} {}",
            after[sink].len()
        );
        assert!(metrics.lines().any(|found| found == line), "{line} is not in\n{metrics}");
    }
    assert_eq!(all.crier.terminate().await, 0, "SIGTERM drains and ends well");
}

fn newest_ids(events: &[serde_json::Value]) -> impl Iterator<Item = (String, String)> {
    let newest = crate::support::newest(events);
    newest.into_iter().map(|(name, event)| (name, event["id"].as_str().unwrap().to_owned()))
}
