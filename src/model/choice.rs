//! Choices that a configuration makes for a route or a sink, and that other rooms act on.

/// What to do with the objects that exist when a route first reads its feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Initial {
    /// Tell each as `observed`.
    Observed,
    /// Take them into the view without an event.
    None,
}

/// What the data of an event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadMode {
    /// The object as the API server sent it, minus what is omitted.
    Object,
    /// Its `apiVersion`, `kind` and `metadata`, minus what is omitted.
    Metadata,
    /// Which object it is, and nothing of it.
    Reference,
}

impl PayloadMode {
    /// Its name in a configuration and in `dataschema`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Metadata => "metadata",
            Self::Reference => "reference",
        }
    }
}

/// How an event is laid out in a protocol (CloudEvents 1.0.2, section 1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Attributes and data in one JSON text.
    Structured,
    /// Attributes in headers, the data as the body.
    Binary,
}
