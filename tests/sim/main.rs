//! The simulator: the real engine, parsers, encoder and a store against a model of an API server and model sinks, by
//! seeds, in virtual time. A seed gives the same run to the byte.
//!
//! `make sim SEED=n` replays one with a trace, `make sim-soak` runs until it is stopped.

#![allow(clippy::print_stdout, reason = "traces and figures are for whoever runs it")]

mod answers;
mod bounds;
mod client;
mod faults;
mod healing;
mod run;
mod sink;
mod world;

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crier::engine::{Mutant, plant};
use run::{Outcome, Run};

/// How many seeds `make test` tries.
const SEEDS: u64 = 2_000;

/// Runs one seed; a panic of an assertion is a violation like any other.
fn run(seed: u64, traced: bool) -> Outcome {
    let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| Run::new(seed, traced).go()));
    outcome.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
        Outcome { violation: Some(text.unwrap_or_else(|| "a panic".to_owned())), ..Outcome::default() }
    })
}

/// A setting of whoever runs it; an empty one is none.
fn setting(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

/// The mutant that is asked for by name.
fn chosen_mutant() -> Option<Mutant> {
    setting("CRIER_SIM_MUTANT").map(|name| {
        let known = Mutant::ALL.into_iter().find(|mutant| format!("{mutant:?}") == name);
        known.unwrap_or_else(|| panic!("there is no mutant {name}"))
    })
}

fn number(name: &str) -> Option<u64> {
    setting(name).map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// Runs these seeds on two threads; the outcomes in the order of the seeds.
fn run_all(seeds: std::ops::Range<u64>, mutant: Option<Mutant>, stop_at_violation: bool) -> Vec<(u64, Outcome)> {
    let next = AtomicU64::new(seeds.start);
    let mut outcomes: Vec<(u64, Outcome)> = std::thread::scope(|scope| {
        let work = || {
            plant(mutant);
            let mut outcomes = Vec::new();
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= seeds.end {
                    return outcomes;
                }
                let outcome = run(seed, false);
                if outcome.violation.is_some() && stop_at_violation {
                    next.store(seeds.end, Ordering::Relaxed);
                }
                outcomes.push((seed, outcome));
            }
        };
        let threads: Vec<_> = (0..2).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a thread of the simulator")).collect()
    });
    outcomes.sort_by_key(|(seed, _)| *seed);
    outcomes
}

fn quietly<T>(work: impl FnOnce() -> T) -> T {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let result = work();
    std::panic::set_hook(hook);
    result
}

#[test]
fn no_schedule_of_faults_breaks_a_promise() {
    if let Some(seed) = number("CRIER_SIM_SEED") {
        plant(chosen_mutant());
        let outcome = run(seed, true);
        println!("{}", outcome.trace.join("\n"));
        assert_eq!(outcome.violation, None, "seed {seed}");
        return;
    }
    let began = Instant::now();
    let stop = setting("CRIER_SIM_STOP").is_some();
    let outcomes = quietly(|| run_all(0..number("CRIER_SIM_SEEDS").unwrap_or(SEEDS), chosen_mutant(), stop));
    let broken: Vec<_> =
        outcomes.iter().filter_map(|(seed, outcome)| Some((seed, outcome.violation.as_ref()?))).collect();
    let (mut faults, mut kinds) = (BTreeMap::new(), BTreeMap::new());
    for (_, outcome) in &outcomes {
        for (fault, count) in &outcome.faults {
            *faults.entry(*fault).or_insert(0) += count;
        }
        for (kind, count) in &outcome.kinds {
            *kinds.entry(kind.clone()).or_insert(0) += count;
        }
    }
    let sum = |count: fn(&Outcome) -> usize| outcomes.iter().map(|(_, outcome)| count(outcome)).sum::<usize>();
    println!(
        "{} seeds in {:.1} s: {} writes, {} requests, {} events {kinds:?}, of which {} repeats; faults {faults:?}",
        outcomes.len(),
        began.elapsed().as_secs_f64(),
        sum(|outcome| outcome.writes),
        sum(|outcome| outcome.requests),
        sum(|outcome| outcome.events),
        sum(|outcome| outcome.repeats),
    );
    let shown: Vec<String> =
        broken.iter().take(12).map(|(seed, violation)| format!("seed {seed}: {violation}")).collect();
    assert!(
        broken.is_empty(),
        "{} seeds break a promise; replay one by `make sim SEED=n`\n{}",
        broken.len(),
        shown.join("\n")
    );
    let limits = outcomes.iter().filter(|(_, outcome)| outcome.limit.is_some()).count();
    assert!(
        limits * 1_000 <= outcomes.len(),
        "{limits} runs met rewinds that nobody could notice: too many to believe"
    );
    // A schedule that tries nothing proves nothing.
    assert!(sum(|outcome| outcome.events) > outcomes.len() * 5, "too little was told");
}

#[test]
fn every_named_mutant_is_caught() {
    if number("CRIER_SIM_SEED").is_some() {
        return;
    }
    let wanted = chosen_mutant();
    let mut survivors = Vec::new();
    let sought = |mutant: &Mutant| match wanted {
        Some(wanted) => wanted == *mutant,
        None => !Mutant::SCRIPTED.contains(mutant),
    };
    for mutant in Mutant::ALL.into_iter().filter(sought) {
        let began = Instant::now();
        let outcomes = quietly(|| run_all(0..SEEDS, Some(mutant), true));
        match outcomes.iter().find_map(|(seed, outcome)| Some((seed, outcome.violation.as_ref()?))) {
            Some((seed, violation)) => {
                let violation: String = violation.chars().take(160).collect();
                println!("{mutant:?}: seed {seed}, after {:.1} s: {violation}", began.elapsed().as_secs_f64());
            }
            None => survivors.push(format!("{mutant:?}")),
        }
    }
    assert!(survivors.is_empty(), "within {SEEDS} seeds nobody notices: {}", survivors.join(", "));
}

/// Not a test: runs until it is stopped, or as long as it is told to, and prints the seeds that fail.
#[test]
#[ignore = "runs until it is stopped: `make sim-soak`"]
fn soak() {
    let until = number("CRIER_SIM_SECONDS").map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let (mut from, mut failed) = (number("CRIER_SIM_FROM").unwrap_or(1_000_000), 0);
    while until.is_none_or(|until| Instant::now() < until) {
        for (seed, outcome) in quietly(|| run_all(from..from + 1_000, None, false)) {
            if let Some(violation) = outcome.violation {
                failed += 1;
                println!("seed {seed}: {violation}");
            }
        }
        from += 1_000;
        println!("{from} and counting, {failed} failed");
    }
    assert_eq!(failed, 0);
}
