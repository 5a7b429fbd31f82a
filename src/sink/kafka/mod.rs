//! The `kafka` sink: an idempotent producer whose delivery reports are the verdicts. TLS, SASL, tombstones and checks of
//! the topic are not here yet.

mod config;
mod encode;
mod verdict;

use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt;
use futures::future::BoxFuture;
use rdkafka::ClientContext;
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::error::KafkaError;
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseRecord, Producer as _, ProducerContext, ThreadedProducer};
use tokio::sync::oneshot;

use super::{Delivery, Sink};
use crate::model::Verdict;

pub use config::{KafkaConfig, TopicTemplate};

type Report = Result<(), KafkaError>;

struct Reports;

impl ClientContext for Reports {}

impl ProducerContext for Reports {
    type DeliveryOpaque = Box<oneshot::Sender<Report>>;

    fn delivery(&self, result: &DeliveryResult<'_>, report: Self::DeliveryOpaque) {
        // Nobody waits for a delivery that was given up.
        let _ = report.send(result.as_ref().map(|_| ()).map_err(|(error, _)| error.clone()));
    }
}

type Producer = Arc<ThreadedProducer<Reports>>;

struct Shared {
    config: KafkaConfig,
    producer: Mutex<Producer>,
}

/// Produces events to topics.
pub struct KafkaSink {
    shared: Arc<Shared>,
}

impl KafkaSink {
    /// A sink for these brokers. Unreachable brokers do not fail it: the client goes on trying.
    ///
    /// # Errors
    /// When the client refuses its settings.
    pub fn new(config: KafkaConfig) -> Result<Self, KafkaError> {
        let producer = Mutex::new(produce(&config)?);
        Ok(Self { shared: Arc::new(Shared { config, producer }) })
    }
}

fn produce(config: &KafkaConfig) -> Result<Producer, KafkaError> {
    ThreadedProducer::from_config_and_context(&config.client(), Reports).map(Arc::new)
}

impl Shared {
    fn current(&self) -> Producer {
        Arc::clone(&self.producer.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// After a fatal error of idempotence a producer takes nothing any more: another one takes its place. What the old one
    /// still held is reported as failed and sent again.
    fn replace(&self, broken: &Producer) -> Result<(), KafkaError> {
        let mut producer = self.producer.lock().unwrap_or_else(PoisonError::into_inner);
        if Arc::ptr_eq(&producer, broken) {
            *producer = produce(&self.config)?;
        }
        Ok(())
    }
}

async fn deliver(shared: Arc<Shared>, delivery: Delivery) -> Verdict {
    let producer = shared.current();
    let event = &delivery.event;
    let topic = shared.config.topic.render(event);
    let (headers, payload) = encode::record(&shared.config, event);
    let (sender, report) = oneshot::channel();
    let record = BaseRecord::with_opaque_to(&topic, Box::new(sender))
        .key(event.partition_key())
        .payload(&payload[..])
        .headers(headers)
        .timestamp(event.recorded_time().as_millisecond());
    let outcome = match producer.send(record) {
        Ok(()) => report.await.unwrap_or(Err(KafkaError::Canceled)),
        Err((error, _)) => Err(error),
    };
    let verdict = verdict::of(outcome);
    if producer.client().fatal_error().is_some() {
        // Making and ending clients blocks.
        let replaced = tokio::task::spawn_blocking(move || shared.replace(&producer)).await;
        if !matches!(replaced, Ok(Ok(()))) {
            tracing::error!("a Kafka producer that had failed for good could not be replaced; it is tried again");
        }
    }
    verdict
}

impl Sink for KafkaSink {
    fn deliver(&self, delivery: Delivery) -> BoxFuture<'static, Verdict> {
        deliver(Arc::clone(&self.shared), delivery).boxed()
    }
}

#[cfg(test)]
mod tests;
