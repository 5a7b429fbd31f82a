//! `make demo`: the main job in a minute, on a real kube-apiserver and etcd on loopback. It shows and checks nothing that
//! `tests/it` does not check.

#[path = "../support/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the tests use the rest")]
mod support;

use std::io::Write;
use std::time::Duration;

use serde_json::Value;

use support::{Cluster, Crier, Objects, eventually, what};

const LIMIT: Duration = Duration::from_secs(30);
const CONFIGURATION: &str = "sinks:
  out: { stdout: {} }
routes:
  - name: apps
    watch: { resources: [myapps.example.com] }
    sinks: [out]
";

fn say(text: &str) {
    let mut output = std::io::stdout();
    let _ = writeln!(output, "{text}").and_then(|()| output.flush());
}

/// The events as they come, each once.
struct Printer {
    printed: usize,
}

impl Printer {
    /// Waits for so many more events and prints them.
    async fn print(&mut self, crier: &Crier, count: usize) {
        let wanted = self.printed + count;
        let come = async || Some(crier.lines("stdout")).filter(|events| events.len() >= wanted);
        let events = eventually("the events of this step", LIMIT, come).await;
        for event in &events[self.printed..] {
            say(&if self.printed == 0 { format!("{event:#}") } else { line(event) });
            self.printed += 1;
        }
    }
}

/// What tells events apart, on one line.
fn line(event: &Value) -> String {
    let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
    let mut line = format!("    {:<8} {:<14} sequence {}", what(event), text("subject"), text("sequence"));
    if !event["data"]["spec"]["replicas"].is_null() {
        line.push_str(&format!("  replicas {}", event["data"]["spec"]["replicas"]));
    }
    for (name, note) in [("coalesced", "earlier changes in it: "), ("inferred", "inferred: ")] {
        if !event[name].is_null() {
            line.push_str(&format!("  {note}{}", text(name)));
        }
    }
    line
}

async fn run() {
    say("Starts etcd and kube-apiserver, and installs the kind MyApp ...");
    let cluster = Cluster::start().await;
    let objects = Objects::of(&cluster);
    objects.install().await;
    say(&format!("\nRuns crier with\n\n{CONFIGURATION}"));
    let mut crier = Crier::prepare(&cluster, CONFIGURATION);
    crier.start();
    crier.until("crier follows the changes", LIMIT, |status| status["feeds"][0]["state"] == "watching").await;
    let mut printer = Printer { printed: 0 };

    say("Creates `shop`. The event as it is printed, but in several lines:\n");
    objects.create("shop").await;
    printer.print(&crier, 1).await;

    say("\nScales `shop` five times at once. What comes quickly is told once:\n");
    for replicas in 1..=5 {
        objects.scale("shop", replicas).await;
    }
    printer.print(&crier, 1).await;

    say("\nWrites `shop` as it is, then creates `cart`. A write without a change is no event:\n");
    objects.touch("shop").await;
    objects.create("cart").await;
    printer.print(&crier, 1).await;

    // Long enough for the answers to be on the disk. Killed earlier, it would tell `cart` again, with the id that it had.
    tokio::time::sleep(Duration::from_millis(300)).await;
    say("\nKills crier with -9. Meanwhile `shop` is deleted, `cart` is scaled, `till` is created,");
    say("and the API server is restarted, so that nobody can watch what happened. Starts crier again:\n");
    crier.kill();
    objects.delete("shop").await;
    objects.scale("cart", 2).await;
    objects.create("till").await;
    let mut cluster = cluster;
    cluster.restart_api_server().await;
    crier.start();
    printer.print(&crier, 3).await;
    say("\nThat was all: exactly what happened, and nothing twice.");
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(run());
}
