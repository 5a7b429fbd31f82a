//! All four kinds of sinks at once, with crier between them and a cluster.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::Message;
use rdkafka::message::{Headers, OwnedMessage};
use serde_json::{Map, Value};

use super::{Cluster, Crier, Kafka, Nats, Objects, Receiver, agrees};

const TOPIC: &str = "cr.example.com.myapps";
pub(crate) const SINKS: [&str; 4] = ["kafka", "nats", "webhook", "stdout"];

/// A cluster with the kind installed, the servers of all sinks, and crier, not yet started.
pub(crate) struct Everything {
    _cluster: Cluster,
    pub(crate) kafka: Kafka,
    pub(crate) nats: Nats,
    pub(crate) receiver: Receiver,
    pub(crate) objects: Objects,
    pub(crate) crier: Crier,
}

impl Everything {
    /// Starts the servers all at once.
    pub(crate) async fn start() -> Self {
        let (cluster, kafka, nats, receiver) =
            tokio::join!(Cluster::start(), Kafka::start(), Nats::start(), Receiver::start());
        let objects = Objects::of(&cluster);
        tokio::join!(objects.install(), kafka.create_topic(TOPIC, 3), nats.create_stream());
        let configuration = format!(
            "sinks:
  kafka: {{ kafka: {{ brokers: [\"{}\"], topic: \"cr.{{group}}.{{resource}}\" }} }}
  nats: {{ nats: {{ servers: [\"{}\"], stream: CR, subject: \"cr.{{resource}}.{{namespace}}.{{name}}\" }} }}
  webhook: {{ webhook: {{ url: \"{}\" }} }}
  stdout: {{ stdout: {{}} }}
routes:
  - name: apps
    watch: {{ resources: [myapps.example.com] }}
    sinks: [kafka, nats, webhook, stdout]
",
            kafka.broker(),
            nats.url(),
            receiver.url()
        );
        let crier = Crier::prepare(&cluster, &configuration);
        Self { _cluster: cluster, kafka, nats, receiver, objects, crier }
    }

    /// What each sink has, by the sink's name.
    pub(crate) async fn events(&self) -> BTreeMap<&'static str, Vec<Value>> {
        let kafka = self.kafka.stored(TOPIC).await.iter().map(event_of).collect();
        let nats = self.nats.stored().await;
        let nats = nats.iter().map(|message| serde_json::from_slice(&message.payload).unwrap()).collect();
        let (webhook, stdout) = (self.receiver.events(), self.crier.lines("stdout"));
        [("kafka", kafka), ("nats", nats), ("webhook", webhook), ("stdout", stdout)].into()
    }

    /// Waits until all that has happened so far is told, then compares every sink with the cluster.
    pub(crate) async fn settle(&self, limit: Duration) -> BTreeMap<&'static str, Vec<Value>> {
        self.crier.until_told(self.objects.mark().await, limit).await;
        let (events, cluster) = (self.events().await, self.objects.all().await);
        for (sink, events) in &events {
            agrees(events, &cluster).unwrap_or_else(|difference| panic!("{sink}: {difference}"));
        }
        events
    }
}

/// The event in a record of Kafka's binary mode, as its structured mode would have it.
pub(crate) fn event_of(record: &OwnedMessage) -> Value {
    let mut event = Map::new();
    for header in record.headers().expect("a record has headers").iter() {
        let value = String::from_utf8(header.value.unwrap().to_vec()).unwrap();
        match header.key.strip_prefix("ce_") {
            Some(attribute) => event.insert(attribute.to_owned(), value.into()),
            None => event.insert("datacontenttype".to_owned(), value.into()),
        };
    }
    event.insert("data".to_owned(), serde_json::from_slice(record.payload().unwrap()).unwrap());
    assert_eq!(
        record.key().map(|key| String::from_utf8(key.to_vec()).unwrap()).as_deref(),
        event["partitionkey"].as_str()
    );
    event.into()
}
