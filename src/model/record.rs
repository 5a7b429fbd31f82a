//! What is kept across a crash: per feed its position, per route and key what was told and what is owed.
//!
//! Only the data: how it is laid out in bytes is the store's business, when it is written is the engine's.

use super::{Epoch, Key, Origin, ResourceVersion, Sequence, Uid};

/// What the sink has acknowledged of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The incarnation that was told.
    pub uid: Uid,
    /// Its newest state that the sink has.
    pub sequence: Sequence,
    /// Fingerprint of the chosen part of that state, keyed per store.
    pub fingerprint: u64,
    /// By which of the route's recipes the fingerprint was made: by another one it says nothing.
    pub recipe: u8,
    /// Whether that state bore a deletionTimestamp.
    pub deleting: bool,
}

/// In which state a debt leaves the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwedState {
    /// The object's latest state.
    Present,
    /// The object is gone.
    Gone,
    /// The object exists, but is no longer in the route's selection.
    Left,
    /// One of the two: under a selector for the server it looks the same. Which, is asked for when it is its turn.
    Missing,
}

/// Why something is told beside the object's own changes; each such reason gives its events ids of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cause {
    /// The object has changed.
    #[default]
    Change,
    /// The comparison after the edit that made this revision of the route's selection.
    Selection(u32),
    /// The resync of this number.
    Resync(u32),
}

/// What a route still has to tell about a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owed {
    /// The incarnation.
    pub uid: Uid,
    /// Its newest known state; of what was inferred the newest that was told or attempted.
    pub sequence: Sequence,
    /// What is to be told.
    pub state: OwedState,
    /// That it is gone, or has left, was found by comparison: no watch showed it.
    pub inferred: bool,
    /// The object is known to have existed before it came into the route's selection.
    pub existed: bool,
    /// How the newest merged change came to be known.
    pub origin: Origin,
    /// Why it is told.
    pub cause: Cause,
    /// How many earlier changes this debt covers.
    pub coalesced: u32,
}

impl Owed {
    /// Whether it is a deletion that no watch showed: it sorts after the state that it names.
    pub fn is_inferred_deletion(&self) -> bool {
        self.inferred && self.state == OwedState::Gone
    }
}

/// A state that was attempted and whose answer was not recorded: the sink may have it or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// The incarnation.
    pub uid: Uid,
    /// The newest state of it that may have been told.
    pub sequence: Sequence,
    /// That it is gone after that state may have been told, too.
    pub gone: bool,
}

/// An incarnation that is gone, while the watch may still have something to show of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Over {
    /// The incarnation.
    pub uid: Uid,
    /// Up to here it is known.
    pub until: Sequence,
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
    /// The place of a fetched state that ran ahead of the feed's position.
    pub fetched: Option<Sequence>,
    /// An incarnation that was found to be gone ahead of the feed's position.
    pub over: Option<Over>,
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
    /// The life of the cluster's counter that the versions below belong to.
    pub epoch: Epoch,
    /// How often that counter was found to have stepped back.
    pub rewinds: u32,
    /// The newest resourceVersion that was read, if the next start may resume from it.
    pub position: Option<ResourceVersion>,
    /// The newest resourceVersion that the feed was given in this epoch: a smaller one of the cluster is a rewind.
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
    /// Whether a CustomResourceDefinition was seen to define it: only then can the kind itself be seen to be gone.
    pub defined: bool,
}

/// What is kept of a route in one feed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteRecord {
    /// Whether the route has completed a first comparison.
    pub synced: bool,
    /// What the route selects, as text; another text is another selection.
    pub selection: String,
    /// How often the selection was edited. What was saved under another revision speaks of another selection.
    pub revision: u32,
    /// How often a resync was asked for.
    pub resyncs: u32,
    /// How fingerprints are made, as text; another text is another recipe.
    pub recipe: String,
    /// The number of the recipe that told records name.
    pub recipe_number: u8,
}

/// What a route was like when the process ended, as the store gives it back to one of its feeds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteState {
    /// What was saved of it in this feed.
    pub record: Option<RouteRecord>,
    /// What was saved of it in another feed, under the highest revision: it may have read that one before.
    pub elsewhere: Option<RouteRecord>,
    /// The newest that any other feed of the route was ever given: what is less is a rewind, for this one too.
    pub newest_elsewhere: Option<Sequence>,
    /// Whether the route has followed the feed up to the saved position; one that has not lists first.
    pub followed: bool,
    /// What was told and owed, in the order of the keys.
    pub records: Vec<(Key, KeyRecord)>,
}

/// One transaction: position, told and owed stand or fall together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Save {
    /// The feed's record.
    pub feed: FeedRecord,
    /// Every route of the feed, in the order of their numbers.
    pub routes: Vec<RouteRecord>,
    /// Routes for which the position speaks: they have followed the feed up to it. A route that was out of the
    /// configuration for a while has not.
    pub followed: Vec<usize>,
    /// Per route (by its number in the engine) and key the record as it is now; an empty one is removed.
    pub records: Vec<(usize, Key, KeyRecord)>,
}
