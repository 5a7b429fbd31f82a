//! The `webhook` sink: one POST an event (CloudEvents HTTP protocol binding 1.0.2). It follows no redirect and uses no
//! proxy. Signatures, handshake and address policy are not here yet.

mod config;
mod encode;
mod verdict;

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use reqwest::redirect::Policy;
use tokio::sync::Semaphore;

use super::{Delivery, Sink};
use crate::model::Verdict;

pub use config::{Secret, WebhookConfig};

/// Of a response's body no more than this many bytes are read, so that the connection can be used again.
const BODY_BYTES: usize = 64 << 10;

/// A webhook that cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    /// The client cannot be built.
    #[error("the HTTP client cannot be built")]
    Client(#[source] reqwest::Error),
}

/// Posts events to an endpoint.
pub struct WebhookSink {
    client: reqwest::Client,
    config: Arc<WebhookConfig>,
    places: Arc<Semaphore>,
}

impl WebhookSink {
    /// A sink for this endpoint. The process's rustls provider has to be installed before.
    ///
    /// # Errors
    /// When the HTTP client cannot be built.
    pub fn new(config: WebhookConfig) -> Result<Self, WebhookError> {
        let client = reqwest::Client::builder()
            .user_agent(concat!("crier/", env!("CARGO_PKG_VERSION")))
            .redirect(Policy::none())
            .no_proxy()
            .connect_timeout(config.connect_timeout)
            .timeout(config.timeout)
            .tcp_nodelay(true)
            .build()
            .map_err(WebhookError::Client)?;
        let places = Arc::new(Semaphore::new(config.concurrency.max(1)));
        Ok(Self { client, config: Arc::new(config), places })
    }
}

impl Sink for WebhookSink {
    fn deliver(&self, delivery: Delivery) -> BoxFuture<'static, Verdict> {
        let (client, config, places) = (self.client.clone(), Arc::clone(&self.config), Arc::clone(&self.places));
        async move {
            // The semaphore is never closed.
            let _place = places.acquire_owned().await;
            let request = encode::request(&client, &config, &delivery.event);
            match request.send().await {
                Ok(mut response) => {
                    let verdict = verdict::of_response(response.status(), response.headers(), jiff::Timestamp::now());
                    drain(&mut response).await;
                    verdict
                }
                Err(error) => verdict::of_error(&error),
            }
        }
        .boxed()
    }
}

/// Reads what is left of a body, to a bound and within the request's timeout. The answer is known; errors no longer
/// matter.
async fn drain(response: &mut reqwest::Response) {
    let mut read = 0;
    while let Ok(Some(chunk)) = response.chunk().await {
        read += chunk.len();
        if read > BODY_BYTES {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
