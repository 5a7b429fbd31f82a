//! What happens while crier does not run is told when it runs again, and what did not happen is not.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use crate::support::{Cluster, Crier, Objects, agrees, what};

const FILE: &str = "sinks: { out: { file: { path: {dir}/events } } }
routes:
  - { name: apps, watch: { resources: [myapps.example.com] }, sinks: [out] }
";
const LIMIT: Duration = Duration::from_secs(30);

async fn settle(crier: &Crier, objects: &Objects) -> Vec<Value> {
    crier.until_told(objects.mark().await, LIMIT).await;
    let events = crier.lines("events");
    agrees(&events, &objects.all().await).unwrap();
    events
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_while_down_with_lost_history_are_told_and_nothing_else() {
    let mut cluster = Cluster::start().await;
    let objects = Objects::of(&cluster);
    objects.install().await;
    for number in 0..50 {
        objects.create(&format!("app-{number}")).await;
    }
    let mut crier = Crier::prepare(&cluster, FILE);
    crier.start();
    let before = settle(&crier, &objects).await.len();
    assert_eq!(crier.terminate().await, 0);

    for number in 0..5 {
        objects.create(&format!("new-{number}")).await;
        objects.scale(&format!("app-{}", 10 + number), 7).await;
        objects.delete(&format!("app-{number}")).await;
    }
    // An object that is deleted and made again is another one.
    objects.delete("app-20").await;
    objects.create("app-20").await;
    cluster.compact().await;
    cluster.restart_api_server().await;
    let objects = Objects::of(&cluster);
    crier.start();
    let told: BTreeSet<(String, String, bool)> = settle(&crier, &objects).await[before..]
        .iter()
        .filter(|event| event["name"] != "mark")
        .map(|event| (what(event).into(), event["name"].as_str().unwrap().into(), event["inferred"] == "true"))
        .collect();
    let mut expected = BTreeSet::new();
    for number in 0..5 {
        expected.insert(("created".to_owned(), format!("new-{number}"), false));
        expected.insert(("updated".to_owned(), format!("app-{}", 10 + number), false));
        expected.insert(("deleted".to_owned(), format!("app-{number}"), true));
    }
    expected.insert(("deleted".to_owned(), "app-20".to_owned(), true));
    expected.insert(("created".to_owned(), "app-20".to_owned(), false));
    assert_eq!(told, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_restarts_with_nothing_changed_tell_nothing() {
    let cluster = Cluster::start().await;
    let objects = Objects::of(&cluster);
    objects.install().await;
    for number in 0..20 {
        objects.create(&format!("app-{number}")).await;
    }
    let mut crier = Crier::prepare(&cluster, FILE);
    crier.start();
    let before = settle(&crier, &objects).await.len();
    for round in 0..5 {
        if round % 2 == 0 {
            assert_eq!(crier.terminate().await, 0)
        } else {
            crier.kill()
        }
        crier.start();
        crier.until("it follows the changes", LIMIT, |status| status["feeds"][0]["caughtUp"] == true).await;
    }
    // What a restart would have told comes before what happens after it.
    assert_eq!(settle(&crier, &objects).await.len(), before + 1, "the mark alone is new");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_route_that_was_taken_out_and_put_back_is_told_what_it_missed() {
    let cluster = Cluster::start().await;
    let objects = Objects::of(&cluster);
    objects.install().await;
    let route = |name: &str| {
        format!(
            "  - {{ name: {name}, watch: {{ resources: [myapps.example.com] }}, sinks: [{name}], initial: none }}\n"
        )
    };
    let sinks = "sinks: { one: { file: { path: {dir}/one } }, two: { file: { path: {dir}/two } } }\nroutes:\n";
    let (both, one) = (format!("{sinks}{}{}", route("one"), route("two")), format!("{sinks}{}", route("one")));
    for name in ["kept", "changed", "gone"] {
        objects.create(name).await;
    }
    let mut crier = Crier::prepare(&cluster, &both);
    crier.start();
    crier.until_told(objects.mark().await, LIMIT).await;
    crier.terminate().await;
    let before = crier.lines("two").len();

    crier.configure(&one);
    crier.start();
    objects.scale("changed", 5).await;
    objects.delete("gone").await;
    objects.create("new").await;
    crier.until_told(objects.mark().await, LIMIT).await;
    crier.terminate().await;

    crier.configure(&both);
    crier.start();
    crier.until_told(objects.mark().await, LIMIT).await;
    let told: BTreeSet<(String, String)> = crier.lines("two")[before..]
        .iter()
        .filter(|event| event["name"] != "mark")
        .map(|event| (what(event).into(), event["name"].as_str().unwrap().into()))
        .collect();
    let expected = [("updated", "changed"), ("deleted", "gone"), ("created", "new")];
    assert_eq!(told, expected.map(|(what, name)| (what.to_owned(), name.to_owned())).into());
}
