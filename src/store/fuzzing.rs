//! The door for the fuzzer to the encodings, which are nobody else's business. Not in any build but its own.

use super::encoding::{
    decode_feed_record, decode_key_record, decode_route_record, encode_feed_record, encode_key_record,
    encode_route_record, seal,
};

/// Takes these bytes for a record of each kind: what is decoded has to come back as it was.
///
/// # Panics
/// When a record does not come back as it was.
pub fn fuzz_records(body: &[u8]) {
    let bytes = seal(body);
    if let Ok(record) = decode_key_record(&bytes) {
        assert_eq!(decode_key_record(&encode_key_record(&record)), Ok(record));
    }
    if let Ok(record) = decode_route_record(&bytes) {
        assert_eq!(decode_route_record(&encode_route_record(&record)), Ok(record));
    }
    if let Ok((record, followed)) = decode_feed_record(&bytes) {
        let again = encode_feed_record(&record, followed.iter().map(String::as_str));
        assert_eq!(decode_feed_record(&again), Ok((record, followed)));
    }
}
