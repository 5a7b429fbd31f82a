//! What a delivery report means for an event.

use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use crate::model::Verdict;

/// | error | verdict |
/// |---|---|
/// | none | Delivered |
/// | message too large, by itself; invalid record | Reject |
/// | batch too large: the event goes again in a batch of its own, which decides | (none yet) |
/// | topic or cluster authorization, authentication, unknown topic or partition, TLS | Unavailable |
/// | anything else, as a full queue, a fatal error of idempotence, a time-out | Retry: it may have been stored |
pub(super) fn of(report: Result<(), KafkaError>) -> Verdict {
    let Err(error) = report else { return Verdict::Delivered };
    let reason = error.to_string();
    match error.rdkafka_error_code() {
        Some(code) if is_too_large(code) => Verdict::Reject { reason },
        Some(RDKafkaErrorCode::InvalidRecord) => Verdict::Reject { reason },
        Some(
            RDKafkaErrorCode::TopicAuthorizationFailed
            | RDKafkaErrorCode::ClusterAuthorizationFailed
            | RDKafkaErrorCode::SaslAuthenticationFailed
            | RDKafkaErrorCode::Authentication
            | RDKafkaErrorCode::SSL
            | RDKafkaErrorCode::UnknownTopic
            | RDKafkaErrorCode::UnknownPartition
            | RDKafkaErrorCode::UnknownTopicOrPartition
            | RDKafkaErrorCode::InvalidTopic,
        ) => Verdict::Unavailable { reason, after: None },
        _ => Verdict::Retry { reason, after: None },
    }
}

/// Whether this speaks of sizes. A broker says it of a whole batch, so that an event in one may not be at fault.
pub(super) fn is_too_large(code: RDKafkaErrorCode) -> bool {
    matches!(
        code,
        RDKafkaErrorCode::MessageSizeTooLarge
            | RDKafkaErrorCode::InvalidMessageSize
            | RDKafkaErrorCode::MessageBatchTooLarge
    )
}
