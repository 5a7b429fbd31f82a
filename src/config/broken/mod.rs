//! What is said of broken configurations, to the letter: place, path, message and hint.

mod routes;
mod sinks;

use super::parse;

/// The mistakes of this text, one line each: `line:column: path: message | hint`.
fn told(text: &str) -> Vec<String> {
    let mistakes = match parse(text, "f") {
        Ok(config) => panic!("nothing was wrong with\n{text}\n{config:?}"),
        Err(mistakes) => mistakes.to_string(),
    };
    let without_file = |mistake: &str| mistake.strip_prefix("f:").unwrap().replace("\n  hint: ", " | ");
    mistakes.strip_prefix("error: ").unwrap().split("\nerror: ").map(without_file).collect()
}

fn check(cases: &[(&str, &str)], wrap: impl Fn(&str) -> String) {
    for (given, expected) in cases {
        assert_eq!(told(&wrap(given)), [*expected], "{given}");
    }
}

#[test]
fn mistakes_in_the_file_as_a_whole_are_told() {
    let rest_unchecked =
        "look at quotes, brackets and indentation here and on the line before; the rest of the file was not checked";
    let empty = "1:1: the file is empty | `state`, `sinks` and `routes` are needed; see config/crier.yaml";
    check(
        &[
            ("", empty),
            ("# only a comment\n", empty),
            ("---\n", empty),
            ("[]", "1:1: expected a mapping, found a list | see config/crier.yaml for the whole of it"),
            ("\n crier", "2:2: expected a mapping, found text | see config/crier.yaml for the whole of it"),
            ("a: [1", &format!("2:1: not YAML: while parsing a flow sequence, expected ',' or ']' | {rest_unchecked}")),
            (
                "a:\n\t- b\n",
                &format!("2:2: not YAML: tabs disallowed within this context (block indentation) | {rest_unchecked}"),
            ),
            ("a: *b\n", &format!("1:4: not YAML: while parsing node, found unknown anchor | {rest_unchecked}")),
        ],
        str::to_owned,
    );
    assert_eq!(
        told(
            "state: memory\nsinks: { a: { stdout: {} } }\nroutes: [{ name: a, watch: { resources: [pods] }, sinks: [a] }]\n---\na: 1\n"
        ),
        [
            "5:1: a second document begins here | one file is one configuration: remove the line `---` or the rest of the file"
        ]
    );
}

#[test]
fn mistakes_at_the_root_are_told() {
    let root = |lines: &str| {
        format!(
            "sinks: {{ a: {{ stdout: {{}} }} }}\nroutes: [{{ name: a, watch: {{ resources: [pods] }}, sinks: [a] }}]\n{lines}\n"
        )
    };
    let state = "write { path: /var/lib/crier }, or memory to forget everything when the process ends";
    check(
        &[
            ("", &format!("1:1: state: missing | {state}")),
            ("state: memroy", &format!("3:8: state: expected a mapping, found text | {state}")),
            ("state: {}", &format!("3:8: state.path: missing | {state}")),
            ("state:", &format!("3:1: state: expected a mapping, found nothing | {state}")),
            ("state: { path: 7 }", "3:16: state.path: expected text, found a number | put the value in quotes"),
            ("state: { path: \"\" }", "3:16: state.path: an empty text | give a value, or remove the key"),
            (
                "state: { path: !dir x }",
                "3:16: state.path: expected text, found a tagged value | put the value in quotes",
            ),
        ],
        root,
    );
    check(
        &[
            ("clutser: a", "4:1: clutser: unknown key | did you mean `cluster`?"),
            (
                "password: a",
                "4:1: password: unknown key | known here: cluster, state, kubernetes, admin, audit, limits, events, sinks, routes",
            ),
            ("state: memory", "4:1: state: duplicate key, first given on line 3 | remove one of the two"),
            ("1: a", "4:1: a key that is not text | put the key in quotes"),
            ("cluster: true", "4:10: cluster: expected text, found a boolean | put the value in quotes"),
            (
                "cluster: a/b",
                "4:10: cluster: `a/b` is not a cluster's name | it is a part of each event's `source` and of topics: use letters, digits, `.`, `_` and `-`",
            ),
            (
                "kubernetes: { qps: 0 }",
                "4:20: kubernetes.qps: 0 is out of bounds | write a whole number from 1 to 10000",
            ),
            (
                "kubernetes: { burst: 1.5 }",
                "4:22: kubernetes.burst: expected a whole number, found a number | write a whole number from 1 to 10000",
            ),
            ("kubernetes: { contxt: a }", "4:15: kubernetes.contxt: unknown key | did you mean `context`?"),
            (
                "admin: { address: \":8080\" }",
                "4:19: admin.address: `:8080` is not an address | write an IP address and a port, such as 127.0.0.1:8080, or 0.0.0.0:8080 for all interfaces",
            ),
            (
                "events: { typePrefix: dev..crier }",
                "4:23: events.typePrefix: `dev..crier` is not a prefix of types | write it like a reversed domain name, such as dev.crier.resource",
            ),
            (
                "events: { preset: knative }",
                "4:11: events.preset: unknown key | `preset` is planned; this version does not have it",
            ),
        ],
        |lines| root(&format!("state: memory\n{lines}")),
    );
}

#[test]
fn all_mistakes_are_told_at_once_from_top_to_bottom() {
    let text = "\
state: memory
sinks:
  events: { kafka: { brokres: [k:1], topic: \"{nmae}\" } }
  events: { stdout: {} }
routes:
  - name: apps
    watch: { resources: [myapps.example.com] }
    sinks: [evnets]
    debounce: { quiet: soon }
  - name: apps
    where: a
    payload: { mode: object, mode: metadata }
kubernets: {}
";
    let mistakes = parse(text, "crier.yaml").unwrap_err();
    assert_eq!(
        mistakes.to_string(),
        "\
error: crier.yaml:3:20: sinks.events.kafka.brokers: missing
  hint: name at least one broker, such as [\"kafka:9092\"]
error: crier.yaml:3:22: sinks.events.kafka.brokres: unknown key
  hint: did you mean `brokers`?
error: crier.yaml:3:45: sinks.events.kafka.topic: unknown token `{nmae}`
  hint: the tokens are {cluster} {group} {resource} {kind} {namespace}
error: crier.yaml:4:3: sinks.events: duplicate key, first given on line 3
  hint: remove one of the two
error: crier.yaml:8:13: routes[0].sinks[0]: unknown sink `evnets`
  hint: did you mean `events`?
error: crier.yaml:9:24: routes[0].debounce.quiet: `soon` is not a duration
  hint: write a whole number and a unit, such as 500ms, 5s, 2m or 1h; 0s is none
error: crier.yaml:10:5: routes[1].watch: missing
  hint: say what to watch, such as { resources: [myapps.example.com] }
error: crier.yaml:10:5: routes[1].sinks: missing
  hint: name at least one of the sinks above
error: crier.yaml:10:11: routes[1].name: `apps` is already the name of routes[0]
  hint: give each route a name of its own
error: crier.yaml:11:5: routes[1].where: unknown key
  hint: `where` is planned; this version does not have it
error: crier.yaml:12:30: routes[1].payload.mode: duplicate key, first given on line 12
  hint: remove one of the two
error: crier.yaml:13:1: kubernets: unknown key
  hint: did you mean `kubernetes`?"
    );
    assert_eq!(mistakes.all().len(), 12);
}
