//! What an audit has found, as it is shown to people and machines: plain data. No object's content is in it.

use serde::{Deserialize, Serialize};

/// What the audits of all feeds have found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditResult {
    /// Feed by feed.
    pub feeds: Vec<FeedAudit>,
}

/// What one feed's audit has found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FeedAudit {
    /// The feed.
    pub feed: String,
    /// Why it could not be made; everything below is empty then.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
    /// Objects that the cluster has.
    pub objects: u64,
    /// Differences that no watch had told of. An object that was deleted in the very moments of the audit counts, too.
    pub drift: u64,
    /// Which they are, a thousand at most.
    pub differences: Vec<Difference>,
}

/// One difference between what a route has told or owes and the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// The route, `name/resource/sink`.
    pub route: String,
    /// `namespace/name`, or `name`.
    pub object: String,
    /// What it owes now, and tells: `state`, `deleted`, `left`, or `missing` where that is still to be found out.
    pub owes: String,
}

impl AuditResult {
    /// All differences, those that are not named too.
    pub fn drift(&self) -> u64 {
        self.feeds.iter().map(|feed| feed.drift).sum()
    }

    /// Whether each audit could be made.
    pub fn is_complete(&self) -> bool {
        self.feeds.iter().all(|feed| feed.error.is_none())
    }
}
