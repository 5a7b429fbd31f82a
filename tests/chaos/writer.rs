//! Writes objects of two kinds until it is told to stop: creates, updates, flips of the label that a route selects by,
//! deletions, deletions with a new object of the same name at once, finalizers. What became of it is in `history`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::support::Objects;
use super::world::{KINDS, Kind};

const WORKERS: usize = 4;
const NAMES: usize = 96;
/// A write that is not answered by then is given up; whether it was done is in etcd's history.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two writes of a worker, in milliseconds: some come within one debounce, others do not.
const PAUSE: std::ops::Range<u64> = 5..120;

/// How many writes of each kind were answered, refused and not answered.
#[derive(Default)]
pub(crate) struct Writes(pub(crate) BTreeMap<&'static str, [usize; 3]>);

pub(crate) struct Writer {
    done: Arc<AtomicBool>,
    workers: JoinSet<Writes>,
}

impl Writer {
    pub(crate) fn start(seed: u64, objects: &Objects) -> Self {
        let (done, mut workers) = (Arc::new(AtomicBool::new(false)), JoinSet::new());
        for number in 0..WORKERS {
            let random = StdRng::seed_from_u64(seed.wrapping_mul(31).wrapping_add(number as u64));
            let worker =
                Worker { objects: objects.clone(), random, number, present: [false; NAMES], writes: Writes::default() };
            workers.spawn(worker.run(Arc::clone(&done)));
        }
        Self { done, workers }
    }

    /// Waits for the last writes.
    pub(crate) async fn stop(mut self) -> Writes {
        self.done.store(true, Ordering::Relaxed);
        let mut all = Writes::default();
        while let Some(writes) = self.workers.join_next().await {
            for (what, counts) in writes.expect("a worker ends well").0 {
                let sum = all.0.entry(what).or_default();
                (0..3).for_each(|outcome| sum[outcome] += counts[outcome]);
            }
        }
        all
    }
}

/// Writes to names of its own, one write after the other.
struct Worker {
    objects: Objects,
    random: StdRng,
    number: usize,
    present: [bool; NAMES],
    writes: Writes,
}

impl Worker {
    async fn run(mut self, done: Arc<AtomicBool>) -> Writes {
        while !done.load(Ordering::Relaxed) {
            let name = self.random.random_range(0..NAMES / WORKERS) * WORKERS + self.number;
            self.write(name).await;
            // A few objects are written to in bursts.
            while self.random.random_range(0..4) == 0 {
                self.write(name).await;
            }
            tokio::time::sleep(Duration::from_millis(self.random.random_range(PAUSE))).await;
        }
        self.writes
    }

    async fn write(&mut self, number: usize) {
        // Two of three names are of the first kind.
        let kind = &KINDS[usize::from(number % 3 == 2)];
        let name = format!("object-{number}");
        if !self.present[number] {
            self.create(kind, number, &name).await;
            return;
        }
        let path = format!("{}/{name}", kind.path);
        let value = self.random.random_range(0..1_000_000);
        let (what, patch) = match self.random.random_range(0..100) {
            0..48 => ("update", json!({"spec": {"replicas": value}})),
            // Back and forth between a few states: what merges to nothing is not told.
            48..56 => ("update back", json!({"spec": {"replicas": value % 2}})),
            56..68 => ("select", json!({"metadata": {"labels": {"tier": "prod"}}})),
            68..78 => ("deselect", json!({"metadata": {"labels": {"tier": null}}})),
            78..80 => ("hold", json!({"metadata": {"finalizers": ["example.com/hold"]}})),
            80..86 => ("let go", json!({"metadata": {"finalizers": null}})),
            86..88 => ("touch", json!({})),
            chosen => {
                self.present[number] = self.call("delete", "DELETE", &path, None).await == Outcome::Unanswered;
                if chosen >= 94 {
                    self.create(kind, number, &name).await;
                }
                return;
            }
        };
        if self.call(what, "PATCH", &path, Some(patch)).await == Outcome::Refused {
            self.present[number] = false;
        }
    }

    async fn create(&mut self, kind: &Kind, number: usize, name: &str) {
        let mut metadata = json!({"name": name});
        if self.random.random_range(0..3) == 0 {
            metadata["labels"] = json!({"tier": "prod"});
        }
        if self.random.random_range(0..8) == 0 {
            metadata["finalizers"] = json!(["example.com/hold"]);
        }
        let padding = "x".repeat(self.random.random_range(0..6_000));
        let body = kind.object(&metadata, &json!({"image": "app:1", "replicas": 0, "config": {"padding": padding}}));
        // Refused is what is there already, perhaps on its way out.
        self.present[number] = self.call("create", "POST", kind.path, Some(body)).await != Outcome::Unanswered;
    }

    async fn call(&mut self, what: &'static str, method: &str, path: &str, body: Option<Value>) -> Outcome {
        let outcome = match tokio::time::timeout(PATIENCE, self.objects.call(method, path, body)).await {
            Ok(Ok(_)) => Outcome::Done,
            Ok(Err(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => Outcome::Refused,
            _ => Outcome::Unanswered,
        };
        self.writes.0.entry(what).or_default()[outcome as usize] += 1;
        if outcome == Outcome::Unanswered {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        outcome
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Done,
    Refused,
    Unanswered,
}
