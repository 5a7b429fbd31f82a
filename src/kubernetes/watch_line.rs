//! One line of a watch, read: a change, a bookmark, or the server's error. What an error means is not decided here.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::metadata::{MetadataError, read_object};
use crate::model::{Object, ParseResourceVersionError, ResourceVersion};

const KEPT_BYTES: usize = 4 << 10;

/// A line of a watch.
#[derive(Clone, Debug, PartialEq)]
pub enum WatchLine {
    /// `ADDED`.
    Added(Object),
    /// `MODIFIED`.
    Modified(Object),
    /// `DELETED`: the last state, with the deletion's own resourceVersion.
    Deleted(Object),
    /// `BOOKMARK`: everything up to this version has been sent.
    Bookmark {
        /// The version.
        resource_version: ResourceVersion,
        /// Whether it is the end mark of a streaming list (`k8s.io/initial-events-end`).
        initial_events_end: bool,
    },
    /// `ERROR`: the server ends the watch.
    Error(StatusError),
}

/// A `Status` that the API server sent in place of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatusError {
    /// The HTTP status code; 0 if it named none.
    pub code: u16,
    /// A word for machines, as `Expired`.
    pub reason: String,
    /// A sentence for people.
    pub message: String,
    #[serde(rename = "details")]
    details: Details,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Details {
    retry_after_seconds: u64,
    causes: Vec<Cause>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Cause {
    reason: String,
}

impl StatusError {
    /// Whether the version that was asked for is no longer in the watch history: 410 in every form that is known.
    pub fn is_expired(&self) -> bool {
        self.code == 410 || self.reason == "Expired" || self.reason == "Gone"
    }

    /// Whether the server that answered is behind the version that was asked for.
    pub fn is_too_large_resource_version(&self) -> bool {
        self.details.causes.iter().any(|cause| cause.reason == "ResourceVersionTooLarge")
    }

    /// For how many seconds the server wants to be left alone, if it said so.
    pub fn retry_after_seconds(&self) -> Option<u64> {
        Some(self.details.retry_after_seconds).filter(|seconds| *seconds > 0)
    }
}

/// A line that cannot be read. Stepping over it would lose a change.
#[derive(Debug, thiserror::Error)]
#[error("a line of the watch is not readable: {cause}")]
pub struct WatchLineError {
    /// Why.
    #[source]
    pub cause: WatchLineCause,
    /// Its beginning, at most 4 KiB, to be shown.
    pub bytes: Bytes,
}

/// What is wrong with a line.
#[derive(Debug, thiserror::Error)]
pub enum WatchLineCause {
    /// Not JSON, or not of a watch event's shape.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// Its object is not one.
    #[error(transparent)]
    Object(#[from] MetadataError),
    /// A bookmark's version is none.
    #[error(transparent)]
    ResourceVersion(#[from] ParseResourceVersionError),
    /// A type of event that is not known.
    #[error("the type {0:?} is not known")]
    Type(String),
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type", borrow)]
    kind: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct Bookmark {
    metadata: BookmarkMetadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BookmarkMetadata {
    resource_version: String,
    #[serde(default)]
    annotations: std::collections::BTreeMap<String, String>,
}

/// Reads one line; an object's bytes are a slice of it.
///
/// # Errors
/// When the line is not a watch event; the error keeps its beginning.
pub fn read_watch_line(line: &Bytes) -> Result<WatchLine, WatchLineError> {
    read(line).map_err(|cause| WatchLineError { cause, bytes: line.slice(..line.len().min(KEPT_BYTES)) })
}

fn read(line: &Bytes) -> Result<WatchLine, WatchLineCause> {
    let parsed: Line<'_> = serde_json::from_slice(line)?;
    let text = parsed.object.get();
    let object = || read_object(line.slice_ref(text.as_bytes()), None);
    Ok(match &*parsed.kind {
        "ADDED" => WatchLine::Added(object()?),
        "MODIFIED" => WatchLine::Modified(object()?),
        "DELETED" => WatchLine::Deleted(object()?),
        "ERROR" => WatchLine::Error(serde_json::from_str(text)?),
        "BOOKMARK" => {
            let metadata = serde_json::from_str::<Bookmark>(text)?.metadata;
            WatchLine::Bookmark {
                resource_version: metadata.resource_version.parse()?,
                initial_events_end: metadata
                    .annotations
                    .get("k8s.io/initial-events-end")
                    .is_some_and(|value| value == "true"),
            }
        }
        other => return Err(WatchLineCause::Type(other.to_owned())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &'static str) -> Result<WatchLine, WatchLineError> {
        read_watch_line(&Bytes::from_static(text.as_bytes()))
    }

    #[test]
    fn an_objects_bytes_are_those_of_the_line() {
        let object = r#"{"apiVersion":"example.com/v1", "kind":"MyApp","metadata":{"name":"a","uid":"u","resourceVersion":"7"},"spec":{"n":1.0,"n":2}}"#;
        for kind in ["ADDED", "MODIFIED", "DELETED"] {
            let line = Bytes::from(format!(r#"{{"type":"{kind}","object":{object}}}"#));
            let read = read_watch_line(&line).unwrap();
            let (WatchLine::Added(found) | WatchLine::Modified(found) | WatchLine::Deleted(found)) = read else {
                panic!("{read:?}")
            };
            assert_eq!(found.bytes, object.as_bytes());
            assert!(line.as_ptr_range().contains(&found.bytes.as_ptr()), "not copied");
        }
    }

    #[test]
    fn the_end_mark_of_a_streaming_list_is_told_from_other_bookmarks() {
        let plain = read_text(r#"{"type":"BOOKMARK","object":{"kind":"MyApp","metadata":{"resourceVersion":"252"}}}"#);
        let marked = read_text(
            r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"252","annotations":{"k8s.io/initial-events-end":"true"}}}}"#,
        );
        let bookmark = |initial_events_end| WatchLine::Bookmark {
            resource_version: ResourceVersion::new(252).unwrap(),
            initial_events_end,
        };
        assert_eq!((plain.unwrap(), marked.unwrap()), (bookmark(false), bookmark(true)));
    }

    #[test]
    fn both_forms_of_lost_history_are_known() {
        for text in [
            r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old resource version: 1 (279)"}}"#,
            r#"{"type":"ERROR","object":{"kind":"Status","code":500,"reason":"Gone"}}"#,
        ] {
            let WatchLine::Error(status) = read_text(text).unwrap() else { panic!("{text}") };
            assert!(status.is_expired() && !status.is_too_large_resource_version());
        }
    }

    #[test]
    fn a_server_that_is_behind_says_so_and_when_to_come_back() {
        let text = r#"{"type":"ERROR","object":{"code":504,"reason":"Timeout","details":{"retryAfterSeconds":1,"causes":[{"reason":"ResourceVersionTooLarge"}]}}}"#;
        let WatchLine::Error(status) = read_text(text).unwrap() else { panic!() };
        assert!(status.is_too_large_resource_version() && !status.is_expired());
        assert_eq!(status.retry_after_seconds(), Some(1));
    }

    #[test]
    fn a_line_that_cannot_be_read_is_kept_to_a_bound() {
        for text in ["{", r#"{"type":"RENAMED","object":{}}"#, r#"{"type":"ADDED","object":{"metadata":{}}}"#] {
            assert_eq!(read_text(text).unwrap_err().bytes, text.as_bytes());
        }
        let long = Bytes::from(vec![b'x'; 100_000]);
        assert_eq!(read_watch_line(&long).unwrap_err().bytes.len(), 4_096);
    }
}
