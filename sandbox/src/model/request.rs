//! What is asked and what is answered, and the parameters of a query. Not what they mean.

use bytes::Bytes;

use super::refusal::Refusal;
use super::watch::StreamId;

/// One HTTP request, as far as it matters.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// `GET`, `POST`, `PUT`, `PATCH` (always a JSON merge patch) or `DELETE`.
    pub method: &'a str,
    /// Path and query, percent-encoded.
    pub target: &'a str,
    /// The Accept header; `as=PartialObjectMetadata` and `as=PartialObjectMetadataList` in it are understood.
    pub accept: &'a str,
    /// The body, or nothing.
    pub body: &'a [u8],
}

impl<'a> Request<'a> {
    /// A GET that takes JSON.
    pub fn get(target: &'a str) -> Self {
        Self { method: "GET", target, accept: "application/json", body: b"" }
    }

    /// A request with a body.
    pub fn with_body(method: &'a str, target: &'a str, body: &'a [u8]) -> Self {
        Self { method, target, accept: "application/json", body }
    }
}

/// One HTTP answer.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// Seconds of a Retry-After header.
    pub retry_after: Option<u64>,
    /// What follows.
    pub body: Body,
}

/// The body of an answer.
#[derive(Clone, Debug)]
pub enum Body {
    /// All of it: JSON, or plain text if it begins with no brace.
    Whole(Bytes),
    /// The lines of a watch, to be polled.
    Stream(StreamId),
}

impl Answer {
    pub(super) fn ok(body: impl Into<Bytes>) -> Self {
        Self { status: 200, retry_after: None, body: Body::Whole(body.into()) }
    }

    pub(super) fn created(body: impl Into<Bytes>) -> Self {
        Self { status: 201, ..Self::ok(body) }
    }

    pub(super) fn stream(stream: StreamId) -> Self {
        Self { status: 200, retry_after: None, body: Body::Stream(stream) }
    }

    /// What the router says of a path that nothing serves: text, not a Status.
    pub(super) fn page_not_found() -> Self {
        Self { status: 404, ..Self::ok(&b"404 page not found\n"[..]) }
    }
}

impl From<Refusal> for Answer {
    fn from(refusal: Refusal) -> Self {
        Self { status: refusal.status, retry_after: refusal.retry_after, body: Body::Whole(refusal.body().into()) }
    }
}

/// The parameters of a list or a watch.
#[derive(Clone, Debug, Default)]
pub(super) struct Query {
    pub(super) watch: bool,
    pub(super) resource_version: String,
    pub(super) version_match: String,
    pub(super) limit: usize,
    pub(super) continue_token: String,
    pub(super) labels: String,
    pub(super) fields: String,
    pub(super) send_initial_events: Option<bool>,
    pub(super) bookmarks: bool,
    pub(super) timeout_seconds: Option<u64>,
}

impl Query {
    pub(super) fn parse(text: &str) -> Self {
        let mut query = Self::default();
        for pair in text.split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let truth = || value == "1" || value == "true";
            match name {
                "watch" => query.watch = truth(),
                "resourceVersion" => query.resource_version = decode(value),
                "resourceVersionMatch" => query.version_match = decode(value),
                // A negative limit is none.
                "limit" => query.limit = value.parse().unwrap_or(0),
                "continue" => query.continue_token = decode(value),
                "labelSelector" => query.labels = decode(value),
                "fieldSelector" => query.fields = decode(value),
                "sendInitialEvents" => query.send_initial_events = Some(truth()),
                "allowWatchBookmarks" => query.bookmarks = truth(),
                "timeoutSeconds" => query.timeout_seconds = value.parse().ok(),
                _ => {}
            }
        }
        query
    }
}

/// Undoes percent-encoding, and the plus of forms.
pub(super) fn decode(text: &str) -> String {
    if !text.contains(['%', '+']) {
        return text.to_owned();
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        rest = after;
        match (first, hex) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            (b'+', _) => bytes.push(b' '),
            _ => bytes.push(first),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
