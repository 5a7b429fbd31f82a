//! The `stdout` and `file` sinks: one structured event a line. No rotation yet.

mod verdict;

use std::fs::{File, OpenOptions};
use std::io::{self, Stdout, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt;
use futures::future::BoxFuture;

use super::{Delivery, Sink};
use crate::model::Verdict;

/// What lines can be written to.
pub trait Target: Write + Send + 'static {
    /// Makes what was written as safe as the target can.
    ///
    /// # Errors
    /// When the system refuses.
    fn settle(&mut self) -> io::Result<()> {
        self.flush()
    }
}

impl Target for Stdout {}

impl Target for File {
    /// Delivered means on the disk: the data is synced.
    fn settle(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

struct Lines<T> {
    target: T,
    // The last write failed half way: what it left is ended before anything else is written.
    torn: bool,
}

/// Writes events as lines.
pub struct LineSink<T> {
    lines: Arc<Mutex<Lines<T>>>,
}

impl LineSink<Stdout> {
    /// Events on standard output.
    pub fn stdout() -> Self {
        Self::new(io::stdout())
    }
}

impl LineSink<File> {
    /// Events at the end of a file, which is created if it is missing.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn append(path: &Path) -> io::Result<Self> {
        Ok(Self::new(OpenOptions::new().append(true).create(true).open(path)?))
    }
}

impl<T: Target> LineSink<T> {
    /// Events into any target.
    pub fn new(target: T) -> Self {
        Self { lines: Arc::new(Mutex::new(Lines { target, torn: false })) }
    }
}

impl<T: Target> Lines<T> {
    fn write(&mut self, event: &[u8]) -> io::Result<()> {
        let mut line = Vec::with_capacity(event.len() + 2);
        if self.torn {
            line.push(b'\n');
        }
        // JSON as the API server sends it has no line ends in it; what a payload may bring along is white space.
        line.extend(event.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }));
        line.push(b'\n');
        self.torn = true;
        self.target.write_all(&line)?;
        self.target.settle()?;
        self.torn = false;
        Ok(())
    }
}

impl<T: Target> Sink for LineSink<T> {
    fn deliver(&self, delivery: Delivery) -> BoxFuture<'static, Verdict> {
        let lines = Arc::clone(&self.lines);
        let write = move || {
            // A panic of another writer leaves at worst a torn line, which is known.
            let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
            lines.write(&delivery.event.structured())
        };
        let written = tokio::task::spawn_blocking(write);
        async move {
            match written.await {
                Ok(Ok(())) => Verdict::Delivered,
                Ok(Err(error)) => verdict::of_error(&error),
                Err(error) => Verdict::Retry { reason: format!("the writer ended: {error}"), after: None },
            }
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::sample;

    fn delivery(name: &str) -> Delivery {
        Delivery { route: "apps".into(), event: Arc::new(sample(name)) }
    }

    #[tokio::test]
    async fn each_event_is_one_line_of_the_file_and_on_the_disk_when_it_is_delivered() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events.jsonl");
        let sink = LineSink::append(&path).unwrap();
        for name in ["a", "b"] {
            assert_eq!(sink.deliver(delivery(name)).await, Verdict::Delivered);
        }
        drop(sink);
        let again = LineSink::append(&path).unwrap();
        assert_eq!(again.deliver(delivery("c")).await, Verdict::Delivered);
        let text = std::fs::read_to_string(&path).unwrap();
        let subjects: Vec<String> = text
            .lines()
            .map(|line| {
                serde_json::from_str::<serde_json::Value>(line).unwrap()["subject"].as_str().unwrap().to_owned()
            })
            .collect();
        assert_eq!(subjects, ["team-a/a", "team-a/b", "team-a/c"]);
    }

    /// Takes a few bytes, then fails, then works.
    struct Flaky {
        written: Arc<Mutex<Vec<u8>>>,
        failure: Option<io::ErrorKind>,
    }

    impl Write for Flaky {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut written = self.written.lock().unwrap();
            match self.failure {
                Some(_) if written.is_empty() => {
                    written.extend_from_slice(&bytes[..5]);
                    Ok(5)
                }
                Some(kind) => {
                    self.failure = None;
                    Err(kind.into())
                }
                None => {
                    written.extend_from_slice(bytes);
                    Ok(bytes.len())
                }
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Target for Flaky {}

    #[tokio::test]
    async fn a_torn_line_does_not_spoil_the_next_one() {
        let written = Arc::new(Mutex::new(Vec::new()));
        let target = Flaky { written: Arc::clone(&written), failure: Some(io::ErrorKind::StorageFull) };
        let sink = LineSink::new(target);
        assert!(matches!(sink.deliver(delivery("a")).await, Verdict::Unavailable { .. }));
        assert_eq!(sink.deliver(delivery("a")).await, Verdict::Delivered);
        let text = String::from_utf8(written.lock().unwrap().clone()).unwrap();
        let (torn, whole) = text.split_once('\n').unwrap();
        assert_eq!(torn.len(), 5);
        assert!(serde_json::from_str::<serde_json::Value>(whole).is_ok());
    }

    #[tokio::test]
    async fn a_reader_that_went_away_is_not_written_to_again() {
        let target = Flaky { written: Arc::default(), failure: Some(io::ErrorKind::BrokenPipe) };
        assert!(matches!(LineSink::new(target).deliver(delivery("a")).await, Verdict::Gone { .. }));
    }
}
