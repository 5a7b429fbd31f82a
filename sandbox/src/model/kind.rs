//! One kind: its names and versions, its objects, its history in etcd and its watch cache.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::state::{State, View};

/// A watch cache holds what is younger than this, as far as its largest capacity lets it.
const FRESH: Duration = Duration::from_secs(75);
/// The least and the most events that a watch cache holds.
const CAPACITY: (usize, usize) = (100, 102_400);

#[derive(Clone, Debug)]
pub(super) struct Version {
    pub(super) name: String,
    pub(super) served: bool,
    pub(super) storage: bool,
    /// Whether it has a status subresource.
    pub(super) status: bool,
    /// Paths without the leading dot.
    pub(super) selectable: Vec<String>,
}

/// A write as etcd keeps it. Without a state it is a deletion.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub(super) revision: u64,
    pub(super) at: Duration,
    pub(super) state: Option<Arc<State>>,
    pub(super) previous: Option<Arc<State>>,
}

/// What the API server remembers of a kind. It is made by the first request, and forgets when the server or the kind's
/// definition changes.
#[derive(Clone, Debug)]
pub(super) struct Cache {
    /// The revision of the list that it began with.
    since: u64,
    /// The number of the oldest event that it holds.
    begin: u64,
    lapped: bool,
    capacity: usize,
    /// The newest revision that it knows to have passed.
    pub(super) observed: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Kind {
    /// Empty for the core group.
    pub(super) group: String,
    pub(super) resource: String,
    pub(super) singular: String,
    pub(super) kind: String,
    pub(super) list_kind: String,
    pub(super) namespaced: bool,
    /// Whether a definition made it.
    pub(super) custom: bool,
    pub(super) versions: Vec<Version>,
    /// Its definition is being deleted.
    pub(super) terminating: bool,
    /// Its definition is gone; it is kept for the watches that have not read their last events.
    pub(super) removed: bool,
    pub(super) objects: BTreeMap<Arc<str>, Arc<State>>,
    pub(super) cache: Option<Cache>,
    /// The least and the most events that its cache holds.
    pub(super) window: (usize, usize),
    history: VecDeque<Event>,
    /// The number of the oldest event in the history.
    first: u64,
}

impl Kind {
    pub(super) fn new(group: &str, resource: &str, kind: &str, namespaced: bool) -> Self {
        Self {
            group: group.to_owned(),
            resource: resource.to_owned(),
            singular: kind.to_lowercase(),
            kind: kind.to_owned(),
            list_kind: format!("{kind}List"),
            namespaced,
            custom: false,
            versions: vec![Version {
                name: "v1".to_owned(),
                served: true,
                storage: true,
                status: false,
                selectable: Vec::new(),
            }],
            terminating: false,
            removed: false,
            objects: BTreeMap::new(),
            cache: None,
            window: CAPACITY,
            history: VecDeque::new(),
            first: 0,
        }
    }

    /// `things.test.io`, as messages name it.
    pub(super) fn full_name(&self) -> String {
        if self.group.is_empty() { self.resource.clone() } else { format!("{}.{}", self.resource, self.group) }
    }

    /// `Thing.test.io`, as other messages name it.
    pub(super) fn full_kind(&self) -> String {
        if self.group.is_empty() { self.kind.clone() } else { format!("{}.{}", self.kind, self.group) }
    }

    pub(super) fn api_version(&self, version: &str) -> String {
        if self.group.is_empty() { version.to_owned() } else { format!("{}/{version}", self.group) }
    }

    pub(super) fn details(&self, name: &str) -> Value {
        let mut details = json!({"name": name, "kind": self.resource});
        if !self.group.is_empty() {
            details["group"] = self.group.as_str().into();
        }
        details
    }

    pub(super) fn version(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|version| version.name == name)
    }

    pub(super) fn serves(&self, version: &str) -> bool {
        !self.removed && self.version(version).is_some_and(|version| version.served)
    }

    pub(super) fn storage_version(&self) -> &str {
        self.versions.iter().find(|version| version.storage).map_or("v1", |version| &version.name)
    }

    pub(super) fn selects_by(&self, version: &str, path: &str) -> bool {
        self.version(version).is_some_and(|version| version.selectable.iter().any(|selectable| selectable == path))
    }

    pub(super) fn unsupported_field(&self, path: &str) -> String {
        // Namespaces have a conversion of their own, with the words that custom kinds have.
        if self.custom || self.resource == "namespaces" {
            return format!("field label not supported: {path}");
        }
        format!("\"{path}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")
    }

    pub(super) fn key(&self, namespace: &str, name: &str) -> String {
        if self.namespaced { format!("{namespace}/{name}") } else { name.to_owned() }
    }

