//! A webhook's settings as plain data. How they are written in a file is the configuration's business.

use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use url::Url;

use crate::sink::Mode;

/// A header value that no log may show.
#[derive(Clone)]
pub struct Secret(HeaderValue);

impl Secret {
    /// The secret with this text; `None` when a header cannot carry it.
    pub fn new(text: &str) -> Option<Self> {
        let mut value = HeaderValue::from_str(text).ok()?;
        value.set_sensitive(true);
        Some(Self(value))
    }

    pub(super) fn value(&self) -> HeaderValue {
        self.0.clone()
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("[redacted]")
    }
}

/// How an endpoint is called.
#[derive(Clone, Debug)]
pub struct WebhookConfig {
    /// The endpoint.
    pub url: Url,
    /// Structured or binary.
    pub mode: Mode,
    /// A delivery as a whole takes at most this long.
    pub timeout: Duration,
    /// Connecting takes at most this long.
    pub connect_timeout: Duration,
    /// Requests under way at once.
    pub concurrency: usize,
    /// `Authorization`, as `Bearer ...`.
    pub authorization: Option<Secret>,
    /// Headers that are sent along.
    pub headers: HeaderMap,
}

impl WebhookConfig {
    /// An endpoint with the defaults: structured, 10 s, 5 s to connect, 8 at once.
    pub fn new(url: Url) -> Self {
        Self {
            url,
            mode: Mode::Structured,
            timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(5),
            concurrency: 8,
            authorization: None,
            headers: HeaderMap::new(),
        }
    }
}
