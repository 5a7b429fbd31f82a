//! A Kubernetes API server's list and watch semantics as pure code, and the scenarios that hold it to the real server.
//! No IO, no clock, no randomness: time is handed in.
//!
//! Reading order: [`ApiServer`] is asked by a [`Request`] and answers with an [`Answer`]; a watch is a stream that is
//! polled. [`scenarios`] are the questions that the real kube-apiserver and this model have to answer alike.
//!
//! ```
//! use std::time::Duration;
//! use crier_sandbox::{ApiServer, Body, ObjectPath, Request, StreamPoll};
//!
//! let mut server = ApiServer::new();
//! let now = Duration::from_secs(1_790_000_000);
//! let from = server.resource_version();
//! let target = format!("/api/v1/configmaps?watch=1&resourceVersion={from}");
//! let Body::Stream(watch) = server.request(now, &Request::get(&target)).body else { panic!("it is refused") };
//! let path = ObjectPath { group: "", resource: "configmaps", namespace: "default", name: "a" };
//! server.create(now, path, serde_json::json!({"data": {"key": "value"}})).unwrap();
//! let StreamPoll::Line(line) = server.poll_stream(now, watch) else { panic!("nothing is told") };
//! assert!(line.starts_with(b"{\"type\":\"ADDED\",\"object\":{\"kind\":\"ConfigMap\""));
//! assert_eq!(server.poll_stream(now, watch), StreamPoll::Pending);
//! ```

mod model;
pub mod scenarios;

pub use model::{Answer, ApiServer, Body, Failure, Held, ObjectPath, Refusal, Request, Snapshot, StreamId, StreamPoll};
