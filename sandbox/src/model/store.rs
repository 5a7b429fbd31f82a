//! etcd: one counter for all writes, the present states, and the past ones until they are compacted.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::kind::{Event, Kind};
use super::state::State;

/// Which kind, as a place in the store; never given twice.
pub(super) type KindId = usize;

pub(super) const NAMESPACES: KindId = 0;
pub(super) const DEFINITIONS: KindId = 1;

#[derive(Clone, Debug)]
pub(super) struct Store {
    /// Of the last write.
    pub(super) revision: u64,
    /// What was before this one is gone.
    pub(super) compacted: u64,
    pub(super) kinds: Vec<Kind>,
}

impl Store {
    pub(super) fn new() -> Self {
        let mut definitions =
            Kind::new("apiextensions.k8s.io", "customresourcedefinitions", "CustomResourceDefinition", false);
        definitions.versions[0].status = true;
        let kinds = vec![
            Kind::new("", "namespaces", "Namespace", false),
            definitions,
            Kind::new("", "configmaps", "ConfigMap", true),
        ];
        // A real cluster has made some hundred writes before anybody asks: 1 is always too old.
        Self { revision: 100, compacted: 0, kinds }
    }

    /// A kind that is there now.
    pub(super) fn find(&self, group: &str, resource: &str) -> Option<KindId> {
        self.kinds.iter().position(|kind| !kind.removed && kind.resource == resource && kind.group == group)
    }

    /// Writes an object under the next revision, which is stamped into it.
    pub(super) fn put(&mut self, now: Duration, id: KindId, key: &str, mut value: Value) -> Arc<State> {
        let kind = &mut self.kinds[id];
        // The write goes through the cache's storage, which is made if it has to be.
        kind.warm(self.revision);
        self.revision += 1;
        value["metadata"]["resourceVersion"] = self.revision.to_string().into();
        let key: Arc<str> = kind.objects.get_key_value(key).map_or_else(|| key.into(), |(key, _)| Arc::clone(key));
        let state = Arc::new(State::new(Arc::clone(&key), value, self.revision, kind.custom));
        let previous = kind.objects.insert(key, Arc::clone(&state));
        kind.record(Event { revision: self.revision, at: now, state: Some(Arc::clone(&state)), previous });
        state
    }

    /// Removes an object under the next revision.
    pub(super) fn remove(&mut self, now: Duration, id: KindId, key: &str) {
        let kind = &mut self.kinds[id];
        kind.warm(self.revision);
        let Some(previous) = kind.objects.remove(key) else { return };
        self.revision += 1;
        kind.record(Event { revision: self.revision, at: now, state: None, previous: Some(previous) });
    }

    /// The API server begins anew: caches of built-in kinds are made at once, others by their first request.
    pub(super) fn forget_caches(&mut self) {
        let revision = self.revision;
        for kind in &mut self.kinds {
            kind.cache = None;
            if !kind.custom {
                kind.warm(revision);
            }
        }
    }
}
