//! Real chaos: crier as a process between a real cluster and four sinks, under a writer, while everything around it and
//! it itself is killed, stopped, cut off and lied to, by a schedule that a seed decides. When all is healed, what each
//! sink holds is compared with the cluster and with etcd's own history. It is not a simulation: the same seed gives the
//! same faults and the same choices of the writer, not the same interleaving.
//!
//! `make chaos` runs it for longer. `CRIER_CHAOS_SEED`, `CRIER_CHAOS_SECONDS` (how long faults are made) and
//! `CRIER_CHAOS_REWIND=1` (etcd is put back to earlier copies too) set what is done.

#![cfg(all(feature = "kafka", feature = "nats", feature = "webhook"))]

#[path = "../support/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the other tests use the rest")]
mod support;

mod checks;
mod event;
mod faults;
mod history;
mod lanes;
mod mutants;
mod promises;
mod report;
mod trace;
mod world;
mod writer;

use std::time::{Duration, Instant};

use faults::schedule;
use report::{Report, say};
use trace::Trace;
use world::World;
use writer::Writer;

/// Starting, healing and settling take no longer than this, or the run has failed.
const MARGIN: Duration = Duration::from_secs(600);

/// What a run does.
#[derive(Clone, Copy)]
struct Settings {
    seed: u64,
    length: Duration,
    rewind: bool,
}

impl Settings {
    fn from_environment() -> Self {
        let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().expect("a whole number"));
        Self {
            seed: number("CRIER_CHAOS_SEED").unwrap_or_else(|| rand::random_range(0..1_000_000)),
            length: Duration::from_secs(number("CRIER_CHAOS_SECONDS").unwrap_or(45)),
            rewind: std::env::var("CRIER_CHAOS_REWIND").is_ok_and(|value| value == "1"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_fails_every_sink_ends_as_the_cluster_is_and_no_promise_is_broken() {
    let settings = Settings::from_environment();
    say(&format!("chaos: seed {}, {} s of faults", settings.seed, settings.length.as_secs()));
    let report = tokio::time::timeout(settings.length * 2 + MARGIN, run(settings)).await;
    let report = report.unwrap_or_else(|_| panic!("seed {}: the run did not end in time", settings.seed));
    report.conclude();
}

async fn run(settings: Settings) -> Report {
    let began = Instant::now();
    let mut world = World::start().await;
    world.crier.start();
    let writer = Writer::start(settings.seed, &world.objects);
    let (plan, trace) = (schedule(settings.seed, settings.length, settings.rewind), Trace::start());
    let started = began.elapsed();
    lanes::run(&plan, &mut world, &trace).await;
    let writes = writer.stop().await;
    let healed = Instant::now();
    let settled = world.settle(&trace, settings.rewind).await;
    let settling = healed.elapsed();
    let (holdings, truth) = world.look(&trace).await;
    // The drain comes last: what it might still tell is no longer looked at, only that it ends well.
    world.end(&trace).await;
    let mut report = Report::new(settings, trace, world, writes);
    report.took(started, settling);
    report.check(settled, &holdings, &truth);
    report
}
