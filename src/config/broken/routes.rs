//! What is said of broken routes, to the letter.

use super::{check, told};

const DURATION: &str = "write a whole number and a unit, such as 500ms, 5s, 2m or 1h; 0s is none";
const LABEL: &str = "use up to 63 lower-case letters, digits and `-`, beginning and ending with no `-`";
const RESOURCE: &str = "write plural.group, such as myapps.example.com; `kubectl api-resources` lists them";

#[test]
fn mistakes_in_what_is_watched_are_told() {
    check(
        &[
            ("{}", "5:10: routes[0].watch.resources: missing | name at least one, such as [myapps.example.com]"),
            (
                "pods",
                "5:10: routes[0].watch: expected a mapping, found text | say what to watch, such as { resources: [myapps.example.com] }",
            ),
            (
                "{ resources: [] }",
                "5:23: routes[0].watch.resources: an empty list | name at least one, such as [myapps.example.com]",
            ),
            (
                "{ resources: [myapps] }",
                &format!("5:24: routes[0].watch.resources[0]: `myapps` has no group | {RESOURCE}"),
            ),
            (
                "{ resources: [MyApp.example.com] }",
                &format!("5:24: routes[0].watch.resources[0]: `MyApp.example.com` is not a resource | {RESOURCE}"),
            ),
            (
                "{ resources: [pods.] }",
                &format!("5:24: routes[0].watch.resources[0]: `pods.` is not a resource | {RESOURCE}"),
            ),
            (
                "{ resources: [pods.core] }",
                "5:24: routes[0].watch.resources[0]: the core group is not written | write `pods`",
            ),
            (
                "{ resources: [secrets] }",
                "5:24: routes[0].watch.resources[0]: Secrets are not published | leaving out their data is planned (`secretData`); this version would publish it",
            ),
            (
                "{ resources: [pods, a.b, pods] }",
                "5:35: routes[0].watch.resources[2]: given twice | remove one of the two",
            ),
            (
                "{ resources: [pods], version: V1 }",
                &format!("5:40: routes[0].watch.version: `V1` is not a name | {LABEL}"),
            ),
            (
                "{ resources: [pods], namespaces: [] }",
                "5:43: routes[0].watch.namespaces: an empty list | name at least one namespace, or remove the key to watch all",
            ),
            (
                "{ resources: [pods], namespaces: }",
                "5:31: routes[0].watch.namespaces: expected a list, found nothing | name at least one namespace, or remove the key to watch all",
            ),
            (
                "{ resources: [pods], namespaces: [7] }",
                "5:44: routes[0].watch.namespaces[0]: expected text, found a number | put the value in quotes",
            ),
            (
                "{ resources: [pods], labelSelector: { a: b } }",
                "5:46: routes[0].watch.labelSelector: expected text, found a mapping | write one value",
            ),
            (
                "{ resources: [pods], labelselector: a }",
                "5:31: routes[0].watch.labelselector: unknown key | did you mean `labelSelector`?",
            ),
        ],
        |watch| {
            format!(
                "state: memory\nsinks: {{ out: {{ stdout: {{}} }} }}\nroutes:\n- name: apps\n  watch: {watch}\n  sinks: [out]\n"
            )
        },
    );
}

#[test]
fn mistakes_in_a_route_are_told() {
    check(
        &[
            ("name: a/b\n  sinks: [out]", &format!("5:9: routes[0].name: `a/b` is not a name | {LABEL}")),
            ("sinks: [out]", "4:3: routes[0].name: missing | name the route: its state is kept under this name"),
            ("name: a", "4:3: routes[0].sinks: missing | name at least one of the sinks above"),
            (
                "name: a\n  sinks: out",
                "6:10: routes[0].sinks: expected a list, found text | name at least one of the sinks above",
            ),
            ("name: a\n  sinks: [uot]", "6:11: routes[0].sinks[0]: unknown sink `uot` | did you mean `out`?"),
            ("name: a\n  sinks: [kafka]", "6:11: routes[0].sinks[0]: unknown sink `kafka` | the sinks are out"),
            ("name: a\n  sinks: [out, out]", "6:16: routes[0].sinks[1]: given twice | remove one of the two"),
            (
                "name: a\n  sinks: [out]\n  initial: yes",
                "7:12: routes[0].initial: unknown value `yes` | one of observed, none",
            ),
            (
                "name: a\n  sinks: [out]\n  initial: null",
                "7:3: routes[0].initial: expected text, found nothing | give a value, or remove the key",
            ),
        ],
        |lines| {
            let watch = "watch: { resources: [pods] }";
            format!("state: memory\nsinks: {{ out: {{ stdout: {{}} }} }}\nroutes:\n- {watch}\n  {lines}\n")
        },
    );
}

