//! The `nats` sink: JetStream publishes with acknowledgement. The engine sends one event a key at a time; a window per
//! key would reorder. Creating streams, credentials and TLS are not here yet.

mod config;
mod encode;
mod verdict;

use std::sync::Arc;
use std::time::Duration;

use async_nats::ConnectOptions;
use async_nats::connection::State;
use async_nats::jetstream::{self, context::ContextBuilder};
use futures::FutureExt;
use futures::future::BoxFuture;

use super::{Delivery, Sink};
use crate::model::Verdict;

pub use config::{NatsConfig, SubjectTemplate};

/// A dead connection is noticed after two of these, not after the default of two minutes.
const PING: Duration = Duration::from_secs(10);

/// A connection that cannot be begun.
#[derive(Debug, thiserror::Error)]
pub enum NatsError {
    /// A server's address is none.
    #[error("the address of a NATS server is not valid")]
    Address(#[source] std::io::Error),
    /// The client could not be begun; an unreachable server is not such a case, it is tried again.
    #[error("the NATS client cannot be begun")]
    Connect(#[source] async_nats::ConnectError),
}

/// Publishes events to a JetStream stream.
pub struct NatsSink {
    client: async_nats::Client,
    context: jetstream::Context,
    config: Arc<NatsConfig>,
}

impl NatsSink {
    /// A sink for this stream. An unreachable server does not fail it: the client goes on trying.
    ///
    /// # Errors
    /// When an address is not valid or the client cannot be begun.
    pub async fn connect(config: NatsConfig) -> Result<Self, NatsError> {
        let servers: Result<Vec<async_nats::ServerAddr>, _> =
            config.servers.iter().map(|server| server.parse()).collect();
        let client = ConnectOptions::new()
            .name("crier")
            .ping_interval(PING)
            .retry_on_initial_connect()
            .connect(servers.map_err(NatsError::Address)?)
            .await
            .map_err(NatsError::Connect)?;
        let context =
            ContextBuilder::new().timeout(config.timeout).backpressure_on_inflight(true).build(client.clone());
        Ok(Self { client, context, config: Arc::new(config) })
    }
}

impl Sink for NatsSink {
    fn deliver(&self, delivery: Delivery) -> BoxFuture<'static, Verdict> {
        let (context, config) = (self.context.clone(), Arc::clone(&self.config));
        let connected = self.client.connection_state() == State::Connected;
        async move {
            if !connected {
                return verdict::not_connected();
            }
            let subject = config.subject.render(&delivery.event);
            let message = encode::message(&config, &delivery);
            // The client's own deadline runs from the first poll of the acknowledgement; ours covers the sending too.
            let attempt = async { context.send_publish(subject, message).await?.await };
            match tokio::time::timeout(config.timeout, attempt).await {
                Ok(Ok(_)) => Verdict::Delivered,
                Ok(Err(error)) => verdict::of_error(&error),
                Err(_) => Verdict::Retry { reason: "NATS did not acknowledge in time".to_owned(), after: None },
            }
        }
        .boxed()
    }
}
