//! Which path and method lead where. Not what is done there.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::objects::{Part, Preconditions, Removal};
use super::operator::{Failure, Rule};
use super::refusal::Refusal;
use super::request::{Answer, Query, Request, decode};
use super::selector::Selection;
use super::state::State;
use super::store::{KindId, NAMESPACES, Store};
use super::text::{timestamp, uid};
use super::watch::{Ending, Stream};

/// So many writes to a kind between two looks for history that nobody can ask for.
const TRIM_EVERY: u64 = 64;

/// A Kubernetes API server with its etcd. Times handed in are since 1970 as far as timestamps show them, and never step
/// back.
pub struct ApiServer {
    pub(super) store: Store,
    pub(super) streams: BTreeMap<u64, Stream>,
    pub(super) last_stream: u64,
    /// How many objects have been made. It does not step back when etcd does: uids are never given twice.
    pub(super) uids: u64,
    pub(super) streaming_lists: bool,
    pub(super) denied: Vec<Rule>,
    pub(super) trouble: Option<(Failure, u32)>,
}

/// What a path below a group's version names.
struct Place<'a> {
    group: &'a str,
    version: &'a str,
    resource: &'a str,
    namespace: Option<String>,
    name: Option<String>,
    subresource: Option<&'a str>,
}

impl Default for ApiServer {
    fn default() -> Self {
        Self::new()
    }
}

impl ApiServer {
    /// A cluster that has just begun: the namespaces `default` and `kube-system`, and no definitions.
    pub fn new() -> Self {
        let mut server = Self {
            store: Store::new(),
            streams: BTreeMap::new(),
            last_stream: 0,
            uids: 0,
            streaming_lists: true,
            denied: Vec::new(),
            trouble: None,
        };
        server.store.forget_caches();
        for name in ["default", "kube-system"] {
            server.add_namespace(name);
        }
        server
    }

