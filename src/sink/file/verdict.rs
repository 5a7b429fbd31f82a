//! What an error of the file system means for an event. It is never the event's fault.

use std::io::{self, ErrorKind};

use crate::model::Verdict;

/// | error | verdict |
/// |---|---|
/// | broken pipe | Gone: the reader went away |
/// | interrupted, would block, timed out | Retry |
/// | anything else: full, read-only, no permission, device errors | Unavailable |
pub(super) fn of_error(error: &io::Error) -> Verdict {
    let reason = error.to_string();
    match error.kind() {
        ErrorKind::BrokenPipe => Verdict::Gone { reason },
        ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut => Verdict::Retry { reason, after: None },
        _ => Verdict::Unavailable { reason, after: None },
    }
}
