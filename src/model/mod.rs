//! The words that all rooms share: plain data, no IO, no decisions.
//!
//! It is not the place for behaviour of one room; whatever only the engine or only a sink needs lives there.

mod audit;
mod change;
mod choice;
mod key;
mod record;
mod resource_version;
mod sequence;
mod status;
mod verdict;

pub use audit::{AuditResult, Difference, FeedAudit};
pub use change::{Change, ChangeKind, Metadata, Object, Origin, What};
pub use choice::{Initial, Mode, PayloadMode};
pub use key::{Key, Uid};
pub use record::{
    Cause, Doubt, FeedRecord, KeyRecord, Over, Owed, OwedState, RouteRecord, RouteState, Save, Served, Told,
};
pub use resource_version::{ParseResourceVersionError, ResourceVersion};
pub use sequence::{Epoch, Sequence};
pub use status::{FeedPhase, FeedStatus, ProcessStatus, RouteCounters, RouteReport};
pub use verdict::Verdict;
