//! What was observed of an object: its metadata, its bytes as the API server sent them, and how it was seen.

use std::sync::Arc;

use bytes::Bytes;

use super::{Key, ResourceVersion, Uid};

/// The part of an object that crier reads; everything else passes through as bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metadata {
    /// `group/version` as in the object.
    pub api_version: String,
    /// `kind` as in the object.
    pub kind: String,
    /// Namespace and name.
    pub key: Key,
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.resourceVersion`.
    pub resource_version: ResourceVersion,
    /// `metadata.generation`, if the kind has one.
    pub generation: Option<i64>,
    /// `metadata.creationTimestamp`, RFC 3339 as sent.
    pub creation_timestamp: Option<String>,
    /// `metadata.deletionTimestamp`, RFC 3339 as sent: finalizers are at work.
    pub deletion_timestamp: Option<String>,
    /// The newest `time` in `metadata.managedFields`, RFC 3339 as sent.
    pub last_write: Option<String>,
    /// The manager of that entry: a name the client chose, not an identity.
    pub field_manager: Option<String>,
}

/// An object: what was read of it, and its JSON text as the API server sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// The part that was read.
    pub metadata: Arc<Metadata>,
    /// The JSON text, untouched.
    pub bytes: Bytes,
}

/// How a change came to be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Seen live on a watch.
    Watch,
    /// Found by comparing a list with what was told.
    Relist,
    /// Existed when the route first read it.
    Snapshot,
    /// Asked for by an operator.
    Resync,
    /// Found by a periodic audit.
    Audit,
}

impl Origin {
    /// The value of the event attribute `origin`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Watch => "watch",
            Self::Relist => "relist",
            Self::Snapshot => "snapshot",
            Self::Resync => "resync",
            Self::Audit => "audit",
        }
    }
}

/// One change that a watch has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The object; of a deletion, its last state with the deletion's own resourceVersion.
    pub object: Object,
    /// What the watch calls it.
    pub kind: ChangeKind,
}

/// What a watch says of a change. Under a selector for the server an object that comes into the selection is `Added`, and
/// one that leaves it `Deleted`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// `ADDED`.
    Added,
    /// `MODIFIED`.
    Modified,
    /// `DELETED`.
    Deleted,
}

/// What an event says happened: the last part of the event's `type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum What {
    /// The sink had not been told of this object.
    Created,
    /// The sink has been told of an earlier state.
    Updated,
    /// `deletionTimestamp` has appeared: finalizers are at work.
    Deleting,
    /// The object is gone.
    Deleted,
    /// The object existed when the route first read it, or was re-read on request.
    Observed,
    /// It came into the route's selection while it exists.
    Entered,
    /// It fell out of the route's selection while it exists.
    Left,
}

impl What {
    /// The last part of the event's `type`, and a part of its `id`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Updated => "updated",
            Self::Deleting => "deleting",
            Self::Deleted => "deleted",
            Self::Observed => "observed",
            Self::Entered => "entered",
            Self::Left => "left",
        }
    }
}
