//! Where events go. A sink takes an event and answers with a verdict; it never sees the engine, and never decides what
//! a verdict leads to.

pub mod file;
#[cfg(feature = "kafka")]
pub mod kafka;
#[cfg(feature = "nats")]
pub mod nats;
pub mod template;
#[cfg(feature = "webhook")]
pub mod webhook;

use std::sync::Arc;

use futures::future::BoxFuture;

use crate::event::Event;
use crate::model::Verdict;

pub use crate::model::Mode;

/// One event on its way.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// The route's name.
    pub route: Arc<str>,
    /// The event.
    pub event: Arc<Event>,
}

/// A place where events go.
pub trait Sink: Send + Sync {
    /// Sends one event. Every failure is a verdict. The future resolves in bounded time, except with Kafka: what its client
    /// still holds must not be sent a second time, so it is waited for.
    fn deliver(&self, delivery: Delivery) -> BoxFuture<'static, Verdict>;
}
