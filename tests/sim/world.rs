//! The cluster of the simulation: the model of an API server, somebody who writes, and what the truth is. Not what crier
//! makes of it.

use std::collections::BTreeMap;
use std::time::Duration;

use crier::kubernetes::read_object;
use crier::model::Key;
use crier_sandbox::{ApiServer, Body, Request, Snapshot};
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::{Value, json};

use crate::sink::Content;

const KIND: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const NAMESPACES: [&str; 2] = ["a", "b"];
const NAMES: [&str; 2] = ["x", "y"];

/// The cluster.
pub(crate) struct World {
    pub(crate) server: ApiServer,
    snapshots: Vec<(Snapshot, u64)>,
    edits: u32,
    pub(crate) defined: bool,
    /// How often a backup was put back.
    pub(crate) rewinds: u32,
    // What an object was before its last change.
    earlier: BTreeMap<Key, (u64, String)>,
    /// Writes that changed something.
    pub(crate) writes: usize,
}

impl World {
    pub(crate) fn new() -> Self {
        let mut world = Self {
            server: ApiServer::new(),
            snapshots: Vec::new(),
            edits: 0,
            defined: false,
            rewinds: 0,
            earlier: BTreeMap::new(),
            writes: 0,
        };
        for name in NAMESPACES {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            let (status, _) = world.send(Duration::ZERO, "POST", "/api/v1/namespaces", &namespace);
            assert_eq!(status, 201, "the namespace {name} is made");
        }
        world.define(Duration::ZERO);
        world
    }

    fn send(&mut self, now: Duration, method: &str, target: &str, body: &Value) -> (u16, Vec<u8>) {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = Request { method, target, accept: "application/json", body: &body };
        loop {
            let answer = self.server.request(now, &request);
            match answer.body {
                // Whoever writes is as patient as it takes.
                Body::Whole(_) if matches!(answer.status, 401 | 429 | 500 | 503) => {}
                Body::Whole(bytes) => return (answer.status, bytes.to_vec()),
                Body::Stream(_) => unreachable!("nothing is watched here"),
            }
        }
    }

    fn is_defined(&mut self, now: Duration) -> bool {
        self.defined = self.send(now, "GET", &format!("{KIND}/things.example.com"), &Value::Null).0 == 200;
        self.defined
    }

