//! When a debt is told: debounce, one delivery in flight per key, the sink's verdicts. Not how an event looks.

use std::time::Duration;

use super::view::{Debt, Entry, InFlight};
use super::{Action, DeliveryId, Engine, Now, Publication, Route};
use crate::model::{Key, Origin, OwedState, Told, Verdict, What};

const BASE: Duration = Duration::from_millis(500);
const CAP: Duration = Duration::from_secs(60);
/// A refused state is kept and tried again this seldom, until a newer one takes its place.
const REFUSED: Duration = Duration::from_secs(300);
/// Objects of one feed that are fetched at once.
const FETCHES: usize = 16;
/// What lacks its bytes is counted at most this often: it takes time in proportion to the view.
const COUNT: Duration = Duration::from_secs(5);
const ENDPOINT_BASE: Duration = Duration::from_secs(1);
const ENDPOINT_CAP: Duration = Duration::from_secs(30);

impl Route {
    /// When the next key may go; `None` while the lanes are full, or the endpoint asked not to be called again.
    pub(super) fn next_release(&self) -> Option<Now> {
        if self.gone.is_some() || self.in_flight + self.fetched_ahead.len() >= self.capacity() {
            return None;
        }
        self.queue.first().map(|(at, _, _)| (*at).max(self.blocked_until))
    }

    /// After the sink was unavailable one delivery at a time finds out whether it is back.
    fn capacity(&self) -> usize {
        if self.breaker.is_failing() { 1 } else { self.settings.max_in_flight.max(1) }
    }

    fn release_at(&self, entry: &Entry) -> Option<Now> {
        let debt = entry.head()?;
        let told_deleting = entry.told.as_ref().is_some_and(|told| told.uid == debt.owed.uid && told.deleting);
        let at_once = debt.owed.state != OwedState::Present || (debt.deleting && !told_deleting);
        let due = if at_once {
            debt.last
        } else {
            (debt.last + self.settings.quiet).min(debt.first + self.settings.max_wait)
        };
        Some(due.max(entry.not_before))
    }
}

impl Engine {
    /// Puts a key that owes something into its place in the queue; a key in flight waits for its verdict.
    pub(super) fn enqueue(&mut self, route: usize, key: &Key) {
        let number = self.next_number();
        let state = &mut self.routes[route];
        let Some(mut entry) = state.entries.remove(key) else { return };
        let previous = entry.place.take();
        if let Some((at, number)) = previous {
            state.queue.remove(&(at, number, key.clone()));
        }
        if entry.in_flight.is_none()
            && let Some(at) = state.release_at(&entry)
        {
            // A key keeps its turn among those that are due at the same time.
            let number = previous.map_or(number, |(_, earlier)| earlier);
            entry.place = Some((at, number));
            state.queue.insert((at, number, key.clone()));
        }
        state.entries.insert(key.clone(), entry);
    }

    pub(super) fn poll_lanes(&mut self, now: Now) {
        if self.draining {
            return;
        }
        for route in 0..self.routes.len() {
            let mut waiting = Vec::new();
            while self.routes[route].next_release().is_some_and(|at| at <= now) {
                let Some((_, _, key)) = self.routes[route].queue.pop_first() else { break };
                if let Some(entry) = self.routes[route].entries.get_mut(&key) {
                    entry.place = None;
                }
                if !self.release(route, &key, now) {
                    waiting.push(key);
                }
            }
            if !waiting.is_empty() {
                self.list_instead_of_fetching(route, now);
            }
            // What waits for the store or a fetch is looked at again when that answers, not in a loop.
            self.waiting.extend(waiting.into_iter().map(|key| (route, key)));
        }
    }

    /// Sends the head of a key; `false` when it has to wait for the store or for its bytes.
    fn release(&mut self, route: usize, key: &Key, now: Now) -> bool {
        let Some(entry) = self.routes[route].entries.get(key) else { return true };
        let Some(debt) = entry.head() else { return true };
        if debt.owed.state == OwedState::Present {
            // Of what was let go the fingerprint is known: that nothing has changed needs no bytes.
            let lacks_bytes = debt.object.is_none();
            if self.settle_without_event(route, key) {
                self.enqueue(route, key);
                return true;
            }
            if lacks_bytes {
                self.routes[route].fetched_ahead.insert(key.clone());
                self.fetch(key.clone());
                return false;
            }
        }
        let number = self.routes[route].entries[key].head().map_or(0, |debt| debt.number);
        if !self.save.is_stored(number) {
            self.save.want();
            return false;
        }
        self.publish(route, key, now);
        true
    }

