//! The decisions, without IO: what a feed asks next, what each route owes, and when it is told.
//!
//! One [`Engine`] stands for one feed and its routes. Inputs go in by `handle_*`, what to do comes out of
//! [`Engine::poll_action`] until there is nothing, and [`Engine::poll_deadline`] says when to come back. There is no
//! clock, no randomness of its own (a seed is handed in) and no dependence on hash order here: the same inputs give
//! the same actions to the byte. It is not the place for requests, encodings or files; those are the edges' rooms.
//!
//! The one rule behind the rest: **nothing is attempted before the store knows that it is owed**, and position, told
//! and owed are saved in one transaction.

mod budget;
mod feed;
mod intake;
mod lanes;
mod retry;
mod save;
mod view;

#[cfg(test)]
mod budget_promises;
#[cfg(test)]
mod promises;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod verdict_promises;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::model::{FeedRecord, Key, KeyRecord, Object, Origin, ResourceVersion, Save, Uid, What};

pub use crate::model::{Initial, RouteCounters};
pub use feed::{FeedFailure, FeedState, ParkCause};
use retry::{Backoff, Jitter};
use view::Entry;

/// Time since the engine began, by a clock that never steps back.
pub type Now = Duration;

/// Names one delivery from its publication to its verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeliveryId(pub u64);

/// How one route debounces and retries.
#[derive(Clone, Debug)]
pub struct RouteSettings {
    /// A key is released when nothing has changed for this long; zero switches debouncing off.
    pub quiet: Duration,
    /// A key is released at the latest this long after its first owed change.
    pub max_wait: Duration,
    /// What to do with objects that exist at the first start.
    pub initial: Initial,
    /// Deliveries in flight at most, over all keys.
    pub max_in_flight: usize,
}

/// What a route was like when the process ended, as the store gives it back.
#[derive(Clone, Debug, Default)]
pub struct RouteState {
    /// Whether the route has completed a first comparison; a route that has not lists first.
    pub synced: bool,
    /// Whether the route has followed the feed up to the saved position; one that has not lists first.
    pub followed: bool,
    /// What was told and owed, key by key.
    pub records: Vec<(Key, KeyRecord)>,
}

/// What is common to a feed's decisions.
#[derive(Clone, Debug)]
pub struct EngineSettings {
    /// Seed of the jitter in backoffs.
    pub seed: u64,
    /// With more debts than this to fetch at a start, one list replaces the fetches.
    pub fetch_at_most: usize,
    /// Bytes of objects that wait to be told, at most; what is above is let go and fetched when it is its turn. What is
    /// in flight comes on top.
    pub bytes_at_most: usize,
}

impl Default for EngineSettings {
    fn default() -> Self {
        Self { seed: 0, fetch_at_most: 500, bytes_at_most: 32 << 20 }
    }
}

/// What the driver is to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Ask for the collection's newest resourceVersion by a consistent list of one; answer [`Engine::handle_probed`].
    Probe,
    /// Read the whole collection; answer with items, then finished or failed.
    List {
        /// By a streaming list, or else in pages.
        streaming: bool,
    },
    /// Watch from here on; answer with changes and bookmarks, then [`Engine::handle_stream_ended`].
    Watch {
        /// The version after which the changes are wanted.
        from: ResourceVersion,
    },
    /// Read one object; answer [`Engine::handle_fetched`].
    Fetch {
        /// Which.
        key: Key,
    },
    /// Send one event; answer [`Engine::handle_delivered`].
    Publish(Publication),
    /// Commit one transaction; answer [`Engine::handle_saved`].
    Save(Save),
}

/// One event that is to be sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Publication {
    /// Names the delivery in its verdict.
    pub delivery: DeliveryId,
    /// The route, by its number in the engine.
    pub route: usize,
    /// What the event says happened.
    pub what: What,
    /// The object's key.
    pub key: Key,
    /// The incarnation.
    pub uid: Uid,
    /// The state's version; of an inferred deletion the newest that was told or attempted.
    pub resource_version: ResourceVersion,
    /// The object as it is told; absent on an inferred deletion.
    pub object: Option<Object>,
    /// Whether this is a deletion that no watch showed.
    pub inferred: bool,
    /// How the change came to be known.
    pub origin: Origin,
    /// How many earlier changes this event covers.
    pub coalesced: u32,
}

/// What a fetch found.
#[derive(Clone, Debug)]
pub enum Fetched {
    /// The object, with its fingerprint for each route, in the order of the routes.
    Found(Object, Vec<u64>),
    /// No such object: its deletion is on its way.
    NotFound,
    /// No answer, and why; ask again.
    Failed(String),
    /// The permission to read single objects is missing; the text names verb and resource. A list brings the same.
    Forbidden(String),
}

struct Route {
    settings: RouteSettings,
    synced: bool,
    followed: bool,
    entries: BTreeMap<Key, Entry>,
    // Keys that owe something and are not in flight, by when they may go; the number keeps arrival order.
    queue: BTreeSet<(Now, u64, Key)>,
    in_flight: usize,
    // Keys whose bytes are being fetched: each has a place among the deliveries, so that no more is fetched than sent.
    fetched_ahead: BTreeSet<Key>,
    breaker: Backoff,
    blocked_until: Now,
    gone: Option<String>,
    last_error: Option<String>,
    counters: RouteCounters,
}