    /// How its objects are shown in a version.
    pub(super) fn view(&self, version: &str, metadata_only: bool) -> View {
        if metadata_only {
            let opening = "{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",".to_owned();
            return View { item_opening: opening.clone(), opening, metadata_only };
        }
        let (api_version, kind) = (self.api_version(version), &self.kind);
        if self.custom {
            let opening = format!("{{\"apiVersion\":\"{api_version}\",\"kind\":\"{kind}\",");
            View { item_opening: opening.clone(), opening, metadata_only }
        } else {
            let opening = format!("{{\"kind\":\"{kind}\",\"apiVersion\":\"{api_version}\",");
            View { item_opening: "{".to_owned(), opening, metadata_only }
        }
    }

    /// The number that the next event will have.
    pub(super) fn end(&self) -> u64 {
        self.first + self.history.len() as u64
    }

    /// An event by its number, if it is still kept.
    pub(super) fn event(&self, number: u64) -> Option<&Event> {
        self.history.get(usize::try_from(number.checked_sub(self.first)?).ok()?)
    }

    /// The number of the first event after a revision.
    pub(super) fn after(&self, revision: u64) -> u64 {
        self.first + self.history.partition_point(|event| event.revision <= revision) as u64
    }

    /// Makes the cache if there is none: it knows nothing of what was before.
    pub(super) fn warm(&mut self, revision: u64) -> &mut Cache {
        let (begin, capacity) = (self.end(), self.window.0);
        self.cache.get_or_insert(Cache { since: revision, begin, lapped: false, capacity, observed: revision })
    }

    /// The oldest revision that a watch can begin at.
    pub(super) fn floor(&self) -> u64 {
        let Some(cache) = &self.cache else { return u64::MAX };
        let oldest = self.event(cache.begin).filter(|_| cache.lapped);
        oldest.map_or(cache.since, |event| event.revision - 1)
    }

    /// Adds an event to history and cache; its state is current already.
    pub(super) fn record(&mut self, event: Event) {
        let now = event.at;
        let revision = event.revision;
        let end = self.end();
        if let Some(cache) = self.cache.as_mut() {
            let (first, history) = (self.first, &self.history);
            let at = |number: u64| history.get((number.max(first) - first) as usize).map_or(now, |event| event.at);
            let held = (end - cache.begin) as usize;
            if held >= cache.capacity {
                let quarter = end.saturating_sub((cache.capacity as u64 / 4).max(1));
                if at(cache.begin) + FRESH > now && cache.capacity < self.window.1 {
                    cache.capacity = (cache.capacity * 2).min(self.window.1);
                } else if at(quarter) + FRESH <= now && cache.capacity > self.window.0 {
                    cache.capacity = (cache.capacity / 2).max(self.window.0);
                }
            }
            let spare = cache.capacity.max(1) - 1;
            if held > spare {
                (cache.begin, cache.lapped) = (end - spare as u64, true);
            }
            cache.observed = revision;
        }
        self.history.push_back(event);
    }

    /// Makes the cache forget all but its newest events; both bounds of its capacity become that number.
    pub(super) fn shrink(&mut self, events: usize) {
        self.window = (events, events);
        let end = self.end();
        if let Some(cache) = self.cache.as_mut() {
            cache.capacity = events;
            if end - cache.begin > events as u64 {
                cache.begin = end - events as u64;
                // What an empty ring has forgotten is everything up to now.
                cache.lapped = true;
            }
            if events == 0 {
                (cache.since, cache.lapped) = (cache.observed, false);
            }
        }
    }

    /// How many events are kept.
    pub(super) fn kept(&self) -> usize {
        self.history.len()
    }

    /// Lets history go that nobody can ask for: compacted, not in the cache, and read by all watches.
    pub(super) fn trim(&mut self, compacted: u64, read: u64) {
        let cached = self.cache.as_ref().map_or(u64::MAX, |cache| cache.begin);
        while self.first < cached.min(read) && self.history.front().is_some_and(|event| event.revision <= compacted) {
            self.history.pop_front();
            self.first += 1;
        }
    }

    /// Its objects at a revision whose later events are all kept, with keys that begin with `prefix`, from `start` on.
    pub(super) fn at(&self, revision: u64, prefix: &str, start: &str) -> Vec<Arc<State>> {
        let wanted = |key: &str| key.starts_with(prefix) && key >= start;
        let from = Bound::Included(start.max(prefix));
        let range = self.objects.range::<str, _>((from, Bound::Unbounded));
        let present = range.take_while(|(key, _)| key.starts_with(prefix));
        let later = self.history.iter().rev().take_while(|event| event.revision > revision);
        let mut undone: BTreeMap<&str, Option<&Arc<State>>> = BTreeMap::new();
        for event in later {
            let key = event.state.as_ref().or(event.previous.as_ref()).map_or("", |state| &state.key);
            if wanted(key) {
                undone.insert(key, event.previous.as_ref());
            }
        }
        if undone.is_empty() {
            return present.map(|(_, state)| Arc::clone(state)).collect();
        }
        let mut merged: BTreeMap<&str, &Arc<State>> = present.map(|(key, state)| (&**key, state)).collect();
        for (key, state) in undone {
            match state {
                Some(state) => merged.insert(key, state),
                None => merged.remove(key),
            };
        }
        merged.into_values().map(Arc::clone).collect()
    }
}
