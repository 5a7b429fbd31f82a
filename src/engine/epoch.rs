//! When the cluster's version counter has stepped back, as after etcd was restored from a backup: how that is noticed,
//! and how everything begins anew in a later epoch without a word being taken back.
//!
//! It is noticed in two ways. A version that is smaller than the newest that was ever given tells at once. The counter may
//! have passed that mark before anyone looked: then a list shows states that an earlier life of the cluster cannot have
//! left, and is searched for them.

use super::feed::Before;
use super::keys::KeyNumber;
use super::mutant::{Mutant, planted};
use super::view::{Debt, Lane};
use super::{Engine, Now};
use crate::model::{OwedState, ResourceVersion, Sequence, Uid};

impl Engine {
    /// One transaction saves the next epoch and "no position". What was owed is dropped, since the list that follows
    /// says what is; what was attempted stays in doubt, so that it is told whatever its fingerprint.
    pub(super) fn begin_epoch(&mut self, now: Now) {
        let (rewinds, last) = (self.feed.rewinds() + 1, self.feed.epoch());
        let epoch = self.settings.lives.epoch_after(rewinds, last, self.settings.began + now.as_secs());
        self.feed.begin_epoch(epoch);
        self.save.touch_feed();
        self.save.want();
        // What an earlier life of the cluster answers is not believed any more.
        self.fetches.forget_asked();
        if planted(Mutant::DebtsSurviveRewind) {
            return;
        }
        let numbers: Vec<KeyNumber> = self.keys.numbers().collect();
        for route in 0..self.routes.len() {
            self.routes[route].fetched_ahead.clear();
            for number in &numbers {
                let Some(lane) = self.entry_mut(route, *number).lane_mut() else { continue };
                let marked = lane.fetched.is_some() || lane.over.is_some();
                if lane.predecessor.is_none() && lane.owed.is_none() && !marked {
                    continue;
                }
                lane.predecessor = None;
                lane.owed = None;
                lane.ready = None;
                (lane.fetched, lane.over) = (None, None);
                self.save.touch(route, *number);
                self.enqueue(route, *number);
            }
        }
    }

    /// Whether this item of a list cannot be of the life of the cluster that was read before.
    pub(super) fn tells_of_rewind(
        &self,
        number: KeyNumber,
        uid: &Uid,
        at: ResourceVersion,
        before: Before,
        selected: &[Option<u64>],
    ) -> bool {
        if planted(Mutant::RewindByProbeAlone) {
            return false;
        }
        let epoch = self.feed.epoch();
        let item = Sequence::new(epoch, at);
        // What a fetch has brought while the list was on its way may be newer than the list.
        let sure = |known: Sequence| {
            known.epoch() == epoch && before.newest.is_some_and(|newest| known.resource_version() <= newest)
        };
        self.routes.iter().zip(selected).any(|(route, selected)| {
            let entry = &route.entries[number.index()];
            let told = entry.told.iter().map(|told| (&told.uid, told.sequence));
            let lane = entry.lane();
            let doubts = lane.into_iter().flat_map(|lane| &lane.doubts).map(|doubt| (&doubt.uid, doubt.sequence));
            let debts = lane.into_iter().flat_map(Lane::debts);
            let debts = debts.map(|debt| (&debt.owed.uid, debt.owed.sequence));
            let mut known = told.chain(doubts).chain(debts).filter(|(_, known)| sure(*known));
            let contradicts = known.any(|(known_uid, known)| {
                // One incarnation does not go back, and the next one is newer than all of the one before.
                if known_uid == uid { item < known } else { item <= known }
            });
            // What was seen to be gone, or to have left, does not come back as it was; but for an edit of the selection.
            let gone = |debt: &Debt| {
                let edited = !route.followed && debt.owed.state != OwedState::Gone;
                selected.is_some()
                    && !debt.is_present()
                    && !edited
                    && debt.owed.uid == *uid
                    && item <= debt.owed.sequence
            };
            let mut debts = lane.into_iter().flat_map(Lane::debts);
            let contradicts = contradicts || debts.any(|debt| sure(debt.owed.sequence) && gone(debt));
            let over = lane.and_then(|lane| lane.over.as_ref()).filter(|over| over.uid == *uid && sure(over.until));
            let contradicts = contradicts || over.is_some_and(|over| item <= over.until);
            // What was there when the position passed it was told or owed.
            let unheard_of = selected.is_some()
                && route.record.synced
                && route.followed
                && before.position.is_some_and(|position| at <= position)
                && entry.told.is_none()
                && lane.is_none_or(|lane| lane.head().is_none() && lane.in_flight.is_none() && lane.doubts.is_empty());
            contradicts || unheard_of
        })
    }
}
