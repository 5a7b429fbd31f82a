//! What a run has shown: the figures, and, when a promise was broken, everything that helps to find out why. It judges by
//! what `promises` finds.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::Settings;
use super::checks::{Fall, Holding, Truth};
use super::promises;
use super::trace::Trace;
use super::world::World;
use super::writer::Writes;

/// So many breaches are shown whole; all are counted and kept.
const SHOWN: usize = 12;
const TAIL: usize = 40;

pub(crate) fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

pub(crate) struct Report {
    settings: Settings,
    trace: Trace,
    world: World,
    text: String,
    broken: Vec<String>,
}

impl Report {
    pub(crate) fn new(settings: Settings, trace: Trace, world: World, writes: Writes) -> Self {
        let mut text = String::new();
        let faults: Vec<String> = trace.counts().iter().map(|(kind, count)| format!("{kind} {count}")).collect();
        let sum: usize = trace.counts().values().sum();
        let _ = writeln!(text, "{sum} faults: {}", faults.join(", "));
        let each =
            |(what, [done, refused, unanswered]): (_, &[usize; 3])| format!("{what} {done}/{refused}/{unanswered}");
        let writes: Vec<String> = writes.0.iter().map(each).collect();
        let _ = writeln!(text, "writes (done/refused/unanswered): {}", writes.join(", "));
        Self { settings, trace, world, text, broken: Vec::new() }
    }

    pub(crate) fn took(&mut self, started: Duration, settling: Duration) {
        let (started, settling) = (started.as_secs_f64(), settling.as_secs_f64());
        let _ =
            writeln!(self.text, "the servers started in {started:.1} s; all was told {settling:.1} s after the end");
    }

    /// Holds the promises against what the sinks have.
    pub(crate) fn check(&mut self, settled: Result<(), String>, holdings: &[Holding], truth: &Truth) {
        let _ = writeln!(
            self.text,
            "etcd had {} states and deletions; crier ended {} times",
            truth.history.size(),
            truth.deaths.len()
        );
        for holding in holdings {
            let mut whats: BTreeMap<&str, usize> = BTreeMap::new();
            holding.events.iter().for_each(|event| *whats.entry(&event.what).or_default() += 1);
            let inferred = holding.events.iter().filter(|event| event.inferred).count();
            let lanes = holding.lanes();
            let falls: Vec<Fall> =
                lanes.iter().flat_map(|lane| lane.falls(holding, truth)).map(|(_, _, fall)| fall).collect();
            let fallen = |fall: Fall| falls.iter().filter(|found| **found == fall).count();
            let late = lanes.iter().filter(|lane| lane.ends_late(lane.by_arrival())).count();
            let _ = writeln!(
                self.text,
                "{:8} {} events of {} keys ({whats:?}, {inferred} inferred), {} repeats; below an earlier one: {} \
                 repeats, {} applied late; {late} keys end so",
                holding.sink,
                holding.events.len(),
                lanes.len(),
                holding.repeats(),
                fallen(Fall::Repeat),
                fallen(Fall::Late),
            );
        }
        let _ = write!(self.text, "{}", self.complaints());
        self.broken = self.trace.all_broken();
        self.broken.extend(settled.err());
        self.broken.extend(promises::all(holdings, truth));
        if !self.broken.is_empty() {
            self.keep(holdings, truth);
        }
    }

    /// How often crier's log has complained of what.
    fn complaints(&self) -> String {
        let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
        for line in self.world.crier.log() {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let level = text(&line["level"]);
            if matches!(&*level, "WARN" | "ERROR") {
                let message = if line["message"].is_null() { &line["fields"]["message"] } else { &line["message"] };
                *counts.entry((level, text(message))).or_default() += 1;
            }
        }
        counts.iter().map(|((level, message), count)| format!("crier's log: {count} x {level} {message}\n")).collect()
    }

    /// Where what a failure leaves is kept.
    fn folder(&self) -> PathBuf {
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("chaos-{}", self.settings.seed))
    }

    fn keep(&self, holdings: &[Holding], truth: &Truth) {
        let folder = self.folder();
        fs::create_dir_all(&folder).unwrap();
        let write = |name: &str, lines: Vec<String>| fs::write(folder.join(name), lines.join("\n")).unwrap();
        write("trace", self.trace.lines());
        write("broken", self.broken.clone());
        for holding in holdings {
            let line = |event: &super::event::Event| format!("{} {} {}", event.key, event.line(), event.content);
            write(holding.sink, holding.events.iter().map(line).collect());
        }
        let mut states = Vec::new();
        for (number, life) in truth.history.lives.iter().enumerate() {
            for (key, of_key) in life {
                states.extend(of_key.iter().map(|(version, state)| format!("{number} {key} {version} {state:?}")));
            }
        }
        write("history", states);
        fs::copy(self.world.crier.file("log"), folder.join("log")).unwrap();
    }

    /// Shows it all; fails if a promise was broken.
    pub(crate) fn conclude(self) {
        let Settings { seed, length, rewind } = self.settings;
        say(self.text.trim_end());
        if self.broken.is_empty() {
            return say(&format!("chaos: no promise was broken with seed {seed}"));
        }
        let log = fs::read_to_string(self.world.crier.file("log")).unwrap_or_default();
        let tail = |lines: &[&str]| lines[lines.len().saturating_sub(TAIL)..].join("\n");
        let lines = self.trace.lines();
        panic!(
            "{} times a promise was broken\n\n{}\n\nagain: CRIER_CHAOS_SEED={seed} CRIER_CHAOS_SECONDS={} \
             CRIER_CHAOS_REWIND={} make chaos\nthe whole trace, log, events and history: {}\n\nwhat was done last:\n{}\n\nthe \
             end of crier's log:\n{}",
            self.broken.len(),
            self.broken[..self.broken.len().min(SHOWN)].join("\n\n"),
            length.as_secs(),
            u8::from(rewind),
            self.folder().display(),
            tail(&lines.iter().map(String::as_str).collect::<Vec<_>>()),
            tail(&log.lines().collect::<Vec<_>>()),
        );
    }
}
