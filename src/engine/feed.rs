//! The feed's states: what to ask the API server next, and what its answers mean. Not what a change means to a route.
//!
//! A list and a watch never overlap, a watch is resumed only after a probe, and a deletion is inferred only from a list
//! that was read to its end.

use std::time::Duration;

use super::mutant::{Mutant, planted};
use super::{Action, Engine, FeedFailure, FeedState, Now, ParkCause, retry::Backoff};
use crate::model::{Epoch, FeedRecord, ResourceVersion, Sequence, Served};

const BASE: Duration = Duration::from_millis(500);
const CAP: Duration = Duration::from_secs(30);
/// A parked feed looks again at least this often: a kind is picked up within 5 s of its creation.
const PARKED_CAP: Duration = Duration::from_secs(3);
/// A watch that ends sooner than this without a word counts as a failure, so that it cannot be asked for in a loop.
const SHORT_WATCH: Duration = Duration::from_secs(1);

/// Why the whole collection is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To find what was missed, or what is there at all.
    Compare,
    /// Nothing is known to be missed: the safety net.
    Audit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Probe,
    List(Purpose),
}

/// What was known when a request was sent: its answer cannot be older than that, unless the cluster was rewound.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Before {
    pub(super) position: Option<ResourceVersion>,
    pub(super) newest: Option<ResourceVersion>,
}

pub(super) enum State {
    /// The next request is due.
    Ready(Next),
    Probing(Before),
    Listing {
        purpose: Purpose,
        metadata_only: bool,
        before: Before,
    },
    Watching {
        since: Now,
        // Whether the API server has taken the request.
        begun: bool,
        heard: bool,
    },
    Waiting {
        until: Now,
        next: Next,
        reason: String,
    },
    Parked {
        until: Now,
        next: Next,
        cause: ParkCause,
    },
}

pub(super) struct Feed {
    pub(super) state: State,
    record: FeedRecord,
    streaming: bool,
    backoff: Backoff,
    // A parked feed waits by its own measure: what follows when the cause is gone begins anew.
    parked: Backoff,
    // What the last look has met, shown until another one gets further.
    trouble: Option<FeedState>,
    // Failures of the watch other than "expired" in a row at one position: the third leads to a list.
    strikes: u32,
    // When the whole collection is compared next, though nothing is known to be missed.
    pub(super) audit_at: Option<Now>,
    // The probe that is under way is followed by a list.
    list_wanted: Option<Purpose>,
    // The objects of a kind that was seen to be gone are told as deleted once.
    kind_gone: bool,
    // Answers that could not be read, since the engine began.
    unreadable: u64,
}

impl Feed {
    /// A feed that goes on where its record ends, unless the cluster is known to have begun another life since: by another
    /// feed, which this one's routes may have read meanwhile. Versions from before say nothing then.
    pub(super) fn new(mut record: FeedRecord, epoch: Epoch, rewinds: u32) -> Self {
        if record.epoch < epoch {
            record = FeedRecord { epoch, rewinds, position: None, newest: None, ..record };
        }
        Self {
            state: State::Ready(Next::List(Purpose::Compare)),
            record,
            streaming: true,
            backoff: Backoff::default(),
            parked: Backoff::default(),
            trouble: None,
            strikes: 0,
            audit_at: None,
            list_wanted: None,
            kind_gone: false,
            unreadable: 0,
        }
    }

    pub(super) fn record(&self) -> FeedRecord {
        self.record.clone()
    }

    pub(super) fn position(&self) -> Option<ResourceVersion> {
        self.record.position
    }

    pub(super) fn epoch(&self) -> Epoch {
        self.record.epoch
    }

    pub(super) fn rewinds(&self) -> u32 {
        self.record.rewinds
    }

    pub(super) fn unreadable(&self) -> u64 {
        self.unreadable
    }

