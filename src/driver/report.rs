//! What the driver says of itself: its status, and a line in the log when something turns for the worse or the better.
//! Neither is written for every input: counting a view takes time in proportion to its size.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::engine::{AuditReport, Engine, FeedState, ParkCause, RouteStatus};
use crate::model::ResourceVersion;

/// The status is at most this old when nothing more happens.
const INTERVAL: Duration = Duration::from_millis(50);
/// Of the driver's time no more than one part in this many goes into its status.
const SHARE: u32 = 20;
/// A delivery without an answer for this long makes the route late. A sink may rightly wait longer: what is held by a
/// Kafka client is not sent a second time.
const LATE: Duration = Duration::from_secs(30);
/// A route whose sink fails says so at most this often.
const QUIET: Duration = Duration::from_secs(10);

/// Where a feed and its routes stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The feed.
    pub feed: FeedState,
    /// The newest version that was read.
    pub position: Option<ResourceVersion>,
    /// Bytes of objects that wait to be told.
    pub bytes_held: usize,
    /// How often the cluster's version counter was found to have stepped back.
    pub rewinds: u32,
    /// Answers of the API server that could not be read.
    pub unreadable: u64,
    /// What the last audit found.
    pub audit: Option<Arc<AuditReport>>,
    /// Whether the feed has followed the changes at least once since the start.
    pub caught_up: bool,
    /// Why the state could not be saved, until it is; nothing is sent meanwhile.
    pub state_error: Option<String>,
    /// The routes' names, by their numbers in the engine.
    pub names: Arc<[String]>,
    /// The routes by name.
    pub routes: BTreeMap<String, RouteStatus>,
}

/// When a driver's loop last turned.
#[derive(Debug)]
pub struct Heartbeat {
    began: Instant,
    last: AtomicU64,
}

impl Heartbeat {
    pub(super) fn new() -> Self {
        Self { began: Instant::now(), last: AtomicU64::new(0) }
    }

    pub(super) fn beat(&self) {
        self.last.store(self.began.elapsed().as_secs(), Ordering::Relaxed);
    }

    /// How long ago that was, in whole seconds.
    pub fn silent_for(&self) -> Duration {
        let last = Duration::from_secs(self.last.load(Ordering::Relaxed));
        Duration::from_secs(self.began.elapsed().saturating_sub(last).as_secs())
    }
}

/// Publishes a feed's status.
pub(super) struct Report {
    feed: String,
    names: Arc<[String]>,
    sender: watch::Sender<Status>,
    stale: bool,
    state_error: Option<String>,
    next: Instant,
    // When each route last spoke of a failure, while it fails.
    failing: BTreeMap<String, Instant>,
}

impl Report {
    pub(super) fn new(feed: &str, names: &Arc<[String]>, engine: &Engine) -> (Self, watch::Receiver<Status>) {
        let (sender, receiver) = watch::channel(describe(engine, names, false));
        let report = Self {
            feed: feed.to_owned(),
            names: Arc::clone(names),
            sender,
            stale: true,
            state_error: None,
            next: Instant::now(),
            failing: BTreeMap::new(),
        };
        (report, receiver)
    }

    /// The state was saved, or why not.
    pub(super) fn note_saved(&mut self, error: Option<String>) {
        let feed = &*self.feed;
        match &error {
            Some(error) if self.state_error.as_ref() != Some(error) => {
                tracing::error!(feed, error, "the state cannot be saved; nothing is sent until it is");
            }
            None if self.state_error.is_some() => tracing::info!(feed, "the state is saved again"),
            _ => {}
        }
        self.state_error = error;
    }

    /// Something may have changed.
    pub(super) fn touch(&mut self) {
        self.stale = true;
    }