/// The decisions of one feed and its routes.
pub struct Engine {
    settings: EngineSettings,
    routes: Vec<Route>,
    feed: feed::Feed,
    save: save::SaveState,
    bytes: budget::Account,
    // When to count again what lacks its bytes.
    next_count: Now,
    fetching: BTreeSet<Key>,
    // What is to be fetched when others have come: the API server is not asked for everything at once.
    to_fetch: BTreeSet<Key>,
    // Keys that are due and wait for a save or a fetch; looked at again when that answers.
    waiting: BTreeSet<(usize, Key)>,
    deliveries: BTreeMap<DeliveryId, (usize, Key)>,
    next_number: u64,
    jitter: Jitter,
    actions: VecDeque<Action>,
    draining: bool,
}

/// A route as `status` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteStatus {
    /// Keys whose state the sink has acknowledged.
    pub told: usize,
    /// Keys that owe something.
    pub owed: usize,
    /// Deliveries without a verdict yet.
    pub in_flight: usize,
    /// When the oldest of them began.
    pub in_flight_since: Option<Now>,
    /// Whether the route has completed its first comparison.
    pub synced: bool,
    /// The last error that the sink gave, until a delivery succeeds.
    pub last_error: Option<String>,
    /// Whether the endpoint has asked not to be called again.
    pub gone: bool,
    /// What has happened so far.
    pub counters: RouteCounters,
}

impl Engine {
    /// An engine that goes on where the records end. Debts at the head of a key may have been attempted before the
    /// crash, so they begin in doubt.
    pub fn new(settings: EngineSettings, feed: FeedRecord, routes: Vec<(RouteSettings, RouteState)>, now: Now) -> Self {
        let jitter = Jitter::new(settings.seed);
        let bytes_at_most = settings.bytes_at_most;
        let mut engine = Self {
            settings,
            routes: Vec::with_capacity(routes.len()),
            feed: feed::Feed::new(feed),
            save: save::SaveState::default(),
            next_count: Duration::ZERO,
            bytes: budget::Account::new(bytes_at_most),
            fetching: BTreeSet::new(),
            to_fetch: BTreeSet::new(),
            waiting: BTreeSet::new(),
            deliveries: BTreeMap::new(),
            next_number: 0,
            jitter,
            actions: VecDeque::new(),
            draining: false,
        };
        for (settings, state) in routes {
            engine.restore_route(settings, state, now);
        }
        engine.start_feed();
        engine
    }

    fn restore_route(&mut self, settings: RouteSettings, state: RouteState, now: Now) {
        let number = self.routes.len();
        self.routes.push(Route {
            settings,
            synced: state.synced,
            followed: state.followed,
            entries: BTreeMap::new(),
            queue: BTreeSet::new(),
            in_flight: 0,
            fetched_ahead: BTreeSet::new(),
            breaker: Backoff::default(),
            blocked_until: Duration::ZERO,
            gone: None,
            last_error: None,
            counters: RouteCounters::default(),
        });
        for (key, record) in state.records {
            self.routes[number].entries.insert(key.clone(), Entry::restore(record, now));
            self.enqueue(number, &key);
        }
    }

    /// The next thing to do at `now`; call until `None`.
    pub fn poll_action(&mut self, now: Now) -> Option<Action> {
        if self.actions.is_empty() {
            self.poll_feed(now);
            self.poll_lanes(now);
            self.poll_save(now);
        }
        self.actions.pop_front()
    }

    /// When to call [`Engine::poll_action`] again if no input comes first.
    pub fn poll_deadline(&self) -> Option<Now> {
        if self.draining {
            return self.save.deadline();
        }
        let lanes = self.routes.iter().filter_map(|route| route.next_release());
        lanes.chain(self.feed.deadline()).chain(self.save.deadline()).min()
    }

    /// Stop reading and sending: what is in flight may still finish, and is saved.
    pub fn handle_drain(&mut self) {
        self.draining = true;
        self.save.want();
    }

    /// Whether a drain has nothing left to wait for.
    pub fn is_drained(&self) -> bool {
        self.draining && self.deliveries.is_empty() && self.save.is_clean()
    }

    /// Bytes of objects that are held for debts.
    pub fn bytes_held(&self) -> usize {
        self.bytes.bytes()
    }

    /// Whether everything that is known is saved.
    pub fn is_saved(&self) -> bool {
        self.save.is_clean()
    }

    /// Where the feed stands.
    pub fn feed_state(&self) -> FeedState {
        self.feed.describe()
    }

    /// The newest version that was read.
    pub fn position(&self) -> Option<ResourceVersion> {
        self.feed.position()
    }

    /// How the route with this number stands. It takes time in proportion to the view.
    ///
    /// # Panics
    /// When there is no such route.
    pub fn route_status(&self, number: usize) -> RouteStatus {
        let route = &self.routes[number];
        RouteStatus {
            told: route.entries.values().filter(|entry| entry.told.is_some()).count(),
            owed: route.entries.values().filter(|entry| entry.owes()).count(),
            in_flight: route.in_flight,
            in_flight_since: self.oldest_delivery(number),
            synced: route.synced,
            last_error: route.last_error.clone(),
            gone: route.gone.is_some(),
            counters: route.counters,
        }
    }

    fn oldest_delivery(&self, number: usize) -> Option<Now> {
        let of_route = self.deliveries.values().filter(|(route, _)| *route == number);
        let flights = of_route.filter_map(|(route, key)| self.routes[*route].entries.get(key)?.in_flight.as_ref());
        flights.map(|flight| flight.since).min()
    }

    fn next_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }
}
