//! What an endpoint's answer means for an event.

use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderMap, StatusCode};
use jiff::Timestamp;

use crate::model::Verdict;

const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(3_600);

/// | status | verdict |
/// |---|---|
/// | 2xx | Delivered |
/// | 410 | Gone |
/// | 400, 413, 415, 422 | Reject: this event, for good |
/// | 401, 403, 404, 405, 407, and 3xx, which are not followed | Unavailable: a fault of the endpoint or its settings |
/// | 429, 503 | Unavailable, not before `Retry-After` |
/// | 408, 409, 425, other 5xx, anything else | Retry, not before `Retry-After` |
pub(super) fn of_response(status: StatusCode, headers: &HeaderMap, now: Timestamp) -> Verdict {
    let reason = format!("the endpoint answered {status}");
    let after = headers.get(RETRY_AFTER).and_then(|value| retry_after(value.to_str().ok()?, now));
    match status.as_u16() {
        200..=299 => Verdict::Delivered,
        410 => Verdict::Gone { reason },
        400 | 413 | 415 | 422 => Verdict::Reject { reason },
        300..=399 => Verdict::Unavailable { reason: format!("{reason}; redirects are not followed"), after },
        401 | 403 | 404 | 405 | 407 | 429 | 503 => Verdict::Unavailable { reason, after },
        _ => Verdict::Retry { reason, after },
    }
}

/// No answer: a connection that cannot be made says something of the whole endpoint, one that broke or took too long of
/// this delivery only.
pub(super) fn of_error(error: &reqwest::Error) -> Verdict {
    let mut reason = String::from("the endpoint did not answer");
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        reason.push_str(": ");
        reason.push_str(&error.to_string());
        cause = error.source();
    }
    if error.is_connect() || error.is_builder() {
        Verdict::Unavailable { reason, after: None }
    } else {
        Verdict::Retry { reason, after: None }
    }
}

/// `Retry-After` in both of its forms (RFC 9110, section 10.2.3), bounded on both sides: neither a storm nor for ever.
fn retry_after(text: &str, now: Timestamp) -> Option<Duration> {
    let wait = match text.trim().parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let at = jiff::fmt::rfc2822::parse(text.trim()).ok()?.timestamp();
            Duration::try_from(at.duration_since(now)).unwrap_or_default()
        }
    };
    Some(wait.clamp(SHORTEST, LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(status: u16, retry_after: Option<&str>) -> Verdict {
        let mut headers = HeaderMap::new();
        if let Some(text) = retry_after {
            headers.insert(RETRY_AFTER, text.parse().unwrap());
        }
        of_response(StatusCode::from_u16(status).unwrap(), &headers, "1994-11-06T08:49:07Z".parse().unwrap())
    }

    #[test]
    fn every_status_has_its_verdict() {
        for status in 200..600 {
            let verdict = verdict(status, None);
            let expected = match status {
                200..=299 => matches!(verdict, Verdict::Delivered),
                410 => matches!(verdict, Verdict::Gone { .. }),
                400 | 413 | 415 | 422 => matches!(verdict, Verdict::Reject { .. }),
                300..=399 | 401 | 403 | 404 | 405 | 407 | 429 | 503 => matches!(verdict, Verdict::Unavailable { .. }),
                _ => matches!(verdict, Verdict::Retry { .. }),
            };
            assert!(expected, "{status}: {verdict:?}");
        }
    }

    #[test]
    fn retry_after_is_obeyed_in_seconds_and_as_a_date_within_bounds() {
        for (text, seconds) in [
            ("20", Some(20)),
            ("0", Some(1)),
            ("999999", Some(3_600)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(30)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(1)),
            ("soon", None),
        ] {
            let Verdict::Unavailable { after, .. } = verdict(429, Some(text)) else { panic!("{text}") };
            assert_eq!(after, seconds.map(Duration::from_secs), "{text}");
        }
    }
}
