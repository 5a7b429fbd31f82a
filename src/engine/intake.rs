//! What one observed state means to a route: a debt, a repeat, or nothing. Not when the debt is told, and not what a whole
//! list means.

use std::sync::Arc;

use super::budget::Held;
use super::keys::KeyNumber;
use super::mutant::{Mutant, planted};
use super::view::{Debt, Entry, Lane};
use super::{Engine, Now};
use crate::model::{Cause, Change, ChangeKind, Metadata, Origin, Owed, OwedState, Sequence, Uid};

/// A state in which an object was seen to exist.
#[derive(Clone, Copy)]
pub(super) struct Sighting<'a> {
    pub(super) uid: &'a Uid,
    pub(super) sequence: Sequence,
    /// Its bytes, if the budget takes them.
    pub(super) held: Option<&'a Arc<Held>>,
    pub(super) deleting: bool,
    /// The fingerprint of the chosen part; `None` where only the metadata was read.
    pub(super) fingerprint: Option<u64>,
    pub(super) origin: Origin,
    /// It is known to have existed before.
    pub(super) existed: bool,
    pub(super) cause: Cause,
    /// By a list, which shows what is there whether it has changed or not.
    pub(super) listed: bool,
}

impl Engine {
    /// A change that the watch has shown, with the fingerprint of its chosen part for each route that selects it.
    pub fn handle_change(&mut self, now: Now, change: &Change, selected: &[Option<u64>]) {
        debug_assert_eq!(selected.len(), self.routes.len(), "one answer a route");
        let watching = matches!(self.feed.state, super::feed::State::Watching { .. });
        if !watching && !planted(Mutant::ListBesideWatch) {
            return;
        }
        let metadata = &change.object.metadata;
        let at = metadata.resource_version;
        if Some(at) <= self.feed.position() && watching && !planted(Mutant::RewindByProbeAlone) {
            // What a watch shows rises from where it began: this is another life of the cluster.
            return self.begin_epoch(now);
        }
        self.feed.note_heard();
        let number = self.number(&metadata.key);
        let held = self.bytes.hold(&change.object);
        let sighting = Sighting {
            uid: &metadata.uid,
            sequence: self.sequence(at),
            held: held.as_ref(),
            deleting: metadata.deletion_timestamp.is_some(),
            fingerprint: None,
            origin: Origin::Watch,
            existed: change.kind == ChangeKind::Modified || (self.settings.selective && was_written_later(metadata)),
            cause: Cause::Change,
            listed: false,
        };
        for (route, selected) in selected.iter().enumerate() {
            match selected {
                _ if change.kind == ChangeKind::Deleted => self.observe_gone(route, now, number, &sighting),
                Some(_) => {
                    self.observe(route, now, number, &Sighting { fingerprint: *selected, ..sighting });
                }
                None => {
                    self.observe_unselected(route, now, number, &sighting);
                }
            }
        }
        self.forget_if_empty(number);
        self.feed.advance(at);
        self.save.touch_feed();
    }

