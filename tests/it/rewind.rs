//! etcd is put back to an earlier copy: the cluster forgets, its counter steps back, and watches from what has become the
//! future are answered by silence.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::support::{Cluster, Consumer, Crier, Objects, Receiver, agrees, outline};

const LIMIT: Duration = Duration::from_secs(45);

struct World {
    cluster: Cluster,
    objects: Objects,
    receiver: Receiver,
    crier: Crier,
}

impl World {
    async fn start() -> Self {
        let (cluster, receiver) = tokio::join!(Cluster::start(), Receiver::start());
        let objects = Objects::of(&cluster);
        objects.install().await;
        for name in ["kept", "changed", "revived"] {
            objects.create(name).await;
        }
        let configuration = format!(
            "sinks: {{ hook: {{ webhook: {{ url: \"{}\" }} }}, out: {{ file: {{ path: {{dir}}/events }} }} }}
routes:
  - {{ name: apps, watch: {{ resources: [myapps.example.com] }}, sinks: [hook, out] }}
",
            receiver.url()
        );
        let mut crier = Crier::prepare(&cluster, &configuration);
        crier.start();
        let world = Self { cluster, objects, receiver, crier };
        world.settle().await;
        world
    }

    /// What the cluster will forget is told: more than an API server writes when it starts.
    async fn write_and_settle(&self) {
        self.cluster.copy_etcd();
        for replicas in 100..200 {
            self.objects.scale("changed", replicas).await;
        }
        self.objects.scale("changed", 5).await;
        self.objects.delete("revived").await;
        self.objects.create("forgotten").await;
        self.objects.scale("forgotten", 6).await;
        self.settle().await;
    }

    async fn put_back(&mut self) {
        let newest = self.cluster.revision().await;
        let at = self.cluster.put_etcd_back().await;
        assert!(Some(at) < newest, "the copy at {at} is older than {newest:?}");
        self.cluster.restart_api_server().await;
        self.objects = Objects::of(&self.cluster);
    }

    /// How often crier has said that the counter stepped back.
    fn rewinds(&self) -> usize {
        let said = |line: &&Value| line["message"].as_str().is_some_and(|text| text.contains("has stepped back"));
        self.crier.log().iter().filter(said).count()
    }

    async fn until_noticed(&self, rewinds: usize) {
        self.crier.until("the rewind is noticed", LIMIT, |_| self.rewinds() >= rewinds).await;
    }

    /// Both consumers are as the cluster is, by sequences that never step back and ids that stand for one content each.
    async fn settle(&self) -> [Vec<Value>; 2] {
        self.crier.until_told(self.objects.mark().await, LIMIT).await;
        let all = [self.receiver.events(), self.crier.lines("events")];
        for events in &all {
            agrees(events, &self.objects.all().await).unwrap();
            Consumer::default().read(events);
            let mut contents = BTreeMap::new();
            for event in events {
                let content = (&event["type"], &event["data"]);
                let before = contents.insert(event["id"].as_str().unwrap(), content).unwrap_or(content);
                assert_eq!(before, content, "{event:#}");
            }
        }
        all
    }
}

/// What the two ends have been told since there, with nothing but the new life's ids.
fn check_told(before: &[Vec<Value>; 2], after: &[Vec<Value>; 2], rewinds: usize, expected: &[(&str, &str)]) {
    for (before, after) in before.iter().zip(after) {
        let told = &after[before.len()..];
        let mut outlined = outline(told);
        outlined.sort_unstable();
        assert_eq!(outlined, expected);
        for event in told {
            let id = event["id"].as_str().unwrap();
            assert!(id.ends_with(&format!("-e{rewinds}")), "{id}");
        }
    }
}

const PUT_BACK: [(&str, &str); 3] = [("created", "revived"), ("deleted", "forgotten"), ("updated", "changed")];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_is_put_back_under_a_running_crier_is_told_as_it_is_in_a_new_epoch() {
    let mut world = World::start().await;
    world.write_and_settle().await;
    let before = [world.receiver.events(), world.crier.lines("events")];
    world.put_back().await;
    world.until_noticed(1).await;
    let after = world.settle().await;
    check_told(&before, &after, 1, &PUT_BACK);
    // Versions that were given before are given again, to other contents.
    for replicas in 1..=3 {
        world.objects.scale("changed", 100 + replicas).await;
        world.objects.delete("revived").await;
        world.objects.create("revived").await;
        world.settle().await;
    }
    assert_eq!(world.rewinds(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_was_put_back_while_crier_was_down_is_noticed_though_its_counter_has_passed_the_old_mark() {
    let mut world = World::start().await;
    world.write_and_settle().await;
    let before = [world.receiver.events(), world.crier.lines("events")];
    world.crier.kill();
    world.put_back().await;
    world.crier.start();
    world.until_noticed(1).await;
    check_told(&before, &world.settle().await, 1, &PUT_BACK);

    // The counter passes the old mark before anybody looks: only a comparison can tell.
    world.write_and_settle().await;
    let before = [world.receiver.events(), world.crier.lines("events")];
    world.crier.terminate().await;
    let newest = world.cluster.revision().await;
    world.put_back().await;
    while world.cluster.revision().await <= newest {
        world.objects.create("busy").await;
        world.objects.delete("busy").await;
    }
    world.objects.create("new").await;
    world.crier.start();
    // One comes by itself some seconds after a start.
    world.crier.until("it has begun", LIMIT, |status| status["starting"].is_null()).await;
    world.crier.command("audit", &[]).await;
    world.until_noticed(2).await;
    let after = world.settle().await;
    // A watch may have told of what came after the old mark before the comparison did.
    let told = outline(&after[0][before[0].len()..]);
    for expected in PUT_BACK.iter().chain(&[("created", "new")]) {
        assert!(told.contains(expected), "{expected:?} is not in {told:?}");
    }
    assert_eq!(world.rewinds(), 2);
}