    /// Much that was let go comes back by a list, as much of it as the budget takes, sooner than object by object.
    fn list_instead_of_fetching(&mut self, route: usize, now: Now) {
        let state = &self.routes[route];
        let room = self.bytes.bytes() <= self.settings.bytes_at_most / 2;
        if state.fetched_ahead.is_empty() || state.breaker.is_failing() || !room || now < self.next_count {
            return;
        }
        self.next_count = now + COUNT;
        if state.entries.values().filter(|entry| entry.lacks_bytes()).count() > self.settings.fetch_at_most {
            self.list_instead();
        }
    }

    fn fetch(&mut self, key: Key) {
        if self.fetching.contains(&key) {
            return;
        }
        if self.fetching.len() >= FETCHES {
            self.to_fetch.insert(key);
            return;
        }
        self.to_fetch.remove(&key);
        self.fetching.insert(key.clone());
        self.actions.push_back(Action::Fetch { key });
    }

    /// Nothing is fetched for this key any more: its places among the deliveries are free.
    pub(super) fn give_places_back(&mut self, key: &Key) {
        for route in &mut self.routes {
            route.fetched_ahead.remove(key);
        }
    }

    /// One fetch has been answered: the next one may be asked for.
    pub(super) fn fetch_next(&mut self) {
        while self.fetching.len() < FETCHES
            && let Some(key) = self.to_fetch.pop_first()
        {
            let lacks = |route: &Route| route.entries.get(&key).is_some_and(Entry::lacks_bytes);
            if self.routes.iter().any(lacks) {
                self.fetch(key);
            } else {
                // Its bytes have come by another way.
                self.give_places_back(&key);
            }
        }
    }

    /// No change, no event: the chosen part is as told, and the sink is known to have it.
    fn settle_without_event(&mut self, route: usize, key: &Key) -> bool {
        let state = &mut self.routes[route];
        let Some(entry) = state.entries.get_mut(key) else { return false };
        if entry.predecessor.is_some() {
            return false;
        }
        let (Some(debt), Some(told)) = (&entry.owed, &entry.told) else { return false };
        let unchanged = told.uid == debt.owed.uid && debt.fingerprint == Some(told.fingerprint);
        if !unchanged || entry.is_doubtful(&told.uid) {
            return false;
        }
        let resource_version = debt.owed.resource_version;
        if let Some(told) = &mut entry.told {
            told.resource_version = resource_version;
        }
        entry.owed = None;
        state.counters.suppressed += 1;
        self.save.touch(route, key);
        true
    }

    fn publish(&mut self, route: usize, key: &Key, now: Now) {
        let delivery = DeliveryId(self.next_number());
        let state = &mut self.routes[route];
        let Some(entry) = state.entries.get_mut(key) else { return };
        let Some(debt) = entry.head().cloned() else { return };
        let deleting = debt.deleting;
        let what = what_happened(entry, &debt, deleting);
        entry.in_flight = Some(Box::new(InFlight {
            delivery,
            since: now,
            uid: debt.owed.uid.clone(),
            resource_version: debt.owed.resource_version,
            state: debt.owed.state,
            fingerprint: debt.fingerprint.unwrap_or_default(),
            deleting,
        }));
        entry.add_doubt(debt.owed.uid.clone(), debt.owed.resource_version);
        state.in_flight += 1;
        self.deliveries.insert(delivery, (route, key.clone()));
        self.actions.push_back(Action::Publish(Publication {
            delivery,
            route,
            what,
            key: key.clone(),
            uid: debt.owed.uid,
            resource_version: debt.owed.resource_version,
            object: debt.object.as_ref().map(|held| held.object().clone()),
            inferred: debt.owed.state == OwedState::Gone { inferred: true },
            origin: debt.owed.origin,
            coalesced: debt.owed.coalesced,
        }));
    }

