//! nats-server with JetStream.

use std::process::Command;

use async_nats::jetstream;
use futures::StreamExt;

use super::{Process, free_port, server};

/// One server and its data.
pub(crate) struct Nats {
    process: Option<Process>,
    directory: tempfile::TempDir,
    port: u16,
    arguments: Vec<String>,
}

impl Nats {
    /// Starts it and waits until JetStream answers.
    pub(crate) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// The same, with more arguments.
    pub(crate) async fn start_with(arguments: &[&str]) -> Self {
        let arguments = arguments.iter().map(ToString::to_string).collect();
        let mut nats = Self { process: None, directory: tempfile::tempdir().unwrap(), port: free_port(), arguments };
        nats.restart().await;
        nats
    }

    /// Kills it.
    pub(crate) fn kill(&mut self) {
        self.process = None;
    }

    /// Sends a signal such as `STOP`.
    pub(crate) fn signal(&self, name: &str) {
        self.process.as_ref().expect("it runs").signal(name);
    }

    /// Its port.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Starts it again on the same data and port.
    pub(crate) async fn restart(&mut self) {
        self.kill();
        let mut process = Process::start(
            Command::new(server("nats-server"))
                .args(["-a", "127.0.0.1", "-js", "-p", &self.port.to_string(), "-sd"])
                .arg(self.directory.path())
                .args(&self.arguments),
            &self.directory.path().join("nats.log"),
        );
        process
            .until_ready("nats-server", async || {
                let Ok(client) = async_nats::connect(self.url()).await else { return false };
                jetstream::new(client).query_account().await.is_ok()
            })
            .await;
        self.process = Some(process);
    }

    /// Its address.
    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Makes a stream of all subjects that begin with `cr.`.
    pub(crate) async fn create_stream(&self) {
        let config =
            jetstream::stream::Config { name: "CR".into(), subjects: vec!["cr.>".into()], ..Default::default() };
        let client = async_nats::connect(self.url()).await.unwrap();
        jetstream::new(client).create_stream(config).await.unwrap();
    }

    /// All that the stream has stored, in its order.
    pub(crate) async fn stored(&self) -> Vec<async_nats::Message> {
        let client = async_nats::connect(self.url()).await.unwrap();
        let mut stream = jetstream::new(client).get_stream("CR").await.unwrap();
        let count = usize::try_from(stream.info().await.unwrap().state.messages).unwrap();
        // What is not acknowledged would come again, and hold up what follows.
        let config = jetstream::consumer::pull::Config {
            ack_policy: jetstream::consumer::AckPolicy::None,
            ..Default::default()
        };
        let consumer = stream.create_consumer(config).await.unwrap();
        let mut stored = Vec::new();
        while stored.len() < count {
            let mut batch = consumer.fetch().max_messages(500).messages().await.unwrap();
            while let Some(message) = batch.next().await {
                stored.push(message.unwrap().message);
            }
        }
        stored
    }
}
