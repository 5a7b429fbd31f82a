//! Reading `sinks`: each by its kind. Whether a sink can be reached is not asked here.

use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderName, HeaderValue};

use super::data::{HeaderSource, KafkaSink, NatsSink, Sink, SinkKind, WebhookSink};
use super::mistakes::{Position, Report};
use super::reader::{Field, Keys};
use super::values;
use crate::model::Mode;

pub(super) const SINKS_HINT: &str = "name at least one sink, such as `out: { stdout: {} }`";
pub(super) const KINDS: Keys = Keys { known: &["kafka", "nats", "webhook", "stdout", "file"], later: &[] };
pub(super) const KAFKA: Keys =
    Keys { known: &["brokers", "topic", "mode"], later: &["tls", "sasl", "tombstones", "oversize"] };
pub(super) const NATS: Keys = Keys {
    known: &["servers", "stream", "subject", "mode"],
    later: &["tls", "credentials", "nkey", "token", "user", "password", "delivery", "oversize"],
};
pub(super) const WEBHOOK: Keys = Keys {
    known: &["url", "mode", "timeout", "connectTimeout", "concurrency", "bearer", "headers"],
    later: &["signing", "oauth2", "tls", "methods", "body", "oversize"],
};
pub(super) const FILE: Keys = Keys { known: &["path"], later: &[] };
const MODES: &[(&str, Mode)] = &[("structured", Mode::Structured), ("binary", Mode::Binary)];
const CREDENTIALS_HINT: &str = "URLs end up in logs: use `bearer` or `headers` with { env: NAME } or { file: PATH }";
const TOKENS: &[&str] = &["cluster", "group", "resource", "kind", "namespace", "name"];
/// A topic an object would be without bound, so that `{name}` is none.
const TOPIC_TOKENS: &[&str] = &["cluster", "group", "resource", "kind", "namespace"];

/// All sinks, and the names of those that were written, right or wrong: a route may name a wrong one without a mistake
/// of its own.
pub(super) fn read<'a>(field: &Field<'a>, report: &mut Report) -> (Vec<Sink>, Vec<&'a str>) {
    let entries = field.entries(SINKS_HINT, report).unwrap_or_default();
    if entries.is_empty() && field.is_mapping() {
        field.mistake("no sink", SINKS_HINT, report);
    }
    let names = entries.iter().map(|(name, ..)| *name).collect();
    let sinks = entries.iter().filter_map(|(name, position, field)| read_sink(name, *position, field, report));
    (sinks.collect(), names)
}

