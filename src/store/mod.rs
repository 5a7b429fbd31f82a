//! Where told, owed and position survive a crash. It writes what it is handed; when to write is the engine's decision.
//!
//! Two stores keep one contract, and one set of tests holds both to it: [`DiskStore`] (one redb file) and
//! [`MemoryStore`] (`state: memory`, and tests).

mod disk;
mod encoding;
#[cfg(test)]
mod encoding_promises;
#[cfg(fuzzing)]
mod fuzzing;
mod memory;

#[cfg(test)]
mod contract;
#[cfg(test)]
mod failures;
#[cfg(test)]
mod simulated_disk;

use std::path::PathBuf;

#[cfg(test)]
use crate::model::KeyRecord;
use crate::model::{Epoch, FeedRecord, Key, RouteState, Save, Sequence};

pub use disk::{DiskStore, OpenOptions, SetAside};
pub use encoding::DecodeError;
#[cfg(fuzzing)]
pub use fuzzing::fuzz_records;
pub use memory::MemoryStore;

/// Who a store belongs to and how it marks its events.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    /// The newest epoch of its sequences: it began with the store, or with a rewind of the cluster since.
    pub epoch: Epoch,
    /// How many rewinds came before that.
    pub rewinds: u32,
    /// The key of its fingerprints, so that they tell nothing to whoever sees them.
    pub fingerprint_key: [u8; 16],
    /// The uid of the cluster whose state it is, once bound.
    pub cluster: Option<String>,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The fingerprint key is a secret.
        formatter.debug_struct("Identity").field("epoch", &self.epoch).field("cluster", &self.cluster).finish()
    }
}

/// All that is kept of one feed and of the routes that were asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FeedState {
    /// The feed's own record.
    pub feed: FeedRecord,
    /// The routes, in the order in which they were asked for.
    pub routes: Vec<RouteState>,
}

/// Why a store could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// `mustExist` is set and there is none.
    #[error("there is no state at {}", .0.display())]
    Missing(PathBuf),
    /// Another process has it open.
    #[error("the state at {} is in use by another process", .0.display())]
    Locked(PathBuf),
    /// It cannot be trusted any more.
    #[error("the state at {} is corrupt: {reason}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What was found.
        reason: String,
    },
    /// A newer crier wrote it.
    #[error("the state at {} has format {found}; this version reads up to {known}", path.display())]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// The format that was found.
        found: u64,
        /// The newest format that is known.
        known: u64,
    },
    /// An older crier wrote it, in a format that is not read any more.
    #[error("the state at {} has format {found}; this version reads {known}", path.display())]
    OlderFormat {
        /// The file.
        path: PathBuf,
        /// The format that was found.
        found: u64,
        /// The format that is known.
        known: u64,
    },
    /// It belongs to another cluster.
    #[error("the state belongs to cluster {bound}, but this is cluster {cluster}")]
    OtherCluster {
        /// Whose state it is.
        bound: String,
        /// The cluster that was asked for.
        cluster: String,
    },
    /// The file system refused: full, read-only, gone.
    #[error("cannot write or read the state at {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The database refused for another reason.
    #[error("the database of the state failed: {0}")]
    Database(String),
}

impl StoreError {
    /// What to do about it, if something can be said.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Missing(_) => {
                Some("check the path and its volume, or set state.mustExist to false for a first start")
            }
            Self::Locked(_) => Some("stop the other process; two may not share one state"),
            Self::Corrupt { .. } => Some(
                "put a backup in its place; or begin anew with `crier run --fresh-state`, which sets the file aside: what exists is told again then, and deletions from before are not known",
            ),
            Self::NewerFormat { .. } => Some("run the newer version, or begin anew with `crier run --fresh-state`"),
            Self::OlderFormat { .. } => Some(
                "begin anew with `crier run --fresh-state`, which sets the file aside: what exists is told again then",
            ),
            Self::OtherCluster { .. } => Some("give each cluster a state directory of its own"),
            Self::Io { .. } => Some("check space, permissions and health of the volume"),
            Self::Database(_) => None,
        }
    }
}

/// What told, owed and position are kept in.
pub trait Store: Send {
    /// Who it belongs to.
    fn identity(&self) -> &Identity;

    /// Ties the store to a cluster by the uid of its `kube-system` namespace.
    ///
    /// # Errors
    /// When it is tied to another cluster, or cannot be written.
    fn bind_cluster(&mut self, uid: &str) -> Result<(), StoreError>;

    /// What is kept of this feed, and of these routes in it; nothing, where nothing was saved. What a route has told is
    /// kept by route, not by feed, so that it comes along when the route reads another feed: of its keys come those that
    /// `belongs` takes, by the number of the route.
    ///
    /// # Errors
    /// When it cannot be read, or what is read cannot be trusted.
    fn load(
        &self,
        feed: &str,
        routes: &[String],
        belongs: &dyn Fn(usize, &Key) -> bool,
    ) -> Result<FeedState, StoreError>;

    /// Writes one transaction, durable when this returns. `routes` names the routes that the save numbers.
    ///
    /// # Errors
    /// When it cannot be written. Then it is kept in full or not at all, and which of them is not known: the disk may
    /// fail after the last byte. Making the same save again is always right.
    fn commit(&mut self, feed: &str, routes: &[String], save: &Save) -> Result<(), StoreError>;
}

/// Of what is saved of a route in all its feeds, what concerns this one.
fn record_here_and_elsewhere<'a>(
    feed: &str,
    records: impl Iterator<Item = (&'a str, crate::model::RouteRecord, FeedRecord)>,
) -> RouteState {
    let mut state = RouteState::default();
    for (of, record, other) in records {
        if of == feed {
            state.record = Some(record);
            continue;
        }
        let newest = other.newest.map(|newest| Sequence::new(other.epoch, newest));
        state.newest_elsewhere = state.newest_elsewhere.max(newest);
        if state.elsewhere.as_ref().is_none_or(|known| known.revision < record.revision) {
            state.elsewhere = Some(record);
        }
    }
    state
}