    /// A state that the route selects, from wherever it came. Whether something is owed now that was not.
    pub(super) fn observe(&mut self, route: usize, now: Now, number: KeyNumber, seen: &Sighting<'_>) -> bool {
        let recipe = self.routes[route].record.recipe_number;
        if !is_news(self.entry(route, number), seen, true, recipe) {
            self.note_repeat(route, now, number, seen);
            return false;
        }
        let stamp = self.save.touch(route, number);
        let state = &mut self.routes[route];
        let entry = &mut state.entries[number.index()];
        let other = entry.known_uids().into_iter().find(|known| known != seen.uid);
        let other = other.and_then(|other| entry.known(&other).map(|known| (other, known)));
        let told = entry.told.is_some();
        let lane = entry.open_lane();
        lane.keep_ready(seen.uid, true);
        if let Some((other, known)) = other
            && lane.predecessor.as_ref().is_none_or(|predecessor| predecessor.owed.uid != other)
            && !planted(Mutant::PredecessorForgotten)
        {
            // The sink knows an earlier incarnation: its deletion goes first.
            let seen_gone = lane.owed.take_if(|debt| debt.owed.uid == other && debt.owed.state == OwedState::Gone);
            let deletion =
                seen_gone.unwrap_or_else(|| Debt::inferred(&other, known, OwedState::Gone, seen.origin, now, stamp));
            lane.predecessor = Some(Debt { number: stamp, ..deletion });
        }
        // What is in flight is told by itself; only what was never sent is merged.
        let merged = lane.owed.take();
        let merged = merged.filter(|debt| lane.in_flight.as_ref().is_none_or(|sent| !debt.is(sent)));
        let coalesced = merged.as_ref().map_or(0, |debt| debt.owed.coalesced + 1);
        state.counters.coalesced += u64::from(merged.is_some());
        // What the first of the merged states was to the route, the event is.
        let in_flight = lane.in_flight.as_ref();
        let in_flight = in_flight.filter(|sent| sent.state == OwedState::Present && sent.uid == *seen.uid);
        let existed = in_flight.map_or(seen.existed, |sent| sent.existed);
        let same = merged.as_ref().filter(|debt| debt.is_present() && debt.owed.uid == *seen.uid);
        let keeps_origin = !told && same.is_some_and(|debt| debt.owed.origin == Origin::Snapshot);
        lane.owed = Some(Debt {
            owed: Owed {
                uid: seen.uid.clone(),
                sequence: seen.sequence,
                state: OwedState::Present,
                inferred: false,
                existed: same.map_or(existed, |debt| debt.owed.existed),
                origin: if keeps_origin { Origin::Snapshot } else { seen.origin },
                cause: seen.cause,
                coalesced,
            },
            first: merged.map_or(now, |debt| debt.first),
            last: now,
            object: seen.held.cloned(),
            deleting: seen.deleting,
            fingerprint: seen.fingerprint,
            number: stamp,
        });
        // Even where the older one was refused.
        lane.allow_at(now);
        self.enqueue(route, number);
        true
    }

    /// A state that the route does not select: what the sink knows of this incarnation has left, what it knows of an
    /// earlier one is gone, and what it was never told is not owed any more. Whether something is owed now that was not.
    pub(super) fn observe_unselected(
        &mut self,
        route: usize,
        now: Now,
        number: KeyNumber,
        seen: &Sighting<'_>,
    ) -> bool {
        let recipe = self.routes[route].record.recipe_number;
        let entry = self.entry(route, number);
        if entry.is_empty() {
            return false;
        }
        if !is_news(entry, seen, false, recipe) {
            self.routes[route].counters.repeats += 1;
            return false;
        }
        let stamp = self.save.touch(route, number);
        let state = &mut self.routes[route];
        let entry = &mut state.entries[number.index()];
        let known = entry.known(seen.uid).is_some();
        let other = entry.known_uids().into_iter().find(|known| known != seen.uid);
        let other = other.and_then(|other| entry.known(&other).map(|known| (other, known)));
        let lane = entry.open_lane();
        lane.keep_ready(seen.uid, false);
        let merged = lane.owed.take();
        let merged = merged.filter(|debt| lane.in_flight.as_ref().is_none_or(|sent| !debt.is(sent)));
        if known {
            let coalesced = merged.as_ref().map_or(0, |debt| debt.owed.coalesced + 1);
            state.counters.coalesced += u64::from(merged.is_some());
            let debt = Debt::inferred(seen.uid, seen.sequence, OwedState::Left, seen.origin, now, stamp);
            lane.owed = Some(Debt {
                owed: Owed { inferred: false, cause: seen.cause, coalesced, ..debt.owed },
                first: merged.map_or(now, |debt| debt.first),
                ..debt
            });
        } else if let Some((other, at)) = other
            && lane.predecessor.is_none()
        {
            let seen_gone = merged.filter(|debt| debt.owed.uid == other && debt.owed.state == OwedState::Gone);
            let deletion =
                seen_gone.unwrap_or_else(|| Debt::inferred(&other, at, OwedState::Gone, seen.origin, now, stamp));
            lane.owed = Some(Debt { number: stamp, ..deletion });
        }
        lane.allow_at(now);
        self.enqueue(route, number);
        self.entry(route, number).owes()
    }

