//! What an error of a publish means for an event.

use async_nats::jetstream::context::{PublishError, PublishErrorKind};

use crate::model::Verdict;

/// | error | verdict |
/// |---|---|
/// | no stream takes the subject | Unavailable |
/// | larger than the server's `max_payload` | Reject |
/// | time-out, broken pipe, too many in flight | Retry: it may have been stored, the message id tells the stream |
/// | wrong last id or sequence | Retry: nothing of ours asks for them |
/// | anything else, as another stream, a full one, no permission | Unavailable: a fault of the stream, not of the event |
pub(super) fn of_error(error: &PublishError) -> Verdict {
    of_kind(error.kind(), error.to_string())
}

fn of_kind(kind: PublishErrorKind, reason: String) -> Verdict {
    match kind {
        PublishErrorKind::MaxPayloadExceeded => Verdict::Reject { reason },
        PublishErrorKind::TimedOut
        | PublishErrorKind::BrokenPipe
        | PublishErrorKind::MaxAckPending
        | PublishErrorKind::WrongLastMessageId
        | PublishErrorKind::WrongLastSequence => Verdict::Retry { reason, after: None },
        PublishErrorKind::StreamNotFound | PublishErrorKind::Other => Verdict::Unavailable { reason, after: None },
    }
}
