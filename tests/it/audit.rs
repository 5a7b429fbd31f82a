//! `crier audit` and the audits that come by themselves: they say nothing where nothing is wrong, and find, name and heal
//! what no watch has told of. What the API server has lost is played by a state in which it is lost.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crier::model::{Key, KeyRecord, Save, Sequence, Told, Uid};
use crier::store::{DiskStore, OpenOptions, Store};
use serde_json::Value;

use crate::support::{Cluster, Crier, Objects, outline};

const LIMIT: Duration = Duration::from_secs(20);
const FEED: &str = "myapps.example.com";
const ROUTE: &str = "apps/myapps.example.com/out";
const FILE: &str = "sinks: { out: { file: { path: {dir}/events } } }
routes:
  - { name: apps, watch: { resources: [myapps.example.com] }, sinks: [out] }
";

async fn told(crier: &Crier, objects: &Objects) -> Vec<Value> {
    crier.until_told(objects.mark().await, LIMIT).await;
    crier.lines("events")
}

fn counter(status: &Value, name: &str) -> u64 {
    status["feeds"][0]["routes"][0]["counters"][name].as_u64().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_audit_says_nothing_where_nothing_is_wrong() {
    let cluster = Cluster::start().await;
    let objects = Objects::of(&cluster);
    objects.install().await;
    for number in 0..10 {
        objects.create(&format!("app-{number}")).await;
    }
    let mut crier = Crier::prepare(&cluster, &format!("audit: {{ every: 1s }}\n{FILE}"));
    let (code, output, errors) = crier.command("audit", &[]).await;
    assert_eq!((code, &*output), (1, ""), "{errors}");
    assert!(errors.contains("no process answers at") && errors.contains("\nhint: start it by `crier run`"), "{errors}");
    crier.start();
    let before = told(&crier, &objects).await.len();

    let (code, output, errors) = crier.command("audit", &["-o", "json"]).await;
    assert_eq!((code, &*errors), (0, ""), "{output}");
    let result: Value = serde_json::from_str(&output).unwrap();
    let feed = &result["feeds"][0];
    assert!(feed["feed"] == FEED && feed["objects"] == 11 && feed["drift"] == 0, "{output}");
    let (code, output, _) = crier.command("audit", &["apps"]).await;
    assert_eq!((code, &*output), (0, "myapps.example.com: 11 objects, 0 differences\n"));
    let (code, output, errors) = crier.command("audit", &["maps"]).await;
    assert_eq!((code, &*output, &*errors), (2, "", "error: there is no such route; there are apps\n"));

    // They come by themselves, too.
    let before_them = counter(&crier.status().await.unwrap(), "comparisons");
    let three = |status: &Value| counter(status, "comparisons") >= before_them + 3;
    let status = crier.until("three audits were made", LIMIT, three).await;
    assert_eq!(counter(&status, "drift"), 0);
    let metrics = crier.get("/metrics").await.unwrap().1;
    let shown = |name: &str| metrics.lines().any(|line| line.starts_with(name) && line.contains(ROUTE));
    assert!(shown("crier_route_comparisons_total") && shown("crier_route_drift_total"), "{metrics}");
    assert_eq!(told(&crier, &objects).await.len(), before + 1, "the mark alone is new");
}

/// Changes what the route is kept as having told: the state as it would be if the API server had lost changes.
fn edit_told(crier: &Crier, edit: impl Fn(&Key, Option<&mut Told>) -> Option<Told>) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let options = OpenOptions { must_exist: true, now, fingerprint_key: [0; 16] };
    let mut store = DiskStore::open(&crier.file("state"), &options).unwrap();
    let routes = [ROUTE.to_owned()];
    let state = store.load(FEED, &routes, &|_, _| true).unwrap();
    let route = &state.routes[0];
    let mut records: Vec<(usize, Key, KeyRecord)> = Vec::new();
    for (key, record) in &route.records {
        let mut told = record.told.clone();
        if let Some(told) = edit(key, told.as_mut()) {
            records.push((0, key.clone(), KeyRecord { told: Some(told), ..record.clone() }));
        }
    }
    let ghost = Key::new("default", "ghost");
    let template = route.records[0].1.told.clone().unwrap();
    let uid = Uid::new("00000000-0000-4000-8000-000000000001");
    records.push((0, ghost, KeyRecord { told: Some(Told { uid, ..template }), ..KeyRecord::default() }));
    let save = Save { feed: state.feed, routes: vec![route.record.clone().unwrap()], followed: vec![0], records };
    store.commit(FEED, &routes, &save).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_api_server_has_lost_is_named_by_an_audit_and_told() {
    let cluster = Cluster::start().await;
    let objects = Objects::of(&cluster);
    objects.install().await;
    for name in ["same", "changed"] {
        objects.create(name).await;
    }
    objects.scale("changed", 4).await;
    let mut crier = Crier::prepare(&cluster, FILE);
    crier.start();
    let before = told(&crier, &objects).await.len();
    crier.terminate().await;
    // The change of one object was never seen, nor was the deletion of another.
    let version = |object: &Value| object["metadata"]["resourceVersion"].as_str().unwrap().parse::<u128>().unwrap();
    let earlier = version(&objects.all().await["changed"]) - 1;
    edit_told(&crier, |key, told| {
        let told = told.filter(|_| key.name() == "changed")?;
        let sequence = Sequence::new(told.sequence.epoch(), earlier.to_string().parse().unwrap());
        Some(Told { sequence, fingerprint: told.fingerprint ^ 1, ..told.clone() })
    });
    crier.start();
    assert_eq!(told(&crier, &objects).await.len(), before + 1, "no watch tells of it");

    let (code, output, errors) = crier.command("audit", &["-o", "json"]).await;
    assert_eq!((code, &*errors), (1, ""), "{output}");
    let feed = serde_json::from_str::<Value>(&output).unwrap()["feeds"][0].clone();
    assert_eq!(feed["drift"], 2, "{output}");
    let differences = feed["differences"].as_array().unwrap().iter();
    let mut named: Vec<_> =
        differences.map(|it| [&it["object"], &it["owes"], &it["route"]].map(Value::to_string)).collect();
    named.sort();
    let quoted = |texts: [&str; 3]| texts.map(|text| format!("{text:?}"));
    assert_eq!(named, [quoted(["default/changed", "state", ROUTE]), quoted(["default/ghost", "deleted", ROUTE])]);

    let events = told(&crier, &objects).await;
    let mut healed = outline(&events[before..]);
    healed.sort_unstable();
    assert_eq!(healed, [("deleted", "ghost"), ("updated", "changed")]);
    let changed = events[before..].iter().find(|event| event["name"] == "changed").unwrap();
    assert!(changed["data"]["spec"]["replicas"] == 4 && changed["origin"] == "audit", "{changed:#}");
    assert_eq!(counter(&crier.status().await.unwrap(), "drift"), 2);
    assert_eq!(crier.command("audit", &[]).await.0, 0, "an audit later there is nothing");
}
