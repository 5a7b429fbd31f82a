//! What is kept across a crash: per feed its position, per route and key what was told and what is owed.
//!
//! Only the data: how it is laid out in bytes is the store's business, when it is written is the engine's.

use super::{Key, ResourceVersion, Uid};

/// What the sink has acknowledged of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The incarnation that was told.
    pub uid: Uid,
    /// Its newest state that the sink has.
    pub resource_version: ResourceVersion,
    /// Fingerprint of the chosen part of that state, keyed per store.
    pub fingerprint: u64,
    /// Whether that state bore a deletionTimestamp.
    pub deleting: bool,
}

/// In which state a debt leaves the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwedState {
    /// The object's latest state.
    Present,
    /// Its deletion; `inferred` when no watch showed it.
    Gone {
        /// Found by comparison, not seen.
        inferred: bool,
    },
}

/// What a route still has to tell about a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owed {
    /// The incarnation.
    pub uid: Uid,
    /// Its newest known state; of an inferred deletion the newest that was told or attempted.
    pub resource_version: ResourceVersion,
    /// Present or gone.
    pub state: OwedState,
    /// How the newest merged change came to be known.
    pub origin: super::Origin,
    /// How many earlier changes this debt covers.
    pub coalesced: u32,
}

/// A state that was attempted and whose answer was not recorded: the sink may have it or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// The incarnation.
    pub uid: Uid,
    /// The newest state of it that may have been told.
    pub resource_version: ResourceVersion,
}

/// All that is kept of a key for one route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyRecord {
    /// What the sink has acknowledged.
    pub told: Option<Told>,
    /// The deletion of an earlier incarnation, owed before `owed`.
    pub predecessor: Option<Owed>,
    /// The newest debt.
    pub owed: Option<Owed>,
    /// Attempted without a recorded answer; at most one entry an incarnation.
    pub doubts: Vec<Doubt>,
    /// The version of a fetched state that ran ahead of the feed's position.
    pub fetched: Option<ResourceVersion>,
}

impl KeyRecord {
    /// Whether nothing at all is known, so that the record can be removed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What is kept of a feed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeedRecord {
    /// The newest resourceVersion that was read, if the next start may resume from it.
    pub position: Option<ResourceVersion>,
    /// The newest resourceVersion that the feed was ever given: a smaller one of the cluster is a rewind.
    pub newest: Option<ResourceVersion>,
    /// As what the collection was found at the first start; it stays pinned to this version.
    pub served: Option<Served>,
}

/// How the API server serves a collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// The API version without its group, as `v1`.
    pub version: String,
    /// The kind.
    pub kind: String,
}

/// One transaction: position, told and owed stand or fall together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Save {
    /// The feed's record.
    pub feed: FeedRecord,
    /// Routes (by their number in the engine) whose first comparison this transaction completes.
    pub synced: Vec<usize>,
    /// Routes for which the position speaks: they have followed the feed up to it. A route that was out of the
    /// configuration for a while has not.
    pub followed: Vec<usize>,
    /// Per route (by its number in the engine) and key the record as it is now; an empty one is removed.
    pub records: Vec<(usize, Key, KeyRecord)>,
}
