//! Why a request to the API server failed, classified by what can be done about it. What is done is the engine's
//! decision.

use std::time::Duration;

use http::StatusCode;

use super::watch_line::StatusError;

/// No answer keeps a feed silent for longer, whatever it says.
const LONGEST: Duration = Duration::from_secs(300);

/// A request that did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// 410 in either form: the version is no longer in the watch history, or the continue token has expired.
    #[error("the version that was asked for has expired: {0}")]
    Expired(String),
    /// 429, or 503 with Retry-After: to be left alone for a while.
    #[error("the API server asks to wait: {reason}")]
    Throttled {
        /// What it said.
        reason: String,
        /// For how long, if it said so.
        after: Option<Duration>,
    },
    /// 404: the kind, or the object, is not there.
    #[error("not found: {0}")]
    NotFound(String),
    /// The kind is not there, and the definition that made it one was seen to be gone.
    #[error("not found: {0}")]
    KindGone(String),
    /// 403: the permission is missing; the API server's text names verb and resource.
    #[error("not permitted: {0}")]
    Forbidden(String),
    /// 422: the server does not take the request's parameters, as older ones those of a streaming list.
    #[error("the API server does not take the request: {0}")]
    Invalid(String),
    /// A line, item or body that cannot be read.
    #[error("unreadable: {0}")]
    Undecodable(String),
    /// Anything else that may pass: network, time-outs, server errors, credentials.
    #[error("{0}")]
    Other(String),
}

impl Failure {
    /// The failure of an answer with this status. The body may be a `Status` over several lines, or plain text.
    pub fn of_response(status: StatusCode, retry_after: Option<Duration>, body: &[u8]) -> Self {
        let parsed = serde_json::from_slice::<StatusError>(body).ok();
        let text = String::from_utf8_lossy(&body[..body.len().min(1_024)]).trim().to_owned();
        let message = parsed.as_ref().map_or(text, |status| status.message.clone());
        let code =
            if status == StatusCode::OK { parsed.as_ref().map_or(0, |status| status.code) } else { status.as_u16() };
        let after =
            retry_after.or_else(|| parsed.as_ref().and_then(StatusError::retry_after_seconds).map(Duration::from_secs));
        let after = after.map(|after| after.min(LONGEST));
        match code {
            _ if parsed.as_ref().is_some_and(StatusError::is_expired) => Self::Expired(message),
            410 => Self::Expired(message),
            429 => Self::Throttled { reason: message, after },
            503 | 504 if after.is_some() => Self::Throttled { reason: message, after },
            404 => Self::NotFound(message),
            403 => Self::Forbidden(message),
            422 => Self::Invalid(message),
            _ => Self::Other(format!("the API server answered {code}: {message}")),
        }
    }

    /// The failure that an `ERROR` event names.
    pub fn of_status(status: &StatusError) -> Self {
        let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        if status.is_expired() {
            return Self::Expired(status.message.clone());
        }
        let after = status.retry_after_seconds().map(Duration::from_secs);
        Self::of_response(code, after, status.message.as_bytes())
    }
}
