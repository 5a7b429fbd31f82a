//! A complete list against what each route has told and owes: what is new, what has changed, what is gone. Deletions are
//! inferred only from a list that was read to its end.

use super::feed::{Purpose, State};
use super::intake::Sighting;
use super::keys::KeyNumber;
use super::mutant::{Mutant, planted};
use super::view::{Debt, Entry, Lane};
use super::{Engine, Initial, Now, Route};
use crate::model::{Cause, Object, Origin, Over, OwedState, ResourceVersion, Sequence, Told, Uid};

/// What it means that a list does not show a key.
#[derive(Clone, Copy)]
pub(super) struct Absence {
    /// The version up to which it is known.
    pub(super) at: Sequence,
    pub(super) state: OwedState,
    pub(super) origin: Origin,
    /// A deletion has one id, whyever it was found: this is for what has left.
    pub(super) cause: Cause,
}

impl Engine {
    /// An item of the list that is under way, with the fingerprint of its chosen part for each route that selects it.
    pub fn handle_list_item(&mut self, now: Now, object: &Object, selected: &[Option<u64>]) {
        debug_assert_eq!(selected.len(), self.routes.len(), "one answer a route");
        let State::Listing { purpose, metadata_only, before } = self.feed.state else { return };
        let metadata = &object.metadata;
        let number = self.number(&metadata.key);
        if self.tells_of_rewind(number, &metadata.uid, metadata.resource_version, before, selected) {
            // The list is read again in the new epoch.
            self.forget_if_empty(number);
            return self.begin_epoch(now);
        }
        self.feed.note_progress();
        // Even if the list fails later: the cluster has been there.
        self.feed.note_given(metadata.resource_version);
        self.keys.set_listed(number, true);
        self.audit.note_object();
        let held = if metadata_only { None } else { self.bytes.hold(object) };
        let sequence = self.sequence(metadata.resource_version);
        for (route, selected) in selected.iter().enumerate() {
            let state = &self.routes[route];
            let origin = match (state.record.synced, purpose) {
                _ if state.resyncing => Origin::Resync,
                (false, _) => Origin::Snapshot,
                (true, Purpose::Audit) => Origin::Audit,
                (true, Purpose::Compare) => Origin::Relist,
            };
            let cause = if state.resyncing { Cause::Resync(state.record.resyncs) } else { state.cause_of_comparison() };
            let fingerprint = selected.filter(|_| !metadata_only);
            if !state.record.synced && state.settings.initial == Initial::None {
                if let Some(fingerprint) = selected {
                    self.take_silently(route, number, object, *fingerprint);
                }
                continue;
            }
            let sighting = Sighting {
                uid: &metadata.uid,
                sequence,
                held: held.as_ref(),
                deleting: metadata.deletion_timestamp.is_some(),
                fingerprint,
                origin,
                existed: matches!(cause, Cause::Selection(_)),
                cause,
                listed: true,
            };
            let drifted = match selected {
                Some(_) => self.observe(route, now, number, &sighting),
                None => self.observe_unselected(route, now, number, &sighting),
            };
            // What is newer than the position is on its way by the watch, too.
            if drifted && before.position.is_some_and(|position| metadata.resource_version <= position) {
                self.note_difference(route, number);
            }
        }
        self.forget_if_empty(number);
    }

    /// A streaming list saw this object deleted before its end mark.
    pub fn handle_list_removed(&mut self, object: &Object) {
        if let Some(number) = self.keys.find(&object.metadata.key) {
            self.keys.set_listed(number, false);
        }
    }

