//! What is said of broken sinks, to the letter.

use super::check;

/// A configuration whose one sink, on the third line, is this.
fn with_sink(sink: &str) -> String {
    format!("state: memory\nsinks:\n  a: {sink}\nroutes: [{{ name: a, watch: {{ resources: [pods] }}, sinks: [a] }}]\n")
}

#[test]
fn mistakes_in_the_kind_of_a_sink_are_told() {
    let kinds = "a sink is a mapping with one of kafka, nats, webhook, stdout, file";
    check(
        &[
            ("{}", &format!("3:3: sinks.a: no kind of sink | {kinds}")),
            ("stdout", &format!("3:6: sinks.a: expected a mapping, found text | {kinds}")),
            ("{ kafak: {}, stdout: {} }", "3:8: sinks.a.kafak: unknown key | did you mean `kafka`?"),
            (
                "{ stdout: {}, file: { path: x } }",
                "3:3: sinks.a: more than one kind of sink: stdout, file | give each a name of its own; a route can name several",
            ),
            ("{ stdout: }", "3:8: sinks.a.stdout: expected a mapping, found nothing | write `stdout: {}`"),
            ("{ stdout: { path: x } }", "3:18: sinks.a.stdout.path: unknown key | nothing can be set here"),
            (
                "{ file: {} }",
                "3:14: sinks.a.file.path: missing | file needs `path`, such as /var/log/crier/events.jsonl",
            ),
        ],
        with_sink,
    );
}

#[test]
fn mistakes_in_a_kafka_sink_are_told() {
    let topic = "use letters, digits, `.`, `_`, `-` and tokens such as {resource}";
    let address = "write host:port, such as kafka:9092 or [::1]:9092";
    check(
        &[
            (
                "{ kafka: { topic: t } }",
                "3:15: sinks.a.kafka.brokers: missing | name at least one broker, such as [\"kafka:9092\"]",
            ),
            (
                "{ kafka: { brokers: k:1, topic: t } }",
                "3:26: sinks.a.kafka.brokers: expected a list, found text | name at least one broker, such as [\"kafka:9092\"]",
            ),
            (
                "{ kafka: { brokers: [], topic: t } }",
                "3:26: sinks.a.kafka.brokers: an empty list | name at least one broker, such as [\"kafka:9092\"]",
            ),
            (
                "{ kafka: { brokers: [k:1, kafka], topic: t } }",
                &format!("3:32: sinks.a.kafka.brokers[1]: not a host and a port | {address}"),
            ),
            (
                "{ kafka: { brokers: [\"::1:9092\"], topic: t } }",
                &format!("3:27: sinks.a.kafka.brokers[0]: not a host and a port | {address}"),
            ),
            (
                "{ kafka: { brokers: [k:1, k:1], topic: t } }",
                "3:32: sinks.a.kafka.brokers[1]: given twice | remove one of the two",
            ),
            (
                "{ kafka: { brokers: [k:1], topic: \"{resuorce}\" } }",
                "3:40: sinks.a.kafka.topic: unknown token `{resuorce}` | did you mean `{resource}`?",
            ),
            (
                "{ kafka: { brokers: [k:1], topic: \"{name}\" } }",
                "3:40: sinks.a.kafka.topic: unknown token `{name}` | the tokens are {cluster} {group} {resource} {kind} {namespace}",
            ),
            (
                "{ kafka: { brokers: [k:1], topic: \"a.{kind\" } }",
                "3:40: sinks.a.kafka.topic: a brace without its counterpart | the tokens are {cluster} {group} {resource} {kind} {namespace}",
            ),
            (
                "{ kafka: { brokers: [k:1], topic: \"a b\" } }",
                &format!("3:40: sinks.a.kafka.topic: a topic may not contain ' ' | {topic}"),
            ),
            (
                "{ kafka: { brokers: [k:1], topic: t, mode: Binary } }",
                "3:49: sinks.a.kafka.mode: unknown value `Binary` | did you mean `binary`?",
            ),
            (
                "{ kafka: { brokers: [k:1], topic: t, sasl: {} } }",
                "3:43: sinks.a.kafka.sasl: unknown key | `sasl` is planned; this version does not have it",
            ),
        ],
        with_sink,
    );
}

