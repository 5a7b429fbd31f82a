//! The sinks of a configuration, each made of its settings. Secrets are read here, and go nowhere else.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::RunError;
use crate::config::{self, SecretError, SinkKind};
use crate::sink::Sink;
use crate::sink::file::LineSink;
use crate::sink::template::TemplateError;

/// How long JetStream may take to acknowledge; then the event is sent again.
#[cfg(feature = "nats")]
const NATS_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);
/// Deliveries in flight of one route. Each is one key's: order per key never depends on it.
#[cfg(feature = "kafka")]
const KAFKA_IN_FLIGHT: usize = 1_000;
#[cfg(feature = "nats")]
const NATS_IN_FLIGHT: usize = 256;
const LINES_IN_FLIGHT: usize = 256;

/// Why a sink cannot be made. An endpoint that cannot be reached is no such case.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// This build leaves the sink out.
    #[error("this build has no {0} sink")]
    NotBuilt(&'static str),
    /// A secret has no value.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// A secret that no header can carry.
    #[error("the value of `{0}` cannot be sent in a header")]
    HeaderValue(String),
    /// A template that the configuration let pass.
    #[error("the template cannot be used")]
    Template(#[from] TemplateError),
    /// The file cannot be opened.
    #[error("cannot open {}", path.display())]
    File {
        /// Which.
        path: std::path::PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The protocol's client cannot be made.
    #[error("its client cannot be made")]
    Client(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl SinkError {
    /// What to do about it, if something can be said.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NotBuilt(_) => Some("build with the Cargo feature of that name, which is on by default"),
            Self::Secret(error) => Some(error.hint()),
            Self::HeaderValue(_) => Some("a header is one line of visible characters"),
            Self::File { .. } => Some("check that the folder exists and may be written to by the process's user"),
            Self::Template(_) | Self::Client(_) => None,
        }
    }
}

/// A sink, and how much it takes at once.
pub(super) struct MadeSink {
    pub(super) sink: Arc<dyn Sink>,
    pub(super) max_in_flight: usize,
}

pub(super) type Sinks = BTreeMap<String, MadeSink>;

pub(super) async fn make_all(sinks: &[config::Sink]) -> Result<Sinks, RunError> {
    let mut made = Sinks::new();
    for sink in sinks {
        let one = make(&sink.kind).await.map_err(|source| RunError::Sink { name: sink.name.clone(), source })?;
        made.insert(sink.name.clone(), one);
    }
    Ok(made)
}

async fn make(kind: &SinkKind) -> Result<MadeSink, SinkError> {
    match kind {
        SinkKind::Stdout => {
            let sink = LineSink::stdout().map_err(|error| SinkError::Client(error.into()))?;
            Ok(MadeSink { sink: Arc::new(sink), max_in_flight: LINES_IN_FLIGHT })
        }
        SinkKind::File(path) => {
            let sink = LineSink::append(path).map_err(|source| SinkError::File { path: path.clone(), source })?;
            Ok(MadeSink { sink: Arc::new(sink), max_in_flight: LINES_IN_FLIGHT })
        }
        #[cfg(feature = "kafka")]
        SinkKind::Kafka(settings) => kafka(settings),
        #[cfg(feature = "nats")]
        SinkKind::Nats(settings) => nats(settings).await,
        #[cfg(feature = "webhook")]
        SinkKind::Webhook(settings) => webhook(settings),
        #[allow(unreachable_patterns, reason = "reached in builds that leave sinks out")]
        other => Err(SinkError::NotBuilt(other.as_str())),
    }
}

#[cfg(feature = "kafka")]
fn kafka(settings: &config::KafkaSink) -> Result<MadeSink, SinkError> {
    use crate::sink::kafka::{KafkaConfig, KafkaSink};
    let config = KafkaConfig { brokers: settings.brokers.clone(), topic: settings.topic.parse()?, mode: settings.mode };
    let sink = KafkaSink::new(config).map_err(|error| SinkError::Client(error.into()))?;
    Ok(MadeSink { sink: Arc::new(sink), max_in_flight: KAFKA_IN_FLIGHT })
}

#[cfg(feature = "nats")]
async fn nats(settings: &config::NatsSink) -> Result<MadeSink, SinkError> {
    use crate::sink::nats::{NatsConfig, NatsSink};
    let config = NatsConfig {
        servers: settings.servers.iter().map(ToString::to_string).collect(),
        stream: settings.stream.clone(),
        subject: settings.subject.parse()?,
        mode: settings.mode,
        timeout: NATS_TIMEOUT,
    };
    let sink = NatsSink::connect(config).await.map_err(|error| SinkError::Client(error.into()))?;
    Ok(MadeSink { sink: Arc::new(sink), max_in_flight: NATS_IN_FLIGHT })
}

#[cfg(feature = "webhook")]
fn webhook(settings: &config::WebhookSink) -> Result<MadeSink, SinkError> {
    use crate::config::HeaderSource;
    use crate::sink::webhook::{Secret, WebhookConfig, WebhookSink};
    use http::{HeaderName, HeaderValue};

    let mut config = WebhookConfig::new(settings.url.clone());
    config.mode = settings.mode;
    config.timeout = settings.timeout;
    config.connect_timeout = settings.connect_timeout;
    config.concurrency = settings.concurrency as usize;
    if let Some(bearer) = &settings.bearer {
        let token = Secret::new(&format!("Bearer {}", bearer.read()?.expose()));
        config.authorization = Some(token.ok_or_else(|| SinkError::HeaderValue("bearer".to_owned()))?);
    }
    for (name, source) in &settings.headers {
        let unusable = || SinkError::HeaderValue(name.clone());
        let text = match source {
            HeaderSource::Text(text) => text.clone(),
            HeaderSource::Secret(secret) => secret.read()?.expose().to_owned(),
        };
        let mut value = HeaderValue::from_str(&text).map_err(|_| unusable())?;
        value.set_sensitive(matches!(source, HeaderSource::Secret(_)));
        config.headers.insert(HeaderName::from_bytes(name.as_bytes()).map_err(|_| unusable())?, value);
    }
    let max_in_flight = config.concurrency.max(1);
    let sink = WebhookSink::new(config).map_err(|error| SinkError::Client(error.into()))?;
    Ok(MadeSink { sink: Arc::new(sink), max_in_flight })
}
