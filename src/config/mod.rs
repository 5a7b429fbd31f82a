//! What the user wants, from a YAML file: checked as a whole, every mistake told at once with its place and a hint.
//!
//! It connects to nothing and reads no secret: a configuration that is right can be checked anywhere. Its data are its
//! own and not the sinks' or the engine's, which the composition root makes of them.

#[cfg(test)]
mod broken;
mod data;
mod document;
mod mistakes;
mod reader;
mod routes;
mod secret;
mod settings;
mod sinks;
#[cfg(test)]
mod tests;
mod values;

use std::path::Path;

pub use crate::model::{Initial, Mode, PayloadMode};
pub use data::{
    Admin, Audit, Config, Debounce, Events, HeaderSource, KafkaSink, Kubernetes, Limits, NatsSink, Payload, Resource,
    Route, SingleRoute, Sink, SinkKind, State, Watch, WebhookSink,
};
pub use mistakes::{Mistake, Mistakes, Position};
pub use secret::{Secret, SecretError, SecretValue};

use mistakes::Report;

/// Reads the configuration at this path.
///
/// # Errors
/// All that is wrong with it, or why the file cannot be read.
pub fn load(path: &Path) -> Result<Config, Mistakes> {
    let name = path.display().to_string();
    match std::fs::read(path).map(String::from_utf8) {
        Ok(Ok(text)) => parse(&text, &name),
        Ok(Err(_)) => unreadable(&name, "the file is not UTF-8", "save the file as UTF-8 text"),
        Err(error) => {
            let message = format!("the file cannot be read: {error}");
            unreadable(&name, &message, "check the path, and that the process's user may read it")
        }
    }
}

/// Reads a configuration from its text; mistakes are told by this name of the file.
///
/// # Errors
/// All that is wrong with it.
pub fn parse(text: &str, name: &str) -> Result<Config, Mistakes> {
    let mut report = Report::default();
    let config = document::read(text, &mut report).and_then(|root| settings::read(&root, &mut report));
    report.finish(name, config)
}

fn unreadable(name: &str, message: &str, hint: &str) -> Result<Config, Mistakes> {
    let mut report = Report::default();
    report.add(None, "", message, hint);
    report.finish(name, None)
}
