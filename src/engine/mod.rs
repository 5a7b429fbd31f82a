//! The decisions, without IO: what a feed asks next, what each route owes, and when it is told.
//!
//! One [`Engine`] stands for one feed and its routes. Inputs go in by `handle_*`, what to do comes out of
//! [`Engine::poll_action`] until there is nothing, and [`Engine::poll_deadline`] says when to come back. There is no
//! clock, no randomness of its own (a seed is handed in) and no dependence on hash order here: the same inputs give
//! the same actions to the byte. It is not the place for requests, encodings or files; those are the edges' rooms.
//!
//! The one rule behind the rest: **nothing is attempted before the store knows that it is owed**, and position, told
//! and owed are saved in one transaction.

mod action;
mod audit;
mod budget;
mod compare;
mod epoch;
mod failure;
mod feed;
mod fetch;
mod intake;
mod keys;
mod lanes;
mod lives;
mod mutant;
mod retry;
mod save;
mod settings;
mod view;

#[cfg(test)]
mod answer_promises;
#[cfg(test)]
mod budget_promises;
#[cfg(test)]
mod compare_promises;
#[cfg(test)]
mod epoch_promises;
#[cfg(test)]
mod feed_promises;
#[cfg(test)]
mod fetch_promises;
#[cfg(test)]
mod intake_promises;
#[cfg(test)]
mod promises;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod script;
#[cfg(test)]
mod selection_promises;
#[cfg(test)]
mod verdict_promises;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

pub use crate::model::RouteState;
use crate::model::{FeedRecord, Key, ResourceVersion, RouteRecord, Sequence};

pub use crate::model::{Initial, RouteCounters};
pub use action::{Action, DeliveryId, Fetched, Looked, Publication};
pub use audit::{AuditReport, Difference};
pub use failure::{FeedFailure, FeedState, ParkCause};
pub use lives::Lives;
pub use mutant::{Mutant, plant};
pub use settings::{EngineSettings, RouteSettings, RouteStatus};

use keys::{KeyNumber, Keys};
use retry::{Backoff, Jitter};
use view::Entry;

/// Time since the engine began, by a clock that never steps back.
pub type Now = Duration;

struct Route {
    settings: RouteSettings,
    record: RouteRecord,
    // Whether the position speaks for this route.
    followed: bool,
    // A resync is under way: the next complete list tells everything again.
    resyncing: bool,
    // By the keys' numbers.
    entries: Vec<Entry>,
    // Keys that owe something and are not in flight, by when they may go; the number keeps arrival order.
    queue: BTreeSet<(Now, u64, KeyNumber)>,
    in_flight: usize,
    // Keys that wait for an answer about themselves: each has a place among the deliveries, so that no more is asked for
    // than sent.
    fetched_ahead: BTreeSet<KeyNumber>,
    breaker: Backoff,
    blocked_until: Now,
    gone: Option<String>,
    last_error: Option<String>,
    counters: RouteCounters,
}

/// The decisions of one feed and its routes.
pub struct Engine {
    settings: EngineSettings,
    keys: Keys,
    routes: Vec<Route>,
    feed: feed::Feed,
    save: save::SaveState,
    bytes: budget::Account,
    // When to count again what lacks its bytes.
    next_count: Now,
    fetches: fetch::Fetches,
    // Keys that are due and wait for a save or a fetch; looked at again when that answers.
    waiting: BTreeSet<(usize, KeyNumber)>,
    deliveries: BTreeMap<DeliveryId, (usize, KeyNumber)>,
    audit: audit::Audit,
    next_number: u64,
    jitter: Jitter,
    actions: VecDeque<Action>,
    draining: bool,
}

impl Engine {
    /// An engine that goes on where the records end. Debts at the head of a key may have been attempted before the
    /// crash, so they begin in doubt.
    pub fn new(settings: EngineSettings, feed: FeedRecord, routes: Vec<(RouteSettings, RouteState)>, now: Now) -> Self {
        let jitter = Jitter::new(settings.seed);
        let mut engine = Self {
            keys: Keys::new(settings.seed),
            routes: Vec::with_capacity(routes.len()),
            feed: feed::Feed::new(feed, settings.epoch, settings.rewinds),
            save: save::SaveState::default(),
            next_count: Duration::ZERO,
            bytes: budget::Account::new(settings.bytes_at_most),
            fetches: fetch::Fetches::default(),
            waiting: BTreeSet::new(),
            deliveries: BTreeMap::new(),
            audit: audit::Audit::default(),
            next_number: 0,
            jitter,
            actions: VecDeque::new(),
            draining: false,
            settings,
        };
        for (settings, state) in routes {
            engine.restore_route(settings, state, now);
        }
        engine.start_feed(now);
        engine
    }

