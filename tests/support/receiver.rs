//! An HTTP endpoint that keeps what it was sent, and answers as it is told to.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::Value;

/// What it answers.
#[derive(Clone, Copy)]
struct Answer {
    status: u16,
    retry_after: Option<u32>,
}

/// One request, and whether it was taken.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) at: Instant,
    pub(crate) taken: bool,
    pub(crate) event: Value,
}

struct Kept {
    answer: Answer,
    requests: Vec<Request>,
}

/// Listens on a free port of loopback.
pub(crate) struct Receiver {
    kept: Arc<Mutex<Kept>>,
    url: String,
    task: tokio::task::JoinHandle<std::io::Result<()>>,
}

async fn take(State(kept): State<Arc<Mutex<Kept>>>, body: Bytes) -> Response {
    let mut kept = kept.lock().unwrap();
    let Answer { status, retry_after } = kept.answer;
    let event = serde_json::from_slice(&body).expect("a structured event");
    kept.requests.push(Request { at: Instant::now(), taken: (200..300).contains(&status), event });
    let status = StatusCode::from_u16(status).unwrap();
    match retry_after {
        Some(seconds) => (status, [("retry-after", seconds.to_string())]).into_response(),
        None => status.into_response(),
    }
}

impl Receiver {
    pub(crate) async fn start() -> Self {
        let kept =
            Arc::new(Mutex::new(Kept { answer: Answer { status: 204, retry_after: None }, requests: Vec::new() }));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/events", listener.local_addr().unwrap());
        let router = Router::new().fallback(take).with_state(Arc::clone(&kept));
        let task = tokio::spawn(async move { axum::serve(listener, router).await });
        Self { kept, url, task }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// From now on.
    pub(crate) fn answer(&self, status: u16, retry_after: Option<u32>) {
        self.kept.lock().unwrap().answer = Answer { status, retry_after };
    }

    /// Every request so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.kept.lock().unwrap().requests.clone()
    }

    /// The events that were taken.
    pub(crate) fn events(&self) -> Vec<Value> {
        self.requests().into_iter().filter(|request| request.taken).map(|request| request.event).collect()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}
