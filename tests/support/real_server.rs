//! A real API server as the sandbox's scenarios see one. Not what they ask.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use crier_sandbox::scenarios::{Asked, NextLine, Reply, ReplyBody, Server};
use futures::StreamExt;
use futures::stream::BoxStream;
use http_body_util::BodyExt;
use tokio::runtime::Runtime;
use tokio::time::timeout;

use super::Cluster;

/// What is not answered by then is not answered.
const PATIENCE: Duration = Duration::from_secs(30);

/// A control plane, and the watches that one reader has open on it.
pub(crate) struct RealServer {
    // Dropped before the runtime that its watches live on.
    streams: Vec<Option<Lines>>,
    cluster: Arc<Mutex<Cluster>>,
    clients: [kube::Client; 2],
    runtime: Arc<Runtime>,
}

struct Lines {
    body: BoxStream<'static, kube::Result<Bytes>>,
    buffer: Vec<u8>,
}

impl RealServer {
    /// Starts one, with these arguments for the API server.
    pub(crate) fn start_with(arguments: &[&str]) -> Self {
        let runtime = Arc::new(Runtime::new().unwrap());
        let cluster = Arc::new(Mutex::new(runtime.block_on(Cluster::start_with(arguments))));
        Self::reader(cluster, runtime)
    }

    /// Another reader of the same control plane.
    pub(crate) fn another(&self) -> Self {
        Self::reader(Arc::clone(&self.cluster), Arc::clone(&self.runtime))
    }

    fn reader(cluster: Arc<Mutex<Cluster>>, runtime: Arc<Runtime>) -> Self {
        let clients = runtime.block_on(async { Self::clients(&cluster.lock().unwrap()) });
        Self { streams: Vec::new(), cluster, clients, runtime }
    }

    fn clients(cluster: &Cluster) -> [kube::Client; 2] {
        [cluster.client_of("admin"), cluster.client_of("limited")]
    }

    async fn send(client: &kube::Client, asked: &Asked<'_>) -> kube::Result<http::Response<kube::client::Body>> {
        let media = if asked.method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request = http::Request::builder()
            .method(asked.method)
            .uri(asked.target)
            .header("accept", asked.accept)
            .header("content-type", media)
            // Some user agents are answered in lines for people.
            .header("user-agent", "scenario/1")
            .body(kube::client::Body::from(asked.body.as_bytes().to_vec()))
            .unwrap();
        client.send(request).await
    }
}

impl Server for RealServer {
    fn request(&mut self, asked: &Asked<'_>) -> Reply {
        let client = self.clients[usize::from(asked.limited)].clone();
        let began = Instant::now();
        loop {
            let answer = self.runtime.block_on(async { timeout(PATIENCE, Self::send(&client, asked)).await });
            let response = match answer.expect("the server answers") {
                Ok(response) if response.status() != 429 => response,
                // Early: a cache is being made, or the server has just begun.
                other => {
                    assert!(
                        began.elapsed() < PATIENCE,
                        "{} is not answered: {:?}",
                        asked.target,
                        other.map(|it| it.status())
                    );
                    std::thread::sleep(Duration::from_millis(100));
                    continue;
                }
            };
            let status = response.status().as_u16();
            let after = response.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
            let (parts, body) = response.into_parts();
            let chunked = parts.headers.contains_key("transfer-encoding");
            let stream = status == 200 && chunked && asked.target.contains("watch=1");
            let body = if stream {
                let body = body.into_data_stream().boxed();
                self.streams.push(Some(Lines { body, buffer: Vec::new() }));
                ReplyBody::Stream(self.streams.len() as u64 - 1)
            } else {
                let whole = self.runtime.block_on(async { timeout(PATIENCE, body.collect()).await });
                let whole = whole.expect("the body comes").expect("the body is whole").to_bytes();
                ReplyBody::Whole(String::from_utf8(whole.to_vec()).unwrap())
            };
            return Reply { status, retry_after: after, body };
        }
    }

    fn next_line(&mut self, stream: u64, wait: Duration) -> NextLine {
        let lines = usize::try_from(stream).ok().and_then(|at| self.streams.get_mut(at)?.as_mut());
        let Some(lines) = lines else { return NextLine::Broken };
        let until = Instant::now() + wait;
        loop {
            if let Some(end) = lines.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = lines.buffer.drain(..=end).collect();
                return NextLine::Line(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            let left = until.saturating_duration_since(Instant::now());
            match self.runtime.block_on(async { timeout(left, lines.body.next()).await }) {
                Err(_) => return NextLine::Silence,
                Ok(None) => return NextLine::Ended,
                Ok(Some(Err(_))) => return NextLine::Broken,
                Ok(Some(Ok(bytes))) => lines.buffer.extend_from_slice(&bytes),
            }
        }
    }

    fn close(&mut self, stream: u64) {
        if let Some(open) = usize::try_from(stream).ok().and_then(|at| self.streams.get_mut(at)) {
            let _in_runtime = self.runtime.enter();
            *open = None;
        }
    }

    fn compact(&mut self) {
        self.runtime.block_on(self.cluster.lock().unwrap().compact());
    }

    fn restart(&mut self) {
        let mut cluster = self.cluster.lock().unwrap();
        self.runtime.block_on(cluster.restart_api_server());
        self.clients = self.runtime.block_on(async { Self::clients(&cluster) });
    }

    fn back_up(&mut self) {
        self.cluster.lock().unwrap().copy_etcd();
    }

    fn put_back(&mut self) {
        let mut cluster = self.cluster.lock().unwrap();
        self.runtime.block_on(async {
            cluster.put_etcd_back().await;
            cluster.start_api_server().await;
        });
        self.clients = self.runtime.block_on(async { Self::clients(&cluster) });
    }

    fn pass(&mut self, time: Duration) {
        std::thread::sleep(time);
    }
}