#[test]
fn mistakes_in_debounce_and_payload_are_told() {
    let path = "write it like metadata.annotations[\"a.b/c\"]; lists cannot be stepped into yet";
    check(
        &[
            (
                "debounce: { quiet: 500 }",
                &format!("7:22: routes[0].debounce.quiet: expected a duration, found a number | {DURATION}"),
            ),
            (
                "debounce: { quiet: 1.5s }",
                &format!("7:22: routes[0].debounce.quiet: `1.5s` is not a duration | {DURATION}"),
            ),
            (
                "debounce: { quiet: -1s }",
                &format!("7:22: routes[0].debounce.quiet: `-1s` is not a duration | {DURATION}"),
            ),
            (
                "debounce: { quiet: 99999999999999999999ms }",
                &format!("7:22: routes[0].debounce.quiet: `99999999999999999999ms` is not a duration | {DURATION}"),
            ),
            (
                "debounce: { quiet: 9999h }",
                &format!("7:22: routes[0].debounce.quiet: `9999h` is longer than a year | {DURATION}"),
            ),
            (
                "debounce: { quiet: 2s, maxWait: 1500ms }",
                "7:35: routes[0].debounce.maxWait: 1500ms is less than `quiet`, which is 2s | set it to 2s or more, or `quiet` to 0s to switch debouncing off",
            ),
            (
                "debounce: { quiet: 5m }",
                "7:22: routes[0].debounce.quiet: 5m is more than `maxWait`, which is 1s by default | set `maxWait` to 5m or more",
            ),
            (
                "debounce: { maxWait: 0s }",
                "7:24: routes[0].debounce.maxWait: 0s is less than `quiet`, which is 100ms | set it to 100ms or more, or `quiet` to 0s to switch debouncing off",
            ),
            (
                "payload: { mode: change }",
                "7:20: routes[0].payload.mode: unknown value `change` | `change` is planned; this version has object, metadata, reference",
            ),
            (
                "payload: { redact: [spec.a] }",
                "7:14: routes[0].payload.redact: unknown key | `redact` is planned; this version does not have it",
            ),
            (
                "payload: { omit: [\"a[*].b\"] }",
                &format!("7:21: routes[0].payload.omit[0]: `a[*].b` is not a path: it selects in a list | {path}"),
            ),
            (
                "payload: { omit: [a..b] }",
                &format!("7:21: routes[0].payload.omit[0]: `a..b` is not a path: a name is missing | {path}"),
            ),
        ],
        |lines| {
            let rest = "name: a\n  watch: { resources: [pods] }\n  sinks: [out]";
            format!("state: memory\nsinks: {{ out: {{ stdout: {{}} }} }}\nroutes:\n- {rest}\n  {lines}\n")
        },
    );
}

#[test]
fn keys_of_later_versions_are_told_apart_from_typing_errors() {
    for key in ["where", "changes", "events", "attributes", "order", "history"] {
        let text = format!(
            "state: memory\nsinks: {{ out: {{ stdout: {{}} }} }}\nroutes:\n- name: a\n  watch: {{ resources: [pods] }}\n  sinks: [out]\n  {key}: x\n"
        );
        let expected = format!("7:3: routes[0].{key}: unknown key | `{key}` is planned; this version does not have it");
        assert_eq!(told(&text), [expected]);
    }
}

#[test]
fn routes_of_the_wrong_kind_are_told() {
    let hint = "write at least one route with `name`, `watch` and `sinks`";
    check(
        &[
            ("[]", &format!("3:9: routes: an empty list | {hint}")),
            ("{ a: b }", &format!("3:9: routes: expected a list, found a mapping | {hint}")),
            ("[7]", &format!("3:10: routes[0]: expected a mapping, found a number | {hint}")),
        ],
        |routes| format!("state: memory\nsinks: {{ out: {{ stdout: {{}} }} }}\nroutes: {routes}\n"),
    );
    assert_eq!(
        told("state: memory\nsinks: {}\nroutes: [{ name: a, watch: { resources: [pods] }, sinks: [out] }]\n"),
        [
            "2:8: sinks: no sink | name at least one sink, such as `out: { stdout: {} }`",
            "3:59: routes[0].sinks[0]: unknown sink `out` | there is no sink yet: name it under `sinks`",
        ]
    );
}
