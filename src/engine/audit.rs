//! The safety net: comparing the whole collection though nothing is known to be missed, and what that has found. How it
//! is compared is the comparison's business.

use std::sync::Arc;
use std::time::Duration;

use super::feed::Purpose;
use super::{Engine, Now};
use crate::model::{Key, OwedState};

/// So many differences of one audit are named; all are counted.
const NAMED: usize = 1_000;

/// What an audit has found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditReport {
    /// The number of this audit, counted from the engine's beginning.
    pub number: u64,
    /// Objects that the list showed.
    pub objects: u64,
    /// Differences that no watch had told of, over all routes. An object that was deleted in the very moments of the
    /// audit is counted, too.
    pub drift: u64,
    /// Which they are, as far as they are named.
    pub differences: Vec<Difference>,
}

/// One difference between what a route has told or owes and the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The route, by its number in the engine.
    pub route: usize,
    /// The object.
    pub key: Key,
    /// What it owes now.
    pub owes: OwedState,
}

#[derive(Default)]
pub(super) struct Audit {
    // Of the list that is under way, if it is an audit.
    current: Option<AuditReport>,
    last: Option<Arc<AuditReport>>,
    count: u64,
    // Audits that were asked for up to this number have been begun.
    asked: bool,
}

impl Audit {
    pub(super) fn last(&self) -> Option<&Arc<AuditReport>> {
        self.last.as_ref()
    }

    pub(super) fn begin(&mut self, purpose: Purpose) {
        self.current = (purpose == Purpose::Audit).then(AuditReport::default);
    }

    pub(super) fn note_object(&mut self) {
        if let Some(report) = &mut self.current {
            report.objects += 1;
        }
    }

    /// Notes a difference, if an audit is under way; whether it is.
    pub(super) fn note_difference(&mut self, route: usize, key: &Key, owes: OwedState) -> bool {
        let Some(report) = &mut self.current else { return false };
        report.drift += 1;
        if report.differences.len() < NAMED {
            report.differences.push(Difference { route, key: key.clone(), owes });
        }
        true
    }

    pub(super) fn finish(&mut self) {
        if let Some(mut report) = self.current.take() {
            self.count += 1;
            report.number = self.count;
            self.asked = false;
            self.last = Some(Arc::new(report));
        }
    }
}

impl Engine {
    /// Compares the whole collection as soon as the feed follows it. The report's number tells whether it has been done:
    /// it is larger than that of [`Engine::last_audit`] now.
    pub fn handle_audit_wanted(&mut self, now: Now) {
        self.audit.asked = true;
        self.feed.audit_at = Some(now);
    }

    /// After a start or a break a rewind may have happened whose counter has passed the old mark: only a comparison
    /// shows it.
    pub(super) fn audit_soon(&mut self, now: Now) {
        let wait = self.jitter.spread(self.settings.audit_after);
        self.feed.audit_at = Some(self.feed.audit_at.map_or(now + wait, |at| at.min(now + wait)));
    }

    /// A complete comparison was made: the next one is due when the configuration says so.
    pub(super) fn audit_later(&mut self, now: Now) {
        let every = self.settings.audit_every;
        if self.audit.asked {
            // Asked for while another list was under way that says nothing of drift.
            return;
        }
        self.feed.audit_at = (every > Duration::ZERO).then(|| now + self.jitter.spread(every + every / 3));
    }
}
