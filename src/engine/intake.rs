//! What a change, a list or a fetch means to a route: a debt, a repeat, or nothing. Not when the debt is told.

use std::sync::Arc;

use super::budget::Held;
use super::view::{Debt, Entry};
use super::{Engine, Fetched, Initial, Now};
use crate::model::{Change, Key, Object, Origin, Owed, OwedState, ResourceVersion, Told, Uid};

impl Engine {
    /// A change that the watch has shown, with the fingerprint of its chosen part for each route.
    pub fn handle_change(&mut self, now: Now, change: Change, fingerprints: &[u64]) {
        debug_assert_eq!(fingerprints.len(), self.routes.len(), "one fingerprint a route");
        let at = change.object.metadata.resource_version;
        self.feed.note_heard();
        let held = self.bytes.hold(&change.object);
        for (route, fingerprint) in fingerprints.iter().enumerate() {
            if change.present {
                self.observe(route, now, &change.object, held.as_ref(), Origin::Watch, *fingerprint);
            } else {
                self.observe_gone(route, now, &change.object, held.as_ref());
            }
        }
        self.feed.advance(at);
        self.save.touch_feed();
    }

    /// An item of the list that is under way.
    pub fn handle_list_item(&mut self, now: Now, object: &Object, fingerprints: &[u64]) {
        let metadata = &object.metadata;
        if !self.feed.note_listed(&metadata.key, &metadata.uid) {
            return;
        }
        let held = self.bytes.hold(object);
        for (route, fingerprint) in fingerprints.iter().enumerate() {
            let state = &self.routes[route];
            let held = held.as_ref();
            match (state.synced, state.settings.initial) {
                (true, _) => self.observe(route, now, object, held, Origin::Relist, *fingerprint),
                (false, Initial::Observed) => self.observe(route, now, object, held, Origin::Snapshot, *fingerprint),
                (false, Initial::None) => self.take_silently(route, object, *fingerprint),
            }
        }
    }

    /// A streaming list saw this object deleted before its end mark.
    pub fn handle_list_removed(&mut self, key: &Key) {
        self.feed.forget_listed(key);
    }

    /// The list was read to its end; `at` is the list's own version. Only now can absence mean a deletion.
    pub fn handle_list_finished(&mut self, now: Now, at: ResourceVersion) {
        let Some(seen) = self.feed.finish_list(at) else { return };
        for route in 0..self.routes.len() {
            self.routes[route].counters.comparisons += 1;
            let silent = !self.routes[route].synced && self.routes[route].settings.initial == Initial::None;
            let keys: Vec<Key> = self.routes[route].entries.keys().cloned().collect();
            for key in keys.iter().filter(|key| !seen.contains_key(*key)) {
                if silent {
                    self.routes[route].entries.insert(key.clone(), Entry::default());
                    self.save.touch(route, key);
                } else {
                    self.observe_absent(route, now, key, at);
                }
            }
            self.routes[route].followed = true;
            if !self.routes[route].synced {
                self.routes[route].synced = true;
                self.save.touch_synced(route);
            }
        }
        self.save.touch_feed();
    }

    /// The answer to a fetch. What is found enters as a change, by the same rules; since it may be ahead of the
    /// position, its version stays on the key until the position has passed it.
    pub fn handle_fetched(&mut self, now: Now, key: &Key, fetched: Fetched) {
        self.fetching.remove(key);
        self.give_places_back(key);
        match fetched {
            Fetched::Found(object, fingerprints) => {
                // It was asked for because it is its turn: the budget has no say.
                let held = self.bytes.hold_anyway(&object);
                let ahead = self.feed.position() < Some(object.metadata.resource_version);
                for (route, fingerprint) in fingerprints.iter().enumerate() {
                    if !self.routes[route].entries.get(key).is_some_and(|entry| entry.owes()) {
                        continue;
                    }
                    self.observe(route, now, &object, Some(&held), Origin::Watch, *fingerprint);
                    self.hold_back(route, key, now);
                    if ahead && let Some(entry) = self.routes[route].entries.get_mut(key) {
                        entry.fetched = entry.fetched.max(Some(object.metadata.resource_version));
                    }
                }
            }
            Fetched::NotFound => self.hold_back_everywhere(key, now, None),
            Fetched::Failed(reason) => self.hold_back_everywhere(key, now, Some(&reason)),
            Fetched::Forbidden(reason) => {
                self.hold_back_everywhere(key, now, Some(&reason));
                self.list_instead();
            }
        }
        self.fetch_next();
    }

