//! Whatever is taken for an object or a page of a list is read or refused, without a panic; what is read has its own bytes.
#![no_main]

use bytes::Bytes;
use crier::kubernetes::{TypeMeta, read_object, read_page};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let bytes = Bytes::copy_from_slice(input);
    let types = TypeMeta { api_version: "example.com/v1".to_owned(), kind: "Thing".to_owned() };
    if let Ok(object) = read_object(bytes.clone(), Some(&types)) {
        let again = read_object(object.bytes.clone(), Some(&types)).expect("what was read can be read again");
        assert_eq!(object.metadata, again.metadata);
    }
    let _ = read_page(&bytes, &types, |_| {});
});