    /// Makes the kind, if it is not there.
    pub(crate) fn define(&mut self, now: Duration) {
        if self.is_defined(now) {
            return;
        }
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "things.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced",
                "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]
            }
        });
        let (status, body) = self.send(now, "POST", KIND, &definition);
        assert!(status < 300, "the kind is made: {}", String::from_utf8_lossy(&body));
        self.defined = true;
    }

    /// Edits the kind: every watch of it ends, and its history is forgotten.
    pub(crate) fn edit_kind(&mut self, now: Duration) {
        if self.defined {
            self.edits += 1;
            let patch = json!({"spec": {"names": {"shortNames": [format!("t{}", self.edits)]}}});
            let (status, body) = self.send(now, "PATCH", &format!("{KIND}/things.example.com"), &patch);
            assert!(status < 300, "the kind is edited: {}", String::from_utf8_lossy(&body));
        }
    }

    /// Deletes the kind, and with it all its objects.
    pub(crate) fn delete_kind(&mut self, now: Duration) {
        if self.defined {
            // What finalizers hold would hold the kind, too.
            for (key, ..) in self.objects() {
                let patch = json!({"metadata": {"finalizers": null}});
                self.send(now, "PATCH", &path(&key), &patch);
            }
            let (status, body) = self.send(now, "DELETE", &format!("{KIND}/things.example.com"), &Value::Null);
            assert!(status < 300, "the kind is deleted: {}", String::from_utf8_lossy(&body));
            self.is_defined(now);
            self.writes += 1;
        }
    }

    /// Somebody writes something.
    pub(crate) fn write(&mut self, random: &mut StdRng, now: Duration) -> String {
        let key = Key::new(NAMESPACES[random.random_range(0..2)], NAMES[random.random_range(0..2)]);
        let (value, tier) = (random.random_range(0..3), ["a", "b"][random.random_range(0..2)]);
        let found = self.objects().into_iter().find(|(known, ..)| *known == key).map(|(.., content)| content);
        let exists = found.is_some();
        let choice = random.random_range(0..12);
        let found = found.map(|(_, value, tier)| (value, tier));
        let earlier = self.earlier.get(&key).cloned().filter(|earlier| Some(earlier) != found.as_ref());
        if let Some(found) = found {
            self.earlier.insert(key.clone(), found);
        }
        let collection = format!("/apis/example.com/v1/namespaces/{}/things", key.namespace().unwrap_or_default());
        let (method, target, body) = match (exists, choice) {
            (false, _) => {
                let finalizers = if random.random_bool(0.2) { json!(["example.com/hold"]) } else { json!([]) };
                let metadata = json!({"name": key.name(), "labels": {"tier": tier}, "finalizers": finalizers});
                let object = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": metadata, "spec": {"value": value}});
                ("POST", collection, object)
            }
            (true, 0..=2) => ("DELETE", path(&key), Value::Null),
            (true, 3 | 4) => ("PATCH", path(&key), json!({"metadata": {"labels": {"tier": tier}}})),
            (true, 5) => ("PATCH", path(&key), json!({"metadata": {"finalizers": null}})),
            // As it was.
            (true, 10 | 11) if let Some((value, tier)) = earlier => {
                let metadata = json!({"labels": {"tier": tier}});
                ("PATCH", path(&key), json!({"metadata": metadata, "spec": {"value": value}}))
            }
            (true, _) => ("PATCH", path(&key), json!({"spec": {"value": value}})),
        };
        let (status, answer) = self.send(now, method, &target, &body);
        self.writes += usize::from(status < 300);
        let answer: String =
            String::from_utf8_lossy(&answer).chars().take(if status < 300 { 0 } else { 200 }).collect();
        format!("{method} {key} value {value} tier {tier}: {status} {answer}")
    }

    /// Sets one object's value.
    pub(crate) fn set(&mut self, now: Duration, key: &Key, value: u64) {
        let (status, _) = self.send(now, "PATCH", &path(key), &json!({"spec": {"value": value}}));
        self.writes += usize::from(status < 300);
    }

    /// Makes sure that there is an object of this key.
    pub(crate) fn make(&mut self, now: Duration, key: &Key) {
        let object = json!({
            "apiVersion": "example.com/v1", "kind": "Thing",
            "metadata": {"name": key.name(), "labels": {"tier": "a"}}, "spec": {"value": 0}
        });
        let collection = format!("/apis/example.com/v1/namespaces/{}/things", key.namespace().unwrap_or_default());
        self.send(now, "POST", &collection, &object);
    }

    /// Whatever finalizers hold is let go.
    pub(crate) fn release_all(&mut self, now: Duration) {
        for (key, ..) in self.objects() {
            self.send(now, "PATCH", &path(&key), &json!({"metadata": {"finalizers": null}}));
        }
    }

    /// Takes a backup.
    pub(crate) fn back_up(&mut self) {
        let snapshot = (self.server.snapshot(), self.server.resource_version());
        self.snapshots.push(snapshot);
    }

    /// Puts a backup back: the version counter steps back. Whether there was one.
    pub(crate) fn restore(&mut self, random: &mut StdRng) -> bool {
        if self.snapshots.is_empty() {
            return false;
        }
        let index = random.random_range(0..self.snapshots.len());
        self.snapshots.truncate(index + 1);
        let Some(snapshot) = self.snapshots.pop() else { return false };
        if snapshot.1 >= self.server.resource_version() {
            return false;
        }
        self.server.restore(&snapshot.0);
        // The kind may have been there then, or not.
        self.is_defined(Duration::ZERO);
        true
    }

    /// All objects: key, resourceVersion, content.
    pub(crate) fn objects(&mut self) -> Vec<(Key, u128, Content)> {
        let objects = self.server.objects("example.com", "things");
        let describe = |bytes: &bytes::Bytes| {
            let object = read_object(bytes.clone(), None).expect("an object");
            let read: Value = serde_json::from_slice(bytes).expect("JSON");
            let tier = read["metadata"]["labels"]["tier"].as_str().unwrap_or_default().to_owned();
            let content = (object.metadata.uid.to_string(), read["spec"]["value"].as_u64().unwrap_or_default(), tier);
            (object.metadata.key.clone(), object.metadata.resource_version.get(), content)
        };
        objects.iter().map(|(_, (_, _, bytes))| describe(bytes)).collect()
    }

    /// Whether an object of this uid is there.
    pub(crate) fn exists(&mut self, uid: &str) -> bool {
        self.objects().iter().any(|(_, _, content)| content.0 == uid)
    }

    /// The truth for a route: what is there and selected.
    pub(crate) fn selected(&mut self, plan: &crate::client::FeedPlan, route: usize) -> BTreeMap<Key, (u128, Content)> {
        let label = plan.collection.label_selector.strip_prefix("tier=").map(str::to_owned);
        let namespace = plan.collection.namespace.clone();
        let namespaces = plan.routes[route].namespaces.clone();
        let objects = self.objects().into_iter().filter(|(key, _, content)| {
            label.as_ref().is_none_or(|label| content.2 == *label)
                && namespace.as_deref().is_none_or(|namespace| key.namespace() == Some(namespace))
                && namespaces.selects(key)
        });
        objects.map(|(key, at, content)| (key, (at, content))).collect()
    }
}

fn path(key: &Key) -> String {
    format!("/apis/example.com/v1/namespaces/{}/things/{}", key.namespace().unwrap_or_default(), key.name())
}
