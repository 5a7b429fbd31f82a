//! An HTTP endpoint that keeps what it was sent, and answers as it is told to.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use tokio::sync::watch;

/// What it answers.
#[derive(Clone, Copy)]
struct Answer {
    status: u16,
    retry_after: Option<u32>,
    /// It keeps what it answers so to: a success it keeps anyway.
    keeps: bool,
    /// No answer comes until it is told another one.
    silent: bool,
}

const TAKES: Answer = Answer { status: 204, retry_after: None, keeps: true, silent: false };

/// One request, and whether it was taken.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) at: Instant,
    pub(crate) taken: bool,
    pub(crate) event: Value,
}

struct Kept {
    answer: watch::Sender<Answer>,
    requests: Vec<Request>,
}

/// Listens on a free port of loopback.
pub(crate) struct Receiver {
    kept: Arc<Mutex<Kept>>,
    url: String,
    task: tokio::task::JoinHandle<std::io::Result<()>>,
}

async fn take(State(kept): State<Arc<Mutex<Kept>>>, body: Bytes) -> Response {
    let event = serde_json::from_slice(&body).expect("a structured event");
    let mut answers = {
        let mut kept = kept.lock().unwrap();
        let answers = kept.answer.subscribe();
        let taken = answers.borrow().keeps;
        kept.requests.push(Request { at: Instant::now(), taken, event });
        answers
    };
    // The sender goes only with the receiver.
    let answer = *answers.wait_for(|answer| !answer.silent).await.unwrap();
    let (status, retry_after) = (StatusCode::from_u16(answer.status).unwrap(), answer.retry_after);
    match retry_after {
        Some(seconds) => (status, [("retry-after", seconds.to_string())]).into_response(),
        None => status.into_response(),
    }
}

impl Receiver {
    pub(crate) async fn start() -> Self {
        let kept = Arc::new(Mutex::new(Kept { answer: watch::Sender::new(TAKES), requests: Vec::new() }));
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
        let keeps = (200..300).contains(&status);
        self.set(Answer { status, retry_after, keeps, silent: false });
    }

    /// From now on it keeps what it is sent, and answers that it has failed.
    pub(crate) fn answer_wrongly(&self) {
        self.set(Answer { status: 500, ..TAKES });
    }

    /// From now on it keeps what it is sent, and answers nothing until it is told what.
    pub(crate) fn hang(&self) {
        self.set(Answer { silent: true, ..TAKES });
    }

    fn set(&self, answer: Answer) {
        self.kept.lock().unwrap().answer.send_replace(answer);
    }

    /// Its port.
    pub(crate) fn port(&self) -> u16 {
        url::Url::parse(&self.url).unwrap().port().unwrap()
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
