//! The `stdout` and `file` sinks: one structured event a line. No rotation yet.

mod verdict;

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Stdout, Write};
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::oneshot;

use super::{Delivery, Sink};
use crate::model::Verdict;

/// What arrives while a write is under way goes into the next one, up to about so many bytes.
const BATCH_BYTES: usize = 1 << 20;

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

/// A line that waits to be written, and who waits for the verdict.
struct Waiting {
    delivery: Delivery,
    verdict: oneshot::Sender<Verdict>,
}

/// Writes events as lines, from a thread of its own: writing blocks, and one write and one sync serve all events that
/// have come meanwhile.
pub struct LineSink {
    sender: Sender<Waiting>,
}

impl LineSink {
    /// Events on standard output.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn stdout() -> io::Result<Self> {
        Self::new(io::stdout())
    }

    /// Events at the end of a file, which is created if it is missing.
    ///
    /// # Errors
    /// When the file cannot be opened or the system gives no thread.
    pub fn append(path: &Path) -> io::Result<Self> {
        let created = !path.exists();
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        if created && let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            // The new name has to survive a loss of power as well as what is written.
            File::open(folder)?.sync_all()?;
        }
        let torn = ends_in_a_line(&mut file)?;
        Self::begin(file, torn)
    }

    /// Events into any target. The thread ends when the sink is dropped and all is written.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn new(target: impl Target) -> io::Result<Self> {
        Self::begin(target, false)
    }

    fn begin(target: impl Target, torn: bool) -> io::Result<Self> {
        let (sender, receiver) = mpsc::channel();
        let mut lines = Lines { target, torn, buffer: Vec::new() };
        thread::Builder::new().name("lines".to_owned()).spawn(move || lines.run(&receiver))?;
        Ok(Self { sender })
    }
}

/// Whether a file ends in the middle of a line: what was killed while it wrote has left it so.
fn ends_in_a_line(file: &mut File) -> io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(false);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    match file.read_exact(&mut last) {
        Ok(()) => Ok(last != *b"\n"),
        // A pipe or a device has no end to look at.
        Err(_) => Ok(false),
    }
}

struct Lines<T> {
    target: T,
    // The last write failed half way: what it left is ended before anything else is written.
    torn: bool,
    buffer: Vec<u8>,
}

impl<T: Target> Lines<T> {
    fn run(&mut self, receiver: &Receiver<Waiting>) {
        while let Ok(first) = receiver.recv() {
            let mut verdicts = Vec::new();
            let mut next = Some(first);
            while let Some(waiting) = next {
                self.append(&waiting.delivery.event.structured());
                verdicts.push(waiting.verdict);
                next = if self.buffer.len() < BATCH_BYTES { receiver.try_recv().ok() } else { None };
            }
            let verdict = match self.write() {
                Ok(()) => Verdict::Delivered,
                Err(error) => verdict::of_error(&error),
            };
            for waiting in verdicts {
                // Nobody waits for a delivery that was given up.
                let _ = waiting.send(verdict.clone());
            }
        }
    }

    fn append(&mut self, event: &[u8]) {
        if self.torn && self.buffer.is_empty() {
            self.buffer.push(b'\n');
        }
        let start = self.buffer.len();
        self.buffer.extend_from_slice(event);
        // JSON as the API server sends it has no line ends in it; what a payload may bring along is white space.
        for byte in &mut self.buffer[start..] {
            if matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
        self.buffer.push(b'\n');
    }

    fn write(&mut self) -> io::Result<()> {
        self.torn = true;
        let written = self.target.write_all(&self.buffer);
        self.buffer.clear();
        self.buffer.shrink_to(BATCH_BYTES);
        written?;
        self.target.settle()?;
        self.torn = false;
        Ok(())
    }
}

impl Sink for LineSink {
    fn deliver(&self, delivery: Delivery) -> BoxFuture<'static, Verdict> {
        let (verdict, answer) = oneshot::channel();
        // A failed send drops the other end of the answer, which says the same.
        let _ = self.sender.send(Waiting { delivery, verdict });
        async move {
            let ended =
                |_| Verdict::Unavailable { reason: "the writer of the lines has ended".to_owned(), after: None };
            answer.await.unwrap_or_else(ended)
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

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

    #[tokio::test]
    async fn a_line_that_a_killed_process_left_torn_does_not_spoil_the_next_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events.jsonl");
        std::fs::write(&path, "{\"specversion\":\"1.0\",\"id\":\"u-1").unwrap();
        let sink = LineSink::append(&path).unwrap();
        assert_eq!(sink.deliver(delivery("a")).await, Verdict::Delivered);
        let text = std::fs::read_to_string(&path).unwrap();
        let last = text.lines().last().unwrap();
        assert_eq!(serde_json::from_str::<serde_json::Value>(last).unwrap()["name"], "a");
        assert_eq!(text.lines().count(), 2);
    }

    /// Holds up its first write until it is told to go on, and counts the writes.
    struct Slow {
        go: Receiver<()>,
        writes: Arc<Mutex<Vec<usize>>>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.writes.lock().unwrap().is_empty() {
                self.go.recv().unwrap();
            }
            self.writes.lock().unwrap().push(bytes.iter().filter(|byte| **byte == b'\n').count());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Target for Slow {}

    #[tokio::test]
    async fn what_comes_during_a_write_goes_into_the_next_one_together() {
        let (go, wait) = mpsc::channel();
        let writes = Arc::new(Mutex::new(Vec::new()));
        let sink = LineSink::new(Slow { go: wait, writes: Arc::clone(&writes) }).unwrap();
        let first = sink.deliver(delivery("a"));
        let others: Vec<_> = ["b", "c", "d"].map(|name| sink.deliver(delivery(name))).into();
        go.send(()).unwrap();
        assert_eq!(first.await, Verdict::Delivered);
        for other in others {
            assert_eq!(other.await, Verdict::Delivered);
        }
        let writes = writes.lock().unwrap().clone();
        assert_eq!(writes.iter().sum::<usize>(), 4, "{writes:?}");
        assert!(writes.len() <= 2, "{writes:?}");
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
        let sink = LineSink::new(target).unwrap();
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
        assert!(matches!(LineSink::new(target).unwrap().deliver(delivery("a")).await, Verdict::Gone { .. }));
    }
}
