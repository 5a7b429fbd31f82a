//! A change as a CloudEvent: identity, attributes, payload, encodings. No IO and no clock: times are handed in. Whether
//! and when an event is sent is not decided here.

#[cfg(test)]
mod promises;

mod encoder;
mod encoding;
mod path;
mod sdk;
mod spans;

use std::borrow::Cow;

use bytes::Bytes;

#[cfg(test)]
pub(crate) use promises::sample;

pub use crate::model::PayloadMode;
pub use encoder::{Encoder, Occurrence, RouteAttributes};
pub use encoding::encode_header_value;
pub use path::{Path, PathError, PathSet};
pub use sdk::ConversionError;
pub use spans::SpanError;

/// A CloudEvent 1.0, ready to be sent in any mode. The data's bytes are shared, not copied, between its sinks.
#[derive(Clone, PartialEq, Eq)]
pub struct Event {
    // In the order in which they are sent, `specversion` first.
    attributes: Vec<(Cow<'static, str>, String)>,
    data: Option<Bytes>,
    recorded: jiff::Timestamp,
}

impl Event {
    /// The event's id: the same change has the same, different events have different ones.
    pub fn id(&self) -> &str {
        self.attribute("id").unwrap_or_default()
    }

    /// The key that keeps an object's events in order: also the Kafka key.
    pub fn partition_key(&self) -> &str {
        self.attribute("partitionkey").unwrap_or_default()
    }

    /// When the event was made.
    pub fn recorded_time(&self) -> jiff::Timestamp {
        self.recorded
    }

    /// All attributes but `datacontenttype`, in a fixed order, `specversion` first.
    pub fn attributes(&self) -> impl Iterator<Item = (&str, &str)> {
        self.attributes.iter().map(|(name, value)| (&**name, &**value))
    }

    /// One attribute's value.
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// The media type of the data.
    pub fn data_content_type(&self) -> &'static str {
        "application/json"
    }

    /// The data: JSON text.
    pub fn data(&self) -> Option<&Bytes> {
        self.data.as_ref()
    }

    /// The event in the JSON event format (CloudEvents JSON format 1.0.2, section 3); the data is spliced in as it is.
    pub fn structured(&self) -> Bytes {
        encoding::structured(self)
    }
}

/// Shows which event it is, never its data.
impl std::fmt::Debug for Event {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Event")
            .field("id", &self.id())
            .field("type", &self.attribute("type"))
            .field("data_bytes", &self.data.as_ref().map(Bytes::len))
            .finish_non_exhaustive()
    }
}
