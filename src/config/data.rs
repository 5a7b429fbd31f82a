//! A configuration as plain data, checked and with its defaults filled in. How it is written is the readers' business;
//! what is done with it is the composition root's.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use url::Url;

use super::Secret;
use crate::model::{Initial, Mode, PayloadMode};

/// A whole configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The cluster's name in events; without one, the uid of the `kube-system` namespace.
    pub cluster: Option<String>,
    /// Where told, owed and position are kept.
    pub state: State,
    /// How the API server is reached.
    pub kubernetes: Kubernetes,
    /// The read-only HTTP port.
    pub admin: Admin,
    /// The safety net.
    pub audit: Audit,
    /// What is bounded.
    pub limits: Limits,
    /// What all events have in common.
    pub events: Events,
    /// The sinks in the order of the file; their names are unique.
    pub sinks: Vec<Sink>,
    /// The routes in the order of the file; their names are unique, and their sinks exist.
    pub routes: Vec<Route>,
}

impl Config {
    /// The routes that the written ones stand for: one for each resource and sink.
    pub fn expand(&self) -> Vec<SingleRoute<'_>> {
        self.routes.iter().flat_map(Route::expand).collect()
    }

    /// The sink of this name.
    pub fn sink(&self, name: &str) -> Option<&Sink> {
        self.sinks.iter().find(|sink| sink.name == name)
    }
}

/// Where told, owed and position are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// In this directory: they survive a crash.
    Directory {
        /// The directory.
        path: PathBuf,
        /// Refuse to begin where there is no state yet.
        must_exist: bool,
    },
    /// In memory: forgotten when the process ends.
    Memory,
}

/// How the API server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kubernetes {
    /// The kubeconfig's context; without one, its current context, or the pod's ServiceAccount.
    pub context: Option<String>,
    /// The kubeconfig's path; without one, where kubectl looks.
    pub kubeconfig: Option<PathBuf>,
    /// Requests a second, over time.
    pub queries_per_second: u32,
    /// Requests at once, before `queries_per_second` holds them back.
    pub burst: u32,
}

/// The safety net: comparing everything though nothing is known to be missed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audit {
    /// How often; zero for never.
    pub every: Duration,
}

/// What is bounded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of objects that may wait to be told, for each feed.
    pub buffer_per_feed: usize,
}

/// The read-only HTTP port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admin {
    /// Where it listens.
    pub address: SocketAddr,
}

/// What all events have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Events {
    /// The first part of each event's `type`.
    pub type_prefix: String,
}

/// A named place where events go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sink {
    /// Its name, like a DNS label.
    pub name: String,
    /// What it is.
    pub kind: SinkKind,
}

/// What a sink is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SinkKind {
    /// A Kafka cluster.
    Kafka(KafkaSink),
    /// A NATS JetStream stream.
    Nats(NatsSink),
    /// An HTTP endpoint.
    Webhook(WebhookSink),
    /// The process's standard output, one structured event a line.
    Stdout,
    /// A file, one structured event a line.
    File(PathBuf),
}

impl SinkKind {
    /// The key that names this kind in a configuration.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Kafka(_) => "kafka",
            Self::Nats(_) => "nats",
            Self::Webhook(_) => "webhook",
            Self::Stdout => "stdout",
            Self::File(_) => "file",
        }
    }
}

/// A Kafka cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KafkaSink {
    /// `host:port`, one or more.
    pub brokers: Vec<String>,
    /// The topic, with tokens such as `{resource}` in it.
    pub topic: String,
    /// Binary by default.
    pub mode: Mode,
}

/// A NATS JetStream stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NatsSink {
    /// `nats://host:port` or `tls://host:port`, one or more of one cluster.
    pub servers: Vec<Url>,
    /// The stream that has to store the events.
    pub stream: String,
    /// The subject, with tokens such as `{name}` in it.
    pub subject: String,
    /// Structured by default.
    pub mode: Mode,
}

/// An HTTP endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookSink {
    /// `http` or `https`, without user name and password.
    pub url: Url,
    /// Structured by default.
    pub mode: Mode,
    /// A delivery as a whole takes at most this long.
    pub timeout: Duration,
    /// Connecting takes at most this long.
    pub connect_timeout: Duration,
    /// Requests under way at once, at least 1.
    pub concurrency: u32,
    /// The token of `Authorization: Bearer`.
    pub bearer: Option<Secret>,
    /// Headers that are sent along, by their names in lower case.
    pub headers: Vec<(String, HeaderSource)>,
}

/// The value of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HeaderSource {
    /// As written in the configuration.
    Text(String),
    /// From elsewhere.
    Secret(Secret),
}

/// A route as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Its name, like a DNS label.
    pub name: String,
    /// What it watches.
    pub watch: Watch,
    /// The names of its sinks, one or more, each once.
    pub sinks: Vec<String>,
    /// How changes of one object are merged.
    pub debounce: Debounce,
    /// What events carry.
    pub payload: Payload,
    /// What to do with objects that exist at the first start.
    pub initial: Initial,
}

impl Route {
    /// The routes that this one stands for: one for each resource and sink.
    pub fn expand(&self) -> Vec<SingleRoute<'_>> {
        let mut single = Vec::new();
        for resource in &self.watch.resources {
            for sink in &self.sinks {
                single.push(SingleRoute {
                    name: format!("{}/{resource}/{sink}", self.name),
                    resource,
                    sink,
                    route: self,
                });
            }
        }
        single
    }
}

/// One resource to one sink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SingleRoute<'a> {
    /// `name/resource/sink`, unique in a configuration. The resource is with its group, since plurals repeat.
    pub name: String,
    /// What it watches.
    pub resource: &'a Resource,
    /// Its sink's name.
    pub sink: &'a str,
    /// The route as written, for all the rest.
    pub route: &'a Route,
}

/// What a route watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    /// One or more, each once.
    pub resources: Vec<Resource>,
    /// The API version; without one, the version that the API server prefers.
    pub version: Option<String>,
    /// Without one: all namespaces.
    pub namespaces: Vec<String>,
    /// Never these.
    pub excluded_namespaces: Vec<String>,
    /// The namespaces with these labels, as they are at any time; as in `kubectl get namespaces --selector`.
    pub namespace_selector: Option<String>,
    /// As in `kubectl --selector`.
    pub label_selector: Option<String>,
    /// As in `kubectl --field-selector`.
    pub field_selector: Option<String>,
}

/// A resource's plural and group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource {
    /// The plural, as in the API path.
    pub plural: String,
    /// The API group; empty for the core group.
    pub group: String,
}

impl std::fmt::Display for Resource {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.plural)?;
        if self.group.is_empty() { Ok(()) } else { write!(formatter, ".{}", self.group) }
    }
}

/// How changes of one object are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Debounce {
    /// An object is told when it has not changed for this long; zero switches debouncing off.
    pub quiet: Duration,
    /// An object is told at the latest this long after its first change; at least `quiet`.
    pub max_wait: Duration,
}

/// What events carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payload {
    /// How much of the object.
    pub mode: PayloadMode,
    /// Paths that are left out, in the syntax `metadata.annotations["a.b/c"]`.
    pub omit: Vec<String>,
}
