//! The stage of a scenario: a kind of its own, the usual requests, and the transcript. Not what a scenario asks.

use std::time::Duration;

use serde_json::{Value, json};

use super::normal::Normal;
use super::{Asked, NextLine, Reply, ReplyBody, Server};

const JSON: &str = "application/json";
/// The Accept headers of those who want metadata alone.
pub(super) const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
pub(super) const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// What takes longer does not come. A real server with two cores under load takes its time.
const PATIENCE: Duration = Duration::from_secs(40);
/// So long a watch is listened to that should say nothing.
const SILENCE: Duration = Duration::from_millis(700);

/// A scenario's view of a server.
pub struct Scene<'a> {
    pub(super) server: &'a mut dyn Server,
    /// The scenario's own API group.
    pub(super) group: String,
    drafts: Vec<String>,
    normal: Normal,
}

/// A watch that the scenario reads.
#[derive(Clone, Copy)]
pub(super) struct Watch {
    stream: u64,
}

impl<'a> Scene<'a> {
    pub(super) fn new(name: &str, server: &'a mut dyn Server) -> Self {
        let group = format!("{}.test.io", name.replace('_', "-"));
        Self { server, group, drafts: Vec::new(), normal: Normal::default() }
    }

    pub(super) fn finish(self) -> Vec<String> {
        self.drafts.iter().map(|draft| self.normal.finish(draft)).collect()
    }

    /// Writes something down.
    pub(super) fn note(&mut self, text: &str) {
        self.drafts.push(text.to_owned());
    }

    /// Installs the scenario's kind: things, in the versions v1 (stored; with a status, selectable by colour) and v2.
    pub(super) fn install(&mut self) {
        self.install_with(&|_| {});
    }

    /// The same with a definition that is changed first.
    pub(super) fn install_with(&mut self, change: &dyn Fn(&mut Value)) {
        let mut definition = self.definition();
        change(&mut definition);
        let reply = self.send("POST", DEFINITIONS, JSON, &definition.to_string());
        assert_eq!(reply.status, 201, "the definition is taken: {reply:?}");
        let versions = definition["spec"]["versions"].as_array().cloned().unwrap_or_default();
        for version in versions.iter().filter(|version| version["served"] == true) {
            let path = format!("/apis/{}/{}/things", self.group, version["name"].as_str().unwrap_or_default());
            self.until(&path, 200);
        }
    }