    /// The list was read to its end; `at` is the list's own version. Only now can absence mean a deletion.
    pub fn handle_list_finished(&mut self, now: Now, at: ResourceVersion) {
        let State::Listing { before, purpose, .. } = self.feed.state else { return };
        if before.newest.is_some_and(|newest| at < newest) && !planted(Mutant::RewindByProbeAlone) {
            return self.begin_epoch(now);
        }
        self.feed.finish_list(at);
        let at = self.sequence(at);
        let state = if self.settings.selective { OwedState::Missing } else { OwedState::Gone };
        let origin = if purpose == Purpose::Audit { Origin::Audit } else { Origin::Relist };
        let numbers: Vec<KeyNumber> = self.keys.numbers().collect();
        for route in 0..self.routes.len() {
            self.routes[route].counters.comparisons += 1;
            let cause = self.routes[route].cause_of_comparison();
            let silent = !self.routes[route].record.synced && self.routes[route].settings.initial == Initial::None;
            for number in numbers.iter().copied() {
                if self.keys.is_listed(number) {
                    continue;
                }
                if silent {
                    self.drop_entry(route, number);
                    continue;
                }
                let mut absence = Absence { at, state, origin, cause };
                // A list of one namespace says nothing of objects in others, but that the route reads them no more,
                // whatever was heard of them.
                if self.is_outside(number) && !planted(Mutant::AbsenceOutsideScope) {
                    absence.state = OwedState::Left;
                    absence.at = self.entry(route, number).newest().map_or(at, |newest| newest.max(at));
                }
                if self.observe_absent(route, now, number, absence) {
                    self.note_difference(route, number);
                }
                if absence.state == OwedState::Left {
                    self.settle_missing(route, number);
                }
            }
            let state = &mut self.routes[route];
            state.followed = true;
            state.resyncing = false;
            state.record.synced = true;
        }
        for number in numbers {
            self.forget_if_empty(number);
        }
        self.audit.finish();
        self.audit_later(now);
        self.save.touch_feed();
    }

    /// The kind itself is gone, and all its objects with it, whatever the watch did not come to show.
    pub(super) fn infer_all_gone(&mut self, now: Now) {
        for number in self.keys.numbers().collect::<Vec<_>>() {
            for route in 0..self.routes.len() {
                if let Some(newest) = self.entry(route, number).newest() {
                    self.mark_all_over(route, number);
                    let (state, origin, cause) = (OwedState::Gone, Origin::Relist, Cause::Change);
                    let absence = Absence { at: newest, state, origin, cause };
                    self.observe_absent(route, now, number, absence);
                }
            }
            self.forget_if_empty(number);
        }
    }

    /// What is known of a kind that is gone does not come back: whatever does is of another life of the cluster. A state
    /// that was fetched ahead of the position would not be missed by it.
    fn mark_all_over(&mut self, route: usize, number: KeyNumber) {
        let place = self.feed.place();
        let entry = self.entry_mut(route, number);
        let uid = entry.known_uids().pop();
        let known = uid.and_then(|uid| entry.known(&uid).map(|until| Over { uid, until }));
        if let Some(over) = known.filter(|over| Some(over.until) > place) {
            entry.open_lane().over = Some(over);
        }
    }

    /// A complete list of version `at` does not have this key: what the sink has or may have been told of is owed as
    /// gone (or missing, where it may have left the selection for the server), what was never attempted is dropped. The
    /// list is silent about states newer than itself (a fetch may have run ahead of it): the watch from `at` on will
    /// speak of them. Whether something is owed now that was not.
    pub(super) fn observe_absent(&mut self, route: usize, now: Now, number: KeyNumber, absence: Absence) -> bool {
        let entry = self.entry(route, number);
        if entry.is_empty() {
            return false;
        }
        let at =
            if planted(Mutant::AbsenceBeyondList) { entry.newest().max(Some(absence.at)) } else { Some(absence.at) };
        let lane = entry.lane();
        let covered = |uid: &Uid| {
            let debts = lane.into_iter().flat_map(Lane::debts);
            debts.filter(|debt| debt.owed.uid == *uid).any(|debt| !debt.is_present())
        };
        let known = if planted(Mutant::AbsenceIgnoresDoubt) {
            entry.told.iter().map(|told| told.uid.clone()).collect()
        } else {
            entry.known_uids()
        };
        // A fetch may have shown that it is there later than the list.
        let there = |uid: &Uid| {
            let owed = lane.and_then(|lane| lane.owed.as_ref());
            owed.is_some_and(|debt| debt.is_present() && debt.owed.uid == *uid && Some(debt.owed.sequence) > at)
        };
        let known = known.into_iter().filter(|uid| !covered(uid) && !there(uid));
        let missing: Vec<(Uid, Sequence)> = known
            .filter_map(|uid| entry.known(&uid).map(|known| (uid, known)))
            .filter(|(_, known)| Some(*known) <= at)
            .collect();
        let owed = lane.and_then(|lane| lane.owed.as_ref());
        let dropped = owed.is_some_and(|debt| debt.is_present() && Some(debt.owed.sequence) <= at);
        if missing.is_empty() && !dropped {
            return false;
        }
        let stamp = self.save.touch(route, number);
        let lane = self.entry_mut(route, number).open_lane();
        lane.ready = None;
        if dropped {
            lane.owed = None;
        }
        for (uid, known) in &missing {
            let mut inferred = Debt::inferred(uid, *known, absence.state, absence.origin, now, stamp);
            if absence.state != OwedState::Gone {
                inferred.owed.cause = absence.cause;
            }
            if lane.owed.is_none() {
                lane.owed = Some(inferred);
            } else if lane.predecessor.is_none() {
                lane.predecessor = Some(inferred);
            }
        }
        lane.allow_at(now);
        self.enqueue(route, number);
        !missing.is_empty()
    }

