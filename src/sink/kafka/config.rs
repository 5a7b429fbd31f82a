//! A Kafka sink's settings as plain data, the settings of the client that crier's promises rest on, and topic names.

use std::str::FromStr;

use rdkafka::ClientConfig;

use crate::event::Event;
use crate::sink::Mode;
use crate::sink::template::{Template, TemplateError};

/// How topics are produced to.
#[derive(Clone, Debug)]
pub struct KafkaConfig {
    /// `host:port`, one or more of a cluster.
    pub brokers: Vec<String>,
    /// The topics.
    pub topic: TopicTemplate,
    /// Binary or structured.
    pub mode: Mode,
}

impl KafkaConfig {
    pub(super) fn client(&self) -> ClientConfig {
        let mut client = ClientConfig::new();
        client
            .set("bootstrap.servers", self.brokers.join(","))
            .set("client.id", "crier")
            // With acks from all replicas, order kept over retries, and no repeats by the client's own retries.
            .set("enable.idempotence", "true")
            .set("acks", "all")
            // The default drops a message silently from its queue after 300 s.
            .set("message.timeout.ms", "0")
            // The default waits up to 10 s after a broker is back.
            .set("reconnect.backoff.max.ms", "1000")
            // The same partition as Java's clients choose.
            .set("partitioner", "murmur2_random")
            // A mistyped topic is an error, not a new topic without replicas.
            .set("allow.auto.create.topics", "false")
            .set("topic.metadata.propagation.max.ms", "5000")
            // The default would let one sink hold 1 GiB.
            .set("queue.buffering.max.kbytes", "65536")
            .set("socket.keepalive.enable", "true")
            // What a topic takes is the broker's to say; etcd holds no object that is as large as this.
            .set("message.max.bytes", "8388608")
            .set("compression.type", "zstd");
        client
    }

    /// The same for a producer that sends every record in a batch of its own.
    pub(super) fn unbatched_client(&self) -> ClientConfig {
        let mut client = self.client();
        client.set("batch.num.messages", "1").set("linger.ms", "0");
        client
    }
}

/// A topic with `{cluster} {group} {resource} {kind} {namespace} {name}` in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicTemplate(Template);

fn is_legal(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '.' | '_' | '-')
}

impl FromStr for TopicTemplate {
    type Err = TemplateError;

    fn from_str(text: &str) -> Result<Self, TemplateError> {
        Template::parse(text, is_legal).map(Self)
    }
}

impl TopicTemplate {
    /// The topic of an event. What a topic's name may not have becomes `_`.
    pub fn render(&self, event: &Event) -> String {
        self.0.render(event, |topic, value| topic.extend(value.chars().map(|c| if is_legal(c) { c } else { '_' })))
    }
}
