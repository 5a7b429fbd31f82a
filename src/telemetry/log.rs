//! The log: lines for people, or JSON objects for machines, on standard error, so that standard output is left to events.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;

/// How a line of the log looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Pretty,
    /// One JSON object a line.
    Json,
}

/// Begins to log at this level, or by these directives in the syntax of `tracing-subscriber`'s `EnvFilter`. Without a
/// format it is for people on a terminal and JSON elsewhere.
///
/// # Errors
/// When the directives cannot be read.
pub fn start_log(directives: &str, format: Option<LogFormat>) -> Result<(), ParseError> {
    let filter = EnvFilter::try_new(directives)?;
    let terminal = std::io::stderr().is_terminal();
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second start, as in tests that share a process, leaves the first in place.
    let _ = match format.unwrap_or(if terminal { LogFormat::Pretty } else { LogFormat::Json }) {
        LogFormat::Pretty => log.with_ansi(terminal).with_target(false).try_init(),
        LogFormat::Json => log.json().flatten_event(true).with_current_span(false).with_span_list(false).try_init(),
    };
    Ok(())
}
