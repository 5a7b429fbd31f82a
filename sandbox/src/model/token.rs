//! The continue token of a list: at which revision, and from which key on.

use serde_json::{Value, json};

use super::text::{from_base64, to_base64};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    /// `None` for the newest: a token that gives up consistency.
    pub(super) revision: Option<u64>,
    /// The first key that may follow, relative to the collection's prefix.
    pub(super) start: String,
}

impl Token {
    pub(super) fn after(revision: u64, key: &str) -> String {
        // As the server writes it: the prefix's slash is part of the key.
        Self::write(&revision.to_string(), &format!("/{key}\0"))
    }

    /// The same place, without a revision; written without the slash, as the server does.
    pub(super) fn inconsistent(&self) -> String {
        Self::write("-1", &self.start)
    }

    fn write(revision: &str, start: &str) -> String {
        let start = json!(start);
        to_base64(format!("{{\"v\":\"meta.k8s.io/v1\",\"rv\":{revision},\"start\":{start}}}").as_bytes())
    }

    pub(super) fn read(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_slice(&from_base64(text)?).ok()?;
        let revision = value["rv"].as_i64()?;
        let start = value["start"].as_str()?;
        let start = start.strip_prefix('/').unwrap_or(start).to_owned();
        (value["v"] == "meta.k8s.io/v1").then_some(Self { revision: u64::try_from(revision).ok(), start })
    }
}
