//! The `kafka` sink: an idempotent producer whose delivery reports are the verdicts. TLS, SASL, tombstones and checks of
//! the topic are not here yet.

mod config;
mod encode;
mod verdict;

use std::sync::{Arc, Mutex, PoisonError};

use futures::FutureExt;
use futures::future::BoxFuture;
use rdkafka::config::FromClientConfigAndContext;
use rdkafka::error::KafkaError;
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseRecord, Producer as _, ProducerContext, PurgeConfig, ThreadedProducer};
use rdkafka::{ClientConfig, ClientContext};
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

/// A producer that can be replaced.
struct Slot {
    client: ClientConfig,
    producer: Mutex<Option<Producer>>,
    // Held while another one is made: what fails together makes one client, not as many as there were deliveries.
    replacing: Mutex<()>,
}

struct Shared {
    config: KafkaConfig,
    batched: Arc<Slot>,
    // Made when it is first needed.
    unbatched: Arc<Slot>,
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
        let batched = Arc::new(Slot::new(config.client()));
        batched.current()?;
        let unbatched = Arc::new(Slot::new(config.unbatched_client()));
        Ok(Self { shared: Arc::new(Shared { config, batched, unbatched }) })
    }
}

impl Slot {
    fn new(client: ClientConfig) -> Self {
        Self { client, producer: Mutex::new(None), replacing: Mutex::new(()) }
    }

    fn make(&self) -> Result<Producer, KafkaError> {
        ThreadedProducer::from_config_and_context(&self.client, Reports).map(Arc::new)
    }

    fn current(&self) -> Result<Producer, KafkaError> {
        let mut producer = self.producer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(producer) = &*producer {
            return Ok(Arc::clone(producer));
        }
        let made = self.make()?;
        *producer = Some(Arc::clone(&made));
        Ok(made)
    }

    /// After a fatal error of idempotence a producer takes nothing any more: another one takes its place. What the old
    /// one still held is reported as failed and sent again.
    fn replace(&self, broken: &Producer) -> Result<(), KafkaError> {
        let _alone = self.replacing.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_current(broken) {
            return Ok(());
        }
        // Making a client takes longer than deliveries should wait for the lock.
        let made = self.make()?;
        *self.producer.lock().unwrap_or_else(PoisonError::into_inner) = Some(made);
        // What it still holds is reported now, not when the last of those who wait for it has let go of it.
        broken.purge(PurgeConfig::default().queue().inflight());
        Ok(())
    }

    fn is_current(&self, producer: &Producer) -> bool {
        let current = self.producer.lock().unwrap_or_else(PoisonError::into_inner);
        current.as_ref().is_some_and(|current| Arc::ptr_eq(current, producer))
    }
}

async fn deliver(shared: Arc<Shared>, delivery: Delivery) -> Verdict {
    let report = produce(&shared.config, &shared.batched, &delivery).await;
    let too_large = |error: &KafkaError| error.rdkafka_error_code().is_some_and(verdict::is_too_large);
    if let Err(Refusal::Broker(error)) = &report
        && too_large(error)
    {
        return verdict::of(produce(&shared.config, &shared.unbatched, &delivery).await.map_err(Refusal::into_error));
    }
    verdict::of(report.map_err(Refusal::into_error))
}

/// Who did not take a record.
enum Refusal {
    /// The client, which looks at this record alone.
    Client(KafkaError),
    /// A broker, which looks at batches.
    Broker(KafkaError),
}

impl Refusal {
    fn into_error(self) -> KafkaError {
        let (Self::Client(error) | Self::Broker(error)) = self;
        error
    }
}

async fn produce(config: &KafkaConfig, slot: &Arc<Slot>, delivery: &Delivery) -> Result<(), Refusal> {
    let producer = slot.current().map_err(Refusal::Client)?;
    let event = &delivery.event;
    let topic = config.topic.render(event);
    let (headers, payload) = encode::record(config, event);
    let (sender, report) = oneshot::channel();
    let record = BaseRecord::with_opaque_to(&topic, Box::new(sender))
        .key(event.partition_key())
        .payload(&payload[..])
        .headers(headers)
        .timestamp(event.recorded_time().as_millisecond());
    let outcome = match producer.send(record) {
        Ok(()) => report.await.unwrap_or(Err(KafkaError::Canceled)).map_err(Refusal::Broker),
        Err((error, _)) => Err(Refusal::Client(error)),
    };
    if producer.client().fatal_error().is_some() {
        let slot = Arc::clone(slot);
        // Making and ending clients blocks.
        let replaced = tokio::task::spawn_blocking(move || slot.replace(&producer));
        if !matches!(replaced.await, Ok(Ok(()))) {
            tracing::error!("a Kafka producer that had failed for good could not be replaced; it is tried again");
        }
    }
    outcome
}

impl Sink for KafkaSink {
    fn deliver(&self, delivery: Delivery) -> BoxFuture<'static, Verdict> {
        deliver(Arc::clone(&self.shared), delivery).boxed()
    }
}

#[cfg(test)]
mod tests;
