//! Real servers on free loopback ports in temporary directories, and the program itself as a process. Each is ended and
//! its directory removed when dropped. No test is in here.

mod cluster;
mod consumer;
mod crier;
#[cfg(all(feature = "kafka", feature = "nats"))]
mod everything;
#[cfg(feature = "kafka")]
mod kafka;
#[cfg(feature = "nats")]
mod nats;
mod objects;
mod proxy;
mod real_server;
mod receiver;

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) use cluster::Cluster;
pub(crate) use consumer::{Consumer, agrees, newest, outline, parse_lines, what};
pub(crate) use crier::Crier;
#[cfg(all(feature = "kafka", feature = "nats"))]
pub(crate) use everything::{Everything, SINKS, event_of};
#[cfg(feature = "kafka")]
pub(crate) use kafka::Kafka;
#[cfg(feature = "nats")]
pub(crate) use nats::Nats;
pub(crate) use objects::{DEFINITIONS, Objects};
pub(crate) use proxy::Proxy;
pub(crate) use real_server::RealServer;
pub(crate) use receiver::Receiver;

/// A server that is not ready by then is broken.
const START: Duration = Duration::from_secs(60);

/// Where a built server is; it is built if it is missing.
fn server(name: &str) -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/build.sh");
    let output = Command::new(script).arg(name).stderr(Stdio::inherit()).output().expect("tests/servers/build.sh runs");
    assert!(output.status.success(), "{name} did not build: run `make servers`");
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim()).join(name)
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A process that is ended when this is dropped, with a log that failures show.
struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    fn start(command: &mut Command, log: &Path) -> Self {
        let file = File::options().append(true).create(true).open(log).unwrap();
        command.stdin(Stdio::null()).stdout(file.try_clone().unwrap());
        Self::start_with_output(command.stderr(file), log)
    }

    /// Starts a command whose outputs are arranged already.
    fn start_with_output(command: &mut Command, log: &Path) -> Self {
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
        Self { child, log: log.to_owned() }
    }

    /// Whether it has not ended by itself.
    fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal such as `STOP`.
    fn signal(&self, name: &str) {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(self.id().to_string()).status().unwrap();
        assert!(sent.success(), "the process {} takes {name}", self.id());
    }

    /// Waits until `ready` says so; a process that has ended, or takes too long, fails the test with the end of its log.
    async fn until_ready(&mut self, what: &str, ready: impl AsyncFn() -> bool) {
        let began = Instant::now();
        while !ready().await {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "{what} has ended with {}:\n{}", ended.unwrap(), self.end_of_log());
            assert!(began.elapsed() < START, "{what} is not ready:\n{}", self.end_of_log());
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
    }

    fn end_of_log(&self) -> String {
        let log = String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(40)..].join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until `condition` gives something; fails after `limit` with what was waited for.
pub(crate) async fn eventually<T>(what: &str, limit: Duration, condition: impl AsyncFn() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = condition().await {
            return found;
        }
        assert!(began.elapsed() < limit, "waited in vain for {limit:?}: {what}");
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
}
