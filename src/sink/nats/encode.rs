//! An event as a JetStream message. It sends nothing.

use async_nats::HeaderMap;
use async_nats::jetstream::message::PublishMessage;

use super::config::NatsConfig;
use crate::event::encode_header_value;
use crate::sink::{Delivery, Mode};

/// The message of one delivery. Its message id is the route's and the event's, so that the stream drops repeats within
/// its window, but not what two routes tell of one change.
pub(super) fn message(config: &NatsConfig, delivery: &Delivery) -> PublishMessage {
    let event = &delivery.event;
    let mut headers = HeaderMap::new();
    let payload = match config.mode {
        Mode::Structured => {
            headers.insert("Content-Type", "application/cloudevents+json");
            event.structured()
        }
        Mode::Binary => {
            // Lower case: readers compare these names as they are.
            headers.insert("ce-datacontenttype", event.data_content_type());
            for (name, value) in event.attributes() {
                headers.insert(format!("ce-{name}"), &*encode_header_value(value));
            }
            event.data().cloned().unwrap_or_default()
        }
    };
    PublishMessage::build()
        .payload(payload)
        .headers(headers)
        .message_id(&*encode_header_value(&format!("{}:{}", delivery.route, event.id())))
        .expected_stream(&config.stream)
}
