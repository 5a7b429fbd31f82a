//! The scenarios on the model alone, against what a real kube-apiserver (1.36.3) was seen to answer: `observed.txt` has
//! each transcript in short. crier's `tests/it/conformance.rs` compares the whole transcripts on a real server.

use std::collections::BTreeMap;
use std::fmt::Write;

use crier_sandbox::scenarios::{self, ModelServer, Scenario};
use serde_json::Value;

/// A transcript in short: `+a1` is an ADDED of a by the first write, `~` MODIFIED, `-` DELETED, `=1` the end of a
/// streaming list, `.1` a bookmark, `!` an ERROR; `[a1 b2]>3` a list at or after the third write.
fn summary(transcript: &[String]) -> String {
    let mut text = String::new();
    for line in transcript {
        let json = |text: &str| serde_json::from_str::<Value>(text).ok();
        let answer = line.split_once(": ").filter(|(asked, _)| asked.contains(" /")).map(|(_, answer)| answer);
        let short = match answer {
            Some(answer) if answer.ends_with("page not found") => format!("{}:page", &answer[..3]),
            Some(answer) => {
                let body = answer.find('{').and_then(|at| json(&answer[at..])).unwrap_or_default();
                format!("{}{}", &answer[..3], body_in_short(&body))
            }
            None if line.starts_with("watch ") => "watch".to_owned(),
            None if line.starts_with("  {") => event_in_short(&json(line).unwrap_or_default()),
            None => line.trim().to_owned(),
        };
        let _ = write!(text, "{short}; ");
    }
    text.trim_end_matches("; ").to_owned()
}

fn event_in_short(event: &Value) -> String {
    let object = &event["object"];
    let sign = match event["type"].as_str().unwrap_or_default() {
        "ADDED" => "+",
        "MODIFIED" => "~",
        "DELETED" => "-",
        "BOOKMARK" if object["metadata"]["annotations"].is_object() => "=",
        "BOOKMARK" => ".",
        _ => return format!("!{} {}", object["code"], object["reason"].as_str().unwrap_or("-")),
    };
    format!("{sign}{}", object_in_short(object))
}

fn object_in_short(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let version = text(&object["metadata"]["resourceVersion"]);
    let version = version.rsplit(' ').next().unwrap_or_default().to_owned();
    format!("{}{version}", text(&object["metadata"]["name"]))
}

fn body_in_short(body: &Value) -> String {
    if let Some(items) = body["items"].as_array() {
        let items: Vec<String> = items.iter().map(object_in_short).collect();
        let more = if body["metadata"]["continue"] == "a token" { " more" } else { "" };
        let left = &body["metadata"]["remainingItemCount"];
        let left = if left.is_null() { String::new() } else { format!(" {left} left") };
        return format!("[{}]>{}{more}{left}", items.join(" "), object_in_short(body));
    }
    match body["status"].as_str() {
        Some("Failure") => format!(":{}", body["reason"].as_str().unwrap_or("-")),
        Some("Success") => ":gone".to_owned(),
        _ if body["metadata"]["uid"].is_string() => format!(":{}", object_in_short(body)),
        _ => String::new(),
    }
}

fn observed() -> BTreeMap<&'static str, &'static str> {
    include_str!("observed.txt").lines().filter_map(|line| line.split_once(": ")).collect()
}

fn disagreement(observed: &BTreeMap<&str, &str>, scenario: Scenario, server: &mut ModelServer) -> Option<String> {
    let found = summary(&scenarios::run(scenario, server));
    let wanted = observed.get(scenario.0).copied().unwrap_or("(never observed)");
    (found != wanted).then(|| format!("{}:\n  observed: {wanted}\n  model:    {found}", scenario.0))
}

#[test]
fn the_model_shows_what_a_real_server_was_seen_to_show() {
    let observed = observed();
    let all = [scenarios::side_by_side(), scenarios::alone()].concat();
    let mut wrong: Vec<String> =
        all.iter().filter_map(|it| disagreement(&observed, *it, &mut ModelServer::default())).collect();
    let without = scenarios::without_streaming_lists();
    for scenario in &without {
        let mut server = ModelServer::default();
        server.api.set_streaming_lists(false);
        wrong.extend(disagreement(&observed, *scenario, &mut server));
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), all.len() + without.len(), wrong.join("\n"));
    assert_eq!(observed.len(), all.len() + without.len(), "each scenario was observed, and nothing else");
}

#[test]
fn a_run_is_the_same_each_time_and_on_a_server_that_others_have_used() {
    let mut used = ModelServer::default();
    for scenario in scenarios::side_by_side() {
        let fresh = scenarios::run(scenario, &mut ModelServer::default());
        assert_eq!(fresh, scenarios::run(scenario, &mut ModelServer::default()), "{} again", scenario.0);
        assert_eq!(fresh, scenarios::run(scenario, &mut used), "{} beside others", scenario.0);
    }
}
