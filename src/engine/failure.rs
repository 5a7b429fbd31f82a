//! Why a request of a feed did not succeed, and where a feed stands: the words. What they lead to is the feed's decision.

use std::time::Duration;

/// Why a request of the feed did not succeed, as the edge has classified it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedFailure {
    /// 410 in either form: the version is no longer in the watch history, or the continue token has expired.
    Expired,
    /// The server asks to be left alone for a while.
    Throttled {
        /// What it said.
        reason: String,
        /// For how long, if it said so.
        after: Option<Duration>,
    },
    /// The kind is not served.
    NotServed(String),
    /// The kind is not served, and the CustomResourceDefinition that defined it was seen to be gone: so are its objects.
    KindGone(String),
    /// The permission is missing; the text names verb and resource.
    Forbidden(String),
    /// The server does not know streaming lists.
    StreamingUnsupported,
    /// A line or object could not be read; stepping over it would lose a change.
    Undecodable(String),
    /// Anything else that may pass: network, time-outs, server errors, credentials.
    Other(String),
}

/// Why a feed is parked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParkCause {
    /// The kind is not served.
    NotServed(String),
    /// The permission is missing.
    Forbidden(String),
}

/// Where a feed stands, for status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FeedState {
    /// Asks for the newest version before it resumes.
    Probing,
    /// Reads the whole collection.
    Listing,
    /// Follows the changes.
    Watching,
    /// Waits to try again.
    Waiting {
        /// What went wrong.
        reason: String,
    },
    /// Cannot go on until somebody acts; looks again by itself.
    Parked(ParkCause),
}