    /// What is missing where the feed does not look any more has left, whatever became of it.
    fn settle_missing(&mut self, route: usize, number: KeyNumber) {
        let lane = self.routes[route].entries[number.index()].lane_mut();
        let debts = lane.into_iter().flat_map(|lane| lane.predecessor.iter_mut().chain(&mut lane.owed));
        for debt in debts.filter(|debt| debt.owed.state == OwedState::Missing) {
            debt.owed.state = OwedState::Left;
            debt.number = self.save.touch(route, number);
        }
        self.enqueue(route, number);
    }

    /// Whether the feed does not read this key's namespace.
    pub(super) fn is_outside(&self, number: KeyNumber) -> bool {
        let scope = self.settings.scope.as_deref();
        scope.is_some() && self.keys.key(number).namespace() != scope
    }

    fn note_difference(&mut self, route: usize, number: KeyNumber) {
        let owed = self.entry(route, number).lane().and_then(|lane| lane.head());
        let Some(state) = owed.map(|debt| debt.owed.state) else { return };
        if self.audit.note_difference(route, self.keys.key(number), state) {
            self.routes[route].counters.drift += 1;
        }
    }

    /// `initial: none`: what exists at the first list is taken as told, without an event.
    fn take_silently(&mut self, route: usize, number: KeyNumber, object: &Object, fingerprint: u64) {
        let metadata = &object.metadata;
        let told = Told {
            uid: metadata.uid.clone(),
            sequence: self.sequence(metadata.resource_version),
            fingerprint,
            recipe: self.routes[route].record.recipe_number,
            deleting: metadata.deletion_timestamp.is_some(),
        };
        self.drop_entry(route, number);
        self.entry_mut(route, number).told = Some(told);
    }

    /// Forgets what the route knows of the key.
    fn drop_entry(&mut self, route: usize, number: KeyNumber) {
        if let Some(place) = self.entry_mut(route, number).open_lane().place.take() {
            self.routes[route].queue.remove(&(place.0, place.1, number));
        }
        *self.entry_mut(route, number) = Entry::default();
        self.save.touch(route, number);
    }

    /// Tells every selected object of this route again, as `observed`.
    ///
    /// # Panics
    /// When there is no such route.
    pub fn handle_resync(&mut self, route: usize) {
        let state = &mut self.routes[route];
        state.record.resyncs += 1;
        state.resyncing = true;
        self.save.touch_feed();
        self.feed.list_for_all();
    }

    /// The route selects by another rule from now on: what is told is compared with it by a list.
    ///
    /// # Panics
    /// When there is no such route.
    pub fn handle_selection_edited(&mut self, route: usize, selection: String) {
        let state = &mut self.routes[route];
        if state.record.selection == selection {
            return;
        }
        state.settings.selection.clone_from(&selection);
        state.record.selection = selection;
        state.record.revision += 1;
        self.save.touch_feed();
        if planted(Mutant::SelectionEditResumes) {
            return;
        }
        state.followed = false;
        self.feed.list_for_all();
    }
}

impl Route {
    /// Why a comparison tells what it finds: after an edit of the selection what has not changed comes and goes, too.
    fn cause_of_comparison(&self) -> Cause {
        if !self.followed && self.record.revision > 0 { Cause::Selection(self.record.revision) } else { Cause::Change }
    }
}
