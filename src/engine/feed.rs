//! The feed's states: what to ask the API server next, and what its answers mean. Not what a change means to a route.
//!
//! A list and a watch never overlap, a watch is resumed only after a probe, and a deletion is inferred only from a list
//! that was read to its end.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Action, Engine, Now, retry::Backoff};
use crate::model::{FeedRecord, Key, ResourceVersion, Served, Uid};

const BASE: Duration = Duration::from_millis(500);
const CAP: Duration = Duration::from_secs(30);
/// A parked feed looks again at least this often: a kind is picked up within 5 s of its creation.
const PARKED_CAP: Duration = Duration::from_secs(3);
/// A watch that ends sooner than this without a word counts as a failure, so that it cannot be asked for in a loop.
const SHORT_WATCH: Duration = Duration::from_secs(1);

/// Why a request of the feed did not succeed, as the edge has classified it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedFailure {
    /// 410 in either form: the version is no longer in the watch history, or the continue token has expired.
    Expired,
    /// The server asks to be left alone for a while.
    Throttled {
        /// What it said.
        reason: String,
        /// For how long, if it said so.
        after: Option<Duration>,
    },
    /// The kind is not served.
    NotServed(String),
    /// The permission is missing; the text names verb and resource.
    Forbidden(String),
    /// The server does not know streaming lists.
    StreamingUnsupported,
    /// A line or object could not be read; stepping over it would lose a change.
    Undecodable(String),
    /// Anything else that may pass: network, time-outs, server errors, credentials.
    Other(String),
}

/// Why a feed is parked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParkCause {
    /// The kind is not served.
    NotServed(String),
    /// The permission is missing.
    Forbidden(String),
    /// The cluster's version counter has stepped back: etcd was restored from a backup.
    Rewound {
        /// The newest version that the feed was ever given.
        newest: ResourceVersion,
        /// What the cluster says now.
        cluster: ResourceVersion,
    },
}

/// Where a feed stands, for status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedState {
    /// Asks for the newest version before it resumes.
    Probing,
    /// Reads the whole collection.
    Listing,
    /// Follows the changes.
    Watching,
    /// Waits to try again.
    Waiting {
        /// What went wrong.
        reason: String,
    },
    /// Cannot go on until somebody acts; looks again by itself.
    Parked(ParkCause),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Probe,
    List,
}

enum State {
    /// The next request is due.
    Ready(Next),
    Probing,
    Listing {
        seen: BTreeMap<Key, Uid>,
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
    state: State,
    record: FeedRecord,
    streaming: bool,
    backoff: Backoff,
    // A parked feed waits by its own measure: what follows when the cause is gone begins anew.
    parked: Backoff,
    // What the last look has met, shown until another one gets further.
    trouble: Option<FeedState>,
    // Failures of the watch other than "expired" in a row at one position: the third leads to a list.
    strikes: u32,
}

impl Feed {
    pub(super) fn new(record: FeedRecord) -> Self {
        Self {
            state: State::Ready(Next::List),
            record,
            streaming: true,
            backoff: Backoff::default(),
            parked: Backoff::default(),
            trouble: None,
            strikes: 0,
        }
    }

    pub(super) fn record(&self) -> FeedRecord {
        self.record.clone()
    }

    pub(super) fn position(&self) -> Option<ResourceVersion> {
        self.record.position
    }

    pub(super) fn deadline(&self) -> Option<Now> {
        match &self.state {
            State::Ready(_) => Some(Duration::ZERO),
            State::Waiting { until, .. } | State::Parked { until, .. } => Some(*until),
            State::Probing | State::Listing { .. } | State::Watching { .. } => None,
        }
    }

    pub(super) fn describe(&self) -> FeedState {
        if let Some(trouble) = &self.trouble {
            return trouble.clone();
        }
        match &self.state {
            State::Ready(Next::Probe) | State::Probing | State::Watching { begun: false, .. } => FeedState::Probing,
            State::Ready(Next::List) | State::Listing { .. } => FeedState::Listing,
            State::Watching { .. } => FeedState::Watching,
            State::Waiting { reason, .. } => FeedState::Waiting { reason: reason.clone() },
            State::Parked { cause, .. } => FeedState::Parked(cause.clone()),
        }
    }

    pub(super) fn is_listing(&self) -> bool {
        matches!(self.state, State::Listing { .. })
    }

    /// Moves the position; it never steps back while one watch goes on.
    pub(super) fn advance(&mut self, to: ResourceVersion) {
        self.record.position = self.record.position.max(Some(to));
        self.record.newest = self.record.newest.max(Some(to));
    }

    /// Notes an item of the list that is under way; whether there is one.
    pub(super) fn note_listed(&mut self, key: &Key, uid: &Uid) -> bool {
        let State::Listing { seen } = &mut self.state else { return false };
        seen.insert(key.clone(), uid.clone());
        self.trouble = None;
        true
    }