    /// The position's place in the order.
    pub(super) fn place(&self) -> Option<Sequence> {
        self.record.position.map(|position| Sequence::new(self.record.epoch, position))
    }

    pub(super) fn deadline(&self) -> Option<Now> {
        match &self.state {
            State::Ready(_) => Some(Duration::ZERO),
            State::Waiting { until, .. } | State::Parked { until, .. } => Some(*until),
            State::Watching { begun: true, .. } => self.audit_at,
            State::Probing(_) | State::Listing { .. } | State::Watching { .. } => None,
        }
    }

    pub(super) fn describe(&self) -> FeedState {
        if let Some(trouble) = &self.trouble {
            return trouble.clone();
        }
        match &self.state {
            State::Ready(Next::Probe) | State::Probing(_) | State::Watching { begun: false, .. } => FeedState::Probing,
            State::Ready(Next::List(_)) | State::Listing { .. } => FeedState::Listing,
            State::Watching { .. } => FeedState::Watching,
            State::Waiting { reason, .. } => FeedState::Waiting { reason: reason.clone() },
            State::Parked { cause, .. } => FeedState::Parked(cause.clone()),
        }
    }

    /// Moves the position; it never steps back while one watch goes on.
    pub(super) fn advance(&mut self, to: ResourceVersion) {
        self.record.position = self.record.position.max(Some(to));
        self.note_given(to);
    }

    /// Notes that the cluster has reached this version.
    pub(super) fn note_given(&mut self, version: ResourceVersion) {
        self.record.newest = self.record.newest.max(Some(version));
    }

    pub(super) fn before(&self) -> Before {
        let newest = if planted(Mutant::RewindByPositionAlone) { self.record.position } else { self.record.newest };
        Before { position: self.record.position, newest }
    }

    pub(super) fn note_heard(&mut self) {
        if let State::Watching { begun, heard, .. } = &mut self.state {
            (*begun, *heard) = (true, true);
        }
        self.succeed();
    }

    pub(super) fn note_progress(&mut self) {
        self.trouble = None;
    }

    fn succeed(&mut self) {
        self.backoff.succeed();
        self.parked.succeed();
        self.trouble = None;
        self.strikes = 0;
        self.kind_gone = false;
    }

    /// Ends the list that is under way: its own version, never an item's, becomes the position.
    pub(super) fn finish_list(&mut self, at: ResourceVersion) {
        self.record.position = Some(at);
        self.note_given(at);
        self.succeed();
        self.state = State::Ready(Next::Probe);
    }

    /// The counter has stepped back: all that was read belongs to an earlier epoch.
    pub(super) fn begin_epoch(&mut self, epoch: Epoch) {
        self.record.epoch = epoch;
        self.record.rewinds += 1;
        self.record.position = None;
        self.record.newest = None;
        self.state = State::Ready(Next::List(Purpose::Compare));
    }

    /// Whatever was read before, the next thing is a list.
    pub(super) fn want_list(&mut self, purpose: Purpose) {
        self.state = State::Ready(Next::List(purpose));
    }

    /// The next thing is a list, as soon as the feed is not waiting for something else. A list that is under way begins
    /// anew: its first items were judged by another rule. A probe is awaited, since its late answer would be taken for
    /// that of the next one.
    pub(super) fn list_for_all(&mut self) {
        match &mut self.state {
            State::Probing(_) => self.list_wanted = Some(Purpose::Compare),
            State::Waiting { next, .. } | State::Parked { next, .. } => *next = Next::List(Purpose::Compare),
            State::Ready(_) | State::Listing { .. } | State::Watching { .. } => self.want_list(Purpose::Compare),
        }
    }
}

