//! A state directory in trouble, through the program itself: it is missing, broken, begun anew, or an older copy of it.
//! That nobody else may use it is in `refusals`; what the disk does to it is the store's own subject.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::support::{Cluster, Consumer, Crier, Objects, eventually, outline, what};

const LIMIT: Duration = Duration::from_secs(20);
const FILE: &str = "sinks: { out: { file: { path: {dir}/events } } }
routes:
  - { name: apps, watch: { resources: [myapps.example.com] }, sinks: [out] }
";

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

async fn settle(crier: &Crier, objects: &Objects) -> Vec<Value> {
    crier.until_told(objects.mark().await, LIMIT).await;
    crier.lines("events")
}

/// Whether the last words about each object are those of the cluster. What is told again after an older copy was put back
/// has the sequences that it had: they are smaller than what was told in between.
async fn ends_as_the_cluster_is(events: &[Value], objects: &Objects) {
    let last: BTreeMap<&str, &Value> = events.iter().map(|event| (event["name"].as_str().unwrap(), event)).collect();
    let cluster = objects.all().await;
    for (name, event) in last {
        let held = cluster.get(name).map(|object| &object["metadata"]["resourceVersion"]);
        let told = (what(event) != "deleted").then_some(&event["resourceversion"]);
        assert_eq!(told, held, "{event:#}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_state_that_is_missing_or_broken_is_refused_with_what_to_do_and_begun_anew_only_when_asked() {
    let cluster = Cluster::start().await;
    let objects = Objects::of(&cluster);
    objects.install().await;
    for name in ["kept", "gone"] {
        objects.create(name).await;
    }
    let mut crier = Crier::prepare(&cluster, FILE);
    let must_exist =
        fs::read_to_string(crier.file("crier.yaml")).unwrap().replace("/state }", "/state, mustExist: true }");
    assert!(must_exist.contains("mustExist"));
    fs::write(crier.file("crier.yaml"), &must_exist).unwrap();
    let (code, said) = crier.fail_with(&[]).await;
    assert!(code == 1 && said.contains("there is no state at"), "{said}");
    assert!(said.contains("\nhint: check the path and its volume, or set state.mustExist to false"), "{said}");
    assert!(!crier.file("state/state.redb").exists(), "nothing is made in its place");

    // Asked for in so many words, it is begun.
    crier.start_with(&["--fresh-state"]);
    settle(&crier, &objects).await;
    crier.terminate().await;
    // With a state, the same configuration begins by itself.
    crier.start();
    let before = settle(&crier, &objects).await;
    let began = before[0]["sequence"].as_str().unwrap()[..10].to_owned();
    crier.terminate().await;

    let file = crier.file("state/state.redb");
    let whole = fs::read(&file).unwrap();
    let mut overwritten = whole.clone();
    overwritten[..4096].fill(0x5a);
    for broken in [&whole[..whole.len() / 2], &whole[..100], &overwritten, b""] {
        fs::write(&file, broken).unwrap();
        let (code, said) = crier.fail_with(&[]).await;
        assert!(code == 1 && said.contains("is corrupt"), "{} bytes: {said}", broken.len());
        assert!(said.contains("crier run --fresh-state"), "{said}");
        assert_eq!(fs::read(&file).unwrap(), broken, "it stays as it is");
    }

    // Begun anew: what exists is told again and sorts later, the broken file is kept, and deletions are not known.
    objects.delete("gone").await;
    fs::write(&file, &overwritten).unwrap();
    // An epoch is a second at which a state began: two states of one second are not told apart.
    let later = async || (format!("{:010}", now()) > began).then_some(());
    eventually("the next second", LIMIT, later).await;
    crier.start_with(&["--fresh-state"]);
    crier.until_told(objects.mark().await, LIMIT).await;
    let events = crier.lines("events");
    Consumer::default().read(&events);
    let told = &events[before.len()..];
    assert_eq!(outline(told), [("observed", "kept")]);
    let aside: Vec<_> = fs::read_dir(crier.file("state"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.display().to_string().contains("set-aside"))
        .collect();
    assert_eq!(aside.len(), 1, "{aside:?}");
    assert_eq!(fs::read(&aside[0]).unwrap(), overwritten);
    crier.terminate().await;

    // The good copy is put back: it knows of what the new one could not.
    fs::write(&file, &whole).unwrap();
    crier.start();
    crier.until_told(objects.mark().await, LIMIT).await;
    assert!(outline(&crier.lines("events")[events.len()..]).contains(&("deleted", "gone")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_copy_of_the_state_loses_nothing_that_is_there_and_repeats_by_the_same_ids() {
    let mut cluster = Cluster::start().await;
    let mut objects = Objects::of(&cluster);
    objects.install().await;
    for name in ["same", "changed-1", "changed-2", "gone-1", "gone-2"] {
        objects.create(name).await;
    }
    let mut crier = Crier::prepare(&cluster, FILE);
    crier.start();
    settle(&crier, &objects).await;
    // With the history since the copy at hand, and without.
    for round in 1..=2 {
        assert_eq!(crier.terminate().await, 0);
        let copy = fs::read(crier.file("state/state.redb")).unwrap();
        crier.start();
        let [changed, gone, new] = ["changed", "gone", "new"].map(|name| format!("{name}-{round}"));
        objects.scale(&changed, 3).await;
        objects.delete(&gone).await;
        objects.create(&new).await;
        let events = settle(&crier, &objects).await;
        crier.kill();
        fs::write(crier.file("state/state.redb"), &copy).unwrap();
        if round == 2 {
            cluster.compact().await;
            cluster.restart_api_server().await;
            objects = Objects::of(&cluster);
        }
        crier.start();
        let after = settle(&crier, &objects).await;
        ends_as_the_cluster_is(&after, &objects).await;
        let (told, repeats) = after.split_at(events.len());
        let known: BTreeSet<&str> = told.iter().map(|event| event["id"].as_str().unwrap()).collect();
        let repeats: Vec<&Value> = repeats.iter().filter(|event| event["name"] != "mark").collect();
        assert!(repeats.iter().all(|event| known.contains(event["id"].as_str().unwrap())), "{repeats:#?}");
        let said: BTreeSet<_> = repeats.iter().map(|event| (what(event), event["name"].as_str().unwrap())).collect();
        assert_eq!(said, [("updated", &*changed), ("deleted", &*gone), ("created", &*new)].into(), "round {round}");
    }
}
