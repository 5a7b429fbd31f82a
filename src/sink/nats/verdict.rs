//! What an error of a publish means for an event.

use std::error::Error as _;

use async_nats::jetstream;
use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::context::{PublishError, PublishErrorKind};

use crate::model::Verdict;

/// | error | verdict |
/// |---|---|
/// | no stream takes the subject | Unavailable |
/// | larger than the server's `max_payload` (known once connected), or than the stream or its headers allow | Reject |
/// | the same message id is being stored (10158) | Retry |
/// | time-out, broken pipe, too many in flight | Retry: it may have been stored, the message id tells the stream |
/// | wrong last id or sequence | Retry: nothing of ours asks for them |
/// | anything else, as another stream, a full one, no permission | Unavailable: a fault of the stream, not of the event |
pub(super) fn of_error(error: &PublishError) -> Verdict {
    let answer = error.source().and_then(|source| source.downcast_ref::<jetstream::Error>());
    let reason = answer.map_or_else(|| error.to_string(), ToString::to_string);
    match answer.map(jetstream::Error::error_code) {
        Some(ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM | ErrorCode::STREAM_HEADER_EXCEEDS_MAXIMUM) => {
            Verdict::Reject { reason }
        }
        Some(ErrorCode::STREAM_DUPLICATE_MESSAGE_CONFLICT) => Verdict::Retry { reason, after: None },
        _ => of_kind(error.kind(), reason),
    }
}

/// Without a connection nothing is handed to the client: it would be held there, and checked against sizes that are not
/// the server's.
pub(super) fn not_connected() -> Verdict {
    Verdict::Unavailable { reason: "NATS is not connected".to_owned(), after: None }
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