    /// The sink has answered. A verdict settles only the debt that was sent, not one that has merged behind it.
    pub fn handle_delivered(&mut self, now: Now, delivery: DeliveryId, verdict: Verdict) {
        let Some((route, key)) = self.deliveries.remove(&delivery) else { return };
        let state = &mut self.routes[route];
        state.in_flight -= 1;
        let Some(entry) = state.entries.get_mut(&key) else { return };
        let Some(sent) = entry.in_flight.take_if(|sent| sent.delivery == delivery) else { return };
        match verdict {
            Verdict::Delivered => {
                state.counters.delivered += 1;
                state.breaker.succeed();
                // What was under way when the endpoint asked not to be called again changes nothing of that.
                if state.gone.is_none() {
                    state.last_error = None;
                }
                entry.backoff.succeed();
                entry.back_off_until(now);
                let number = self.save.touch(route, &key);
                entry.settle(&sent, number);
            }
            Verdict::Retry { reason, after } => {
                state.counters.retried += 1;
                state.last_error = Some(reason);
                let wait = entry.backoff.fail(&mut self.jitter, BASE, CAP, after);
                entry.back_off_until(now + wait);
            }
            Verdict::Reject { reason } => {
                state.counters.rejected += 1;
                state.last_error = Some(reason);
                if entry.predecessor.as_ref().is_some_and(|debt| debt.is(&sent)) {
                    // The sink will never take this deletion: the key goes on with the incarnation that is there.
                    let number = self.save.touch(route, &key);
                    entry.settle(&sent, number);
                } else if entry.head().is_some_and(|debt| debt.is(&sent)) {
                    entry.not_before = now + REFUSED;
                }
            }
            Verdict::Unavailable { reason, after } => {
                state.counters.unavailable += 1;
                state.last_error = Some(reason);
                // What was in flight together tells of one failure, not of as many as there were deliveries.
                let wait = if now < state.blocked_until {
                    after.unwrap_or_default()
                } else {
                    state.breaker.fail(&mut self.jitter, ENDPOINT_BASE, ENDPOINT_CAP, after)
                };
                state.blocked_until = state.blocked_until.max(now + wait);
                // It may be this key's topic alone: the next one asks for the sink.
                let wait = entry.backoff.fail(&mut self.jitter, BASE, ENDPOINT_CAP, None);
                entry.back_off_until(now + wait);
            }
            Verdict::Gone { reason } => {
                state.last_error = Some(reason.clone());
                state.gone = Some(reason);
            }
        }
        self.enqueue(route, &key);
    }

    /// Nothing was found or heard: the key waits for the deletion that is on its way, and asks again later.
    pub(super) fn hold_back(&mut self, route: usize, key: &Key, now: Now) {
        let state = &mut self.routes[route];
        let Some(entry) = state.entries.get_mut(key) else { return };
        if entry.lacks_bytes() {
            entry.not_before = now + entry.backoff.fail(&mut self.jitter, BASE, CAP, None);
            self.enqueue(route, key);
        }
    }
}

impl Debt {
    pub(super) fn is(&self, sent: &InFlight) -> bool {
        self.owed.uid == sent.uid
            && self.owed.resource_version == sent.resource_version
            && std::mem::discriminant(&self.owed.state) == std::mem::discriminant(&sent.state)
    }
}

impl Entry {
    fn settle(&mut self, sent: &InFlight, number: u64) {
        self.clear_doubt(&sent.uid);
        if sent.state == OwedState::Present {
            self.told = Some(Told {
                uid: sent.uid.clone(),
                resource_version: sent.resource_version,
                fingerprint: sent.fingerprint,
                deleting: sent.deleting,
            });
        } else {
            self.told.take_if(|told| told.uid == sent.uid);
            self.predecessor.take_if(|debt| debt.owed.uid == sent.uid);
        }
        self.owed.take_if(|debt| debt.is(sent));
        // What stood behind a debt is attempted only when the store knows that the debt is settled: a restart takes the
        // head of a key alone for doubtful, and would tell what follows as if nothing had been told before.
        if let Some(next) = &mut self.owed {
            next.number = number;
        }
    }
}

/// Decided at publication, from what was told; a doubtful incarnation is told with the id that it had.
fn what_happened(entry: &Entry, debt: &Debt, deleting: bool) -> What {
    let told = entry.told.as_ref().filter(|told| told.uid == debt.owed.uid);
    match (debt.owed.state, told) {
        (OwedState::Gone { .. }, _) => What::Deleted,
        (OwedState::Present, Some(told)) if deleting && !told.deleting => What::Deleting,
        (OwedState::Present, Some(_)) => What::Updated,
        (OwedState::Present, None) if debt.owed.origin == Origin::Snapshot => What::Observed,
        (OwedState::Present, None) => What::Created,
    }
}
