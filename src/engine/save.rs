//! When the store is written and what goes into the transaction: position, told and owed together.
//!
//! A debt may be attempted once the save that holds it has been confirmed; [`SaveState::is_stored`] is that rule.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{Action, Engine, Now};
use crate::model::{Key, Save};

/// A dirty engine is saved at the latest after this long, if nothing waits for it.
const LINGER: Duration = Duration::from_millis(50);
/// A dirty engine is saved at once when this many records wait.
const RECORDS: usize = 1_000;
/// After a failed save the next try waits this long.
const RETRY: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct SaveState {
    dirty: BTreeSet<(usize, Key)>,
    feed_dirty: bool,
    synced: Vec<usize>,
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
    dirty: BTreeSet<(usize, Key)>,
    synced: Vec<usize>,
}

impl SaveState {
    /// Notes that a key's record has changed; the number it returns is stored once a later save is confirmed.
    pub(super) fn touch(&mut self, route: usize, key: &Key) -> u64 {
        self.dirty.insert((route, key.clone()));
        self.counter += 1;
        self.counter
    }

    pub(super) fn touch_feed(&mut self) {
        self.feed_dirty = true;
    }

    pub(super) fn touch_synced(&mut self, route: usize) {
        self.synced.push(route);
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
        let dirty = std::mem::take(&mut state.dirty);
        let synced = std::mem::take(&mut state.synced);
        state.feed_dirty = false;
        state.since = None;
        state.wanted = false;
        let position = self.feed.position();
        let records = dirty
            .iter()
            .map(|(route, key)| {
                let entry = self.routes[*route].entries.get(key);
                (*route, key.clone(), entry.map(|entry| entry.record(position)).unwrap_or_default())
            })
            .collect();
        let followed = (0..self.routes.len()).filter(|route| self.routes[*route].followed).collect();
        let save = Save { feed: self.feed.record(), synced: synced.clone(), followed, records };
        let state = &mut self.save;
        state.in_progress = Some(InProgress { through: state.counter, dirty, synced });
        self.actions.push_back(Action::Save(save));
    }

    /// The store has answered the save that was last asked for. After a failure the same records are saved again; a
    /// debt whose save failed is not attempted meanwhile.
    pub fn handle_saved(&mut self, now: Now, succeeded: bool) {
        let Some(done) = self.save.in_progress.take() else { return };
        if succeeded {
            self.save.stored_through = done.through;
            for (route, key) in std::mem::take(&mut self.waiting) {
                self.enqueue(route, &key);
            }
            for (route, key) in done.dirty {
                // What is empty in memory was removed by this save, unless it has changed since.
                if self.routes[route].entries.get(&key).is_some_and(|entry| entry.is_forgettable())
                    && !self.save.dirty.contains(&(route, key.clone()))
                {
                    self.routes[route].entries.remove(&key);
                }
            }
        } else {
            self.save.dirty.extend(done.dirty);
            self.save.synced.extend(done.synced);
            self.save.feed_dirty = true;
            self.save.not_before = now + RETRY;
            self.save.wanted = true;
        }
    }
}
