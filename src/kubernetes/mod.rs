//! What the API server says, made readable: bytes of a watch or list into changes. No decisions: what a change or a
//! failure means is the engine's business.
//!
//! Only metadata is parsed. An object's bytes are a slice of what was received, untouched and uncopied.

mod connection;
mod discovery;
mod failure;
mod lines;
mod list;
mod metadata;
mod namespaces;
mod rate;
mod requests;
mod watch_line;

#[cfg(test)]
mod tests;

pub use connection::{Connection, ConnectionError, ConnectionSettings};
pub use failure::Failure;
pub use lines::{LineError, LineSplitter};
pub use list::{ListPage, read_page};
pub use metadata::{MetadataError, TypeMeta, read_object};
pub use requests::{Collection, Requests};
pub use watch_line::{StatusError, WatchLine, WatchLineCause, WatchLineError, read_watch_line};
