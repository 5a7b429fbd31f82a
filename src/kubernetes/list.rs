//! One page of a list, read item by item: no item's tree, and no second copy of any item, is ever held.

use std::fmt;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::metadata::{MetadataError, TypeMeta, read_object};
use crate::model::{Object, ResourceVersion};

/// What a page says beside its items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListPage {
    /// The list's own version: the position after it, never an item's.
    pub resource_version: ResourceVersion,
    /// The token of the next page, if there is one.
    pub next: Option<String>,
    /// How many items follow on later pages, where the server says so.
    pub remaining: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMetadata {
    resource_version: Option<String>,
    #[serde(default)]
    r#continue: String,
    remaining_item_count: Option<u64>,
}

/// Reads a page and hands each of its objects to `take`.
///
/// # Errors
/// When the page or an item of it cannot be read; the objects before have been handed over, so that the list as a whole
/// has failed and nothing may be inferred from it.
pub fn read_page(bytes: &Bytes, types: &TypeMeta, take: impl FnMut(Object)) -> Result<ListPage, MetadataError> {
    let mut failure = None;
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let seed = Page { bytes, types, take, failure: &mut failure };
    let metadata = seed.deserialize(&mut deserializer).and_then(|metadata| deserializer.end().map(|()| metadata));
    if let Some(failure) = failure {
        return Err(failure);
    }
    let metadata = metadata?.ok_or(MetadataError::Missing("metadata"))?;
    let version = metadata.resource_version.ok_or(MetadataError::Missing("metadata.resourceVersion"))?;
    Ok(ListPage {
        resource_version: version.parse()?,
        // Custom resources' lists say "" where there is no next page.
        next: Some(metadata.r#continue).filter(|token| !token.is_empty()),
        remaining: metadata.remaining_item_count,
    })
}

struct Page<'a, F> {
    bytes: &'a Bytes,
    types: &'a TypeMeta,
    take: F,
    // Why an item was refused: a deserializer's own error type could carry its text only.
    failure: &'a mut Option<MetadataError>,
}

impl<'de, F: FnMut(Object)> DeserializeSeed<'de> for Page<'_, F> {
    type Value = Option<ListMetadata>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, F: FnMut(Object)> Visitor<'de> for Page<'_, F> {
    type Value = Option<ListMetadata>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a Kubernetes list")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut fields: A) -> Result<Self::Value, A::Error> {
        let mut metadata = None;
        while let Some(field) = fields.next_key::<std::borrow::Cow<'de, str>>()? {
            match &*field {
                "metadata" => metadata = Some(fields.next_value()?),
                "items" => fields.next_value_seed(Items(&mut self))?,
                _ => drop(fields.next_value::<IgnoredAny>()?),
            }
        }
        Ok(metadata)
    }
}

struct Items<'p, 'a, F>(&'p mut Page<'a, F>);

impl<'de, F: FnMut(Object)> DeserializeSeed<'de> for Items<'_, '_, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, F: FnMut(Object)> Visitor<'de> for Items<'_, '_, F> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the items of a list")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        // Go writes an empty list as null.
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while let Some(item) = items.next_element::<&'de RawValue>()? {
            match read_object(self.0.bytes.slice_ref(item.get().as_bytes()), Some(self.0.types)) {
                Ok(object) => (self.0.take)(object),
                Err(error) => {
                    let refused = serde::de::Error::custom(&error);
                    *self.0.failure = Some(error);
                    return Err(refused);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Result<ListPage, MetadataError>, Vec<Object>) {
        let types = TypeMeta { api_version: "example.com/v1".into(), kind: "MyApp".into() };
        let mut objects = Vec::new();
        let page = read_page(&Bytes::copy_from_slice(text.as_bytes()), &types, |object| objects.push(object));
        (page, objects)
    }

    #[test]
    fn a_page_gives_its_items_as_sent_and_its_own_version() {
        let item = |name: &str| {
            format!(
                r#"{{"apiVersion":"v1","kind":"K","metadata":{{"name":"{name}","uid":"u","resourceVersion":"5"}}, "n":1.0}}"#
            )
        };
        for (token, next) in [("", None), ("abc", Some("abc".to_owned()))] {
            let text = format!(
                r#"{{"kind":"MyAppList","items":[{},{}],"metadata":{{"resourceVersion":"9","continue":"{token}","remainingItemCount":3}}}}"#,
                item("a"),
                item("b")
            );
            let (page, objects) = read(&text);
            assert_eq!(
                page.unwrap(),
                ListPage { resource_version: ResourceVersion::new(9).unwrap(), next, remaining: Some(3) }
            );
            assert_eq!(
                objects.iter().map(|object| &object.bytes[..]).collect::<Vec<_>>(),
                [item("a").as_bytes(), item("b").as_bytes()]
            );
        }
    }

    #[test]
    fn an_empty_list_may_be_null() {
        let (page, objects) = read(r#"{"metadata":{"resourceVersion":"9"},"items":null}"#);
        assert_eq!((page.unwrap().next, objects.len()), (None, 0));
    }

    #[test]
    fn a_list_with_an_unreadable_item_or_a_cut_end_has_failed_as_a_whole() {
        let (page, _) = read(r#"{"metadata":{"resourceVersion":"9"},"items":[{"metadata":{"name":"a"}}]}"#);
        assert!(matches!(page, Err(MetadataError::Missing("metadata.uid"))), "{page:?}");
        let (page, _) = read(r#"{"metadata":{"resourceVersion":"9"},"items":[]"#);
        assert!(page.is_err());
        let (page, _) = read(r#"{"items":[]}"#);
        assert!(page.is_err(), "a list without a version gives no position");
    }
}
