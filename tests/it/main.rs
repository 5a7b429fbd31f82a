//! The program on real servers: kube-apiserver, etcd, Kafka, nats-server, an HTTP receiver.

#![cfg(all(feature = "kafka", feature = "nats", feature = "webhook"))]

#[path = "../support/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the other tests use the rest")]
mod support;

mod audit;
mod conformance;
mod crashes;
mod definitions;
mod downtime;
mod four_sinks;
mod kafka_outage;
mod lists;
mod namespaces;
mod nats;
mod parked;
mod peers;
mod refusals;
mod rewind;
mod selections;
mod states;
mod webhook_faults;