    /// The bytes did not come: whoever owes them waits, and says why if there is something to say.
    fn hold_back_everywhere(&mut self, key: &Key, now: Now, reason: Option<&str>) {
        for route in 0..self.routes.len() {
            let state = &mut self.routes[route];
            if let Some(reason) = reason
                && state.entries.get(key).is_some_and(Entry::lacks_bytes)
            {
                state.last_error = Some(format!("{} cannot be read: {reason}", key.as_str()));
            }
            self.hold_back(route, key, now);
        }
    }

    /// A present state of an object, from wherever it came.
    fn observe(
        &mut self,
        route: usize,
        now: Now,
        object: &Object,
        held: Option<&Arc<Held>>,
        origin: Origin,
        fingerprint: u64,
    ) {
        let metadata = &object.metadata;
        let (key, uid, at) = (&metadata.key, &metadata.uid, metadata.resource_version);
        let state = &mut self.routes[route];
        let entry = state.entries.entry(key.clone()).or_default();
        if entry.newest().is_some_and(|newest| at <= newest) {
            state.counters.repeats += 1;
            Self::lend_bytes(entry, object, held, fingerprint);
            self.forget_if_empty(route, key);
            self.enqueue(route, key);
            return;
        }
        let number = self.save.touch(route, key);
        let other = entry.known_uids().into_iter().find(|known| known != uid);
        let known = other.as_ref().and_then(|other| entry.known(other));
        if let (Some(other), Some(known)) = (other, known)
            && entry.predecessor.as_ref().is_none_or(|predecessor| predecessor.owed.uid != other)
        {
            // The sink knows an earlier incarnation: its deletion goes first.
            let seen = entry.owed.take_if(|debt| debt.owed.uid == other && debt.owed.state != OwedState::Present);
            let deletion = seen.unwrap_or_else(|| Box::new(inferred_deletion(&other, known, origin, now, number)));
            entry.predecessor = Some(Box::new(Debt { number, ..*deletion }));
        }
        // What is in flight is told by itself; only what was never sent is merged.
        let sent = entry.in_flight.clone();
        let merged = entry.owed.take().filter(|debt| sent.is_none_or(|sent| !debt.is(&sent)));
        let coalesced = merged.as_ref().map_or(0, |debt| debt.owed.coalesced + 1);
        state.counters.coalesced += u64::from(merged.is_some());
        let keeps_origin = merged.as_ref().is_some_and(|debt| debt.owed.origin == Origin::Snapshot);
        let origin = if keeps_origin && entry.told.is_none() { Origin::Snapshot } else { origin };
        entry.owed = Some(Box::new(Debt {
            owed: Owed { uid: uid.clone(), resource_version: at, state: OwedState::Present, origin, coalesced },
            first: merged.map_or(now, |debt| debt.first),
            last: now,
            object: held.cloned(),
            deleting: metadata.deletion_timestamp.is_some(),
            fingerprint: Some(fingerprint),
            number,
        }));
        // Even where the older one was refused.
        entry.allow_at(now);
        self.enqueue(route, key);
    }

    /// A deletion that the watch has shown. It never causes the deletion of another incarnation.
    fn observe_gone(&mut self, route: usize, now: Now, object: &Object, held: Option<&Arc<Held>>) {
        let metadata = &object.metadata;
        let (key, uid, at) = (&metadata.key, &metadata.uid, metadata.resource_version);
        let state = &mut self.routes[route];
        let Some(entry) = state.entries.get_mut(key) else { return };
        if entry.newest().is_some_and(|newest| at <= newest) {
            state.counters.repeats += 1;
            return;
        }
        let owed_here = entry.owed.as_ref().is_some_and(|debt| debt.owed.uid == *uid);
        let precedes = entry.predecessor.as_ref().is_some_and(|debt| debt.owed.uid == *uid);
        if entry.known(uid).is_none() && !owed_here && !precedes {
            return;
        }
        let number = self.save.touch(route, key);
        let replaced = if precedes { entry.predecessor.take() } else { entry.owed.take() };
        let coalesced = replaced.as_ref().map_or(0, |debt| debt.owed.coalesced + 1);
        state.counters.coalesced += u64::from(replaced.is_some());
        let deletion = Debt {
            owed: Owed {
                uid: uid.clone(),
                resource_version: at,
                state: OwedState::Gone { inferred: false },
                origin: Origin::Watch,
                coalesced,
            },
            first: replaced.map_or(now, |debt| debt.first),
            last: now,
            object: held.cloned(),
            deleting: false,
            fingerprint: None,
            number,
        };
        *(if precedes { &mut entry.predecessor } else { &mut entry.owed }) = Some(Box::new(deletion));
        entry.allow_at(now);
        self.enqueue(route, key);
    }

