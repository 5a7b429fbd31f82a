//! An event as a Kafka record (CloudEvents Kafka protocol binding 1.0.2). It sends nothing.

use bytes::Bytes;
use rdkafka::message::{Header, OwnedHeaders};

use super::config::KafkaConfig;
use crate::event::Event;
use crate::sink::Mode;

/// The record's headers and value. Header values are UTF-8 as they are: this binding encodes nothing.
pub(super) fn record(config: &KafkaConfig, event: &Event) -> (OwnedHeaders, Bytes) {
    let header = |headers: OwnedHeaders, key: &str, value: &str| headers.insert(Header { key, value: Some(value) });
    match config.mode {
        // No ce_ headers beside a structured event: some readers take their presence for binary mode.
        Mode::Structured => {
            let headers = header(OwnedHeaders::new(), "content-type", "application/cloudevents+json; charset=UTF-8");
            (headers, event.structured())
        }
        Mode::Binary => {
            let headers = header(OwnedHeaders::new(), "content-type", event.data_content_type());
            let headers = event
                .attributes()
                .fold(headers, |headers, (name, value)| header(headers, &format!("ce_{name}"), value));
            (headers, event.data().cloned().unwrap_or_default())
        }
    }
}
