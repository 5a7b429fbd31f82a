//! Which namespaces a route reads, on a real API server: named, excluded, by label as they come and go, and no more than
//! it has rights for. Not the selection among a namespace's objects; that is `selections`.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Cluster, Crier, Objects, agrees, outline, what};

const LIMIT: Duration = Duration::from_secs(20);
const ROUTES: &str = "sinks:
  few: { file: { path: {dir}/few } }
  most: { file: { path: {dir}/most } }
  labelled: { file: { path: {dir}/labelled } }
  all: { file: { path: {dir}/all } }
routes:
  - { name: few, watch: { resources: [myapps.example.com], namespaces: [team-a, team-b] }, sinks: [few] }
  - { name: most, watch: { resources: [myapps.example.com], excludedNamespaces: [team-b, team-d] }, sinks: [most] }
  - { name: labelled, watch: { resources: [myapps.example.com], namespaceSelector: team=payments }, sinks: [labelled] }
  - { name: all, watch: { resources: [myapps.example.com] }, sinks: [all] }
";

fn feed<'a>(status: &'a Value, name: &str) -> &'a Value {
    status["feeds"].as_array().unwrap().iter().find(|feed| feed["feed"] == name).expect("the feed is there")
}

/// How many watches of MyApps the API server serves.
async fn watches(cluster: &Cluster) -> f64 {
    let metrics = cluster.metrics().await;
    let of_apps = metrics.lines().filter(|line| {
        line.starts_with("apiserver_longrunning_requests{")
            && line.contains("resource=\"myapps\"")
            && line.contains("verb=\"WATCH\"")
    });
    of_apps.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}

/// What was told in this file from there on, in no order.
async fn told_since(crier: &Crier, mark: &Objects, file: &str, from: usize) -> BTreeSet<(String, String)> {
    crier.until_told(mark.mark().await, LIMIT).await;
    let owned = |(what, name): (&str, &str)| (what.to_owned(), name.to_owned());
    outline(&crier.lines(file)[from..]).into_iter().map(owned).collect()
}

