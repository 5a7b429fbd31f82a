//! What comes out of the engine, and what goes in as an answer about one key: data only.

use crate::model::{Cause, Key, Object, Origin, ResourceVersion, Save, Sequence, Uid, What};

/// Names one delivery from its publication to its verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeliveryId(pub u64);

/// What the driver is to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Ask for the collection's newest resourceVersion by a consistent list of one; answer
    /// [`super::Engine::handle_probed`].
    Probe,
    /// Read the whole collection; answer with items, then finished or failed.
    List {
        /// By a streaming list, or else in pages.
        streaming: bool,
        /// Only the objects' metadata is needed: what differs is fetched.
        metadata_only: bool,
    },
    /// Watch from here on; answer with changes and bookmarks, then [`super::Engine::handle_stream_ended`].
    Watch {
        /// The version after which the changes are wanted.
        from: ResourceVersion,
    },
    /// Read one object of the collection, if it is in the feed's selection; answer [`super::Engine::handle_fetched`].
    Fetch {
        /// Which.
        key: Key,
    },
    /// See whether there is such an object, in the feed's selection or not; answer [`super::Engine::handle_looked`].
    Look {
        /// Which.
        key: Key,
    },
    /// Send one event; answer [`super::Engine::handle_delivered`].
    Publish(Publication),
    /// Commit one transaction; answer [`super::Engine::handle_saved`].
    Save(Save),
}

/// One event that is to be sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Publication {
    /// Names the delivery in its verdict.
    pub delivery: DeliveryId,
    /// The route, by its number in the engine.
    pub route: usize,
    /// What the event says happened.
    pub what: What,
    /// The object's key.
    pub key: Key,
    /// The incarnation.
    pub uid: Uid,
    /// The state's place in the order; of what was inferred that of the newest state that was told or attempted.
    pub sequence: Sequence,
    /// How many rewinds came before: a part of the id.
    pub rewinds: u32,
    /// Why it is told: a part of the id.
    pub cause: Cause,
    /// The object as it is told; absent where there is none to tell.
    pub object: Option<Object>,
    /// Whether no watch showed that it is gone or has left.
    pub inferred: bool,
    /// Whether it sorts after the state that its sequence names: that is what a deletion does that no watch showed, and
    /// whatever follows one.
    pub sorts_after: bool,
    /// How the change came to be known.
    pub origin: Origin,
    /// How many earlier changes this event covers.
    pub coalesced: u32,
}

/// What a fetch found.
#[derive(Clone, Debug)]
pub enum Fetched {
    /// The object, with its fingerprint for each route that selects it, in the order of the routes.
    Found(Object, Vec<Option<u64>>),
    /// No such object in the feed's selection: that it is gone or has left is on its way.
    NotFound,
    /// No answer, and why; ask again.
    Failed(String),
    /// The permission to read single objects is missing; the text names verb and resource. A list brings the same.
    Forbidden(String),
}

/// What a look found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Looked {
    /// An object of this incarnation, and none of another, at this version.
    Found(Uid, ResourceVersion),
    /// No such object, up to this version.
    NotFound(ResourceVersion),
    /// No answer, and why; ask again.
    Failed(String),
}