fn read_sink(name: &str, position: Position, field: &Field<'_>, report: &mut Report) -> Option<Sink> {
    if !values::is_label(name) {
        report.add(position, &field.path, format!("`{name}` is not a name"), values::LABEL_HINT);
    }
    let hint = "a sink is a mapping with one of kafka, nats, webhook, stdout, file";
    let section = field.section(&KINDS, hint, report)?;
    let kinds: Vec<(&str, Field<'_>)> =
        KINDS.known.iter().filter_map(|kind| Some((*kind, section.optional(kind)?))).collect();
    if kinds.is_empty() {
        report.add(position, &field.path, "no kind of sink", hint);
    }
    if kinds.len() > 1 {
        let names: Vec<&str> = kinds.iter().map(|(kind, _)| *kind).collect();
        let message = format!("more than one kind of sink: {}", names.join(", "));
        report.add(position, &field.path, message, "give each a name of its own; a route can name several");
    }
    // All of them are read, so that mistakes inside are told at once too.
    let mut read = kinds.iter().map(|(kind, field)| read_kind(kind, field, report)).collect::<Vec<_>>();
    Some(Sink { name: name.to_owned(), kind: read.pop()?? })
}

fn read_kind(kind: &str, field: &Field<'_>, report: &mut Report) -> Option<SinkKind> {
    match kind {
        "kafka" => kafka(field, report).map(SinkKind::Kafka),
        "nats" => nats(field, report).map(SinkKind::Nats),
        "webhook" => webhook(field, report).map(SinkKind::Webhook),
        "file" => file(field, report).map(SinkKind::File),
        _ => {
            field.section(&Keys { known: &[], later: &[] }, "write `stdout: {}`", report)?;
            Some(SinkKind::Stdout)
        }
    }
}

fn kafka(field: &Field<'_>, report: &mut Report) -> Option<KafkaSink> {
    let section = field.section(&KAFKA, "kafka needs `brokers` and `topic`", report)?;
    let brokers_hint = "name at least one broker, such as [\"kafka:9092\"]";
    let brokers = section
        .required("brokers", brokers_hint, report)
        .and_then(|field| field.distinct(brokers_hint, report, values::host_and_port));
    let topic = section
        .required("topic", "name the topic, such as \"cr.{group}.{resource}\"", report)
        .and_then(|field| topic(&field, report));
    let mode = section.optional("mode").and_then(|field| field.choice(MODES, &[], report));
    Some(KafkaSink { brokers: brokers?, topic: topic?, mode: mode.unwrap_or(Mode::Binary) })
}

fn topic(field: &Field<'_>, report: &mut Report) -> Option<String> {
    let (topic, literal) = values::template(field, TOPIC_TOKENS, report)?;
    let legal = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    let message = match literal.chars().find(|letter| !legal(*letter)) {
        Some(letter) => format!("a topic may not contain {letter:?}"),
        None if literal.len() > 249 => "a topic has at most 249 characters".to_owned(),
        None if matches!(literal.as_str(), "." | "..") => format!("`{literal}` is not a topic"),
        None => return Some(topic),
    };
    field.mistake(message, "use letters, digits, `.`, `_`, `-` and tokens such as {resource}", report);
    None
}

fn nats(field: &Field<'_>, report: &mut Report) -> Option<NatsSink> {
    let section = field.section(&NATS, "nats needs `servers`, `stream` and `subject`", report)?;
    let servers_hint = "name at least one server, such as [\"nats://nats:4222\"]";
    let login_hint = "URLs end up in logs, and this version cannot log in to NATS";
    let server = |field: &Field<'_>, report: &mut Report| values::url(field, &["nats", "tls"], login_hint, report);
    let servers = section
        .required("servers", servers_hint, report)
        .and_then(|field| field.distinct(servers_hint, report, server));
    let stream = section
        .required("stream", "name the JetStream stream that stores the events", report)
        .and_then(|field| stream(&field, report));
    let subject = section
        .required("subject", "name the subject, such as \"cr.{resource}.{namespace}.{name}\"", report)
        .and_then(|field| subject(&field, report));
    let mode = section.optional("mode").and_then(|field| field.choice(MODES, &[], report));
    Some(NatsSink { servers: servers?, stream: stream?, subject: subject?, mode: mode.unwrap_or(Mode::Structured) })
}

fn stream(field: &Field<'_>, report: &mut Report) -> Option<String> {
    let text = field.text(report)?;
    if text.contains(|letter: char| letter.is_whitespace() || letter.is_control() || ".*>/\\".contains(letter)) {
        let hint = "a stream's name has no spaces and none of `.`, `*`, `>`, `/`, `\\`";
        field.mistake(format!("`{text}` is not the name of a stream"), hint, report);
        return None;
    }
    Some(text.to_owned())
}

fn subject(field: &Field<'_>, report: &mut Report) -> Option<String> {
    let (subject, literal) = values::template(field, TOKENS, report)?;
    let illegal = |letter: char| letter.is_whitespace() || letter.is_control() || "*>".contains(letter);
    let (message, hint) = if let Some(letter) = literal.chars().find(|letter| illegal(*letter)) {
        (format!("a subject may not contain {letter:?}"), "crier publishes to single subjects, never to wildcards")
    } else if literal.split('.').any(str::is_empty) {
        ("a part of the subject is empty".to_owned(), "put something between the dots, and none at the ends")
    } else if literal.starts_with('$') {
        ("subjects with `$` belong to the server".to_owned(), "begin with a word of your own, such as `cr`")
    } else {
        return Some(subject);
    };
    field.mistake(message, hint, report);
    None
}

fn webhook(field: &Field<'_>, report: &mut Report) -> Option<WebhookSink> {
    let section = field.section(&WEBHOOK, "webhook needs `url`", report)?;
    let url = section
        .required("url", "give the endpoint, such as https://gateway.internal/events", report)
        .and_then(|field| values::url(&field, &["https", "http"], CREDENTIALS_HINT, report));
    let mode = section.optional("mode").and_then(|field| field.choice(MODES, &[], report));
    let timeout = section.optional("timeout").and_then(|field| values::positive_duration(&field, report));
    let connect = section.optional("connectTimeout").and_then(|field| values::positive_duration(&field, report));
    let concurrency = section.optional("concurrency").and_then(|field| field.integer(1..=1_000, report));
    let bearer = section.optional("bearer").and_then(|field| values::secret(&field, report));
    let headers = section.optional("headers").map(|field| headers(&field, bearer.is_some(), report));
    Some(WebhookSink {
        url: url?,
        mode: mode.unwrap_or(Mode::Structured),
        timeout: timeout.unwrap_or(Duration::from_secs(10)),
        connect_timeout: connect.unwrap_or(Duration::from_secs(5)),
        concurrency: concurrency.unwrap_or(8),
        bearer,
        headers: headers.unwrap_or_default(),
    })
}

fn headers(field: &Field<'_>, bearer: bool, report: &mut Report) -> Vec<(String, HeaderSource)> {
    let mut headers: Vec<(String, HeaderSource)> = Vec::new();
    let hint = "write a mapping of names to values, such as `x-team: \"platform\"`";
    for (name, position, value) in field.entries(hint, report).unwrap_or_default() {
        let Ok(name) = HeaderName::from_bytes(name.as_bytes()) else {
            let hint = "use letters, digits and `-`";
            report.add(position, &value.path, format!("`{name}` is not the name of a header"), hint);
            continue;
        };
        let name = name.as_str().to_owned();
        let own = matches!(name.as_str(), "content-type" | "content-length" | "transfer-encoding" | "host");
        if own || name.starts_with("ce-") {
            report.add(position, &value.path, "a header that crier sets itself", "remove it");
        } else if bearer && name == "authorization" {
            report.add(position, &value.path, "`bearer` sets this header already", "remove one of the two");
        } else if headers.iter().any(|(other, _)| *other == name) {
            report.add(
                position,
                &value.path,
                "the header is given twice",
                "case does not matter: remove one of the two",
            );
        } else if let Some(source) = header_value(&value, report) {
            headers.push((name, source));
        }
    }
    headers
}

fn header_value(field: &Field<'_>, report: &mut Report) -> Option<HeaderSource> {
    if field.is_mapping() {
        return values::secret(field, report).map(HeaderSource::Secret);
    }
    let text = field.text(report)?;
    if HeaderValue::from_str(text).is_err() {
        field.mistake("not the value of a header", "a header is one line without control characters", report);
        return None;
    }
    Some(HeaderSource::Text(text.to_owned()))
}

fn file(field: &Field<'_>, report: &mut Report) -> Option<PathBuf> {
    let hint = "file needs `path`, such as /var/log/crier/events.jsonl";
    let section = field.section(&FILE, hint, report)?;
    let path = section.required("path", hint, report)?;
    values::file_path(&path, report)
}
