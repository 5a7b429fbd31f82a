//! What a route knows of one key: told, owed, in doubt, in flight. Pure data with the questions that are asked of it.

use std::sync::Arc;

use super::budget::Held;
use super::mutant::{Mutant, planted};
use super::{DeliveryId, Now};
use crate::engine::retry::Backoff;
use crate::model::{Doubt, KeyRecord, Over, Owed, OwedState, Sequence, Told, Uid};

/// A debt in memory: what is saved of it, and what is not.
#[derive(Clone, Debug)]
pub(super) struct Debt {
    pub(super) owed: Owed,
    /// When the first and the last change that it covers arrived.
    pub(super) first: Now,
    pub(super) last: Now,
    /// The object's bytes, unless they were let go or never here, and have to be fetched.
    pub(super) object: Option<Arc<Held>>,
    /// Whether finalizers are at work on it.
    pub(super) deleting: bool,
    /// Fingerprint of the chosen part; known once the object was here.
    pub(super) fingerprint: Option<u64>,
    /// The number that the save took for it.
    pub(super) number: u64,
}

impl Debt {
    pub(super) fn is_present(&self) -> bool {
        self.owed.state == OwedState::Present
    }

    /// Whether this is what was sent.
    pub(super) fn is(&self, sent: &InFlight) -> bool {
        self.owed.uid == sent.uid && self.owed.sequence == sent.sequence && self.owed.state == sent.state
    }
}

/// The delivery that a key's lane is occupied by.
#[derive(Clone, Debug)]
pub(super) struct InFlight {
    pub(super) delivery: DeliveryId,
    pub(super) since: Now,
    pub(super) uid: Uid,
    pub(super) sequence: Sequence,
    pub(super) state: OwedState,
    pub(super) fingerprint: u64,
    pub(super) recipe: u8,
    pub(super) deleting: bool,
    pub(super) existed: bool,
}

/// What is under way for a key: most keys are without it most of the time.
#[derive(Clone, Debug, Default)]
pub(super) struct Lane {
    pub(super) predecessor: Option<Debt>,
    pub(super) owed: Option<Debt>,
    /// What is due and waits for the store, as it will be sent. A newer state of the incarnation stands behind it, or a
    /// key that changes all the time would never be told.
    pub(super) ready: Option<Box<Debt>>,
    pub(super) doubts: Vec<Doubt>,
    pub(super) fetched: Option<Sequence>,
    pub(super) over: Option<Over>,
    pub(super) in_flight: Option<InFlight>,
    pub(super) backoff: Backoff,
    /// No attempt before this.
    pub(super) not_before: Now,
    /// Nor before this, whatever changes meanwhile: the sink has asked for it, or a failure has earned it.
    pub(super) backed_off_until: Now,
    /// Its place in the route's queue, so that it can be taken out again.
    pub(super) place: Option<(Now, u64)>,
}

/// All that a route knows of a key: at rest its told record and nothing more.
#[derive(Clone, Debug, Default)]
pub(super) struct Entry {
    pub(super) told: Option<Told>,
    lane: Option<Box<Lane>>,
}

impl Entry {
    /// The entry as it goes on after a crash: the debt at its head may have been attempted, what stood behind it
    /// cannot have been.
    pub(super) fn restore(record: KeyRecord, now: Now) -> Self {
        let debt = |owed: Owed| Debt {
            owed,
            first: now,
            last: now,
            object: None,
            deleting: false,
            fingerprint: None,
            // Restored debts are in the store already.
            number: 0,
        };
        let mut lane = Lane {
            predecessor: record.predecessor.map(debt),
            owed: record.owed.map(debt),
            doubts: record.doubts,
            fetched: record.fetched,
            over: record.over,
            ..Lane::default()
        };
        if let Some(owed) = lane.head().map(|debt| &debt.owed)
            && !planted(Mutant::RestartWithoutDoubt)
        {
            let (uid, sequence, gone) = (owed.uid.clone(), owed.sequence, owed.is_inferred_deletion());
            lane.add_doubt(uid, sequence, gone);
        }
        let mut entry = Self { told: record.told, lane: Some(Box::new(lane)) };
        entry.tidy();
        entry
    }

    /// What is kept of it. A fetched version that the position has passed has done its work.
    pub(super) fn record(&self, position: Option<Sequence>) -> KeyRecord {
        let Some(lane) = self.lane() else { return KeyRecord { told: self.told.clone(), ..KeyRecord::default() } };
        KeyRecord {
            told: self.told.clone(),
            predecessor: lane.predecessor.as_ref().map(|debt| debt.owed.clone()),
            owed: lane.owed.as_ref().map(|debt| debt.owed.clone()),
            doubts: lane.doubts.clone(),
            fetched: lane.fetched.filter(|fetched| position.is_none_or(|position| *fetched > position)),
            over: lane.over.clone().filter(|over| position.is_none_or(|position| over.until > position)),
        }
    }

    pub(super) fn lane(&self) -> Option<&Lane> {
        self.lane.as_deref()
    }

    pub(super) fn lane_mut(&mut self) -> Option<&mut Lane> {
        self.lane.as_deref_mut()
    }

    /// The lane, made if there is none.
    pub(super) fn open_lane(&mut self) -> &mut Lane {
        self.lane.get_or_insert_default()
    }

    /// Gives the lane back when nothing is under way in it.
    pub(super) fn tidy(&mut self) {
        if self.lane.as_ref().is_some_and(|lane| lane.is_at_rest()) {
            self.lane = None;
        }
    }

    /// Whether nothing is known of the key.
    pub(super) fn is_empty(&self) -> bool {
        self.told.is_none() && self.lane.is_none()
    }

    pub(super) fn owes(&self) -> bool {
        self.lane().is_some_and(|lane| lane.head().is_some())
    }

