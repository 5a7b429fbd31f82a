//! Cuts a byte stream into lines, whatever its chunks. It knows nothing of what is in a line.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

/// A stream that cannot be cut into lines any further; the connection is of no more use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// A line is longer than the limit.
    #[error("a line is longer than {limit} bytes")]
    TooLong {
        /// The limit in bytes.
        limit: usize,
    },
    /// The stream ended in the middle of a line.
    #[error("the stream ended in the middle of a line, after {0} bytes of it")]
    Truncated(usize),
}

/// Cuts chunks into lines. A line that lies in one chunk is a slice of it; one that spans chunks is copied once.
#[derive(Debug)]
pub struct LineSplitter {
    limit: usize,
    partial: BytesMut,
    lines: VecDeque<Bytes>,
}

impl LineSplitter {
    /// The longest line by default: etcd's limit of 1.5 MiB an object, with room for escapes and larger limits.
    pub const DEFAULT_LIMIT: usize = 8 << 20;

    /// A splitter whose lines are at most `limit` bytes long.
    pub fn new(limit: usize) -> Self {
        Self { limit, partial: BytesMut::new(), lines: VecDeque::new() }
    }

    /// Takes in a chunk; the lines that it completes come out of [`LineSplitter::next_line`].
    ///
    /// # Errors
    /// When a line grows past the limit.
    pub fn push(&mut self, mut chunk: Bytes) -> Result<(), LineError> {
        while let Some(end) = chunk.iter().position(|byte| *byte == b'\n') {
            let rest = chunk.split_off(end + 1);
            chunk.truncate(end);
            if self.partial.len() + chunk.len() > self.limit {
                return Err(LineError::TooLong { limit: self.limit });
            }
            let line = if self.partial.is_empty() {
                chunk
            } else {
                self.partial.extend_from_slice(&chunk);
                self.partial.split().freeze()
            };
            // Blank lines carry nothing.
            if !line.trim_ascii().is_empty() {
                self.lines.push_back(line);
            }
            chunk = rest;
        }
        if self.partial.len() + chunk.len() > self.limit {
            return Err(LineError::TooLong { limit: self.limit });
        }
        self.partial.extend_from_slice(&chunk);
        Ok(())
    }

    /// The next whole line, without its end.
    pub fn next_line(&mut self) -> Option<Bytes> {
        self.lines.pop_front()
    }

    /// The stream has ended.
    ///
    /// # Errors
    /// When it did so in the middle of a line: an event may have been cut.
    pub fn finish(&self) -> Result<(), LineError> {
        if self.partial.trim_ascii().is_empty() { Ok(()) } else { Err(LineError::Truncated(self.partial.len())) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn lines_are_the_same_however_the_stream_is_cut(
            lines in proptest::collection::vec("[a-z{}]{1,30}", 0..10),
            cuts in proptest::collection::vec(1..20_usize, 1..40),
        ) {
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            let mut rest = Bytes::from(text);
            let mut splitter = LineSplitter::new(1_000);
            let mut found = Vec::new();
            for cut in cuts.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                splitter.push(rest.split_to((*cut).min(rest.len()))).unwrap();
                while let Some(line) = splitter.next_line() {
                    found.push(String::from_utf8(line.to_vec()).unwrap());
                }
            }
            prop_assert_eq!(found, lines);
            prop_assert_eq!(splitter.finish(), Ok(()));
        }
    }

    #[test]
    fn a_line_within_one_chunk_is_not_copied() {
        let chunk = Bytes::from_static(b"one\ntwo\n");
        let mut splitter = LineSplitter::new(100);
        splitter.push(chunk.clone()).unwrap();
        assert_eq!(splitter.next_line().unwrap().as_ptr(), chunk.as_ptr());
    }

    #[test]
    fn a_stream_that_ends_in_a_line_says_so() {
        let mut splitter = LineSplitter::new(100);
        splitter.push(Bytes::from_static(b"one\n{\"type\":\"ADD")).unwrap();
        assert_eq!(splitter.finish(), Err(LineError::Truncated(12)));
    }

    #[test]
    fn a_line_without_end_does_not_take_all_memory() {
        let mut splitter = LineSplitter::new(10);
        splitter.push(Bytes::from_static(b"12345678")).unwrap();
        assert_eq!(splitter.push(Bytes::from_static(b"90123")), Err(LineError::TooLong { limit: 10 }));
    }
}