fn expected(told: &[(&str, &str)]) -> BTreeSet<(String, String)> {
    told.iter().map(|(what, name)| ((*what).to_owned(), (*name).to_owned())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn routes_of_different_namespaces_share_one_watch_and_are_told_their_own() {
    let cluster = Cluster::start().await;
    let mark = Objects::of(&cluster);
    mark.install().await;
    let a = mark.make_namespace("team-a", json!({"team": "payments"})).await;
    let b = mark.make_namespace("team-b", json!({})).await;
    let c = mark.make_namespace("team-c", json!({"team": "search"})).await;
    for (objects, name) in [(&a, "in-a"), (&b, "in-b"), (&c, "in-c")] {
        objects.create(name).await;
    }
    let mut crier = Crier::prepare(&cluster, ROUTES);
    crier.start();
    for (file, names) in [
        ("few", &["in-a", "in-b"][..]),
        ("most", &["in-a", "in-c"]),
        ("labelled", &["in-a"]),
        ("all", &["in-a", "in-b", "in-c"]),
    ] {
        let observed: Vec<_> = names.iter().map(|name| ("observed", *name)).collect();
        assert_eq!(told_since(&crier, &mark, file, 0).await, expected(&observed), "{file}");
    }
    let status = crier.status().await.unwrap();
    assert_eq!(status["feeds"].as_array().unwrap().len(), 1, "{status:#}");
    crier.until("it watches", LIMIT, |status| status["feeds"][0]["state"] == "watching").await;
    assert!((watches(&cluster).await - 1.0).abs() < 0.1, "one watch for all routes");

    // A namespace gets the label: what is there enters, and what comes is created; it loses it: all of that leaves.
    let before = crier.lines("labelled").len();
    let until_told = async |name: &str, expected: &str| {
        let told = || crier.lines("labelled").iter().any(|event| event["name"] == name && what(event) == expected);
        crier.until(&format!("{name} is told as {expected}"), LIMIT, |_| told()).await;
    };
    c.label_namespace("team", "payments".into()).await;
    until_told("in-c", "entered").await;
    c.create("born-in-c").await;
    // A namespace is made with the label: whether it or its first object is seen first, nobody can say.
    let d = mark.make_namespace("team-d", json!({"team": "payments"})).await;
    d.create("in-d").await;
    until_told("born-in-c", "created").await;
    let told_of_d = || crier.lines("labelled").into_iter().find(|event| event["name"] == "in-d");
    crier.until("in-d is told", LIMIT, |_| told_of_d().is_some()).await;
    let came = what(&told_of_d().unwrap()).to_owned();
    assert!(["created", "entered"].contains(&&*came), "{came}");
    c.label_namespace("team", Value::Null).await;
    until_told("in-c", "left").await;
    until_told("born-in-c", "left").await;
    c.scale("in-c", 5).await;
    // And while nobody looks.
    crier.terminate().await;
    a.label_namespace("team", "search".into()).await;
    b.label_namespace("team", "payments".into()).await;
    crier.start();
    let told = told_since(&crier, &mark, "labelled", before).await;
    let after = [
        ("entered", "in-c"),
        ("created", "born-in-c"),
        (&*came, "in-d"),
        ("left", "in-c"),
        ("left", "born-in-c"),
        ("left", "in-a"),
        ("entered", "in-b"),
    ];
    assert_eq!(told, expected(&after));
    // What one route's labels do is nothing to the others.
    let told = told_since(&crier, &mark, "most", 0).await;
    let most = [("observed", "in-a"), ("observed", "in-c"), ("created", "born-in-c"), ("updated", "in-c")];
    assert_eq!(told, expected(&most));
    agrees(&crier.lines("few"), &[a.all().await, b.all().await].into_iter().flatten().collect()).unwrap();

    // The list of namespaces is edited: what is read no more has left, though another feed reads now.
    crier.terminate().await;
    let before = crier.lines("few").len();
    crier.configure(&ROUTES.replace("[team-a, team-b]", "[team-a]"));
    crier.start();
    let a_is_read = |status: &Value| {
        let feeds = status["feeds"].as_array().unwrap();
        feeds.len() == 2 && feeds.iter().all(|feed| feed["state"] == "watching")
    };
    crier.until("both feeds watch", LIMIT, a_is_read).await;
    a.create("later-in-a").await;
    b.create("later-in-b").await;
    let later = |lines: &[Value]| lines.iter().any(|event| event["name"] == "later-in-a");
    crier.until("it goes on", LIMIT, |_| later(&crier.lines("few"))).await;
    crier
        .until("all is told", LIMIT, |status| feed(status, "myapps.example.com in team-a")["routes"][0]["owed"] == 0)
        .await;
    assert_eq!(outline(&crier.lines("few")[before..]), [("left", "in-b"), ("created", "later-in-a")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_install_with_rights_in_one_namespace_tells_of_that_one_and_names_what_the_other_lacks() {
    let cluster = Cluster::start().await;
    let objects = Objects::of(&cluster);
    objects.install().await;
    let a = objects.make_namespace("team-a", json!({})).await;
    let b = objects.make_namespace("team-b", json!({})).await;
    let c = objects.make_namespace("team-c", json!({})).await;
    a.create("in-a").await;
    b.create("in-b").await;
    for name in ["one", "two"] {
        c.create(name).await;
    }
    a.grant_here(&["get", "list", "watch"], None).await;
    // Of one object alone, by its name.
    c.grant_here(&["get", "list", "watch"], Some("one")).await;
    let mut crier = Crier::prepare(
        &cluster,
        "sinks: { two: { file: { path: {dir}/two } }, one: { file: { path: {dir}/one } } }
routes:
  - { name: two, watch: { resources: [myapps.example.com], namespaces: [team-a, team-b] }, sinks: [two] }
  - name: one
    watch: { resources: [myapps.example.com], namespaces: [team-c], fieldSelector: metadata.name=one }
    sinks: [one]
",
    )
    .with_context("limited");
    crier.start();
    let [feed_a, feed_b] = ["myapps.example.com in team-a", "myapps.example.com in team-b"];
    let named = |status: &Value| {
        let starting = &status["starting"];
        starting.is_null() && feed(status, feed_a)["state"] == "watching" && feed(status, feed_b)["state"] == "parked"
    };
    let status = crier.until("one is followed, the other parked", LIMIT, named).await;
    let reason = feed(&status, feed_b)["reason"].as_str().unwrap();
    assert!(reason.contains("in the namespace \"team-b\""), "{reason}");
    a.scale("in-a", 3).await;
    a.create("later-in-a").await;
    let told = |file: &str, name: &str| crier.lines(file).iter().any(|event| event["name"] == name);
    crier.until("what is permitted is told", LIMIT, |_| told("two", "later-in-a")).await;
    assert!(!told("two", "in-b"));
    assert_eq!(crier.get("/readyz").await.unwrap().0, 200, "a known cause keeps nothing from being ready");

    c.scale("one", 4).await;
    c.scale("two", 4).await;
    let scaled = || crier.lines("one").iter().any(|event| event["data"]["spec"]["replicas"] == 4);
    crier.until("one object is followed under rights for it alone", LIMIT, |_| scaled()).await;
    assert!(!told("one", "two"));

    b.grant_here(&["get", "list", "watch"], None).await;
    crier.until("the other is told when that is permitted", LIMIT, |_| told("two", "in-b")).await;
    let told = crier.lines("two");
    assert_eq!(what(told.iter().find(|event| event["name"] == "in-b").unwrap()), "observed");
    agrees(&told, &[a.all().await, b.all().await].into_iter().flatten().collect()).unwrap();
}
