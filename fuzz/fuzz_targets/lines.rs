//! However a watch's bytes are cut into chunks, the same lines come out, none longer than the limit, and reading one never
//! panics. The first byte says how long the chunks are.
#![no_main]

use bytes::Bytes;
use crier::kubernetes::{LineSplitter, read_watch_line};
use libfuzzer_sys::fuzz_target;

const LIMIT: usize = 256;

/// The lines, and whether the input was refused.
fn split(text: &[u8], chunk: usize) -> (Vec<Bytes>, bool) {
    let mut splitter = LineSplitter::new(LIMIT);
    let mut lines = Vec::new();
    for part in text.chunks(chunk) {
        if splitter.push(Bytes::copy_from_slice(part)).is_err() {
            return (lines, true);
        }
        while let Some(line) = splitter.next_line() {
            lines.push(line);
        }
    }
    (lines, false)
}

fuzz_target!(|input: &[u8]| {
    let Some((chunk, text)) = input.split_first() else { return };
    let (lines, refused) = split(text, usize::from(*chunk).max(1));
    let (by_bytes, refused_by_bytes) = split(text, 1);
    if !refused && !refused_by_bytes {
        assert_eq!(lines, by_bytes);
    }
    for line in by_bytes {
        assert!(line.len() <= LIMIT + 1);
        let _ = read_watch_line(&line);
    }
});
