//! A record of the store with a right checksum decodes to what encodes to the same record, or is refused, without a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| crier::store::fuzz_records(input));