    /// A complete list of version `at` does not have this key: what the sink has or may have been told of owes its
    /// deletion, what was never attempted is dropped. The list is silent about states newer than itself (a fetch may
    /// have run ahead of it): the watch from `at` on will speak of them.
    fn observe_absent(&mut self, route: usize, now: Now, key: &Key, at: ResourceVersion) {
        let Some(entry) = self.routes[route].entries.get_mut(key) else { return };
        let covered = |debt: &Option<Box<Debt>>, uid: &Uid| {
            debt.as_ref().is_some_and(|debt| debt.owed.uid == *uid && debt.owed.state != OwedState::Present)
        };
        let missing: Vec<(Uid, ResourceVersion)> = entry
            .known_uids()
            .into_iter()
            .filter(|uid| !covered(&entry.predecessor, uid) && !covered(&entry.owed, uid))
            .filter_map(|uid| entry.known(&uid).map(|known| (uid, known)))
            .filter(|(_, known)| *known <= at)
            .collect();
        let dropped = entry
            .owed
            .as_ref()
            .is_some_and(|debt| debt.owed.state == OwedState::Present && debt.owed.resource_version <= at);
        if missing.is_empty() && !dropped {
            return;
        }
        let number = self.save.touch(route, key);
        if dropped {
            entry.owed = None;
        }
        for (uid, known) in missing {
            let deletion = inferred_deletion(&uid, known, Origin::Relist, now, number);
            if entry.owed.is_none() {
                entry.owed = Some(Box::new(deletion));
            } else if entry.predecessor.is_none() {
                entry.predecessor = Some(Box::new(deletion));
            }
        }
        entry.allow_at(now);
        self.enqueue(route, key);
    }

    /// `initial: none`: what exists at the first list is taken as told, without an event.
    fn take_silently(&mut self, route: usize, object: &Object, fingerprint: u64) {
        let metadata = &object.metadata;
        let told = Told {
            uid: metadata.uid.clone(),
            resource_version: metadata.resource_version,
            fingerprint,
            deleting: metadata.deletion_timestamp.is_some(),
        };
        let entry = Entry { told: Some(told), ..Entry::default() };
        self.routes[route].entries.insert(metadata.key.clone(), entry);
        self.save.touch(route, &metadata.key);
    }

    /// A repeat of just the state that is owed without bytes saves a fetch.
    fn lend_bytes(entry: &mut Entry, object: &Object, held: Option<&Arc<Held>>, fingerprint: u64) {
        let metadata = &object.metadata;
        if let Some(debt) = &mut entry.owed
            && debt.object.is_none()
            && debt.owed.state == OwedState::Present
            && debt.owed.uid == metadata.uid
            && debt.owed.resource_version == metadata.resource_version
        {
            debt.object = held.cloned();
            debt.deleting = metadata.deletion_timestamp.is_some();
            debt.fingerprint = Some(fingerprint);
            // It was held back only because there were no bytes.
            entry.not_before = entry.not_before.min(debt.last).max(entry.backed_off_until);
        }
    }

    fn forget_if_empty(&mut self, route: usize, key: &Key) {
        let entries = &mut self.routes[route].entries;
        if entries.get(key).is_some_and(|entry| entry.is_forgettable()) {
            entries.remove(key);
        }
    }
}

/// A deletion that no watch showed: it bears the newest version that the sink has or may have of that incarnation.
fn inferred_deletion(uid: &Uid, known: ResourceVersion, origin: Origin, now: Now, number: u64) -> Debt {
    Debt {
        owed: Owed {
            uid: uid.clone(),
            resource_version: known,
            state: OwedState::Gone { inferred: true },
            origin,
            coalesced: 0,
        },
        first: now,
        last: now,
        object: None,
        deleting: false,
        fingerprint: None,
        number,
    }
}
