//! Reading a configuration from its root: the sections that are there once, then sinks and routes.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use super::data::{Admin, Audit, Config, Events, Kubernetes, Limits, State};
use super::document::Node;
use super::mistakes::Report;
use super::reader::{Field, Keys};
use super::{routes, sinks, values};

pub(super) const ROOT: Keys = Keys {
    known: &["cluster", "state", "kubernetes", "admin", "audit", "limits", "events", "sinks", "routes"],
    later: &["telemetry", "tracing", "log"],
};
pub(super) const STATE: Keys = Keys { known: &["path", "mustExist"], later: &[] };
pub(super) const KUBERNETES: Keys = Keys { known: &["context", "kubeconfig", "qps", "burst"], later: &[] };
pub(super) const ADMIN: Keys = Keys { known: &["address"], later: &[] };
pub(super) const AUDIT: Keys = Keys { known: &["every"], later: &[] };
pub(super) const LIMITS: Keys = Keys { known: &["bufferPerFeed"], later: &[] };
pub(super) const EVENTS: Keys = Keys { known: &["typePrefix"], later: &["preset"] };
const STATE_HINT: &str = "write { path: /var/lib/crier }, or memory to forget everything when the process ends";

pub(super) fn read(root: &Node, report: &mut Report) -> Option<Config> {
    let root = Field::new(String::new(), root).section(&ROOT, "see config/crier.yaml for the whole of it", report)?;
    let cluster = root.optional("cluster").and_then(|field| cluster(&field, report));
    let state = root.required("state", STATE_HINT, report).and_then(|field| state(&field, report));
    let kubernetes = kubernetes(root.optional("kubernetes").as_ref(), report);
    let admin = admin(root.optional("admin").as_ref(), report);
    let audit = audit(root.optional("audit").as_ref(), report);
    let limits = limits(root.optional("limits").as_ref(), report);
    let events = events(root.optional("events").as_ref(), report);
    let (sinks, names) = match root.required("sinks", sinks::SINKS_HINT, report) {
        Some(field) => sinks::read(&field, report),
        None => (Vec::new(), Vec::new()),
    };
    let routes = match root.required("routes", routes::ROUTES_HINT, report) {
        Some(field) => routes::read(&field, &names, report),
        None => Vec::new(),
    };
    Some(Config { cluster, state: state?, kubernetes, admin, audit, limits, events, sinks, routes })
}

/// The cluster's name is a part of each event's `source`.
fn cluster(field: &Field<'_>, report: &mut Report) -> Option<String> {
    let text = field.text(report)?;
    if !text.chars().all(|letter| letter.is_ascii_alphanumeric() || "._-".contains(letter)) {
        let hint = "it is a part of each event's `source` and of topics: use letters, digits, `.`, `_` and `-`";
        field.mistake(format!("`{text}` is not a cluster's name"), hint, report);
        return None;
    }
    Some(text.to_owned())
}

fn state(field: &Field<'_>, report: &mut Report) -> Option<State> {
    if field.is_text("memory") {
        return Some(State::Memory);
    }
    let section = field.section(&STATE, STATE_HINT, report)?;
    let must_exist = section.optional("mustExist").and_then(|field| field.boolean(report)).unwrap_or_default();
    let path = section.required("path", STATE_HINT, report)?;
    values::file_path(&path, report).map(|path| State::Directory { path, must_exist })
}

fn kubernetes(field: Option<&Field<'_>>, report: &mut Report) -> Kubernetes {
    let default = Kubernetes { context: None, kubeconfig: None, queries_per_second: 50, burst: 100 };
    let section = field.and_then(|field| field.section(&KUBERNETES, "write { qps: 50, burst: 100 }", report));
    let Some(section) = section else { return default };
    let context = section.optional("context").and_then(|field| values::text(&field, report));
    let kubeconfig = section.optional("kubeconfig").and_then(|field| values::file_path(&field, report));
    let queries = section.optional("qps").and_then(|field| field.integer(1..=10_000, report));
    let burst = section.optional("burst").and_then(|field| field.integer(1..=10_000, report));
    Kubernetes {
        context,
        kubeconfig,
        queries_per_second: queries.unwrap_or(default.queries_per_second),
        burst: burst.unwrap_or(default.burst),
    }
}

fn admin(field: Option<&Field<'_>>, report: &mut Report) -> Admin {
    // Loopback: metrics name objects' kinds and sinks, and whoever wants them from outside should say so.
    let default = SocketAddr::from((Ipv4Addr::LOCALHOST, 8080));
    let section = field.and_then(|field| field.section(&ADMIN, "write { address: \"127.0.0.1:8080\" }", report));
    let field = section.and_then(|section| section.optional("address"));
    Admin { address: field.and_then(|field| address(&field, report)).unwrap_or(default) }
}

fn address(field: &Field<'_>, report: &mut Report) -> Option<SocketAddr> {
    let text = field.text(report)?;
    let address = text.parse().ok();
    if address.is_none() {
        let hint = "write an IP address and a port, such as 127.0.0.1:8080, or 0.0.0.0:8080 for all interfaces";
        field.mistake(format!("`{text}` is not an address"), hint, report);
    }
    address
}

fn audit(field: Option<&Field<'_>>, report: &mut Report) -> Audit {
    let section = field.and_then(|field| field.section(&AUDIT, "write { every: 1h }", report));
    let field = section.and_then(|section| section.optional("every"));
    let every = field.and_then(|field| values::duration(&field, report));
    Audit { every: every.unwrap_or(Duration::from_secs(3_600)) }
}

fn limits(field: Option<&Field<'_>>, report: &mut Report) -> Limits {
    let section = field.and_then(|field| field.section(&LIMITS, "write { bufferPerFeed: 32Mi }", report));
    let field = section.and_then(|section| section.optional("bufferPerFeed"));
    let bytes = field.and_then(|field| values::bytes(&field, report));
    Limits { buffer_per_feed: bytes.unwrap_or(32 << 20) }
}

fn events(field: Option<&Field<'_>>, report: &mut Report) -> Events {
    let section = field.and_then(|field| field.section(&EVENTS, "write { typePrefix: dev.crier.resource }", report));
    let field = section.and_then(|section| section.optional("typePrefix"));
    let prefix = field.and_then(|field| type_prefix(&field, report));
    Events { type_prefix: prefix.unwrap_or_else(|| "dev.crier.resource".to_owned()) }
}

fn type_prefix(field: &Field<'_>, report: &mut Report) -> Option<String> {
    let text = field.text(report)?;
    let legal = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    if !text.split('.').all(legal) {
        let hint = "write it like a reversed domain name, such as dev.crier.resource";
        field.mistake(format!("`{text}` is not a prefix of types"), hint, report);
        return None;
    }
    Some(text.to_owned())
}
