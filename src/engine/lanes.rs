//! When a debt is told: debounce, one delivery in flight per key, the sink's verdicts. Not how an event looks.

use std::time::Duration;

use super::keys::KeyNumber;
use super::mutant::{Mutant, planted};
use super::view::{Debt, Entry, InFlight, Lane};
use super::{Action, DeliveryId, Engine, Now, Publication, Route};
use crate::model::{Cause, Origin, OwedState, Told, Verdict, What};

const BASE: Duration = Duration::from_millis(500);
const CAP: Duration = Duration::from_secs(60);
/// A refused state is kept and tried again this seldom, until a newer one takes its place.
const REFUSED: Duration = Duration::from_secs(300);
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
        let lane = entry.lane()?;
        let debt = lane.head()?;
        let told_deleting = entry.told.as_ref().is_some_and(|told| told.uid == debt.owed.uid && told.deleting);
        let at_once = !debt.is_present() || (debt.deleting && !told_deleting);
        let due = if at_once {
            debt.last
        } else if planted(Mutant::DebounceWithoutMaxWait) {
            debt.last + self.settings.quiet
        } else {
            (debt.last + self.settings.quiet).min(debt.first + self.settings.max_wait)
        };
        Some(due.max(lane.not_before))
    }
}

impl Engine {
    /// Puts a key that owes something into its place in the queue; a key in flight waits for its verdict.
    pub(super) fn enqueue(&mut self, route: usize, number: KeyNumber) {
        let turn = self.next_number();
        let state = &mut self.routes[route];
        let entry = &mut state.entries[number.index()];
        if !entry.lacks_answer() {
            state.fetched_ahead.remove(&number);
        }
        let Some(lane) = entry.lane_mut() else { return };
        let previous = lane.place.take();
        let in_flight = lane.in_flight.is_some() && !planted(Mutant::InFlightOvertaken);
        if let Some((at, turn)) = previous {
            state.queue.remove(&(at, turn, number));
        }
        if !in_flight && let Some(at) = state.release_at(&state.entries[number.index()]) {
            // A key keeps its turn among those that are due at the same time.
            let turn = previous.map_or(turn, |(_, earlier)| earlier);
            state.entries[number.index()].open_lane().place = Some((at, turn));
            state.queue.insert((at, turn, number));
        }
        state.entries[number.index()].tidy();
    }

    pub(super) fn poll_lanes(&mut self, now: Now) {
        if self.draining {
            return;
        }
        for route in 0..self.routes.len() {
            let mut waiting = Vec::new();
            while self.routes[route].next_release().is_some_and(|at| at <= now) {
                let Some((_, _, number)) = self.routes[route].queue.pop_first() else { break };
                if let Some(lane) = self.entry_mut(route, number).lane_mut() {
                    lane.place = None;
                }
                if !self.release(route, number, now) {
                    waiting.push(number);
                }
            }
            if !waiting.is_empty() {
                self.list_instead_of_fetching(route, now);
            }
            // What waits for the store or an answer is looked at again when that comes, not in a loop.
            self.waiting.extend(waiting.into_iter().map(|number| (route, number)));
        }
    }

    /// Sends the head of a key; `false` when it has to wait for the store or for an answer.
    fn release(&mut self, route: usize, number: KeyNumber, now: Now) -> bool {
        if self.is_ready(route, number) {
            self.publish(route, number, now);
            return true;
        }
        // Of what was let go the fingerprint is known: that nothing has changed needs no bytes.
        if self.settle_without_event(route, number) {
            self.enqueue(route, number);
            self.forget_if_empty(number);
            return true;
        }
        let entry = self.entry(route, number);
        if entry.lacks_answer() {
            // What the feed does not read any more is settled by the list that finds it so.
            if self.is_outside(number) {
                return false;
            }
            let look = !entry.owes_present();
            self.ask(route, number, look);
            return false;
        }
        let Some(debt) = entry.lane().and_then(Lane::head) else { return true };
        let (stored, debt) = (self.save.is_stored(debt.number), debt.clone());
        let lane = self.entry_mut(route, number).open_lane();
        // One that was made ready earlier stays: it waits for an earlier save.
        lane.ready.get_or_insert_with(|| Box::new(debt));
        if !stored && !planted(Mutant::AttemptBeforeSave) {
            self.save.want();
            return false;
        }
        self.publish(route, number, now);
        true
    }

    /// Whether what is due has been made ready and is known to the store.
    fn is_ready(&self, route: usize, number: KeyNumber) -> bool {
        let ready = self.entry(route, number).lane().and_then(|lane| lane.ready.as_ref());
        ready.is_some_and(|ready| self.save.is_stored(ready.number))
    }

