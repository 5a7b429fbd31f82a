//! The control socket: a Unix socket in the state directory, for its owner alone, through which commands reach the process
//! that runs. One request a connection, one line of JSON each way. What a command does is its handler's business.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};

use crate::model::AuditResult;

const FILE: &str = "control.sock";
/// A request is a short line.
const REQUEST_BYTES: u64 = 16 << 10;
/// Whoever connects says what it wants by then.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a command asks of the process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "command")]
pub enum ControlRequest {
    /// Compare everything with the cluster now, and say what was found.
    Audit {
        /// Only what concerns this route, by its name or its full name; all without one.
        route: Option<String>,
    },
}

/// What the process answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "answer")]
pub enum ControlAnswer {
    /// What an audit has found.
    Audit(AuditResult),
    /// Why the request cannot be carried out.
    Refused {
        /// For people.
        reason: String,
    },
}

/// Carries a request out.
pub type Handler = Arc<dyn Fn(ControlRequest) -> BoxFuture<'static, ControlAnswer> + Send + Sync>;

/// Where the socket of this state directory is.
pub fn socket_path(state: &Path) -> PathBuf {
    state.join(FILE)
}

/// Opens the socket. One that an earlier process left is replaced: the state's lock says that nobody else has it.
///
/// # Errors
/// When the file system refuses.
pub fn open(state: &Path) -> io::Result<UnixListener> {
    let path = socket_path(state);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&path)?;
    fs::set_permissions(&path, Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Answers requests until the task is dropped.
pub async fn serve(listener: UnixListener, handler: Handler) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let handler = Arc::clone(&handler);
                tokio::spawn(async move {
                    if let Err(error) = answer(stream, handler).await {
                        tracing::debug!(%error, "a command has gone away");
                    }
                });
            }
            Err(error) => {
                tracing::warn!(%error, "the control socket cannot accept a command");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

async fn answer(stream: UnixStream, handler: Handler) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = Vec::new();
    let mut request = (&mut stream).take(REQUEST_BYTES);
    let read = request.read_until(b'\n', &mut line);
    tokio::time::timeout(PATIENCE, read).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    let answer = match serde_json::from_slice(&line) {
        Ok(request) => handler(request).await,
        Err(error) => ControlAnswer::Refused { reason: format!("the request is not known here: {error}") },
    };
    let mut text = serde_json::to_vec(&answer)?;
    text.push(b'\n');
    stream.write_all(&text).await
}

/// Asks the process that runs on this state.
///
/// # Errors
/// When none runs, it does not answer, or its answer cannot be read.
pub async fn ask(state: &Path, request: &ControlRequest) -> io::Result<ControlAnswer> {
    let mut stream = BufReader::new(UnixStream::connect(socket_path(state)).await?);
    let mut text = serde_json::to_vec(request)?;
    text.push(b'\n');
    stream.write_all(&text).await?;
    let mut line = Vec::new();
    stream.read_until(b'\n', &mut line).await?;
    Ok(serde_json::from_slice(&line)?)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_command_is_answered_and_the_socket_is_for_its_owner_alone() {
        let state = tempfile::tempdir().unwrap();
        fs::write(socket_path(state.path()), b"left by a process that was killed").unwrap();
        let listener = open(state.path()).unwrap();
        let mode = fs::metadata(socket_path(state.path())).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let handler: Handler = Arc::new(|request| {
            let ControlRequest::Audit { route } = request;
            let reason = format!("asked for {route:?}");
            async move { ControlAnswer::Refused { reason } }.boxed()
        });
        let serving = tokio::spawn(serve(listener, handler));
        let request = ControlRequest::Audit { route: Some("apps".into()) };
        let answer = ask(state.path(), &request).await.unwrap();
        assert_eq!(answer, ControlAnswer::Refused { reason: "asked for Some(\"apps\")".into() });
        let mut stream = UnixStream::connect(socket_path(state.path())).await.unwrap();
        stream.write_all(b"{\"command\":\"explode\"}\n").await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        assert!(text.starts_with("{\"answer\":\"refused\",\"reason\":\"the request is not known here"), "{text}");
        serving.abort();
    }
}
