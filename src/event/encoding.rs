//! An event as bytes: the JSON event format, and the header values of the binary modes. What is in an event is decided
//! elsewhere.

use std::borrow::Cow;
use std::fmt::Write as _;

use bytes::Bytes;

use super::Event;

/// The event in the JSON event format: one buffer, the data's bytes copied into it once and never looked at.
pub(super) fn structured(event: &Event) -> Bytes {
    let attributes: usize = event.attributes.iter().map(|(name, value)| name.len() + value.len() + 6).sum();
    let data = event.data.as_ref().map_or(0, Bytes::len);
    let mut text = Vec::with_capacity(attributes + data + 64);
    for (name, value) in &event.attributes {
        text.push(if text.is_empty() { b'{' } else { b',' });
        push_string(&mut text, name);
        text.push(b':');
        push_string(&mut text, value);
    }
    if let Some(data) = &event.data {
        text.extend_from_slice(b",\"datacontenttype\":\"");
        text.extend_from_slice(event.data_content_type().as_bytes());
        text.extend_from_slice(b"\",\"data\":");
        text.extend_from_slice(data);
    }
    text.push(b'}');
    text.into()
}

fn push_string(text: &mut Vec<u8>, value: &str) {
    // Almost no value needs escapes; those few go through the library that knows them.
    if value.bytes().all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\') {
        text.push(b'"');
        text.extend_from_slice(value.as_bytes());
        text.push(b'"');
    } else {
        text.extend_from_slice(serde_json::Value::from(value).to_string().as_bytes());
    }
}

/// A header's value by the HTTP binding's rule (CloudEvents HTTP protocol binding 1.0.2, section 3.1.3.2): space, `"`,
/// `%` and everything outside printable ASCII is percent-encoded as UTF-8.
pub fn encode_header_value(value: &str) -> Cow<'_, str> {
    let plain = |byte: u8| (0x21..=0x7e).contains(&byte) && byte != b'"' && byte != b'%';
    if value.bytes().all(plain) {
        return Cow::Borrowed(value);
    }
    let mut encoded = String::with_capacity(value.len() + 16);
    for byte in value.bytes() {
        if plain(byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    Cow::Owned(encoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_values_follow_the_specifications_example() {
        assert_eq!(encode_header_value("Euro € 😀"), "Euro%20%E2%82%AC%20%F0%9F%98%80");
        assert_eq!(encode_header_value("a\"b%c"), "a%22b%25c");
        assert!(matches!(encode_header_value("/apis/x:y;z=(1)"), Cow::Borrowed(_)));
    }
}
