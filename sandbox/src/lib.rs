//! A Kubernetes API server's list and watch semantics as pure code, and the scenarios that hold it to the real server.
//! No IO, no clock, no randomness: time is handed in.
//!
//! Reading order: [`ApiServer`] is asked by a [`Request`] and answers with an [`Answer`]; a watch is a stream that is
//! polled. [`scenarios`] are the questions that the real kube-apiserver and this model have to answer alike.

mod model;
pub mod scenarios;

pub use model::{Answer, ApiServer, Body, Failure, Held, ObjectPath, Refusal, Request, Snapshot, StreamId, StreamPoll};
