//! The engine, the feed, the store and the sinks together, on a real API server.

#[path = "../support/mod.rs"]
mod support;

mod main_job;
#[cfg(feature = "nats")]
mod nats;
