//! What right configurations mean: the reference, the examples, the defaults, and what a route stands for.

use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;

use super::reader::Keys;
use super::*;
use super::{routes, settings, sinks};

const REFERENCE: &str = include_str!("../../config/crier.yaml");

/// Every key that must be there, and no other.
const MINIMAL: &str = "
state: { path: /var/lib/crier }
sinks:
  events: { kafka: { brokers: [kafka:9092], topic: cr } }
  bus: { nats: { servers: [\"nats://nats:4222\"], stream: CR, subject: cr } }
  gateway: { webhook: { url: https://gateway.internal/events } }
routes:
  - { name: apps, watch: { resources: [myapps.example.com] }, sinks: [events] }
";

#[test]
fn the_reference_and_every_example_load() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("config");
    let examples = std::fs::read_dir(folder.join("examples")).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = examples.collect();
    assert!(files.len() >= 2, "the examples were not found");
    files.push(folder.join("crier.yaml"));
    for file in files {
        if let Err(mistakes) = load(&file) {
            panic!("{mistakes}");
        }
    }
}

#[test]
fn the_reference_has_every_key() {
    let sections: [&Keys; 14] = [
        &settings::ROOT,
        &settings::STATE,
        &settings::KUBERNETES,
        &settings::ADMIN,
        &settings::AUDIT,
        &settings::LIMITS,
        &settings::EVENTS,
        &sinks::KINDS,
        &sinks::KAFKA,
        &sinks::NATS,
        &sinks::WEBHOOK,
        &sinks::FILE,
        &routes::ROUTE,
        &routes::WATCH,
    ];
    let keys = sections.iter().chain([&&routes::DEBOUNCE, &&routes::PAYLOAD]).flat_map(|keys| keys.known);
    for key in keys {
        let is_written = |line: &str| line.trim_start_matches([' ', '-', '#']).starts_with(&format!("{key}:"));
        assert!(REFERENCE.lines().any(is_written), "config/crier.yaml does not have {key}");
    }
}

#[test]
fn the_reference_shows_the_defaults_as_they_are() {
    let (reference, minimal) = (parse(REFERENCE, "reference").unwrap(), parse(MINIMAL, "minimal").unwrap());
    assert_eq!(reference.admin, minimal.admin);
    assert_eq!(reference.events, minimal.events);
    assert_eq!((&reference.audit, &reference.limits), (&minimal.audit, &minimal.limits));
    let rates = |config: &Config| (config.kubernetes.queries_per_second, config.kubernetes.burst);
    assert_eq!(rates(&reference), rates(&minimal));
    let (shown, default) = (&reference.routes[0], &minimal.routes[0]);
    assert_eq!((shown.debounce, &shown.payload, shown.initial), (default.debounce, &default.payload, default.initial));
    let kinds = |config: &Config| {
        let kind = |name| config.sink(name).unwrap().kind.clone();
        let (SinkKind::Kafka(kafka), SinkKind::Nats(nats), SinkKind::Webhook(webhook)) =
            (kind("events"), kind("bus"), kind("gateway"))
        else {
            panic!("the sinks are of other kinds")
        };
        (kafka.mode, nats.mode, webhook.mode, webhook.timeout, webhook.connect_timeout, webhook.concurrency)
    };
    assert_eq!(kinds(&reference), kinds(&minimal));
}

#[test]
fn the_defaults_are_the_documented_ones() {
    let config = parse(MINIMAL, "minimal").unwrap();
    assert_eq!(config.cluster, None);
    assert_eq!(config.state, State::Directory { path: "/var/lib/crier".into(), must_exist: false });
    assert_eq!(config.admin.address.to_string(), "127.0.0.1:8080");
    assert_eq!(config.events.type_prefix, "dev.crier.resource");
    assert_eq!((config.kubernetes.queries_per_second, config.kubernetes.burst), (50, 100));
    let route = &config.routes[0];
    assert_eq!((route.debounce.quiet, route.debounce.max_wait), (Duration::from_millis(100), Duration::from_secs(1)));
    assert_eq!((route.payload.mode, route.initial), (PayloadMode::Object, Initial::Observed));
    assert_eq!(
        route.payload.omit,
        ["metadata.managedFields", "metadata.annotations[\"kubectl.kubernetes.io/last-applied-configuration\"]"]
    );
    assert!(route.watch.namespaces.is_empty());
    let SinkKind::Webhook(webhook) = &config.sink("gateway").unwrap().kind else { panic!("not a webhook") };
    assert_eq!((webhook.timeout, webhook.connect_timeout), (Duration::from_secs(10), Duration::from_secs(5)));
    assert_eq!((webhook.concurrency, webhook.mode), (8, Mode::Structured));
}

#[test]
fn a_route_stands_for_one_each_of_its_resources_and_sinks() {
    let text = "
state: memory
sinks: { one: { stdout: {} }, two: { file: { path: events.jsonl } } }
routes:
  - name: all
    watch: { resources: [services, services.serving.example.dev] }
    sinks: [two, one]
";
    let config = parse(text, "f").unwrap();
    let single = config.expand();
    let names: Vec<&str> = single.iter().map(|single| single.name.as_str()).collect();
    // Equal plurals of two groups must not share a name, or they would share their state.
    assert_eq!(
        names,
        [
            "all/services/two",
            "all/services/one",
            "all/services.serving.example.dev/two",
            "all/services.serving.example.dev/one",
        ]
    );
    assert_eq!((single[3].resource.group.as_str(), single[3].sink), ("serving.example.dev", "one"));
    assert_eq!(single[0].resource.group, "");
    assert_eq!(config.state, State::Memory);
}

#[test]
fn durations_have_units_and_may_be_zero() {
    for (text, milliseconds) in [("0s", 0), ("500ms", 500), ("5s", 5_000), ("2m", 120_000), ("1h", 3_600_000)] {
        let text = MINIMAL
            .replace("sinks: [events] }", &format!("sinks: [events], debounce: {{ quiet: {text}, maxWait: 1h }} }}"));
        assert_eq!(parse(&text, "f").unwrap().routes[0].debounce.quiet, Duration::from_millis(milliseconds));
    }
}

#[test]
fn nothing_left_out_is_a_choice() {
    let text = MINIMAL.replace("sinks: [events] }", "sinks: [events], payload: { omit: [] } }");
    assert!(parse(&text, "f").unwrap().routes[0].payload.omit.is_empty());
}

#[test]
fn secrets_come_from_elsewhere_and_are_not_shown() {
    let config = parse(REFERENCE, "reference").unwrap();
    let SinkKind::Webhook(webhook) = &config.sink("gateway").unwrap().kind else { panic!("not a webhook") };
    assert_eq!(webhook.bearer, Some(Secret::File("/etc/crier/gateway-token".into())));
    assert_eq!(
        webhook.headers,
        [
            ("x-team".to_owned(), HeaderSource::Text("platform".to_owned())),
            ("x-api-key".to_owned(), HeaderSource::Secret(Secret::Environment("GATEWAY_API_KEY".to_owned()))),
        ]
    );
    let shown = format!("{config:?}");
    assert!(!shown.contains("GATEWAY_API_KEY") && !shown.contains("gateway-token"), "{shown}");
}

#[test]
fn a_file_that_cannot_be_read_is_a_mistake_without_a_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("crier.yaml");
    std::fs::write(&path, [b'a', 0xff]).unwrap();
    let mistakes = load(&path).unwrap_err().to_string();
    assert_eq!(
        mistakes,
        format!("error: {}: the file is not UTF-8\n  hint: save the file as UTF-8 text", path.display())
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever a slip of the hand does to a file: no panic, and each mistake has a place in the file and a hint.
    #[test]
    fn no_edit_makes_reading_panic(
        from in 0..REFERENCE.len(),
        length in 0_usize..40,
        with in "[a-z0-9:{}\\[\\]\"'\\-&*!|>#,?~ \t\n\u{e000}é]{0,8}",
    ) {
        let characters: Vec<char> = REFERENCE.chars().collect();
        let from = from.min(characters.len());
        let before: String = characters[..from].iter().collect();
        let after: String = characters[(from + length).min(characters.len())..].iter().collect();
        let text = format!("{before}{with}{after}");
        if let Err(mistakes) = parse(&text, "f") {
            for mistake in mistakes.all() {
                let place = mistake.position.unwrap();
                prop_assert!(place.line >= 1 && place.column >= 1 && place.line <= text.lines().count() + 1);
                prop_assert!(!mistake.message.is_empty() && !mistake.hint.is_empty());
            }
        }
    }
}