    /// No change, no event: the chosen part is as told, and the sink is known to have it. Nor is there one that something
    /// has left of which the sink knows nothing any more.
    fn settle_without_event(&mut self, route: usize, number: KeyNumber) -> bool {
        let state = &mut self.routes[route];
        let recipe = state.record.recipe_number;
        let entry = &mut state.entries[number.index()];
        let Some(debt) = entry.lane().and_then(Lane::head) else { return false };
        let told = entry.told.as_ref().filter(|told| told.uid == debt.owed.uid);
        let unchanged = match debt.owed.state {
            OwedState::Present => told.is_some_and(|told| {
                // Any doubt: what the sink has may be another incarnation's state.
                let sure = entry.lane().is_none_or(|lane| lane.doubts.is_empty()) || planted(Mutant::NoOpInDoubt);
                let resync = matches!(debt.owed.cause, Cause::Resync(_));
                sure && !resync && told.recipe == recipe && debt.fingerprint == Some(told.fingerprint)
            }),
            OwedState::Left => entry.known(&debt.owed.uid).is_none(),
            OwedState::Gone | OwedState::Missing => false,
        };
        if !unchanged {
            return false;
        }
        let Some(lane) = entry.lane_mut() else { return false };
        // It has no predecessor: it is the head. Nor was anything else of it sent.
        lane.ready = None;
        let debt = lane.owed.take();
        if let (Some(debt), Some(told)) = (debt.filter(Debt::is_present), &mut entry.told) {
            told.sequence = debt.owed.sequence;
            told.deleting = debt.deleting;
        }
        state.counters.suppressed += 1;
        self.save.touch(route, number);
        true
    }

    fn publish(&mut self, route: usize, number: KeyNumber, now: Now) {
        let delivery = DeliveryId(self.next_number());
        let state = &mut self.routes[route];
        let recipe = state.record.recipe_number;
        let entry = &mut state.entries[number.index()];
        let Some(lane) = entry.lane_mut() else { return };
        let Some(debt) = lane.ready.take().map(|ready| *ready).or_else(|| lane.head().cloned()) else { return };
        if let Some(newer) = &mut lane.owed
            && newer.owed.uid == debt.owed.uid
            && newer.owed.sequence > debt.owed.sequence
        {
            // What is sent now is not covered by what stands behind it.
            newer.owed.coalesced = newer.owed.coalesced.saturating_sub(debt.owed.coalesced + 1);
        }
        let what = what_happened(entry, &debt);
        let sent = InFlight {
            delivery,
            since: now,
            uid: debt.owed.uid.clone(),
            sequence: debt.owed.sequence,
            state: debt.owed.state,
            fingerprint: debt.fingerprint.unwrap_or_default(),
            recipe,
            deleting: debt.deleting,
            existed: debt.owed.existed,
        };
        let lane = entry.open_lane();
        let gone = debt.owed.is_inferred_deletion();
        let sorts_after = gone || lane.may_be_gone(&debt.owed.uid, debt.owed.sequence);
        lane.add_doubt(debt.owed.uid.clone(), debt.owed.sequence, gone);
        lane.in_flight = Some(sent.clone());
        if planted(Mutant::ToldBeforeAnswer) {
            entry.settle(&sent, 0);
            self.save.touch(route, number);
        }
        let state = &mut self.routes[route];
        state.in_flight += 1;
        self.deliveries.insert(delivery, (route, number));
        // What has left may be what must not be seen any more: nothing of it is told.
        let object = debt.object.filter(|_| debt.owed.state != OwedState::Left);
        self.actions.push_back(Action::Publish(Publication {
            delivery,
            route,
            what,
            key: self.keys.key(number).clone(),
            uid: debt.owed.uid,
            sequence: debt.owed.sequence,
            rewinds: if planted(Mutant::IdsWithoutEpoch) { 0 } else { self.feed.rewinds() },
            cause: match debt.owed.cause {
                Cause::Selection(_) if planted(Mutant::IdsWithoutRevision) => Cause::Change,
                Cause::Resync(_) if planted(Mutant::IdsWithoutResync) => Cause::Change,
                cause => cause,
            },
            object: object.as_ref().map(|held| held.object().clone()),
            inferred: debt.owed.inferred,
            sorts_after,
            origin: debt.owed.origin,
            coalesced: debt.owed.coalesced,
        }));
    }

