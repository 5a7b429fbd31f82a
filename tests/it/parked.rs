//! A kind that is not there and a permission that is missing stop only their own routes, are named, and heal.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Cluster, Crier, Objects, agrees};

const LIMIT: Duration = Duration::from_secs(20);

fn feed<'a>(status: &'a Value, name: &str) -> &'a Value {
    status["feeds"].as_array().unwrap().iter().find(|feed| feed["feed"] == name).expect("the feed is there")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kind_that_is_missing_stops_no_other_and_is_followed_within_five_seconds_of_its_creation() {
    let cluster = Cluster::start().await;
    let objects = Objects::of(&cluster);
    let mut crier = Crier::prepare(
        &cluster,
        "sinks: { apps: { file: { path: {dir}/apps } }, maps: { file: { path: {dir}/maps } } }
routes:
  - { name: apps, watch: { resources: [myapps.example.com] }, sinks: [apps] }
  - { name: maps, watch: { resources: [configmaps], namespaces: [default] }, sinks: [maps] }
",
    );
    crier.start();
    let both = |status: &Value| {
        feed(status, "myapps.example.com")["state"] == "parked"
            && feed(status, "configmaps in default")["state"] == "watching"
    };
    let status = crier.until("the missing kind is parked and the other followed", LIMIT, both).await;
    let reason = feed(&status, "myapps.example.com")["reason"].as_str().unwrap();
    assert_eq!(reason, "the API server does not serve myapps.example.com: its group is not known");
    assert_eq!(crier.get("/readyz").await.unwrap().0, 200, "a known cause keeps nothing from being ready");
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "told"}, "data": {"a": "b"}});
    objects.call("POST", "/api/v1/namespaces/default/configmaps", Some(map)).await.unwrap();
    crier
        .until("the other kind is told", LIMIT, |_| {
            crier.lines("maps").iter().any(|event| event["name"] == "told" && event["apigroup"] == "core")
        })
        .await;

    // Long enough for the waits to have reached their cap.
    tokio::time::sleep(Duration::from_secs(8)).await;
    objects.install_only().await;
    let began = Instant::now();
    let followed = |status: &Value| feed(status, "myapps.example.com")["state"] == "watching";
    crier.until("the new kind is followed", Duration::from_secs(5), followed).await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    objects.create("one").await;
    crier.until_told(objects.mark().await, LIMIT).await;
    agrees(&crier.lines("apps"), &objects.all().await).unwrap();

    // The kind goes again: its objects' deletions are told.
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/myapps.example.com";
    objects.call("DELETE", path, None).await.unwrap();
    crier
        .until("the kind is parked again", LIMIT, |status| feed(status, "myapps.example.com")["state"] == "parked")
        .await;
    agrees(&crier.lines("apps"), &Default::default()).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn missing_permissions_are_named_by_verb_and_resource_and_heal_when_granted() {
    let cluster = Cluster::start().await;
    let objects = Objects::of(&cluster);
    objects.install().await;
    objects.create("one").await;
    let mut crier = Crier::prepare(
        &cluster,
        "sinks: { apps: { file: { path: {dir}/apps } } }
routes:
  - { name: apps, watch: { resources: [myapps.example.com] }, sinks: [apps] }
",
    )
    .with_context("limited");
    crier.start();
    let parked_for = |status: &Value, verb: &str| {
        let feed = &status["feeds"][0];
        let named = format!("cannot {verb} resource \"myapps\" in API group \"example.com\"");
        feed["state"] == "parked" && feed["reason"].as_str().is_some_and(|reason| reason.contains(&named))
    };
    crier.until("the missing permission is named", LIMIT, |status| parked_for(status, "watch")).await;
    let logged = |line: &Value| line["reason"].as_str().is_some_and(|reason| reason.contains("cannot watch resource"));
    assert!(crier.log().iter().any(logged), "and is in the log");
    objects.grant(&["watch"]).await;
    crier.until("the next one is named", LIMIT, |status| parked_for(status, "list")).await;
    objects.grant(&["watch", "list", "get"]).await;
    crier.until("it heals", LIMIT, |status| status["feeds"][0]["state"] == "watching").await;
    crier.until_told(objects.mark().await, LIMIT).await;
    agrees(&crier.lines("apps"), &objects.all().await).unwrap();
}
