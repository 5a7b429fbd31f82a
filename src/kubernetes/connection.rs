//! The connection to one cluster: found as kubectl finds it, kept alive, held to a rate, and made anew when its
//! credentials are refused. It knows nothing of collections.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use http::header::{ACCEPT, ACCEPT_ENCODING, RETRY_AFTER, USER_AGENT};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper_util::client::legacy::Client as HttpClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{Body, ClientBuilder, ConfigExt};
use kube::config::{Config, InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use tokio::time::Instant;
use tower::ServiceBuilder;

use super::failure::Failure;
use super::metadata::read_object;
use super::rate::Rate;
use crate::model::Uid;

/// A connection over which nothing comes for this long is asked whether it lives, this often and so many times: a dead
/// peer is noticed within a minute, not after the hours that the system's defaults take.
const KEEP_ALIVE: (Duration, Duration, u32) = (Duration::from_secs(30), Duration::from_secs(10), 3);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Refused credentials are taken anew at most this often, by however many feeds.
const RENEWAL: Duration = Duration::from_secs(5);

/// A request whose answer has not begun, or does not end, by then has failed. A watch's answer may go on for longer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
const ERROR_TIMEOUT: Duration = Duration::from_secs(10);
const ERROR_BYTES: usize = 64 << 10;

/// Where the cluster is, and how much it may be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionSettings {
    /// The kubeconfig's context; without one, its current context.
    pub context: Option<String>,
    /// The kubeconfig's path; without one, where kubectl looks, then the pod's ServiceAccount.
    pub kubeconfig: Option<PathBuf>,
    /// Requests a second, over time.
    pub queries_per_second: u32,
    /// Requests at once, before `queries_per_second` holds them back.
    pub burst: u32,
}

/// Why there is no connection to begin with. An API server that does not answer is no such case.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// The kubeconfig that was asked for cannot be used.
    #[error("the kubeconfig cannot be used")]
    Kubeconfig(#[source] KubeconfigError),
    /// Neither a kubeconfig nor a ServiceAccount was found.
    #[error("no cluster was found: there is neither a kubeconfig nor a ServiceAccount of a pod")]
    NotFound(#[source] Box<InferConfigError>),
    /// What was found does not make a client: a certificate or a key is wrong.
    #[error("no client can be made of the connection's settings")]
    Client(#[source] Box<kube::Error>),
}

impl ConnectionError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Kubeconfig(_) => {
                "check --kubeconfig, --context and KUBECONFIG; `kubectl config get-contexts` lists them"
            }
            Self::NotFound(_) => "give --kubeconfig FILE, set KUBECONFIG, or run in a pod with a ServiceAccount",
            Self::Client(_) => "check the certificates and keys that the kubeconfig or ServiceAccount names",
        }
    }
}

/// The media type of whole objects.
pub(super) const JSON: &str = "application/json";

/// A connection that all feeds share.
pub struct Connection {
    // `None` in tests, which bring a client of their own.
    settings: Option<ConnectionSettings>,
    client: Mutex<kube::Client>,
    rate: Rate,
    renewed: tokio::sync::Mutex<Option<Instant>>,
}

impl Connection {
    /// Finds the cluster. Nothing is sent yet. The process's rustls provider has to be installed before.
    ///
    /// # Errors
    /// When no cluster is found or its settings cannot be used.
    pub async fn open(settings: ConnectionSettings) -> Result<Arc<Self>, ConnectionError> {
        let client = client(&settings).await?;
        let rate = Rate::new(settings.queries_per_second, settings.burst);
        Ok(Arc::new(Self {
            settings: Some(settings),
            client: Mutex::new(client),
            rate,
            renewed: tokio::sync::Mutex::new(None),
        }))
    }

    /// A connection over this client, which must not retry by itself.
    pub fn of_client(client: kube::Client) -> Arc<Self> {
        let (client, rate) = (Mutex::new(client), Rate::new(1_000, 1_000));
        Arc::new(Self { settings: None, client, rate, renewed: tokio::sync::Mutex::new(None) })
    }

