//! Reads of an object's JSON what crier needs, and steps over the rest without building anything of it.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};

use crate::model::{Key, Metadata, Object, ParseResourceVersionError, Uid};

/// An object that cannot be read as one.
#[derive(Debug, thiserror::Error)]
pub enum MetadataError {
    /// Not JSON, or not of an object's shape.
    #[error("the object is not readable: {0}")]
    Json(#[from] serde_json::Error),
    /// A resourceVersion that KEP-5504 does not allow.
    #[error(transparent)]
    ResourceVersion(#[from] ParseResourceVersionError),
    /// A field that every object has is missing.
    #[error("the object has no {0}")]
    Missing(&'static str),
}

/// `apiVersion` and `kind`, for items of a list that do not repeat them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeMeta {
    /// `group/version`.
    pub api_version: String,
    /// The kind.
    pub kind: String,
}

type Text<'a> = std::borrow::Cow<'a, str>;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head<'a> {
    #[serde(borrow)]
    api_version: Option<Text<'a>>,
    #[serde(borrow)]
    kind: Option<Text<'a>>,
    #[serde(borrow)]
    metadata: Fields<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Fields<'a> {
    #[serde(borrow)]
    namespace: Option<Text<'a>>,
    #[serde(borrow)]
    name: Option<Text<'a>>,
    #[serde(borrow)]
    uid: Option<Text<'a>>,
    #[serde(borrow)]
    resource_version: Option<Text<'a>>,
    generation: Option<i64>,
    #[serde(borrow)]
    creation_timestamp: Option<Text<'a>>,
    #[serde(borrow)]
    deletion_timestamp: Option<Text<'a>>,
    #[serde(default, borrow)]
    managed_fields: NewestWrite<'a>,
}

/// The newest entry of `managedFields`. The rest of the list, most of many an object's bytes, is stepped over.
#[derive(Default)]
struct NewestWrite<'a> {
    time: Option<Text<'a>>,
    manager: Option<Text<'a>>,
}

#[derive(Deserialize)]
struct Write<'a> {
    #[serde(borrow)]
    time: Option<Text<'a>>,
    #[serde(borrow)]
    manager: Option<Text<'a>>,
}

impl<'de: 'a, 'a> Deserialize<'de> for NewestWrite<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Writes;
        impl<'de> Visitor<'de> for Writes {
            type Value = NewestWrite<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a list of managed fields")
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(NewestWrite::default())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
                let mut newest = NewestWrite::default();
                while let Some(write) = entries.next_element::<Write<'de>>()? {
                    // RFC 3339 in UTC, as Kubernetes writes it, sorts as text; of two at one second the later wins.
                    if write.time >= newest.time {
                        newest = NewestWrite { time: write.time, manager: write.manager };
                    }
                }
                Ok(newest)
            }
        }
        deserializer.deserialize_any(Writes)
    }
}

/// Reads one object; `bytes` becomes its body as it is, without the white space around it.
///
/// One state of an object has the same bytes however it is read, since its fingerprints are of them: the line end after
/// a single object is not the object's, and an item of a list of a built-in kind, which has no type of its own, is given
/// it where a watch has it. Only then are bytes copied.
///
/// # Errors
/// When it is not JSON, or lacks what every object has. `defaults` stands in for a missing `apiVersion` and `kind`.
pub fn read_object(bytes: Bytes, defaults: Option<&TypeMeta>) -> Result<Object, MetadataError> {
    let bytes = bytes.slice_ref(bytes.trim_ascii());
    let head: Head<'_> = serde_json::from_slice(&bytes)?;
    let untyped = head.api_version.is_none() && head.kind.is_none();
    let fields = head.metadata;
    let or_default = |own: Option<Text<'_>>, default: Option<&String>, name| {
        own.map(Text::into_owned).or_else(|| default.cloned()).ok_or(MetadataError::Missing(name))
    };
    let name = fields.name.ok_or(MetadataError::Missing("metadata.name"))?;
    let uid = fields.uid.ok_or(MetadataError::Missing("metadata.uid"))?;
    let version = fields.resource_version.ok_or(MetadataError::Missing("metadata.resourceVersion"))?;
    let metadata = Metadata {
        api_version: or_default(head.api_version, defaults.map(|types| &types.api_version), "apiVersion")?,
        kind: or_default(head.kind, defaults.map(|types| &types.kind), "kind")?,
        key: Key::new(fields.namespace.as_deref().unwrap_or_default(), &name),
        uid: Uid::new(&uid),
        resource_version: version.parse()?,
        generation: fields.generation,
        creation_timestamp: fields.creation_timestamp.map(Text::into_owned),
        deletion_timestamp: fields.deletion_timestamp.map(Text::into_owned),
        last_write: fields.managed_fields.time.map(Text::into_owned),
        field_manager: fields.managed_fields.manager.map(Text::into_owned),
    };
    let bytes = if untyped { with_type(&bytes, &metadata) } else { bytes };
    Ok(Object { metadata: Arc::new(metadata), bytes })
}