impl Engine {
    /// Decides between resuming and listing: a position serves only routes that have followed up to it, and only while
    /// fetching what is owed is cheaper than one list.
    pub(super) fn start_feed(&mut self, now: Now) {
        let owing = |route: &super::Route| route.entries.iter().filter(|entry| entry.owes()).count();
        let to_fetch: usize = self.routes.iter().map(owing).sum();
        let follows =
            |route: &super::Route| route.record.synced && (route.followed || planted(Mutant::UnfollowedRouteResumes));
        let resumable = self.routes.iter().all(follows) && to_fetch <= self.settings.fetch_at_most;
        let next = match self.feed.record.position {
            Some(_) if resumable => Next::Probe,
            _ => Next::List(Purpose::Compare),
        };
        self.feed.state = State::Ready(next);
        self.audit_soon(now);
    }

    pub(super) fn poll_feed(&mut self, now: Now) {
        if self.draining {
            return;
        }
        let next = match &self.feed.state {
            State::Ready(next) => *next,
            State::Waiting { until, next, .. } | State::Parked { until, next, .. } if *until <= now => *next,
            State::Watching { begun: true, .. } if self.feed.audit_at.is_some_and(|at| at <= now) => {
                Next::List(Purpose::Audit)
            }
            _ => return,
        };
        match next {
            // A list says only at its end which version it has: what it shows might be told before a rewind is noticed.
            Next::List(purpose) if self.feed.record.newest.is_some() => {
                self.feed.list_wanted = Some(purpose);
                self.probe();
            }
            Next::Probe => self.probe(),
            Next::List(purpose) => self.begin_list(purpose),
        }
    }

    fn probe(&mut self) {
        self.feed.state = State::Probing(self.feed.before());
        self.actions.push_back(Action::Probe);
    }

    fn begin_list(&mut self, purpose: Purpose) {
        // An audit that finds nothing needs no content; a route that has told nothing needs all of it.
        let metadata_only = purpose == Purpose::Audit
            && self.routes.iter().all(|route| route.followed && route.record.synced && !route.resyncing);
        self.feed.state = State::Listing { purpose, metadata_only, before: self.feed.before() };
        self.keys.begin_list();
        self.audit.begin(purpose);
        self.actions.push_back(Action::List { streaming: self.feed.streaming, metadata_only });
    }

    /// The probe's answer: the collection's newest version, or why there is none.
    pub fn handle_probed(&mut self, now: Now, answer: Result<ResourceVersion, FeedFailure>) {
        let State::Probing(before) = self.feed.state else { return };
        if self.draining {
            return;
        }
        let list = self.feed.list_wanted.take();
        match (answer, self.feed.record.position) {
            // A watch from a future version would be silent, not an error: events would be lost.
            (Ok(cluster), _) if Some(cluster) < before.newest => self.begin_epoch(now),
            (Ok(cluster), Some(from)) if list.is_none() => {
                self.feed.note_given(cluster);
                self.save.touch_feed();
                self.feed.state = State::Watching { since: now, begun: false, heard: false };
                self.actions.push_back(Action::Watch { from });
            }
            (Ok(cluster), _) => {
                self.feed.note_given(cluster);
                self.begin_list(list.unwrap_or(Purpose::Compare));
            }
            (Err(failure), _) => self.fail_feed(now, list.map_or(Next::Probe, Next::List), failure),
        }
    }

    /// The list has failed: nothing is inferred from it.
    pub fn handle_list_failed(&mut self, now: Now, failure: FeedFailure) {
        let State::Listing { purpose, before, .. } = self.feed.state else { return };
        if planted(Mutant::DeletionsFromFailedList)
            && let Some(at) = before.newest
        {
            return self.handle_list_finished(now, at);
        }
        self.fail_feed(now, Next::List(purpose), failure);
    }

    /// The API server has taken the watch; whether it tells anything is another question.
    pub fn handle_watch_begun(&mut self) {
        if let State::Watching { begun, .. } = &mut self.feed.state {
            *begun = true;
            self.feed.trouble = None;
        }
    }