    /// The client as it is now; its requests are not counted by the rate.
    pub(super) fn client(&self) -> kube::Client {
        self.client.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sends one request. After a 401 the credentials are taken anew for the next one.
    async fn send(&self, request: Request<Body>) -> Result<Response<Body>, kube::Error> {
        let response = self.client().send(request).await;
        if response.as_ref().is_ok_and(|response| response.status() == StatusCode::UNAUTHORIZED) {
            self.renew().await;
        }
        response
    }

    /// Asks for a path; what comes is a body that succeeded, or the failure that the API server named.
    pub(super) async fn get(self: &Arc<Self>, path: &str, accept: &'static str) -> Result<Body, Failure> {
        let request = Request::get(path)
            .header(ACCEPT, HeaderValue::from_static(accept))
            // A compressed watch comes in members of which decoders read the first only.
            .header(ACCEPT_ENCODING, HeaderValue::from_static("identity"))
            .body(Body::empty())
            .map_err(|error| Failure::Other(format!("the request cannot be made: {error}")))?;
        // Waiting for its turn is no part of a request's time: one that ran out of it unsent would wait again, behind
        // the turn that it never used.
        self.rate.wait().await;
        let answer = tokio::time::timeout(REQUEST_TIMEOUT, self.send(request)).await;
        let response = answer
            .map_err(|_| Failure::Other("the API server did not answer in time".to_owned()))?
            .map_err(|error| Failure::Other(format!("the API server cannot be reached: {error}")))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response.into_body());
        }
        let seconds = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let mut body = BytesMut::new();
        let mut chunks = response.into_body().into_data_stream();
        // What an error says may come over several lines, but not without end.
        while let Ok(Some(Ok(chunk))) = tokio::time::timeout(ERROR_TIMEOUT, chunks.next()).await {
            body.extend_from_slice(&chunk);
            if body.len() > ERROR_BYTES {
                break;
            }
        }
        Err(Failure::of_response(status, seconds.map(Duration::from_secs), &body))
    }

    /// Asks for a path and reads all of the answer.
    pub(super) async fn read(self: &Arc<Self>, path: &str) -> Result<Bytes, Failure> {
        self.read_as(path, JSON).await
    }

    /// The same, in this media type.
    pub(super) async fn read_as(self: &Arc<Self>, path: &str, accept: &'static str) -> Result<Bytes, Failure> {
        let body = self.get(path, accept).await?;
        let collected = tokio::time::timeout(REQUEST_TIMEOUT, body.collect()).await;
        let collected = collected.map_err(|_| Failure::Other("the answer did not end in time".to_owned()))?;
        collected.map(|body| body.to_bytes()).map_err(|error| Failure::Other(format!("the answer broke off: {error}")))
    }

    /// The uid of the `kube-system` namespace: it is there in every cluster, once, and never made anew.
    ///
    /// # Errors
    /// As the API server answers.
    pub async fn cluster_uid(self: &Arc<Self>) -> Result<Uid, Failure> {
        let body = self.read("/api/v1/namespaces/kube-system").await?;
        let namespace = read_object(body, None).map_err(|error| Failure::Undecodable(error.to_string()))?;
        Ok(namespace.metadata.uid.clone())
    }

    async fn renew(&self) {
        let Some(settings) = &self.settings else { return };
        let mut renewed = self.renewed.lock().await;
        if renewed.is_some_and(|at| at.elapsed() < RENEWAL) {
            return;
        }
        *renewed = Some(Instant::now());
        match client(settings).await {
            Ok(client) => *self.client.lock().unwrap_or_else(PoisonError::into_inner) = client,
            Err(error) => {
                let error = anyhow::Error::new(error);
                tracing::warn!(
                    error = format!("{error:#}"),
                    "the credentials were refused and cannot be taken anew yet"
                );
            }
        }
    }
}

async fn client(settings: &ConnectionSettings) -> Result<kube::Client, ConnectionError> {
    let options = KubeConfigOptions { context: settings.context.clone(), cluster: None, user: None };
    let config = match &settings.kubeconfig {
        Some(path) => {
            let kubeconfig = Kubeconfig::read_from(path).map_err(ConnectionError::Kubeconfig)?;
            Config::from_custom_kubeconfig(kubeconfig, &options).await.map_err(ConnectionError::Kubeconfig)?
        }
        None if settings.context.is_some() => {
            Config::from_kubeconfig(&options).await.map_err(ConnectionError::Kubeconfig)?
        }
        None => Config::infer().await.map_err(|error| ConnectionError::NotFound(Box::new(error)))?,
    };
    build(config).map_err(|error| ConnectionError::Client(Box::new(error)))
}

/// As kube builds its client, except for keep-alive, and without retries: whether to try again is decided elsewhere, and
/// deadlines are each request's own.
fn build(mut config: Config) -> Result<kube::Client, kube::Error> {
    let agent = HeaderValue::from_static(concat!("crier/", env!("CARGO_PKG_VERSION")));
    config.headers.push((USER_AGENT, agent));
    config.default_retry = false;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.read_timeout = None;
    config.write_timeout = None;
    if config.proxy_url.is_some() {
        return Ok(ClientBuilder::try_from(config)?.build());
    }
    let (idle, interval, probes) = KEEP_ALIVE;
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
    connector.set_keepalive(Some(idle));
    connector.set_keepalive_interval(Some(interval));
    connector.set_keepalive_retries(Some(probes));
    let connector = config.rustls_https_connector_with_connector(connector)?;
    let http: HttpClient<_, Body> = HttpClient::builder(TokioExecutor::new()).build(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(tower::BoxError::from)
        .service(http);
    Ok(ClientBuilder::new(service, config.default_namespace.clone()).build())
}
