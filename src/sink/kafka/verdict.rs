//! What a delivery report means for an event.

use rdkafka::error::{KafkaError, RDKafkaErrorCode};

use crate::model::Verdict;

/// | error | verdict |
/// |---|---|
/// | none | Delivered |
/// | message or record list too large, invalid record | Reject |
/// | topic or cluster authorization, authentication, unknown topic or partition, TLS | Unavailable |
/// | anything else, as a full queue, a fatal error of idempotence, a time-out | Retry: it may have been stored |
pub(super) fn of(report: Result<(), KafkaError>) -> Verdict {
    let Err(error) = report else { return Verdict::Delivered };
    let reason = error.to_string();
    match error.rdkafka_error_code() {
        Some(
            RDKafkaErrorCode::MessageSizeTooLarge
            | RDKafkaErrorCode::InvalidMessageSize
            | RDKafkaErrorCode::MessageBatchTooLarge
            | RDKafkaErrorCode::InvalidRecord,
        ) => Verdict::Reject { reason },
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
