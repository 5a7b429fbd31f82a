//! An event as a request. It sends nothing.

use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderName, HeaderValue};

use super::config::WebhookConfig;
use crate::event::{Event, encode_header_value};
use crate::sink::Mode;

/// The request of one delivery.
pub(super) fn request(client: &reqwest::Client, config: &WebhookConfig, event: &Event) -> reqwest::RequestBuilder {
    let mut headers = config.headers.clone();
    if let Some(authorization) = &config.authorization {
        headers.insert(AUTHORIZATION, authorization.value());
    }
    let body = match config.mode {
        Mode::Structured => {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/cloudevents+json; charset=UTF-8"));
            event.structured()
        }
        Mode::Binary => {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(event.data_content_type()));
            for (name, value) in event.attributes() {
                let name = HeaderName::from_bytes(format!("ce-{name}").as_bytes());
                let value = HeaderValue::from_str(&encode_header_value(value));
                // Attribute names are checked where they are made, and the encoding leaves only what a header takes.
                if let (Ok(name), Ok(value)) = (name, value) {
                    headers.insert(name, value);
                }
            }
            event.data().cloned().unwrap_or_default()
        }
    };
    client.post(config.url.clone()).headers(headers).body(body)
}
