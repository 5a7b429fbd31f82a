//! What an event costs, on a real API server: CPU time, events a second and memory of the released program, from a list
//! and from a replayed watch, to standard output and to a webhook on loopback. It prints figures and judges nothing.
//!
//! `make bench`; `CRIER_BENCH_OBJECTS` sets how many objects (10,000).

#[path = "../tests/support/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the tests use the rest")]
mod support;

use std::io::Write;
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::stream::iter;

use support::{Cluster, Crier, Objects, Receiver};

/// What an object's `spec` is padded with, so that one is about 3 kB as the API server sends it.
const PADDING: usize = 2_200;
const LIMIT: Duration = Duration::from_secs(120);

fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// One route of MyApps to this sink.
fn configuration(sink: &str) -> String {
    let route = "{ name: apps, watch: { resources: [myapps.example.com] }, sinks: [out] }";
    format!("sinks: {{ out: {{ {sink} }} }}\nroutes:\n  - {route}\n")
}

async fn told(crier: &Crier, count: usize) {
    let told = move |status: &serde_json::Value| {
        let Some(routes) = status["feeds"][0]["routes"].as_array() else { return false };
        !routes.is_empty() && routes.iter().all(|route| route["counters"]["delivered"] == count)
    };
    crier.until(&format!("{count} events are delivered"), LIMIT, told).await;
}

/// From the start of the process until everything is delivered.
async fn measure(crier: &mut Crier, what: &str, count: usize) {
    let began = Instant::now();
    crier.start();
    told(crier, count).await;
    let (wall, cpu) = (began.elapsed(), crier.cpu());
    let each = cpu.as_secs_f64() * 1e6 / count as f64;
    let rate = count as f64 / wall.as_secs_f64();
    let (resident, peak) = crier.memory();
    let (resident, peak) = (resident as f64 / 1_024.0, peak as f64 / 1_024.0);
    say(&format!(
        "{what:<28} {count} events in {:>6.2} s  {rate:>8.0} events/s  {each:>7.1} us CPU an event  {resident:>6.1} MiB resident, {peak:.1} at the peak",
        wall.as_secs_f64()
    ));
}

async fn rest(crier: &Crier, what: &str) {
    tokio::time::sleep(Duration::from_secs(10)).await;
    say(&format!("{what:<28} {:.1} MiB resident", crier.resident() as f64 / 1_024.0));
}

async fn change(objects: &Objects, count: usize, round: u32) {
    iter(0..count).for_each_concurrent(16, async |number| objects.scale(&format!("app-{number}"), round).await).await;
}

async fn run() {
    let count = std::env::var("CRIER_BENCH_OBJECTS").ok().and_then(|text| text.parse().ok()).unwrap_or(10_000);
    let (cluster, receiver) = tokio::join!(Cluster::start(), Receiver::start());
    let objects = Objects::of(&cluster);
    objects.install().await;
    say(&format!("makes {count} objects of about 3 kB ..."));
    let create = async |number| objects.create_padded(&format!("app-{number}"), PADDING).await;
    iter(0..count).for_each_concurrent(16, create).await;
    let webhook = format!("webhook: {{ url: \"{}\" }}", receiver.url());
    for (round, (name, sink)) in [("stdout", "stdout: {}"), ("webhook", &*webhook)].into_iter().enumerate() {
        let mut crier = Crier::prepare(&cluster, &configuration(sink));
        measure(&mut crier, &format!("list to {name}"), count).await;
        crier.terminate().await;
        change(&objects, count, 1 + round as u32).await;
        measure(&mut crier, &format!("replayed watch to {name}"), count).await;
        rest(&crier, "after ten seconds' rest").await;
        crier.terminate().await;
        crier.start();
        crier.until("it follows", LIMIT, |status| status["feeds"][0]["caughtUp"] == true).await;
        rest(&crier, "restarted with nothing to do").await;
        crier.terminate().await;
    }
    // An endpoint that is down from the start: what waits is held up to the budget, and the rest fetched when it is back.
    receiver.answer(503, None);
    let mut crier = Crier::prepare(&cluster, &configuration(&webhook));
    crier.start();
    crier.until("all is owed", LIMIT, |status| status["feeds"][0]["routes"][0]["owed"] == count).await;
    rest(&crier, "list to a webhook that is down").await;
    receiver.answer(204, None);
    let began = Instant::now();
    told(&crier, count).await;
    say(&format!("{:<30} {count} events in {:.1} s", "the same after it is back", began.elapsed().as_secs_f64()));
    crier.terminate().await;
}

fn main() {
    // Cargo passes `--bench`; there is nothing to choose.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(run());
}
