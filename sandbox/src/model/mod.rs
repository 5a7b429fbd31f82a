//! The API server: etcd, watch caches, kinds and objects, and the paths on which they are served. Not HTTP itself.
//!
//! `store` and `kind` are what etcd and the watch caches hold, `objects` and `definitions` what a write does to it,
//! `list` and `watch` how it is read, `server` which path leads where, `operator` what people do to clusters.

mod definitions;
mod discovery;
mod kind;
mod list;
mod members;
mod objects;
mod operator;
mod refusal;
mod request;
mod selector;
mod server;
mod state;
mod store;
mod text;
mod token;
mod watch;
mod writes;

pub use operator::{Failure, Held, Snapshot};
pub use refusal::Refusal;
pub use request::{Answer, Body, Request};
pub use server::ApiServer;
pub use watch::{StreamId, StreamPoll};
pub use writes::ObjectPath;