    fn restore_route(&mut self, settings: RouteSettings, state: RouteState, now: Now) {
        let route = self.routes.len();
        let mut entries = Vec::new();
        entries.resize_with(self.keys.len(), Entry::default);
        let (record, followed) = settings::begin_route(&state, &settings);
        if state.record.as_ref() != Some(&record) {
            self.save.touch_feed();
        }
        self.routes.push(Route {
            settings,
            record,
            followed,
            resyncing: false,
            entries,
            queue: BTreeSet::new(),
            in_flight: 0,
            fetched_ahead: BTreeSet::new(),
            breaker: Backoff::default(),
            blocked_until: Duration::ZERO,
            gone: None,
            last_error: None,
            counters: RouteCounters::default(),
        });
        // What it learned in another feed of the cluster's counter holds here, too.
        let newest = state.newest_elsewhere.filter(|newest| newest.epoch() == self.feed.epoch());
        newest.into_iter().for_each(|newest| self.feed.note_given(newest.resource_version()));
        for (key, record) in state.records {
            let number = self.number(&key);
            let entry = Entry::restore(record, now);
            // The route may have learned of it in another feed.
            if let Some(newest) = entry.newest().filter(|newest| newest.epoch() == self.feed.epoch()) {
                self.feed.note_given(newest.resource_version());
            }
            self.routes[route].entries[number.index()] = entry;
            self.enqueue(route, number);
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

    /// How often the cluster's version counter was found to have stepped back.
    pub fn rewinds(&self) -> u32 {
        self.feed.rewinds()
    }

    /// Answers of the API server that could not be read, since the engine began: each holds the whole feed up.
    pub fn unreadable(&self) -> u64 {
        self.feed.unreadable()
    }

    /// What the last complete audit found.
    pub fn last_audit(&self) -> Option<&Arc<AuditReport>> {
        self.audit.last()
    }

    /// How the route with this number stands. It takes time in proportion to the view.
    ///
    /// # Panics
    /// When there is no such route.
    pub fn route_status(&self, number: usize) -> RouteStatus {
        let route = &self.routes[number];
        RouteStatus {
            told: route.entries.iter().filter(|entry| entry.told.is_some()).count(),
            owed: route.entries.iter().filter(|entry| entry.owes()).count(),
            in_flight: route.in_flight,
            in_flight_since: self.oldest_delivery(number),
            synced: route.record.synced,
            last_error: route.last_error.clone(),
            gone: route.gone.is_some(),
            counters: route.counters,
        }
    }

    fn oldest_delivery(&self, number: usize) -> Option<Now> {
        let of_route = self.deliveries.values().filter(|(route, _)| *route == number);
        let lanes = of_route.filter_map(|(route, key)| self.routes[*route].entries[key.index()].lane());
        lanes.filter_map(|lane| lane.in_flight.as_ref()).map(|flight| flight.since).min()
    }

    fn next_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }

    /// The number of this key; a new one gets its place in each route.
    fn number(&mut self, key: &Key) -> KeyNumber {
        let number = self.keys.number(key);
        for route in &mut self.routes {
            if route.entries.len() <= number.index() {
                keys::reserve(&mut route.entries);
                route.entries.resize_with(number.index() + 1, Entry::default);
            }
        }
        number
    }

    fn entry(&self, route: usize, number: KeyNumber) -> &Entry {
        &self.routes[route].entries[number.index()]
    }

    fn entry_mut(&mut self, route: usize, number: KeyNumber) -> &mut Entry {
        &mut self.routes[route].entries[number.index()]
    }

    /// Gives the key's number back when nobody knows anything of it, and no save still speaks of it.
    fn forget_if_empty(&mut self, number: KeyNumber) {
        let empty = self.routes.iter().all(|route| route.entries[number.index()].is_empty());
        if empty && !self.save.speaks_of(self.routes.len(), number) {
            self.keys.forget(number);
        }
    }

    /// The place of a version in the order, now.
    fn sequence(&self, at: ResourceVersion) -> Sequence {
        Sequence::new(self.feed.epoch(), at)
    }
}