/// The object's text with its type in front, in the order in which built-in kinds have it.
fn with_type(bytes: &Bytes, metadata: &Metadata) -> Bytes {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let head = format!("{{\"kind\":{},\"apiVersion\":{},", quoted(&metadata.kind), quoted(&metadata.api_version));
    // What was read as an object begins with a brace, and is not empty.
    [head.as_bytes(), bytes[1..].trim_ascii_start()].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBJECT: &str = r#"{"apiVersion":"example.com/v1","kind":"MyApp","metadata":{"name":"shop","namespace":"team-a",
        "uid":"u-1","resourceVersion":"42","generation":3,"creationTimestamp":"2026-01-01T00:00:00Z",
        "managedFields":[{"manager":"kubectl","time":"2026-01-02T00:00:00Z","fieldsV1":{"f:spec":{}}},
        {"manager":"controller","time":"2026-01-03T00:00:00Z"},{"manager":"old","time":"2026-01-01T00:00:00Z"}]},
        "spec":{"replicas":1.0,"replicas":2}}"#;

    #[test]
    fn the_metadata_is_read_and_the_bytes_stay_as_they_are() {
        let object = read_object(Bytes::from_static(OBJECT.as_bytes()), None).unwrap();
        let metadata = &object.metadata;
        assert_eq!(metadata.key, Key::new("team-a", "shop"));
        assert_eq!((metadata.resource_version.get(), metadata.generation), (42, Some(3)));
        assert_eq!(metadata.last_write.as_deref(), Some("2026-01-03T00:00:00Z"));
        assert_eq!(metadata.field_manager.as_deref(), Some("controller"));
        assert_eq!(object.bytes.as_ptr(), OBJECT.as_ptr(), "not copied");
    }

    #[test]
    fn an_item_of_a_list_takes_its_type_from_the_list() {
        let item = br#"{"metadata":{"name":"n","uid":"u","resourceVersion":"1","managedFields":null}}"#;
        let types = TypeMeta { api_version: "example.com/v1".into(), kind: "MyApp".into() };
        let object = read_object(Bytes::from_static(item), Some(&types)).unwrap();
        assert_eq!((&*object.metadata.kind, object.metadata.key.namespace()), ("MyApp", None));
        let text = r#"{"kind":"MyApp","apiVersion":"example.com/v1","metadata":{"name":"n","uid":"u","resourceVersion":"1","managedFields":null}}"#;
        assert_eq!(object.bytes, text, "as a watch would have it");
        assert!(matches!(read_object(Bytes::from_static(item), None), Err(MetadataError::Missing("apiVersion"))));
    }

    #[test]
    fn the_line_end_after_an_object_is_not_the_objects() {
        let object = read_object(Bytes::from(format!(" {OBJECT}\n")), None).unwrap();
        assert_eq!(object.bytes, OBJECT);
    }

    #[test]
    fn what_every_object_has_is_asked_for_by_name() {
        for (text, missing) in [
            (r#"{"metadata":{"uid":"u","resourceVersion":"1"}}"#, "metadata.name"),
            (r#"{"metadata":{"name":"n","resourceVersion":"1"}}"#, "metadata.uid"),
            (r#"{"metadata":{"name":"n","uid":"u"}}"#, "metadata.resourceVersion"),
        ] {
            let error = read_object(Bytes::from_static(text.as_bytes()), None).unwrap_err();
            assert!(matches!(error, MetadataError::Missing(name) if name == missing), "{error}");
        }
    }
}