    pub(super) fn definition(&self) -> Value {
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let mut spec = open.clone();
        spec["properties"] = json!({"color": {"type": "string"}});
        let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": open}}});
        let version = |name: &str, stored: bool| json!({"name": name, "served": true, "storage": stored, "subresources": {"status": {}}, "schema": schema});
        let mut versions = vec![version("v1", true), version("v2", false)];
        // Schemas that are all the same are moved out of the versions, which selectable fields may not be.
        versions[1]["schema"]["openAPIV3Schema"]["description"] = "the second".into();
        versions[0]["selectableFields"] = json!([{"jsonPath": ".spec.color"}]);
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("things.{}", self.group)},
            "spec": {
                "group": self.group, "scope": "Namespaced", "versions": versions,
                "names": {"kind": "Thing", "plural": "things", "singular": "thing", "listKind": "ThingList"},
            },
        })
    }

    pub(super) fn definition_path(&self) -> String {
        format!("{DEFINITIONS}/things.{}", self.group)
    }

    /// Where things are, with `query` or more path appended.
    pub(super) fn things(&self, rest: &str) -> String {
        format!("/apis/{}/v1/namespaces/default/things{rest}", self.group)
    }

    /// The same in all namespaces.
    pub(super) fn all_things(&self, rest: &str) -> String {
        format!("/apis/{}/v1/things{rest}", self.group)
    }

    fn send(&mut self, method: &str, target: &str, accept: &str, body: &str) -> Reply {
        self.server.request(&Asked { method, target, accept, body, limited: false })
    }

    /// Sends a request and writes down its answer. Returns the body.
    pub(super) fn ask(&mut self, method: &str, target: &str, body: Value) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let reply = self.send(method, target, JSON, &body);
        self.log(method, target, &reply)
    }

    pub(super) fn get(&mut self, target: &str) -> Value {
        self.ask("GET", target, Value::Null)
    }

    /// A GET of something else than plain JSON.
    pub(super) fn get_as(&mut self, accept: &str, target: &str) -> Value {
        let reply = self.send("GET", target, accept, "");
        self.log("GET", target, &reply)
    }

    pub(super) fn ask_as_limited(&mut self, method: &str, target: &str) {
        let reply = self.server.request(&Asked { method, target, accept: JSON, body: "", limited: true });
        self.log(method, target, &reply);
    }

    /// A GET whose answer is compared to the letter.
    pub(super) fn get_raw(&mut self, accept: &str, target: &str) {
        let reply = self.send("GET", target, accept, "");
        let ReplyBody::Whole(body) = reply.body else { return self.note("a watch") };
        let draft = self.normal.draft_raw(&body);
        self.note(&draft);
    }

    fn log(&mut self, method: &str, target: &str, reply: &Reply) -> Value {
        let after = reply.retry_after.map(|seconds| format!(", retry after {seconds} s")).unwrap_or_default();
        let shown = without_numbers(target);
        match &reply.body {
            ReplyBody::Whole(body) => {
                let draft = self.normal.draft(body);
                self.note(&format!("{method} {shown}: {}{after} {draft}", reply.status));
                serde_json::from_str(body).unwrap_or(Value::Null)
            }
            ReplyBody::Stream(stream) => {
                self.note(&format!("{method} {shown}: {}{after}, a watch", reply.status));
                self.server.close(*stream);
                Value::Null
            }
        }
    }

    /// Creates a thing with labels and a spec. Returns its resourceVersion.
    pub(super) fn create(&mut self, name: &str, labels: Value, spec: Value) -> String {
        let metadata = json!({"name": name, "labels": labels});
        self.create_from(json!({"metadata": metadata, "spec": spec}))
    }

    pub(super) fn create_from(&mut self, mut thing: Value) -> String {
        thing["apiVersion"] = format!("{}/v1", self.group).into();
        thing["kind"] = "Thing".into();
        let path = self.things("");
        let created = self.ask("POST", &path, thing);
        version_of(&created)
    }

    /// Merges into a thing. Returns its resourceVersion.
    pub(super) fn patch(&mut self, name: &str, patch: Value) -> String {
        let path = self.things(&format!("/{name}"));
        let patched = self.ask("PATCH", &path, patch);
        version_of(&patched)
    }

    pub(super) fn delete(&mut self, name: &str) {
        let path = self.things(&format!("/{name}"));
        self.ask("DELETE", &path, Value::Null);
    }

    /// The version of a list now. The real server's cache has read up to there.
    pub(super) fn now(&mut self) -> String {
        let path = self.things("?limit=1");
        let reply = self.send("GET", &path, JSON, "");
        let ReplyBody::Whole(body) = reply.body else { return String::new() };
        version_of(&serde_json::from_str(&body).unwrap_or(Value::Null))
    }

    /// Waits until a path answers with a status; what it answers before is not written down, since only real servers
    /// take their time.
    pub(super) fn until(&mut self, target: &str, status: u16) {
        for _ in 0..400 {
            let reply = self.send("GET", target, JSON, "");
            if let ReplyBody::Stream(stream) = reply.body {
                self.server.close(stream);
            }
            if reply.status == status {
                return;
            }
            self.server.pass(Duration::from_millis(100));
        }
        self.note(&format!("{target} never answers {status}"));
    }

    /// Begins a watch of the scenario's things in the namespace.
    pub(super) fn watch(&mut self, query: &str) -> Watch {
        let path = self.things(&format!("?watch=1&{query}"));
        self.watch_at(JSON, &path)
    }

    pub(super) fn watch_at(&mut self, accept: &str, target: &str) -> Watch {
        let reply = self.send("GET", target, accept, "");
        match reply.body {
            ReplyBody::Stream(stream) if reply.status == 200 => {
                self.note(&format!("watch {}", without_numbers(target)));
                Watch { stream }
            }
            _ => {
                self.log("GET", target, &reply);
                Watch { stream: u64::MAX }
            }
        }
    }

    /// Reads so many lines. Plain bookmarks come when they come, and are passed over.
    pub(super) fn read(&mut self, watch: Watch, lines: usize) {
        for _ in 0..lines {
            if !self.read_line(watch, PATIENCE, "nothing came") {
                return;
            }
        }
    }

    /// Reads one line to compare it to the letter.
    pub(super) fn read_raw(&mut self, watch: Watch) {
        let NextLine::Line(line) = self.server.next_line(watch.stream, PATIENCE) else { return self.note("no line") };
        let draft = self.normal.draft_raw(&line);
        self.note(&draft);
    }

    /// Reads up to the end.
    pub(super) fn read_to_end(&mut self, watch: Watch) {
        while self.read_line(watch, PATIENCE, "no end came") {}
    }

    /// Listens to a watch that should be silent.
    pub(super) fn silence(&mut self, watch: Watch) {
        self.read_line(watch, SILENCE, "silence");
    }

    /// The first plain bookmark up to the end of the watch. How many there are is a matter of timing.
    pub(super) fn bookmark_before_end(&mut self, watch: Watch) {
        let mut seen = false;
        loop {
            match self.server.next_line(watch.stream, PATIENCE) {
                NextLine::Line(line) if is_plain_bookmark(&line) => {
                    if !std::mem::replace(&mut seen, true) {
                        let draft = self.normal.draft(&line);
                        self.note(&format!("  {draft}"));
                    }
                }
                NextLine::Line(line) => {
                    let draft = self.normal.draft(&line);
                    self.note(&format!("  {draft}"));
                }
                other => return self.note(&format!("  {other:?}")),
            }
        }
    }

    fn read_line(&mut self, watch: Watch, wait: Duration, otherwise: &str) -> bool {
        loop {
            match self.server.next_line(watch.stream, wait) {
                NextLine::Line(line) if is_plain_bookmark(&line) => {}
                NextLine::Line(line) => {
                    let draft = self.normal.draft(&line);
                    self.note(&format!("  {draft}"));
                    return true;
                }
                NextLine::Silence => {
                    self.note(&format!("  {otherwise}"));
                    return false;
                }
                NextLine::Ended => {
                    self.note("  the end");
                    return false;
                }
                NextLine::Broken => {
                    self.note("  cut off");
                    return false;
                }
            }
        }
    }

    /// Reads so many lines that come in an order of the server's choice, and writes them down sorted, without the
    /// versions that follow from that order.
    pub(super) fn read_in_any_order(&mut self, watch: Watch, lines: usize) {
        let mut seen = Vec::new();
        while seen.len() < lines {
            match self.server.next_line(watch.stream, PATIENCE) {
                NextLine::Line(line) if is_plain_bookmark(&line) => {}
                NextLine::Line(line) => {
                    let line: Value = serde_json::from_str(&line).unwrap_or_default();
                    let object = &line["object"];
                    let seen_before = self.normal.draft_value(&object["metadata"]["uid"]);
                    seen.push(format!(
                        "  {} {} {seen_before} {}",
                        line["type"], object["metadata"]["name"], object["spec"]
                    ));
                }
                other => seen.push(format!("  {other:?}")),
            }
        }
        seen.sort();
        self.drafts.append(&mut seen);
    }

    /// The body of an answer that is not written down.
    pub(super) fn fetch(&mut self, target: &str) -> Value {
        let reply = self.send("GET", target, JSON, "");
        let ReplyBody::Whole(body) = reply.body else { return Value::Null };
        serde_json::from_str(&body).unwrap_or_default()
    }

    /// Sends a request of which nothing is written down. Returns its status.
    pub(super) fn ask_quietly(&mut self, method: &str, target: &str, body: Value) -> u16 {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.send(method, target, JSON, &body).status
    }

    /// Writes or deletes the kind's definition. Only the status is written down: real definitions have a status of their
    /// own that comes in several writes.
    pub(super) fn define(&mut self, method: &str, body: Value) {
        let path = self.definition_path();
        let status = self.ask_quietly(method, &path, body);
        self.note(&format!("{method} of the definition: {status}"));
    }

    /// Counts the lines up to the end of a watch.
    pub(super) fn count_to_end(&mut self, watch: Watch) {
        let mut lines = 0;
        while let NextLine::Line(line) = self.server.next_line(watch.stream, PATIENCE) {
            lines += u32::from(!is_plain_bookmark(&line));
            if line.contains("\"type\":\"ERROR\"") {
                let draft = self.normal.draft(&line);
                self.note(&format!("  {draft}"));
            }
        }
        self.note(&format!("  {lines} lines"));
    }

    pub(super) fn close(&mut self, watch: Watch) {
        self.server.close(watch.stream);
    }
}

pub(super) fn version_of(value: &Value) -> String {
    value["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned()
}

/// The token for the next page.
pub(super) fn token_of(value: &Value) -> String {
    value["metadata"]["continue"].as_str().unwrap_or_default().to_owned()
}

fn is_plain_bookmark(line: &str) -> bool {
    line.starts_with("{\"type\":\"BOOKMARK\"") && !line.contains("initial-events-end")
}

/// A target without the revisions and tokens in it, which differ from server to server.
fn without_numbers(target: &str) -> String {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let shown = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name @ "continue", _)) => format!("{name}=..."),
        Some((name @ "resourceVersion", value)) if value.parse::<u64>().is_ok_and(|version| version > 1) => {
            format!("{name}=...")
        }
        _ => pair.to_owned(),
    });
    let shown = shown.collect::<Vec<_>>().join("&");
    if shown.is_empty() { path.to_owned() } else { format!("{path}?{shown}") }
}