#[test]
fn mistakes_in_a_nats_sink_are_told() {
    check(
        &[
            (
                "{ nats: { servers: [\"http://n\"], stream: S, subject: s } }",
                "3:26: sinks.a.nats.servers[0]: not a URL of this kind of sink | write a URL that begins with nats:// or tls://",
            ),
            (
                "{ nats: { servers: [\"nats://me:pw@n\"], stream: S, subject: s } }",
                "3:26: sinks.a.nats.servers[0]: a user name or password in a URL | URLs end up in logs, and this version cannot log in to NATS",
            ),
            (
                "{ nats: { servers: [\"nats://n\"], stream: A.B, subject: s } }",
                "3:47: sinks.a.nats.stream: `A.B` is not the name of a stream | a stream's name has no spaces and none of `.`, `*`, `>`, `/`, `\\`",
            ),
            (
                "{ nats: { servers: [\"nats://n\"], stream: S, subject: \"a..{name}\" } }",
                "3:59: sinks.a.nats.subject: a part of the subject is empty | put something between the dots, and none at the ends",
            ),
            (
                "{ nats: { servers: [\"nats://n\"], stream: S, subject: a.> } }",
                "3:59: sinks.a.nats.subject: a subject may not contain '>' | crier publishes to single subjects, never to wildcards",
            ),
            (
                "{ nats: { servers: [\"nats://n\"], stream: S, subject: $SYS.a } }",
                "3:59: sinks.a.nats.subject: subjects with `$` belong to the server | begin with a word of your own, such as `cr`",
            ),
        ],
        with_sink,
    );
}

#[test]
fn mistakes_in_a_webhook_sink_are_told() {
    let url = "URLs end up in logs: use `bearer` or `headers` with { env: NAME } or { file: PATH }";
    check(
        &[
            (
                "{ webhook: {} }",
                "3:17: sinks.a.webhook.url: missing | give the endpoint, such as https://gateway.internal/events",
            ),
            (
                "{ webhook: { url: gateway } }",
                "3:24: sinks.a.webhook.url: not a URL | write a URL that begins with https:// or http://",
            ),
            (
                "{ webhook: { url: \"https://me:pw@g\" } }",
                &format!("3:24: sinks.a.webhook.url: a user name or password in a URL | {url}"),
            ),
            (
                "{ webhook: { url: \"https://g/{name}\" } }",
                "3:24: sinks.a.webhook.url: a token in a URL | tokens in URLs are planned; this version does not have them",
            ),
            (
                "{ webhook: { url: https://g, timeout: 0s } }",
                "3:44: sinks.a.webhook.timeout: no time at all | nothing can be done within 0s: give a longer time",
            ),
            (
                "{ webhook: { url: https://g, concurrency: 0 } }",
                "3:48: sinks.a.webhook.concurrency: 0 is out of bounds | write a whole number from 1 to 1000",
            ),
            (
                "{ webhook: { url: https://g, signing: [] } }",
                "3:35: sinks.a.webhook.signing: unknown key | `signing` is planned; this version does not have it",
            ),
        ],
        with_sink,
    );
}

#[test]
fn mistakes_in_secrets_and_headers_are_told_without_showing_a_value() {
    let source = "write { env: NAME } or { file: PATH }, so that the value itself stays out of this file";
    check(
        &[
            (
                "bearer: hunter2",
                &format!("6:15: sinks.a.webhook.bearer: expected a secret's source, found text | {source}"),
            ),
            ("bearer: {}", &format!("6:15: sinks.a.webhook.bearer: neither `env` nor `file` | {source}")),
            (
                "bearer: { env: A, file: b }",
                "6:15: sinks.a.webhook.bearer: both `env` and `file` | a secret has one source: remove one of the two",
            ),
            (
                "bearer: { env: hunter-2 }",
                "6:22: sinks.a.webhook.bearer.env: not the name of an environment variable | use letters, digits and `_`; this is the variable's name, not the secret",
            ),
            ("bearer: { evn: A, file: b }", "6:17: sinks.a.webhook.bearer.evn: unknown key | did you mean `env`?"),
            (
                "headers: [a]",
                "6:16: sinks.a.webhook.headers: expected a mapping, found a list | write a mapping of names to values, such as `x-team: \"platform\"`",
            ),
            (
                "headers: { \"a b\": c }",
                "6:18: sinks.a.webhook.headers[\"a b\"]: `a b` is not the name of a header | use letters, digits and `-`",
            ),
            (
                "headers: { CE-Id: a }",
                "6:18: sinks.a.webhook.headers.CE-Id: a header that crier sets itself | remove it",
            ),
            (
                "headers: { X-A: b, x-a: c }",
                "6:26: sinks.a.webhook.headers.x-a: the header is given twice | case does not matter: remove one of the two",
            ),
            (
                "headers: { x-a: \"hunter\\n2\" }",
                "6:23: sinks.a.webhook.headers.x-a: not the value of a header | a header is one line without control characters",
            ),
            (
                "headers: { x-a: 2 }",
                "6:23: sinks.a.webhook.headers.x-a: expected text, found a number | put the value in quotes",
            ),
            (
                "bearer: { env: A }\n      headers: { Authorization: b }",
                "7:18: sinks.a.webhook.headers.Authorization: `bearer` sets this header already | remove one of the two",
            ),
        ],
        |lines| {
            format!(
                "state: memory\nroutes: [{{ name: a, watch: {{ resources: [pods] }}, sinks: [a] }}]\nsinks:\n  a:\n    webhook:\n      {lines}\n      url: https://g\n"
            )
        },
    );
}