    fn add_namespace(&mut self, name: &str) {
        let value = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {
                "name": name, "uid": uid(self.uids), "creationTimestamp": timestamp(Duration::ZERO),
                "labels": {"kubernetes.io/metadata.name": name},
            },
            "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"},
        });
        self.uids += 1;
        self.store.put(Duration::ZERO, NAMESPACES, name, value);
    }

    /// Answers a request.
    pub fn request(&mut self, now: Duration, request: &Request<'_>) -> Answer {
        if let Some(answer) = self.take_trouble() {
            return answer;
        }
        let (path, query) = request.target.split_once('?').unwrap_or((request.target, ""));
        let segments: Vec<&str> = path.split('/').skip(1).collect();
        let place = match segments.as_slice() {
            ["api", version, rest @ ..] if !rest.is_empty() => Place::read("", version, rest),
            ["apis", group, version, rest @ ..] if !rest.is_empty() => Place::read(group, version, rest),
            _ => return self.discover(&segments),
        };
        let Some(place) = place else { return Answer::page_not_found() };
        self.answer(now, request, &place, query).unwrap_or_else(Answer::from)
    }

    fn answer(
        &mut self,
        now: Duration,
        request: &Request<'_>,
        place: &Place<'_>,
        query: &str,
    ) -> Result<Answer, Refusal> {
        let query = Query::parse(query);
        let verb = match (request.method, &place.name) {
            ("GET", Some(_)) => "get",
            ("GET", None) if query.watch => "watch",
            ("GET", None) => "list",
            ("POST", None) => "create",
            ("PUT", Some(_)) => "update",
            ("PATCH", Some(_)) => "patch",
            ("DELETE", Some(_)) => "delete",
            ("DELETE", None) => "deletecollection",
            _ => return Err(method_not_allowed()),
        };
        let (namespace, name) = (place.namespace.as_deref(), place.name.as_deref());
        self.check_allowed(
            verb,
            (place.group, place.resource),
            namespace.unwrap_or_default(),
            name.unwrap_or_default(),
        )?;
        let found = self.store.find(place.group, place.resource);
        let Some(id) = found.filter(|id| self.store.kinds[*id].serves(place.version)) else {
            return Ok(Answer::page_not_found());
        };
        let across_namespaces = namespace.is_none() && matches!(verb, "list" | "watch");
        if self.store.kinds[id].namespaced != namespace.is_some() && !across_namespaces {
            // A namespace where none belongs, or none where one does.
            return Ok(Answer::page_not_found());
        }
        let kind = (id, place.version);
        let revision = self.store.revision;
        self.store.kinds[id].warm(revision);
        match (verb, name) {
            ("list" | "watch", _) => self.read_collection(now, kind, namespace, &query, request.accept),
            ("deletecollection", _) => self.delete_collection(now, kind, namespace, &query),
            ("create", _) => {
                let value = read_body(request.body, &self.store.kinds[id].kind)?;
                let state = self.create_object(now, kind, namespace, value)?;
                Ok(Answer::created(self.show(kind, &state, "")))
            }
            (_, Some(name)) => self.answer_object(now, request, kind, place, name, &query),
            _ => Err(method_not_allowed()),
        }
    }

    fn answer_object(
        &mut self,
        now: Duration,
        request: &Request<'_>,
        (id, version): (KindId, &str),
        place: &Place<'_>,
        name: &str,
        query: &Query,
    ) -> Result<Answer, Refusal> {
        let kind = &self.store.kinds[id];
        let part = match place.subresource {
            None => Part::Main,
            Some("status") if kind.version(version).is_some_and(|version| version.status) => Part::Status,
            // A custom kind without a status is asked for one in vain.
            Some("status") if kind.custom => return Err(Refusal::not_found(kind, name)),
            Some(_) => return Ok(Answer::page_not_found()),
        };
        let asked = query.resource_version.parse().unwrap_or(0);
        if request.method == "GET" && asked > self.store.revision {
            return Err(Refusal::too_large(asked, self.store.revision));
        }
        let key = kind.key(place.namespace.as_deref().unwrap_or_default(), name);
        let old = kind.objects.get(key.as_str()).cloned().ok_or_else(|| Refusal::not_found(kind, name))?;
        let kind_name = kind.kind.clone();
        let state = match request.method {
            "GET" => old,
            "PUT" => {
                let value = read_body(request.body, &kind_name)?;
                self.update_object(now, (id, version), &old, part, value)?
            }
            "PATCH" => {
                let patch = read_body(request.body, &kind_name)?;
                self.patch_object(now, (id, version), &old, part, &patch)?
            }
            _ => {
                let preconditions = read_preconditions(request.body);
                match self.delete_object(now, id, &old, &preconditions)? {
                    Removal::Held(state) => state,
                    Removal::Gone(state) => return Ok(Answer::ok(self.success(id, &state))),
                }
            }
        };
        Ok(Answer::ok(self.show((id, version), &state, request.accept)))
    }

    fn read_collection(
        &mut self,
        now: Duration,
        (id, version): (KindId, &str),
        namespace: Option<&str>,
        query: &Query,
        accept: &str,
    ) -> Result<Answer, Refusal> {
        let selection = self.select((id, version), namespace, query)?;
        let metadata_only = accept.contains("as=PartialObjectMetadata");
        if query.watch {
            let stream = self.watch(now, id, version, selection, query, metadata_only)?;
            return Ok(Answer::stream(stream));
        }
        self.list(id, version, &selection, query, metadata_only).map(Answer::ok)
    }

    fn delete_collection(
        &mut self,
        now: Duration,
        (id, version): (KindId, &str),
        namespace: Option<&str>,
        query: &Query,
    ) -> Result<Answer, Refusal> {
        let selection = self.select((id, version), namespace, query)?;
        let body = self.list(id, version, &selection, query, false)?;
        let states: Vec<_> =
            self.store.kinds[id].objects.values().filter(|it| selection.matches(it)).cloned().collect();
        for state in states {
            self.delete_object(now, id, &state, &Preconditions::default())?;
        }
        Ok(Answer::ok(body))
    }

    fn select(&self, kind: (KindId, &str), namespace: Option<&str>, query: &Query) -> Result<Selection, Refusal> {
        Selection::new(&self.store.kinds[kind.0], kind.1, namespace, &query.labels, &query.fields)
    }

    fn show(&self, (id, version): (KindId, &str), state: &State, accept: &str) -> bytes::Bytes {
        let metadata_only = accept.contains("as=PartialObjectMetadata;");
        state.bytes(&self.store.kinds[id].view(version, metadata_only))
    }

    fn success(&self, id: KindId, state: &State) -> String {
        let mut details = self.store.kinds[id].details(state.value["metadata"]["name"].as_str().unwrap_or_default());
        details["uid"] = state.uid().into();
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
            .to_string()
    }

    pub(super) fn put(&mut self, now: Duration, id: KindId, key: &str, value: Value) -> std::sync::Arc<State> {
        let state = self.store.put(now, id, key, value);
        if self.store.kinds[id].end().is_multiple_of(TRIM_EVERY) {
            self.trim(id);
        }
        state
    }

    pub(super) fn remove(&mut self, now: Duration, id: KindId, key: &str) {
        self.store.remove(now, id, key);
        if self.store.kinds[id].end().is_multiple_of(TRIM_EVERY) {
            self.trim(id);
        }
        self.finish_kind(now, id);
    }

    pub(super) fn trim(&mut self, id: KindId) {
        let streams = self.streams.values().filter(|stream| stream.kind == id);
        let read = streams.map(|stream| stream.next).min().unwrap_or(u64::MAX);
        let compacted = self.store.compacted;
        self.store.kinds[id].trim(compacted, read);
    }

    pub(super) fn break_streams(&mut self) {
        for stream in self.streams.values_mut() {
            stream.end(&self.store.kinds[stream.kind], Ending::Broken);
        }
    }
}

impl<'a> Place<'a> {
    fn read(group: &'a str, version: &'a str, rest: &[&'a str]) -> Option<Self> {
        let (namespace, rest) = match rest {
            // What is below a namespace, but not what is of a namespace.
            ["namespaces", namespace, below @ ..] if !matches!(below, [] | ["status"]) => {
                (Some(decode(namespace)), below)
            }
            _ => (None, rest),
        };
        let (resource, name, subresource) = match rest {
            [resource] => (*resource, None, None),
            [resource, name] => (*resource, Some(decode(name)), None),
            [resource, name, subresource] => (*resource, Some(decode(name)), Some(*subresource)),
            _ => return None,
        };
        Some(Self { group, version, resource, namespace, name, subresource })
    }
}

fn method_not_allowed() -> Refusal {
    let message = "the server does not allow this method on the requested resource";
    Refusal::new(405, "MethodNotAllowed", message)
}

fn read_body(body: &[u8], kind: &str) -> Result<Value, Refusal> {
    serde_json::from_slice(body).ok().filter(Value::is_object).ok_or_else(|| {
        let message =
            format!("the object provided is unrecognized (must be of type {kind}): couldn't get version/kind");
        Refusal::bad_request(message)
    })
}

fn read_preconditions(body: &[u8]) -> Preconditions {
    let Ok(options) = serde_json::from_slice::<Value>(body) else { return Preconditions::default() };
    let text = |member: &str| options["preconditions"][member].as_str().map(str::to_owned);
    Preconditions { uid: text("uid"), resource_version: text("resourceVersion") }
}
