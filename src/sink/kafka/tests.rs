//! The sink against librdkafka's own mock cluster, which fails as it is told.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Headers, Message, OwnedMessage};
use rdkafka::mocking::MockCluster;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

use super::*;
use crate::event::sample;
use crate::sink::Mode;

fn sink(brokers: String, mode: Mode) -> KafkaSink {
    let config = KafkaConfig { brokers: vec![brokers], topic: "cr.{group}.{resource}".parse().unwrap(), mode };
    KafkaSink::new(config).unwrap()
}

async fn send(sink: &KafkaSink, name: &str) -> Verdict {
    let delivery = Delivery { route: "apps".into(), event: Arc::new(sample(name)) };
    tokio::time::timeout(Duration::from_secs(30), sink.deliver(delivery)).await.expect("there is a report")
}

fn read(brokers: String, count: usize) -> Vec<OwnedMessage> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers).set("group.id", "reader").set("auto.offset.reset", "earliest");
    let consumer: BaseConsumer = config.create().unwrap();
    consumer.subscribe(&["cr.example.com.myapps"]).unwrap();
    let mut messages = Vec::new();
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    while messages.len() < count {
        assert!(std::time::Instant::now() < deadline, "the messages come in time");
        // A poll may end early without a message.
        if let Some(message) = consumer.poll(Duration::from_millis(100)) {
            messages.push(message.unwrap().detach());
        }
    }
    messages
}

fn header<'a>(message: &'a OwnedMessage, name: &str) -> Option<&'a [u8]> {
    message.headers()?.iter().find(|header| header.key == name)?.value
}

#[tokio::test]
async fn records_have_the_key_the_headers_and_the_bytes_of_the_event() {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("cr.example.com.myapps", 1, 1).unwrap();
    let brokers = cluster.bootstrap_servers();
    assert_eq!(send(&sink(brokers.clone(), Mode::Binary), "a").await, Verdict::Delivered);
    assert_eq!(send(&sink(brokers.clone(), Mode::Structured), "b").await, Verdict::Delivered);
    let messages = tokio::task::spawn_blocking(move || read(brokers, 2)).await.unwrap();
    let [binary, structured] = &messages[..] else { panic!() };
    let (a, b) = (sample("a"), sample("b"));
    assert_eq!((binary.key(), binary.payload()), (Some(a.partition_key().as_bytes()), a.data().map(|data| &data[..])));
    assert_eq!(header(binary, "content-type"), Some(&b"application/json"[..]));
    for (name, value) in a.attributes() {
        assert_eq!(header(binary, &format!("ce_{name}")), Some(value.as_bytes()), "{name}");
    }
    assert_eq!(binary.timestamp().to_millis(), Some(a.recorded_time().as_millisecond()));
    assert_eq!(structured.payload(), Some(&b.structured()[..]));
    assert_eq!(structured.headers().unwrap().count(), 1, "no ce_ headers beside a structured event");
}

#[tokio::test]
async fn a_broker_that_fails_for_a_while_loses_nothing_and_a_missing_right_rejects_nothing() {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("cr.example.com.myapps", 1, 1).unwrap();
    let sink = sink(cluster.bootstrap_servers(), Mode::Binary);
    let passing = RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS;
    cluster.request_errors(RDKafkaApiKey::Produce, &[passing, passing]);
    assert_eq!(send(&sink, "a").await, Verdict::Delivered, "the client retries by itself");
    let forbidden = RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
    cluster.request_errors(RDKafkaApiKey::Produce, &[forbidden]);
    let verdict = send(&sink, "b").await;
    assert!(matches!(verdict, Verdict::Unavailable { .. }), "{verdict:?}");
}

#[tokio::test]
async fn an_event_in_a_batch_that_is_too_large_is_refused_only_if_it_is_too_large_by_itself() {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("cr.example.com.myapps", 1, 1).unwrap();
    let sink = sink(cluster.bootstrap_servers(), Mode::Binary);
    let too_large = RDKafkaRespErr::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE;
    cluster.request_errors(RDKafkaApiKey::Produce, &[too_large]);
    assert_eq!(send(&sink, "innocent").await, Verdict::Delivered);
    cluster.request_errors(RDKafkaApiKey::Produce, &[too_large, too_large]);
    let verdict = send(&sink, "large").await;
    assert!(matches!(verdict, Verdict::Reject { .. }), "{verdict:?}");
}

#[tokio::test]
async fn a_producer_that_failed_for_good_is_replaced() {
    let cluster = MockCluster::new(1).unwrap();
    cluster.create_topic("cr.example.com.myapps", 1, 1).unwrap();
    let sink = sink(cluster.bootstrap_servers(), Mode::Binary);
    assert_eq!(send(&sink, "a").await, Verdict::Delivered);
    let first = sink.shared.batched.current().unwrap();
    let fatal = RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_PRODUCER_ID;
    let out_of_order = RDKafkaRespErr::RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER;
    cluster.request_errors(RDKafkaApiKey::Produce, &[out_of_order, fatal]);
    let _ = send(&sink, "b").await;
    cluster.clear_request_errors(RDKafkaApiKey::Produce);
    assert_eq!(send(&sink, "b").await, Verdict::Delivered);
    assert!(!Arc::ptr_eq(&first, &sink.shared.batched.current().unwrap()));
}