    /// The watch has ended, cleanly (`None`) or by a failure. A clean end never means "up to date".
    pub fn handle_stream_ended(&mut self, now: Now, failure: Option<FeedFailure>) {
        let State::Watching { since, heard, .. } = self.feed.state else { return };
        match failure {
            None if heard || now >= since + SHORT_WATCH => self.feed.state = State::Ready(Next::Probe),
            None => {
                let reason = "the watch ended at once without an event".to_owned();
                self.fail_feed(now, Next::Probe, FeedFailure::Other(reason));
            }
            Some(failure) => {
                self.audit_soon(now);
                self.feed.strikes += 1;
                let struck_out = self.feed.strikes >= 3 && matches!(failure, FeedFailure::Other(_));
                let next = if struck_out { Next::List(Purpose::Compare) } else { Next::Probe };
                self.fail_feed(now, next, failure);
            }
        }
    }

    /// Discovery has found how the collection is served; kept, so that the next start asks for the same version.
    pub fn handle_served(&mut self, served: Served) {
        if self.feed.record.served.as_ref() != Some(&served) {
            self.feed.record.served = Some(served);
            self.save.touch_feed();
        }
    }

    /// What may not be read object by object is read by one list. Only from a watch: a list that is under way brings it,
    /// and after a failed one the feed's own state says why.
    pub(super) fn list_instead(&mut self) {
        if matches!(self.feed.state, State::Watching { .. }) {
            self.feed.want_list(Purpose::Compare);
        }
    }

    /// A bookmark: everything up to this version has been seen.
    pub fn handle_bookmark(&mut self, at: ResourceVersion) {
        if matches!(self.feed.state, State::Watching { .. }) {
            self.feed.note_heard();
            self.feed.advance(at);
            self.save.touch_feed();
        }
    }

    fn fail_feed(&mut self, now: Now, next: Next, failure: FeedFailure) {
        let compare = Next::List(Purpose::Compare);
        let (next, reason, after) = match failure {
            // Routine: every restart of an API server and every edit of a CRD forgets the history.
            FeedFailure::Expired if next == Next::Probe && !self.feed.backoff.is_failing() => {
                return self.feed.want_list(Purpose::Compare);
            }
            FeedFailure::StreamingUnsupported if self.feed.streaming => {
                self.feed.streaming = false;
                self.feed.state = State::Ready(next);
                return;
            }
            FeedFailure::Forbidden(reason) => return self.park(now, next, ParkCause::Forbidden(reason)),
            FeedFailure::NotServed(reason) => return self.park(now, next, ParkCause::NotServed(reason)),
            FeedFailure::KindGone(reason) => {
                // What was answered before the kind was gone may arrive after.
                self.fetches.void_asked();
                if !std::mem::replace(&mut self.feed.kind_gone, true) {
                    self.infer_all_gone(now);
                }
                // The position stays: whatever comes again from before it is of another life of the cluster.
                return self.park(now, compare, ParkCause::NotServed(reason));
            }
            FeedFailure::Expired => (compare, "the history expired again".to_owned(), None),
            FeedFailure::StreamingUnsupported => (next, "the server refuses the list".to_owned(), None),
            FeedFailure::Throttled { reason, after } => (next, reason, after),
            FeedFailure::Undecodable(reason) => {
                self.feed.unreadable += 1;
                (compare, reason, None)
            }
            FeedFailure::Other(reason) => (next, reason, None),
        };
        let until = now + self.feed.backoff.fail(&mut self.jitter, BASE, CAP, after);
        self.feed.trouble = Some(FeedState::Waiting { reason: reason.clone() });
        self.feed.state = State::Waiting { until, next, reason };
    }

    fn park(&mut self, now: Now, next: Next, cause: ParkCause) {
        // Whoever parks has been answered.
        self.feed.backoff.succeed();
        let until = now + self.feed.parked.fail(&mut self.jitter, BASE, PARKED_CAP, None);
        self.feed.trouble = Some(FeedState::Parked(cause.clone()));
        self.feed.state = State::Parked { until, next, cause };
    }
}