    /// Takes an item back that a streaming list saw deleted before its end mark.
    pub(super) fn forget_listed(&mut self, key: &Key) {
        if let State::Listing { seen } = &mut self.state {
            seen.remove(key);
        }
    }

    pub(super) fn note_heard(&mut self) {
        if let State::Watching { begun, heard, .. } = &mut self.state {
            (*begun, *heard) = (true, true);
        }
        self.succeed();
    }

    fn succeed(&mut self) {
        self.backoff.succeed();
        self.parked.succeed();
        self.trouble = None;
        self.strikes = 0;
    }

    /// Ends the list that is under way: its own version, never an item's, becomes the position.
    pub(super) fn finish_list(&mut self, at: ResourceVersion) -> Option<BTreeMap<Key, Uid>> {
        let State::Listing { seen } = &mut self.state else { return None };
        let seen = std::mem::take(seen);
        self.record.position = Some(at);
        self.record.newest = self.record.newest.max(Some(at));
        self.succeed();
        self.state = State::Ready(Next::Probe);
        Some(seen)
    }
}

impl Engine {
    /// Decides between resuming and listing: a position serves only routes that have followed up to it, and only while
    /// fetching what is owed is cheaper than one list.
    pub(super) fn start_feed(&mut self) {
        let to_fetch: usize = self.routes.iter().map(|route| route.entries.values().filter(|e| e.owes()).count()).sum();
        let resumable =
            self.routes.iter().all(|route| route.synced && route.followed) && to_fetch <= self.settings.fetch_at_most;
        let next = if self.feed.record.position.is_some() && resumable { Next::Probe } else { Next::List };
        self.feed.state = State::Ready(next);
    }

    pub(super) fn poll_feed(&mut self, now: Now) {
        if self.draining {
            return;
        }
        let next = match &self.feed.state {
            State::Ready(next) => *next,
            State::Waiting { until, next, .. } | State::Parked { until, next, .. } if *until <= now => *next,
            _ => return,
        };
        match next {
            Next::Probe => {
                self.feed.state = State::Probing;
                self.actions.push_back(Action::Probe);
            }
            Next::List => {
                self.feed.state = State::Listing { seen: BTreeMap::new() };
                self.actions.push_back(Action::List { streaming: self.feed.streaming });
            }
        }
    }

    /// The probe's answer: the collection's newest version, or why there is none.
    pub fn handle_probed(&mut self, now: Now, answer: Result<ResourceVersion, FeedFailure>) {
        if self.draining || !matches!(self.feed.state, State::Probing) {
            return;
        }
        match (answer, self.feed.record.position) {
            (Ok(cluster), _) if Some(cluster) < self.feed.record.newest => {
                // A watch from a future version would be silent, not an error: events would be lost.
                let newest = self.feed.record.newest.unwrap_or(cluster);
                self.park(now, Next::Probe, ParkCause::Rewound { newest, cluster });
            }
            (Ok(_), Some(from)) => {
                self.feed.state = State::Watching { since: now, begun: false, heard: false };
                self.actions.push_back(Action::Watch { from });
            }
            (Ok(_), None) => self.feed.state = State::Ready(Next::List),
            (Err(failure), _) => self.fail_feed(now, Next::Probe, failure),
        }
    }

    /// The list has failed: nothing is inferred from it.
    pub fn handle_list_failed(&mut self, now: Now, failure: FeedFailure) {
        if self.feed.is_listing() {
            self.fail_feed(now, Next::List, failure);
        }
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
                self.feed.strikes += 1;
                let struck_out = self.feed.strikes >= 3 && matches!(failure, FeedFailure::Other(_));
                self.fail_feed(now, if struck_out { Next::List } else { Next::Probe }, failure);
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
            self.feed.state = State::Ready(Next::List);
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
        let (next, reason, after) = match failure {
            // Routine: every restart of an API server and every edit of a CRD forgets the history.
            FeedFailure::Expired if next == Next::Probe && !self.feed.backoff.is_failing() => {
                self.feed.state = State::Ready(Next::List);
                return;
            }
            FeedFailure::StreamingUnsupported if self.feed.streaming => {
                self.feed.streaming = false;
                self.feed.state = State::Ready(Next::List);
                return;
            }
            FeedFailure::NotServed(reason) => return self.park(now, next, ParkCause::NotServed(reason)),
            FeedFailure::Forbidden(reason) => return self.park(now, next, ParkCause::Forbidden(reason)),
            FeedFailure::Expired => (Next::List, "the watch history has expired".to_owned(), None),
            FeedFailure::StreamingUnsupported => (next, "the server refuses the list".to_owned(), None),
            FeedFailure::Throttled { reason, after } => (next, reason, after),
            FeedFailure::Undecodable(reason) => (Next::List, reason, None),
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
