//! One state of an object, and its bytes. They are made once a write; a line of a watch or an item of a list is put
//! together from them.

use std::io::Write;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde_json::{Map, Value};

/// The order of the members of built-in kinds' metadata, and of all metadata in `PartialObjectMetadata`: that of the
/// server's structs. Objects of custom kinds have theirs sorted.
const MEMBERS: &[&str] = &[
    "name",
    "generateName",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
    "managedFields",
];

/// One state of one object. It never changes.
#[derive(Debug)]
pub(super) struct State {
    /// Of the write that made it.
    pub(super) revision: u64,
    /// `namespace/name`, or `name`: what etcd sorts by.
    pub(super) key: Arc<str>,
    pub(super) value: Value,
    members: Members,
    metadata_only: OnceLock<Members>,
}

/// The members of an object but `apiVersion` and `kind`, and where in them the resourceVersion's digits are: a
/// deletion is told with another one.
#[derive(Debug)]
struct Members {
    bytes: Bytes,
    revision: Range<usize>,
}

/// How a reader wants objects: in which API version, whole or without all but their metadata.
#[derive(Clone, Debug)]
pub(super) struct View {
    /// What opens an object that stands alone.
    pub(super) opening: String,
    /// What opens an item of a list: those of built-in kinds do not say what they are.
    pub(super) item_opening: String,
    pub(super) metadata_only: bool,
}

impl State {
    /// `custom` objects have their members sorted, others in the order of the server's structs.
    pub(super) fn new(key: Arc<str>, value: Value, revision: u64, custom: bool) -> Self {
        let members = Members::write(&value, custom, false);
        Self { revision, key, value, members, metadata_only: OnceLock::new() }
    }

    pub(super) fn uid(&self) -> &str {
        self.value["metadata"]["uid"].as_str().unwrap_or_default()
    }

    /// Appends the object; with another resourceVersion than its own for deletions.
    pub(super) fn write(&self, view: &View, as_item: bool, revision: Option<u64>, out: &mut Vec<u8>) {
        out.extend_from_slice(if as_item { &view.item_opening } else { &view.opening }.as_bytes());
        let members = if view.metadata_only {
            self.metadata_only.get_or_init(|| Members::write(&self.value, false, true))
        } else {
            &self.members
        };
        match revision.filter(|revision| *revision != self.revision) {
            Some(revision) => {
                out.extend_from_slice(&members.bytes[..members.revision.start]);
                let _ = write!(out, "{revision}");
                out.extend_from_slice(&members.bytes[members.revision.end..]);
            }
            None => out.extend_from_slice(&members.bytes),
        }
        out.push(b'}');
    }

    /// The object alone.
    pub(super) fn bytes(&self, view: &View) -> Bytes {
        let mut out = Vec::with_capacity(view.opening.len() + self.members.bytes.len() + 24);
        self.write(view, false, None, &mut out);
        out.into()
    }

    /// A guess that spares most reallocations.
    pub(super) fn size(&self) -> usize {
        self.members.bytes.len() + 128
    }
}

impl Members {
    fn write(value: &Value, sorted: bool, metadata_only: bool) -> Self {
        let mut out = Vec::with_capacity(1024);
        let mut revision = 0..0;
        let empty = Map::new();
        let object = value.as_object().unwrap_or(&empty);
        let metadata = object.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
        if !sorted {
            revision = write_metadata(metadata, false, &mut out);
        }
        let others = object.iter().filter(|_| !metadata_only);
        for (name, member) in others.filter(|(name, _)| *name != "apiVersion" && *name != "kind") {
            if name != "metadata" {
                write_name(name, &mut out);
                write_value(member, &mut out);
            } else if sorted {
                revision = write_metadata(metadata, true, &mut out);
            }
        }
        Self { bytes: out.into(), revision }
    }
}

fn write_metadata(metadata: &Map<String, Value>, sorted: bool, out: &mut Vec<u8>) -> Range<usize> {
    let mut revision = 0..0;
    write_name("metadata", out);
    out.push(b'{');
    let mut member = |name: &str, value: &Value| {
        write_name(name, out);
        let start = out.len();
        write_value(value, out);
        if name == "resourceVersion" {
            revision = start + 1..out.len() - 1;
        }
    };
    if sorted {
        metadata.iter().for_each(|(name, value)| member(name, value));
    } else {
        let known = MEMBERS.iter().filter_map(|name| Some((*name, metadata.get(*name)?)));
        known.for_each(|(name, value)| member(name, value));
    }
    out.push(b'}');
    revision
}

fn write_name(name: &str, out: &mut Vec<u8>) {
    if !matches!(out.last(), None | Some(b'{')) {
        out.push(b',');
    }
    write_value(&Value::from(name), out);
    out.push(b':');
}

/// Writes as Go does, which escapes what HTML would read as markup.
fn write_value(value: &Value, out: &mut Vec<u8>) {
    let start = out.len();
    let _ = serde_json::to_writer(&mut *out, value);
    let written = &out[start..];
    if [b'<', b'>', b'&'].iter().any(|markup| written.contains(markup)) {
        let mut escaped = Vec::with_capacity(written.len() + 32);
        for byte in written {
            match byte {
                b'<' | b'>' | b'&' => drop(write!(escaped, "\\u{byte:04x}")),
                _ => escaped.push(*byte),
            }
        }
        out.truncate(start);
        out.extend_from_slice(&escaped);
    }
}