    /// When to look again if nothing happens; `None` when the status is as it should be.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.stale.then_some(self.next)
    }

    /// Publishes the status if it is time; `now` is the engine's.
    pub(super) fn publish(&mut self, engine: &Engine, now: Duration, at_once: bool) {
        let began = Instant::now();
        if !self.stale || (began < self.next && !at_once) {
            return;
        }
        let mut status = describe(engine, &self.names, self.sender.borrow().caught_up);
        note_late(&mut status, now);
        status.state_error.clone_from(&self.state_error);
        self.log(&status, began);
        self.sender.send_if_modified(|published| {
            let changed = *published != status;
            *published = status;
            changed
        });
        self.stale = false;
        let now = Instant::now();
        self.next = now + INTERVAL.max((now - began) * SHARE);
    }

    fn log(&mut self, status: &Status, now: Instant) {
        let feed = &*self.feed;
        if status.rewinds > self.sender.borrow().rewinds {
            let rewinds = status.rewinds;
            tracing::warn!(
                feed,
                rewinds,
                "the cluster's version counter has stepped back, as after etcd was restored; all is compared anew"
            );
        }
        let known = self.sender.borrow().audit.clone();
        if let Some(audit) = status.audit.as_ref().filter(|audit| Some(*audit) != known.as_ref()) {
            let (objects, drift) = (audit.objects, audit.drift);
            if drift > 0 {
                tracing::warn!(feed, objects, drift, "an audit found what no watch had told of; it is told now");
            } else {
                tracing::debug!(feed, objects, "an audit found no difference");
            }
        }
        if status.feed != self.sender.borrow().feed {
            match &status.feed {
                FeedState::Probing => tracing::debug!(feed, "asks for the newest version"),
                FeedState::Listing => tracing::info!(feed, "reads the whole collection"),
                FeedState::Watching => {
                    let position = status.position.map(|position| position.to_string()).unwrap_or_default();
                    tracing::info!(feed, position, "follows the changes");
                }
                FeedState::Waiting { reason } => tracing::warn!(feed, reason, "waits to ask the API server again"),
                FeedState::Parked(cause) => {
                    let reason = describe_cause(cause);
                    tracing::warn!(feed, reason, "cannot go on until this changes; looks again by itself");
                }
            }
        }
        for (route, status) in &status.routes {
            match &status.last_error {
                Some(reason) => {
                    if self.failing.get(route).is_none_or(|at| now - *at >= QUIET) {
                        tracing::warn!(
                            route,
                            reason,
                            owed = status.owed,
                            "the sink does not take events; nothing is lost"
                        );
                        self.failing.insert(route.clone(), now);
                    }
                }
                None => {
                    if self.failing.remove(route).is_some() {
                        tracing::info!(route, owed = status.owed, "the sink takes events again");
                    }
                }
            }
        }
    }
}

/// Why a feed is parked, in words.
pub fn describe_cause(cause: &ParkCause) -> String {
    match cause {
        ParkCause::NotServed(reason) => reason.clone(),
        ParkCause::Forbidden(reason) => format!("a permission is missing: {reason}"),
    }
}

/// Silence is an error too: a sink that neither takes nor refuses what it was sent is named.
fn note_late(status: &mut Status, now: Duration) {
    for route in status.routes.values_mut() {
        let waits = route.in_flight_since.map(|since| now.saturating_sub(since)).filter(|waits| *waits >= LATE);
        if let Some(waits) = waits
            && route.last_error.is_none()
        {
            // By tens, so that the text does not change with every look.
            let seconds = waits.as_secs() / 10 * 10;
            let counted = route.in_flight;
            route.last_error = Some(format!("no answer to {counted} deliveries, the oldest for more than {seconds} s"));
        }
    }
}

fn describe(engine: &Engine, names: &Arc<[String]>, caught_up: bool) -> Status {
    let routes = names.iter().enumerate().map(|(number, name)| (name.clone(), engine.route_status(number)));
    let feed = engine.feed_state();
    let caught_up = caught_up || feed == FeedState::Watching;
    Status {
        feed,
        position: engine.position(),
        bytes_held: engine.bytes_held(),
        rewinds: engine.rewinds(),
        unreadable: engine.unreadable(),
        audit: engine.last_audit().cloned(),
        caught_up,
        state_error: None,
        names: Arc::clone(names),
        routes: routes.collect(),
    }
}
