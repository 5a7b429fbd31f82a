//! What was done during a run, and when: for people who read a failure, and for the checks that have to know when crier
//! was killed. It decides nothing.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use jiff::Timestamp;

#[derive(Default)]
struct Noted {
    lines: Vec<String>,
    counts: BTreeMap<String, usize>,
    deaths: Vec<Timestamp>,
    broken: Vec<String>,
}

/// Notes from all lanes at once.
pub(crate) struct Trace {
    began: Instant,
    noted: Mutex<Noted>,
}

impl Trace {
    pub(crate) fn start() -> Self {
        Self { began: Instant::now(), noted: Mutex::default() }
    }

    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn began(&self) -> Instant {
        self.began
    }

    /// Something that happened, with the time since the beginning.
    pub(crate) fn note(&self, text: &str) {
        let line = format!("{:8.3} {text}", self.began.elapsed().as_secs_f64());
        self.noted().lines.push(line);
    }

    /// A fault, which is counted by its kind.
    pub(crate) fn count(&self, kind: &str) {
        *self.noted().counts.entry(kind.to_owned()).or_default() += 1;
    }

    /// crier's process has ended: what was under way then is in doubt.
    pub(crate) fn death(&self) {
        self.noted().deaths.push(Timestamp::now());
    }

    /// Something that crier should not have done, seen while it happened.
    pub(crate) fn broken(&self, what: String) {
        self.note(&what);
        self.noted().broken.push(what);
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.noted().lines.clone()
    }

    pub(crate) fn counts(&self) -> BTreeMap<String, usize> {
        self.noted().counts.clone()
    }

    pub(crate) fn deaths(&self) -> Vec<Timestamp> {
        self.noted().deaths.clone()
    }

    pub(crate) fn all_broken(&self) -> Vec<String> {
        self.noted().broken.clone()
    }
}
