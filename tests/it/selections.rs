//! What enters and leaves a route's selection on a real API server, where under a selector a change of labels looks like
//! a creation or a deletion. Not the selection of namespaces; that is `namespaces`.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Cluster, Crier, Objects, newest, outline, what};

const LIMIT: Duration = Duration::from_secs(20);

fn following(selector: &str) -> String {
    format!(
        "sinks: {{ out: {{ file: {{ path: {{dir}}/events }} }} }}
routes:
  - name: some
    watch: {{ resources: [myapps.example.com], {selector} }}
    sinks: [out]
    debounce: {{ quiet: 0s }}
"
    )
}

/// Makes an object of this tier that was changed since: what has a history enters, and is not created.
async fn create(objects: &Objects, name: &str, tier: Option<&str>) {
    objects.create(name).await;
    objects.patch(name, json!({"metadata": {"labels": {"tier": tier}}, "spec": {"replicas": 7}})).await;
}

/// Waits until all is told that has happened to the selected objects, of which the mark is one; what came since `from`.
async fn told_since(from: usize, crier: &Crier, objects: &Objects) -> Vec<Value> {
    crier.until_told(objects.mark().await, LIMIT).await;
    crier.lines("events").split_off(from)
}

/// Waits until the newest event of this object says this.
async fn until_told_as(crier: &Crier, name: &str, expected: &str) -> Value {
    let told = || newest(&crier.lines("events")).remove(name).filter(|event| what(event) == expected);
    crier.until(&format!("{name} is told as {expected}"), LIMIT, |_| told().is_some()).await;
    told().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_enters_and_leaves_a_label_selector_is_neither_created_nor_deleted() {
    let mut cluster = Cluster::start().await;
    let objects = Objects::of(&cluster);
    objects.install().await;
    objects.create("mark").await;
    objects.label("mark", "tier", "prod".into()).await;
    for name in ["stays", "leaves-1", "leaves-2", "goes-1", "goes-2", "replaced-1", "replaced-2"] {
        create(&objects, name, Some("prod")).await;
    }
    for name in ["other", "enters"] {
        create(&objects, name, None).await;
    }
    let mut crier = Crier::prepare(&cluster, &following("labelSelector: tier=prod"));
    crier.start();
    told_since(0, &crier, &objects).await;
    let observed = crier.lines("events");
    assert!(observed.iter().all(|event| what(event) == "observed" || event["name"] == "mark"), "{observed:#?}");

    // While it watches.
    objects.label("enters", "tier", "prod".into()).await;
    assert_eq!(until_told_as(&crier, "enters", "entered").await["data"]["spec"]["replicas"], 7);
    objects.scale("enters", 8).await;
    until_told_as(&crier, "enters", "updated").await;
    objects.label("enters", "tier", "test".into()).await;
    let left = until_told_as(&crier, "enters", "left").await;
    assert!(left["data"]["spec"].is_null() && left["data"]["name"] == "enters", "{left:#}");
    assert_eq!(
        left["id"],
        format!("{}-{}-left", left["uid"].as_str().unwrap(), left["resourceversion"].as_str().unwrap())
    );
    objects.scale("enters", 9).await;
    objects.delete("enters").await;
    let body = json!({"apiVersion": "example.com/v1", "kind": "MyApp", "metadata": {"name": "born", "labels": {"tier": "prod"}}});
    objects.call("POST", &objects.path(None), Some(body)).await.unwrap();
    until_told_as(&crier, "born", "created").await;
    objects.delete("born").await;
    until_told_as(&crier, "born", "deleted").await;
    let told = told_since(observed.len(), &crier, &objects).await;
    let expected =
        [("entered", "enters"), ("updated", "enters"), ("left", "enters"), ("created", "born"), ("deleted", "born")];
    assert_eq!(outline(&told), expected, "what is outside of the selection is nobody's");

    // While it does not run: with the history of it at hand, and without.
    for round in 1..=2 {
        crier.terminate().await;
        let before = crier.lines("events").len();
        let [leaves, goes, replaced] = ["leaves", "goes", "replaced"].map(|name| format!("{name}-{round}"));
        objects.label(&leaves, "tier", Value::Null).await;
        objects.label(&goes, "tier", Value::Null).await;
        objects.delete(&goes).await;
        objects.delete(&replaced).await;
        create(&objects, &replaced, None).await;
        if round == 2 {
            cluster.compact().await;
            cluster.restart_api_server().await;
        }
        let objects = Objects::of(&cluster);
        crier.start();
        let told = told_since(before, &crier, &objects).await;
        let mut told = outline(&told);
        told.sort_unstable();
        assert_eq!(told, [("deleted", &*goes), ("deleted", &*replaced), ("left", &*leaves)], "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_field_selector_is_followed_and_an_edited_selector_tells_what_it_lets_in_and_out() {
    let cluster = Cluster::start().await;
    let objects = Objects::of(&cluster);
    objects.install().await;
    let mut one = Crier::prepare(&cluster, &following("fieldSelector: metadata.name=shop"));
    one.start();
    one.until("it follows the changes", LIMIT, |status| status["feeds"][0]["state"] == "watching").await;
    objects.create("other").await;
    for _ in 0..2 {
        objects.create("shop").await;
        until_told_as(&one, "shop", "created").await;
        objects.scale("shop", 3).await;
        until_told_as(&one, "shop", "updated").await;
        objects.delete("shop").await;
        until_told_as(&one, "shop", "deleted").await;
    }
    assert_eq!(outline(&one.lines("events")).len(), 6, "nothing else is told");

    for (name, tier) in [("mark", "test"), ("old", "prod"), ("both", "test"), ("new", "dev")] {
        create(&objects, name, Some(tier)).await;
    }
    let mut some = Crier::prepare(&cluster, &following("labelSelector: \"tier in (prod,test)\""));
    some.start();
    let mut before = told_since(0, &some, &objects).await.len();
    let edits = [
        ("labelSelector: \"tier in (test,dev)\"", vec![("entered", "new"), ("left", "old")]),
        ("labelSelector: \"tier in (prod,test)\"", vec![("entered", "old"), ("left", "new")]),
        ("labelSelector: \"tier notin (prod)\"", vec![("entered", "new"), ("entered", "other"), ("left", "old")]),
    ];
    for (revision, (selector, expected)) in edits.into_iter().enumerate() {
        some.terminate().await;
        some.configure(&following(selector));
        some.start();
        let told = told_since(before, &some, &objects).await;
        let mut outlined = outline(&told);
        outlined.sort_unstable();
        assert_eq!(outlined, expected, "{selector}");
        for event in told.iter().filter(|event| event["name"] != "mark") {
            let id = event["id"].as_str().unwrap();
            assert!(id.ends_with(&format!("-s{}", revision + 1)), "an edit's finds have ids of their own: {id}");
        }
        before += told.len();
    }
}