    /// Whether what is told next has to be asked for first.
    pub(super) fn lacks_answer(&self) -> bool {
        if self.lane().is_some_and(|lane| lane.ready.is_some()) {
            return false;
        }
        self.lane().and_then(Lane::head).is_some_and(|debt| match debt.owed.state {
            OwedState::Present => debt.object.is_none(),
            OwedState::Missing => true,
            OwedState::Gone | OwedState::Left => false,
        })
    }

    /// The newest state that is told, owed, in doubt, in flight or fetched, whatever the incarnation.
    pub(super) fn newest(&self) -> Option<Sequence> {
        let told = self.told.as_ref().map(|told| told.sequence);
        told.max(self.lane().and_then(Lane::newest))
    }

    /// The same for a state of this incarnation, which may be known to be over.
    pub(super) fn newest_for(&self, uid: &Uid) -> Option<Sequence> {
        let over = self.lane().and_then(|lane| lane.over.as_ref()).filter(|over| over.uid == *uid);
        self.newest().max(over.map(|over| over.until))
    }

    /// The same within one incarnation.
    pub(super) fn newest_of(&self, uid: &Uid) -> Option<Sequence> {
        let told = self.told.iter().filter(|told| told.uid == *uid).map(|told| told.sequence);
        let debts = self.lane().into_iter().flat_map(Lane::debts);
        let debts = debts.filter(|debt| debt.owed.uid == *uid).map(|debt| debt.owed.sequence);
        told.chain(debts).max().max(self.known(uid))
    }

    /// The newest state of this incarnation that the sink has or may have; `None` if it cannot know of it.
    pub(super) fn known(&self, uid: &Uid) -> Option<Sequence> {
        let told = self.told.iter().filter(|told| told.uid == *uid).map(|told| told.sequence);
        let doubts = self.lane().into_iter().flat_map(|lane| &lane.doubts).filter(|doubt| doubt.uid == *uid);
        told.chain(doubts.map(|doubt| doubt.sequence)).max()
    }

    /// The incarnations that the sink has or may have been told of: told first, then in doubt.
    pub(super) fn known_uids(&self) -> Vec<Uid> {
        let mut uids: Vec<Uid> = self.told.iter().map(|told| told.uid.clone()).collect();
        for doubt in self.lane().into_iter().flat_map(|lane| &lane.doubts) {
            if !uids.contains(&doubt.uid) {
                uids.push(doubt.uid.clone());
            }
        }
        uids
    }

    /// Whether the route will have told that the object is there, once it owes nothing any more.
    pub(super) fn leaves_present(&self) -> bool {
        match self.lane().and_then(|lane| lane.owed.as_ref()) {
            Some(debt) => debt.is_present(),
            None => self.told.is_some() && self.lane().is_none_or(|lane| lane.predecessor.is_none()),
        }
    }
}

impl Lane {
    /// The debt that is told next: the deletion of an earlier incarnation goes first.
    pub(super) fn head(&self) -> Option<&Debt> {
        self.predecessor.as_ref().or(self.owed.as_ref())
    }

    /// What was made ready is overtaken, but by another state of the same incarnation.
    pub(super) fn keep_ready(&mut self, uid: &Uid, present: bool) {
        if self.ready.as_ref().is_some_and(|ready| !present || ready.owed.uid != *uid) {
            self.ready = None;
        }
    }

    pub(super) fn head_mut(&mut self) -> Option<&mut Debt> {
        self.predecessor.as_mut().or(self.owed.as_mut())
    }

    /// All that is owed, in the order in which it is told.
    pub(super) fn debts(&self) -> impl Iterator<Item = &Debt> {
        self.predecessor.iter().chain(&self.owed)
    }

    fn newest(&self) -> Option<Sequence> {
        // What is ready is not newer than what is owed.
        let debts = self.debts().map(|debt| debt.owed.sequence);
        let doubts = self.doubts.iter().map(|doubt| doubt.sequence);
        let in_flight = self.in_flight.iter().map(|in_flight| in_flight.sequence);
        debts.chain(doubts).chain(in_flight).chain(self.fetched).max()
    }

    // A failure that is remembered is no reason to keep a lane: the next debt's first attempt comes sooner then.
    fn is_at_rest(&self) -> bool {
        self.head().is_none()
            && self.in_flight.is_none()
            && self.doubts.is_empty()
            && self.fetched.is_none()
            && self.over.is_none()
            && self.place.is_none()
    }

    /// A change deserves a try of its own, but not sooner than the sink allows.
    pub(super) fn allow_at(&mut self, now: Now) {
        self.not_before = now.max(self.backed_off_until);
    }

    /// A failure: no attempt before then.
    pub(super) fn back_off_until(&mut self, until: Now) {
        self.not_before = until;
        self.backed_off_until = until;
    }

    pub(super) fn add_doubt(&mut self, uid: Uid, sequence: Sequence, gone: bool) {
        match self.doubts.iter_mut().find(|doubt| doubt.uid == uid) {
            Some(doubt) if doubt.sequence == sequence => doubt.gone |= gone,
            Some(doubt) if doubt.sequence < sequence => (doubt.sequence, doubt.gone) = (sequence, gone),
            Some(_) => {}
            None => self.doubts.push(Doubt { uid, sequence, gone }),
        }
    }

    /// Whether the sink may have been told that this incarnation is gone after this state.
    pub(super) fn may_be_gone(&self, uid: &Uid, sequence: Sequence) -> bool {
        self.doubts.iter().any(|doubt| doubt.uid == *uid && doubt.sequence == sequence && doubt.gone)
    }

    pub(super) fn clear_doubt(&mut self, uid: &Uid) {
        self.doubts.retain(|doubt| doubt.uid != *uid);
    }
}
