//! What is served, as discovery tells it, and the server's own paths. Aggregated discovery is not spoken.

use serde_json::{Value, json};

use super::kind::Kind;
use super::request::Answer;
use super::server::ApiServer;

const VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// In the order in which definitions' kinds have them.
const CUSTOM_VERBS: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

impl ApiServer {
    pub(super) fn discover(&self, segments: &[&str]) -> Answer {
        let found = match segments {
            ["healthz" | "livez" | "readyz"] => return Answer::ok(&b"ok"[..]),
            ["version"] => Some(json!({"major": "1", "minor": "36", "gitVersion": "v1.36.3"})),
            ["api"] => Some(json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})),
            ["apis"] => {
                let groups: Vec<Value> =
                    self.groups().into_iter().filter_map(|group| self.group(group, false)).collect();
                Some(json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
            }
            ["api", version] => self.resources("", version),
            ["apis", group] => self.group(group, true),
            ["apis", group, version] => self.resources(group, version),
            _ => None,
        };
        found.map_or_else(Answer::page_not_found, |value| Answer::ok(value.to_string()))
    }

    fn served(&self) -> impl Iterator<Item = &Kind> {
        self.store.kinds.iter().filter(|kind| !kind.removed)
    }

    fn groups(&self) -> Vec<&str> {
        let mut groups: Vec<&str> = Vec::new();
        for kind in self.served().filter(|kind| !kind.group.is_empty()) {
            if !groups.contains(&kind.group.as_str()) {
                groups.push(&kind.group);
            }
        }
        groups
    }

    fn group(&self, group: &str, alone: bool) -> Option<Value> {
        let kinds = self.served().filter(|kind| kind.group == group && !group.is_empty());
        let served = kinds.flat_map(|kind| kind.versions.iter().filter(|version| version.served));
        let mut names: Vec<&str> = served.map(|version| version.name.as_str()).collect();
        names.sort_by_key(|name| std::cmp::Reverse(priority(name)));
        names.dedup();
        let versions: Vec<Value> =
            names.iter().map(|name| json!({"groupVersion": format!("{group}/{name}"), "version": name})).collect();
        let mut value = json!({"name": group, "versions": versions, "preferredVersion": versions.first()?});
        if alone {
            value["kind"] = "APIGroup".into();
            value["apiVersion"] = "v1".into();
        }
        Some(value)
    }

    fn resources(&self, group: &str, version: &str) -> Option<Value> {
        let kinds = self.served().filter(|kind| kind.group == group && kind.serves(version));
        let mut resources = Vec::new();
        for kind in kinds {
            let verbs = if kind.custom { CUSTOM_VERBS } else { VERBS };
            let verbs: Vec<&str> =
                verbs.into_iter().filter(|verb| kind.resource != "namespaces" || *verb != "deletecollection").collect();
            resources.push(json!({
                "name": kind.resource, "singularName": kind.singular, "namespaced": kind.namespaced,
                "kind": kind.kind, "verbs": verbs,
            }));
            if kind.version(version).is_some_and(|version| version.status) {
                resources.push(json!({
                    "name": format!("{}/status", kind.resource), "singularName": "", "namespaced": kind.namespaced,
                    "kind": kind.kind, "verbs": ["get", "patch", "update"],
                }));
            }
        }
        resources.first()?;
        let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
        Some(json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources,
        }))
    }
}

/// Stable before beta before alpha, then the higher number, then names that are no versions.
fn priority(name: &str) -> (u32, u32, u32, std::cmp::Reverse<&str>) {
    let parsed = || {
        let rest = name.strip_prefix('v')?;
        let number = rest.bytes().take_while(u8::is_ascii_digit).count();
        let major: u32 = rest[..number].parse().ok()?;
        match &rest[number..] {
            "" => Some((3, major, 0)),
            stage if stage.starts_with("beta") => Some((2, major, stage[4..].parse().ok()?)),
            stage if stage.starts_with("alpha") => Some((1, major, stage[5..].parse().ok()?)),
            _ => None,
        }
    };
    let (stage, major, minor) = parsed().unwrap_or((0, 0, 0));
    (stage, major, minor, std::cmp::Reverse(name))
}
