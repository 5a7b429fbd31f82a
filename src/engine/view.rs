//! What a route knows of one key: told, owed, in doubt, in flight. Pure data with the questions that are asked of it.

use std::sync::Arc;

use super::budget::Held;
use super::{DeliveryId, Now};
use crate::engine::retry::Backoff;
use crate::model::{Doubt, KeyRecord, Owed, OwedState, ResourceVersion, Told, Uid};

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

/// The delivery that a key's lane is occupied by.
#[derive(Clone, Debug)]
pub(super) struct InFlight {
    pub(super) delivery: DeliveryId,
    pub(super) since: Now,
    pub(super) uid: Uid,
    pub(super) resource_version: ResourceVersion,
    pub(super) state: OwedState,
    pub(super) fingerprint: u64,
    pub(super) deleting: bool,
}

/// All that a route knows of a key.
#[derive(Clone, Debug, Default)]
pub(super) struct Entry {
    pub(super) told: Option<Told>,
    // What most keys are without most of the time is boxed: a key at rest costs its told record and little more.
    pub(super) predecessor: Option<Box<Debt>>,
    pub(super) owed: Option<Box<Debt>>,
    pub(super) doubts: Vec<Doubt>,
    pub(super) fetched: Option<ResourceVersion>,
    pub(super) in_flight: Option<Box<InFlight>>,
    pub(super) backoff: Backoff,
    /// No attempt before this.
    pub(super) not_before: Now,
    /// Nor before this, whatever changes meanwhile: the sink has asked for it, or a failure has earned it.
    pub(super) backed_off_until: Now,
    /// Its place in the route's queue, so that it can be taken out again.
    pub(super) place: Option<(Now, u64)>,
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
        let mut entry = Self {
            told: record.told,
            predecessor: record.predecessor.map(debt).map(Box::new),
            owed: record.owed.map(debt).map(Box::new),
            doubts: record.doubts,
            fetched: record.fetched,
            ..Self::default()
        };
        if let Some(owed) = entry.head().map(|debt| &debt.owed) {
            let (uid, resource_version) = (owed.uid.clone(), owed.resource_version);
            entry.add_doubt(uid, resource_version);
        }
        entry
    }

    /// What is kept of it. A fetched version that the position has passed has done its work.
    pub(super) fn record(&self, position: Option<ResourceVersion>) -> KeyRecord {
        KeyRecord {
            told: self.told.clone(),
            predecessor: self.predecessor.as_ref().map(|debt| debt.owed.clone()),
            owed: self.owed.as_ref().map(|debt| debt.owed.clone()),
            doubts: self.doubts.clone(),
            fetched: self.fetched.filter(|fetched| position.is_none_or(|position| *fetched > position)),
        }
    }

    /// Whether what is told next has to be fetched first.
    pub(super) fn lacks_bytes(&self) -> bool {
        self.head().is_some_and(|debt| debt.object.is_none() && debt.owed.state == OwedState::Present)
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

    pub(super) fn is_forgettable(&self) -> bool {
        self.told.is_none()
            && !self.owes()
            && self.in_flight.is_none()
            && self.doubts.is_empty()
            && self.fetched.is_none()
    }

    pub(super) fn owes(&self) -> bool {
        self.owed.is_some() || self.predecessor.is_some()
    }

    /// The debt that is told next: the deletion of an earlier incarnation goes first.
    pub(super) fn head(&self) -> Option<&Debt> {
        self.predecessor.as_deref().or(self.owed.as_deref())
    }

    /// The newest version that is told, owed, in doubt, in flight or fetched, whatever the incarnation.
    pub(super) fn newest(&self) -> Option<ResourceVersion> {
        let debts = self.predecessor.iter().chain(&self.owed).map(|debt| debt.owed.resource_version);
        let doubts = self.doubts.iter().map(|doubt| doubt.resource_version);
        let told = self.told.iter().map(|told| told.resource_version);
        let in_flight = self.in_flight.iter().map(|in_flight| in_flight.resource_version);
        debts.chain(doubts).chain(told).chain(in_flight).chain(self.fetched).max()
    }

    /// The newest version of this incarnation that the sink has or may have; `None` if it cannot know of it.
    pub(super) fn known(&self, uid: &Uid) -> Option<ResourceVersion> {
        let told = self.told.iter().filter(|told| told.uid == *uid).map(|told| told.resource_version);
        let doubts = self.doubts.iter().filter(|doubt| doubt.uid == *uid).map(|doubt| doubt.resource_version);
        told.chain(doubts).max()
    }

    /// The incarnations that the sink has or may have been told of: told first, then in doubt.
    pub(super) fn known_uids(&self) -> Vec<Uid> {
        let mut uids: Vec<Uid> = self.told.iter().map(|told| told.uid.clone()).collect();
        for doubt in &self.doubts {
            if !uids.contains(&doubt.uid) {
                uids.push(doubt.uid.clone());
            }
        }
        uids
    }

    pub(super) fn is_doubtful(&self, uid: &Uid) -> bool {
        self.doubts.iter().any(|doubt| doubt.uid == *uid)
    }

    pub(super) fn add_doubt(&mut self, uid: Uid, resource_version: ResourceVersion) {
        match self.doubts.iter_mut().find(|doubt| doubt.uid == uid) {
            Some(doubt) => doubt.resource_version = doubt.resource_version.max(resource_version),
            None => self.doubts.push(Doubt { uid, resource_version }),
        }
    }

    pub(super) fn clear_doubt(&mut self, uid: &Uid) {
        self.doubts.retain(|doubt| doubt.uid != *uid);
    }
}