    /// A deletion that the watch has shown. It never causes the deletion of another incarnation.
    fn observe_gone(&mut self, route: usize, now: Now, number: KeyNumber, seen: &Sighting<'_>) {
        let selective = self.settings.selective && !planted(Mutant::LeftIsDeleted);
        let state = &mut self.routes[route];
        let entry = &mut state.entries[number.index()];
        if entry.is_empty() {
            return;
        }
        if newest_for(entry, seen.uid).is_some_and(|newest| seen.sequence <= newest) {
            state.counters.repeats += 1;
            return;
        }
        let debts = |debt: Option<&Debt>| debt.is_some_and(|debt| debt.owed.uid == *seen.uid);
        let owed_here = debts(entry.lane().and_then(|lane| lane.owed.as_ref()));
        let precedes = debts(entry.lane().and_then(|lane| lane.predecessor.as_ref()));
        let known = entry.known(seen.uid).is_some();
        let uid = match entry.known_uids().pop() {
            Some(other) if planted(Mutant::DeletionOfAnotherUid) => other,
            _ if !known && !owed_here && !precedes => return,
            _ => seen.uid.clone(),
        };
        let stamp = self.save.touch(route, number);
        let lane = self.routes[route].entries[number.index()].open_lane();
        lane.keep_ready(seen.uid, false);
        let replaced = if precedes { lane.predecessor.take() } else { lane.owed.take() };
        let merged = replaced.filter(|debt| lane.in_flight.as_ref().is_none_or(|sent| !debt.is(sent)));
        let deletion = Debt {
            owed: Owed {
                uid,
                sequence: seen.sequence,
                // An earlier incarnation cannot have left: another one has its name.
                state: if selective && !precedes { OwedState::Missing } else { OwedState::Gone },
                inferred: false,
                existed: false,
                origin: Origin::Watch,
                cause: Cause::Change,
                coalesced: merged.as_ref().map_or(0, |debt| debt.owed.coalesced + 1),
            },
            first: merged.as_ref().map_or(now, |debt| debt.first),
            last: now,
            object: seen.held.cloned(),
            deleting: false,
            fingerprint: None,
            number: stamp,
        };
        *(if precedes { &mut lane.predecessor } else { &mut lane.owed }) = Some(deletion);
        lane.allow_at(now);
        self.routes[route].counters.coalesced += u64::from(merged.is_some());
        self.enqueue(route, number);
    }

    /// Nothing new; what can be learned of it all the same is: the bytes of just the state that is owed without them, and
    /// the fingerprint by the present recipe of just the state that was told.
    pub(super) fn note_repeat(&mut self, route: usize, now: Now, number: KeyNumber, seen: &Sighting<'_>) {
        let state = &mut self.routes[route];
        let recipe = state.record.recipe_number;
        state.counters.repeats += 1;
        let entry = &mut state.entries[number.index()];
        if let Some(told) = &mut entry.told
            && told.uid == *seen.uid
            && told.sequence == seen.sequence
            && told.recipe != recipe
            && let Some(fingerprint) = seen.fingerprint
        {
            (told.fingerprint, told.recipe) = (fingerprint, recipe);
            self.save.touch(route, number);
        }
        let told = entry.told.as_ref().map(|told| told.sequence);
        if let Some(lane) = entry.lane_mut() {
            let (earliest, held_back) = (lane.backed_off_until, lane.not_before);
            if let Some(debt) = &mut lane.owed
                && debt.object.is_none()
                && debt.is_present()
                && debt.owed.uid == *seen.uid
                && debt.owed.sequence == seen.sequence
                && seen.fingerprint.is_some()
            {
                debt.object = seen.held.cloned();
                debt.deleting = seen.deleting;
                debt.fingerprint = seen.fingerprint;
                // It was held back only because there were no bytes.
                lane.not_before = held_back.min(debt.last).max(earliest);
            } else if let Some(older) = older_state(told, lane, seen) {
                lane.ready = Some(Box::new(older));
                lane.not_before = held_back.min(now).max(earliest);
            }
            self.enqueue(route, number);
        }
    }
}