    /// The sink has answered. A verdict settles only the debt that was sent, not one that has merged behind it.
    pub fn handle_delivered(&mut self, now: Now, delivery: DeliveryId, verdict: Verdict) {
        let Some((route, number)) = self.deliveries.remove(&delivery) else { return };
        let state = &mut self.routes[route];
        state.in_flight -= 1;
        let entry = &mut state.entries[number.index()];
        let Some(lane) = entry.lane_mut() else { return };
        let Some(sent) = lane.in_flight.take_if(|sent| sent.delivery == delivery) else { return };
        let delivered = verdict == Verdict::Delivered;
        match verdict {
            Verdict::Delivered => {
                state.counters.delivered += 1;
                state.breaker.succeed();
                // What was under way when the endpoint asked not to be called again changes nothing of that.
                if state.gone.is_none() {
                    state.last_error = None;
                }
                lane.backoff.succeed();
                lane.back_off_until(now);
                let stamp = self.save.touch(route, number);
                entry.settle(&sent, stamp);
            }
            Verdict::Retry { reason, after } => {
                state.counters.retried += 1;
                state.last_error = Some(reason);
                let wait = lane.backoff.fail(&mut self.jitter, BASE, CAP, after);
                lane.back_off_until(now + wait);
            }
            Verdict::Reject { reason } => {
                state.counters.rejected += 1;
                state.last_error = Some(reason);
                if lane.predecessor.as_ref().is_some_and(|debt| debt.is(&sent)) {
                    // The sink will never take this deletion: the key goes on with the incarnation that is there.
                    let stamp = self.save.touch(route, number);
                    entry.settle(&sent, stamp);
                } else if lane.head().is_some_and(|debt| debt.is(&sent)) {
                    lane.not_before = now + REFUSED;
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
                let wait = lane.backoff.fail(&mut self.jitter, BASE, ENDPOINT_CAP, None);
                lane.back_off_until(now + wait);
            }
            Verdict::Gone { reason } => {
                state.last_error = Some(reason.clone());
                state.gone = Some(reason);
            }
        }
        if !delivered {
            self.let_go(route, number);
        }
        self.enqueue(route, number);
        self.forget_if_empty(number);
    }

    /// A delivery has failed: above the budget its bytes are not kept for the next one.
    fn let_go(&mut self, route: usize, number: KeyNumber) {
        if self.bytes.is_exceeded()
            && let Some(lane) = self.entry_mut(route, number).lane_mut()
            && let Some(debt) = lane.head_mut()
            && debt.is_present()
        {
            debt.object = None;
        }
    }
}

impl Entry {
    fn settle(&mut self, sent: &InFlight, stamp: u64) {
        if sent.state == OwedState::Present {
            self.told = Some(Told {
                uid: sent.uid.clone(),
                sequence: sent.sequence,
                fingerprint: sent.fingerprint,
                recipe: sent.recipe,
                deleting: sent.deleting,
            });
        } else {
            self.told.take_if(|told| told.uid == sent.uid);
        }
        let lane = self.open_lane();
        lane.clear_doubt(&sent.uid);
        if sent.state != OwedState::Present {
            lane.predecessor.take_if(|debt| debt.owed.uid == sent.uid);
        }
        lane.owed.take_if(|debt| debt.is(sent) || planted(Mutant::VerdictSettlesNewer));
        // What stood behind a debt is attempted only when the store knows that the debt is settled: a restart takes the
        // head of a key alone for doubtful, and would tell what follows as if nothing had been told before.
        if let Some(next) = &mut lane.owed
            && !planted(Mutant::SuccessorBeforeAnswerIsSaved)
        {
            next.number = stamp;
        }
    }
}

/// Decided at publication, from what was told; a doubtful incarnation is told with the id that it had.
fn what_happened(entry: &Entry, debt: &Debt) -> What {
    let told = entry.told.as_ref().filter(|told| told.uid == debt.owed.uid);
    match (debt.owed.state, told) {
        // What is missing is asked for before it is published.
        (OwedState::Gone | OwedState::Missing, _) => What::Deleted,
        (OwedState::Left, _) => What::Left,
        (OwedState::Present, _) if matches!(debt.owed.cause, Cause::Resync(_)) => What::Observed,
        (OwedState::Present, Some(told)) if debt.deleting && !told.deleting => What::Deleting,
        (OwedState::Present, Some(_)) => What::Updated,
        (OwedState::Present, None) if debt.owed.origin == Origin::Snapshot => What::Observed,
        (OwedState::Present, None) if debt.owed.existed => What::Entered,
        (OwedState::Present, None) => What::Created,
    }
}
