//! When the store is written and what goes into the transaction: position, told and owed together.
//!
//! A debt may be attempted once the save that holds it has been confirmed; [`SaveState::is_stored`] is that rule.

use std::collections::BTreeSet;
use std::time::Duration;

use super::keys::KeyNumber;
use super::mutant::{Mutant, planted};
use super::{Action, Engine, Now};
use crate::model::Save;

/// A dirty engine is saved at the latest after this long, if nothing waits for it.
const LINGER: Duration = Duration::from_millis(50);
/// A dirty engine is saved at once when this many records wait.
const RECORDS: usize = 1_000;
/// After a failed save the next try waits this long.
const RETRY: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct SaveState {
    dirty: BTreeSet<(usize, KeyNumber)>,
    feed_dirty: bool,
    // Since when something is dirty; set by the first poll that sees it, since inputs need not carry the time.
    since: Option<Now>,
    // Each change of a debt takes a number; a confirmed save covers all numbers up to the one it was begun at.
    counter: u64,
    stored_through: u64,
    in_progress: Option<InProgress>,
    wanted: bool,
    not_before: Now,
}

struct InProgress {
    through: u64,
    dirty: BTreeSet<(usize, KeyNumber)>,
}

impl SaveState {
    /// Notes that a key's record has changed; the number it returns is stored once a later save is confirmed.
    pub(super) fn touch(&mut self, route: usize, number: KeyNumber) -> u64 {
        self.dirty.insert((route, number));
        self.counter += 1;
        self.counter
    }

    /// The number of the last change.
    pub(super) fn last(&self) -> u64 {
        self.counter
    }

    pub(super) fn touch_feed(&mut self) {
        self.feed_dirty = true;
    }

    /// Whether the store has the debt that took this number.
    pub(super) fn is_stored(&self, number: u64) -> bool {
        number <= self.stored_through
    }

    /// A release waits: save as soon as possible.
    pub(super) fn want(&mut self) {
        self.wanted = true;
    }

    pub(super) fn is_clean(&self) -> bool {
        self.dirty.is_empty() && !self.feed_dirty && self.in_progress.is_none()
    }

    /// Whether a save that is due or under way names this key.
    pub(super) fn speaks_of(&self, routes: usize, number: KeyNumber) -> bool {
        let in_progress = self.in_progress.as_ref().map(|in_progress| &in_progress.dirty);
        [Some(&self.dirty), in_progress]
            .into_iter()
            .flatten()
            .any(|dirty| (0..routes).any(|route| dirty.contains(&(route, number))))
    }

    pub(super) fn deadline(&self) -> Option<Now> {
        if self.in_progress.is_some() || (self.dirty.is_empty() && !self.feed_dirty) {
            return None;
        }
        let since = self.since.unwrap_or(self.not_before);
        Some(if self.wanted { self.not_before } else { (since + LINGER).max(self.not_before) })
    }
}

impl Engine {
    pub(super) fn poll_save(&mut self, now: Now) {
        let state = &mut self.save;
        if state.in_progress.is_some() || (state.dirty.is_empty() && !state.feed_dirty) || now < state.not_before {
            return;
        }
        let since = *state.since.get_or_insert(now);
        if !state.wanted && !self.draining && now < since + LINGER && state.dirty.len() < RECORDS {
            return;
        }
        let mut dirty = std::mem::take(&mut state.dirty);
        state.feed_dirty = false;
        state.since = None;
        state.wanted = false;
        let through = state.counter;
        let mut feed = self.feed.record();
        if planted(Mutant::PositionWithoutDebts) && dirty.len() > 1 {
            // Half of it comes with the next save.
            let later: Vec<_> = dirty.iter().skip(1).step_by(2).copied().collect();
            for one in later {
                dirty.remove(&one);
                self.save.dirty.insert(one);
            }
        }
        if planted(Mutant::ListPositionEarly)
            && let super::feed::State::Listing { before, .. } = self.feed.state
        {
            feed.position = feed.position.max(before.newest);
        }
        let position = self.feed.place();
        let mut records = Vec::with_capacity(dirty.len());
        for (route, number) in &dirty {
            let entry = &mut self.routes[*route].entries[number.index()];
            let record = entry.record(position);
            if let Some(lane) = entry.lane_mut() {
                lane.fetched = record.fetched;
                lane.over.take_if(|_| record.over.is_none());
                entry.tidy();
            }
            records.push((*route, self.keys.key(*number).clone(), record));
        }
        let routes = self.routes.iter().map(|route| route.record.clone()).collect();
        let followed = (0..self.routes.len()).filter(|route| self.routes[*route].followed).collect();
        self.save.in_progress = Some(InProgress { through, dirty });
        self.actions.push_back(Action::Save(Save { feed, routes, followed, records }));
    }

    /// The store has answered the save that was last asked for. After a failure the same records are saved again; a
    /// debt whose save failed is not attempted meanwhile.
    pub fn handle_saved(&mut self, now: Now, succeeded: bool) {
        let Some(done) = self.save.in_progress.take() else { return };
        if succeeded {
            self.save.stored_through = done.through;
            for (route, number) in std::mem::take(&mut self.waiting) {
                self.enqueue(route, number);
            }
            // What is empty in memory was removed by this save, unless it has changed since.
            for (_, number) in done.dirty {
                self.forget_if_empty(number);
            }
        } else {
            self.save.dirty.extend(done.dirty);
            self.save.feed_dirty = true;
            self.save.not_before = now + RETRY;
            self.save.wanted = true;
        }
    }
}