impl Debt {
    /// What no watch showed: it bears the newest state that the sink has or may have of that incarnation.
    pub(super) fn inferred(
        uid: &Uid,
        sequence: Sequence,
        state: OwedState,
        origin: Origin,
        now: Now,
        number: u64,
    ) -> Self {
        let (existed, cause, coalesced) = (false, Cause::Change, 0);
        let owed = Owed { uid: uid.clone(), sequence, state, inferred: true, existed, origin, cause, coalesced };
        Self { owed, first: now, last: now, object: None, deleting: false, fingerprint: None, number }
    }
}

/// What was fetched may be older already than what is owed by now. It is told all the same, if the owed state has no
/// bytes: or a key that changes faster than it can be fetched would never be told. That the incarnation is owed at a newer
/// state is what the store knows then.
fn older_state(told: Option<Sequence>, lane: &Lane, seen: &Sighting<'_>) -> Option<Debt> {
    let debt = lane.owed.as_ref().filter(|_| lane.predecessor.is_none() && lane.ready.is_none())?;
    let newer_than_told = told.is_none_or(|told| seen.sequence > told);
    let newer_than_doubts = lane.doubts.iter().all(|doubt| seen.sequence >= doubt.sequence);
    let fits = debt.is_present()
        && seen.sequence < debt.owed.sequence
        && debt.object.is_none()
        && debt.owed.uid == *seen.uid
        && debt.owed.cause == Cause::Change
        && newer_than_told
        && newer_than_doubts
        && lane.in_flight.is_none()
        && !seen.listed;
    let held = seen.held.filter(|_| fits)?;
    Some(Debt {
        owed: Owed { sequence: seen.sequence, coalesced: 0, ..debt.owed.clone() },
        object: Some(Arc::clone(held)),
        deleting: seen.deleting,
        fingerprint: seen.fingerprint,
        ..debt.clone()
    })
}

fn newest_for(entry: &Entry, uid: &Uid) -> Option<Sequence> {
    if planted(Mutant::RepeatsByUid) { entry.newest_of(uid) } else { entry.newest_for(uid) }
}

/// Whether a state says something that is not told, owed or overtaken, whatever the incarnation. A list shows what has
/// not changed, too: that is news if the route's own rules have changed, or the object by an edit of its definition.
fn is_news(entry: &Entry, seen: &Sighting<'_>, selected: bool, recipe: u8) -> bool {
    let Some(newest) = newest_for(entry, seen.uid) else { return true };
    if seen.sequence > newest {
        return true;
    }
    if !seen.listed || seen.sequence < newest {
        return false;
    }
    if selected != entry.leaves_present() {
        return true;
    }
    let settled = entry.lane().is_none_or(|lane| lane.head().is_none());
    let told = entry.told.as_ref().filter(|told| settled && told.uid == *seen.uid && told.sequence == seen.sequence);
    let altered = told.is_some_and(|told| {
        told.recipe == recipe && seen.fingerprint.is_some_and(|fingerprint| fingerprint != told.fingerprint)
    });
    selected && (altered || matches!(seen.cause, Cause::Resync(_)))
}

/// Whether an object was changed after its creation. Under a selector for the server such a one, when it is new to the
/// watch, has come into the selection.
fn was_written_later(metadata: &Metadata) -> bool {
    metadata.generation.is_some_and(|generation| generation > 1) || metadata.last_write > metadata.creation_timestamp
}
