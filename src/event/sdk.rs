//! To and from the event type of `cloudevents-sdk`, for code that speaks it, and as the reader that checks our output in
//! tests. Not on the way to any sink: it parses the data into a tree.

use std::borrow::Cow;

use cloudevents::{AttributesReader, Data};

use super::Event;

/// An event of the SDK that cannot be one of ours.
#[derive(Debug, thiserror::Error)]
pub enum ConversionError {
    /// The data is not JSON.
    #[error("the event's data is not JSON")]
    Data,
    /// The JSON event format did not carry it over.
    #[error("the event cannot be carried over: {0}")]
    Format(#[from] serde_json::Error),
    /// A timestamp that cannot be represented.
    #[error("recordedtime or time is no timestamp: {0}")]
    Time(#[from] jiff::Error),
}

impl TryFrom<&Event> for cloudevents::Event {
    type Error = ConversionError;

    fn try_from(event: &Event) -> Result<Self, ConversionError> {
        Ok(serde_json::from_slice(&event.structured())?)
    }
}

impl TryFrom<&cloudevents::Event> for Event {
    type Error = ConversionError;

    fn try_from(event: &cloudevents::Event) -> Result<Self, ConversionError> {
        let data = match event.data() {
            None => None,
            Some(Data::Json(value)) => Some(value.to_string().into_bytes()),
            // Bytes and text are carried over where they are JSON, since our data is.
            Some(Data::Binary(bytes)) => Some(bytes.clone()),
            Some(Data::String(text)) => Some(text.clone().into_bytes()),
        };
        if let Some(data) = &data
            && serde_json::from_slice::<serde::de::IgnoredAny>(data).is_err()
        {
            return Err(ConversionError::Data);
        }
        let mut attributes: Vec<(Cow<'static, str>, String)> =
            vec![("specversion".into(), event.specversion().to_string())];
        attributes.push(("id".into(), event.id().to_owned()));
        attributes.push(("source".into(), event.source().clone()));
        attributes.push(("type".into(), event.ty().to_owned()));
        attributes.extend(event.subject().map(|subject| ("subject".into(), subject.to_owned())));
        attributes.extend(event.time().map(|time| ("time".into(), time.to_rfc3339())));
        attributes.extend(event.dataschema().map(|schema| ("dataschema".into(), schema.to_string())));
        // The SDK keeps extensions in no order; ours is stable.
        let mut extensions: Vec<_> =
            event.iter_extensions().map(|(name, value)| (name.to_owned(), value.to_string())).collect();
        extensions.sort();
        attributes.extend(extensions.into_iter().map(|(name, value)| (name.into(), value)));
        let time = |name: &str| attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value.parse());
        let recorded = time("recordedtime").or_else(|| time("time")).transpose()?.unwrap_or_default();
        Ok(Self { attributes, data: data.map(Into::into), recorded })
    }
}
