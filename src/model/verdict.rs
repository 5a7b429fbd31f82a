//! A sink's answer to one delivery.

use std::time::Duration;

/// What a sink says of a delivery. Every error of every protocol is mapped to one of these, in the sink's `verdict.rs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The sink has acknowledged the event.
    Delivered,
    /// Try again: at once by the caller's backoff, or not before `after`.
    Retry {
        /// What happened, for people.
        reason: String,
        /// The sink's own word on when, if it gave one.
        after: Option<Duration>,
    },
    /// This event will never be taken.
    Reject {
        /// Why, for people.
        reason: String,
    },
    /// The whole sink or topic cannot take anything now; nothing is rejected.
    Unavailable {
        /// Why, for people.
        reason: String,
        /// The sink's own word on when, if it gave one.
        after: Option<Duration>,
    },
    /// The endpoint asks not to be called again.
    Gone {
        /// Why, for people.
        reason: String,
    },
}
