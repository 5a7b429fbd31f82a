//! Writes and looks without a request: what a simulation does most, and what its checkers read. They have the same
//! effects as the requests.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

use super::objects::{Part, Preconditions};
use super::refusal::Refusal;
use super::server::ApiServer;
use super::state::State;
use super::store::KindId;

/// Names an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectPath<'a> {
    /// Empty for the core group.
    pub group: &'a str,
    /// The plural.
    pub resource: &'a str,
    /// Empty for kinds without namespaces.
    pub namespace: &'a str,
    /// The object's name.
    pub name: &'a str,
}

impl ApiServer {
    /// Creates an object from its members; name and namespace are the path's. Returns its resourceVersion.
    ///
    /// # Errors
    /// What the server would refuse.
    pub fn create(&mut self, now: Duration, path: ObjectPath<'_>, mut value: Value) -> Result<u64, Refusal> {
        let id = self.writable(path)?;
        value["metadata"]["name"] = path.name.into();
        let version = self.store.kinds[id].storage_version().to_owned();
        let namespace = Some(path.namespace).filter(|namespace| !namespace.is_empty());
        self.create_object(now, (id, &version), namespace, value).map(|state| state.revision)
    }

    /// Merges a patch into an object. Returns its resourceVersion, which is the old one if nothing changes.
    ///
    /// # Errors
    /// What the server would refuse.
    pub fn update(&mut self, now: Duration, path: ObjectPath<'_>, patch: &Value) -> Result<u64, Refusal> {
        self.merge_part(now, path, Part::Main, patch)
    }

    /// The same for the status, which has to be a subresource.
    ///
    /// # Errors
    /// What the server would refuse.
    pub fn update_status(&mut self, now: Duration, path: ObjectPath<'_>, patch: &Value) -> Result<u64, Refusal> {
        self.merge_part(now, path, Part::Status, patch)
    }

    /// Deletes an object, or marks it as deleted if finalizers hold it. Returns the resourceVersion of that write.
    ///
    /// # Errors
    /// What the server would refuse.
    pub fn delete(&mut self, now: Duration, path: ObjectPath<'_>) -> Result<u64, Refusal> {
        let (id, old) = self.existing(path)?;
        self.delete_object(now, id, &old, &Preconditions::default())?;
        Ok(self.store.revision)
    }

    /// The present state of an object: uid, resourceVersion, and its JSON in the storage version.
    pub fn object(&self, path: ObjectPath<'_>) -> Option<(String, u64, Bytes)> {
        let (id, state) = self.existing(path).ok()?;
        Some(self.shown(id, &state))
    }

    /// All objects of a kind by `namespace/name` (or `name`): uid, resourceVersion, and JSON in the storage version.
    pub fn objects(&self, group: &str, resource: &str) -> Vec<(Arc<str>, (String, u64, Bytes))> {
        let Some(id) = self.kind_id(group, resource) else { return Vec::new() };
        let objects = self.store.kinds[id].objects.iter();
        objects.map(|(key, state)| (Arc::clone(key), self.shown(id, state))).collect()
    }

    /// How many objects of a kind there are.
    pub fn object_count(&self, group: &str, resource: &str) -> usize {
        self.held(group, resource).objects
    }

    fn merge_part(&mut self, now: Duration, path: ObjectPath<'_>, part: Part, patch: &Value) -> Result<u64, Refusal> {
        let (id, old) = self.existing(path)?;
        let version = self.store.kinds[id].storage_version().to_owned();
        self.patch_object(now, (id, &version), &old, part, patch).map(|state| state.revision)
    }

    fn shown(&self, id: KindId, state: &State) -> (String, u64, Bytes) {
        let kind = &self.store.kinds[id];
        (state.uid().to_owned(), state.revision, state.bytes(&kind.view(kind.storage_version(), false)))
    }

    fn existing(&self, path: ObjectPath<'_>) -> Result<(KindId, Arc<State>), Refusal> {
        let id = self.writable(path)?;
        let kind = &self.store.kinds[id];
        let found = kind.objects.get(kind.key(path.namespace, path.name).as_str());
        found.map(|state| (id, Arc::clone(state))).ok_or_else(|| Refusal::not_found(kind, path.name))
    }

    fn writable(&self, path: ObjectPath<'_>) -> Result<KindId, Refusal> {
        let found = self.kind_id(path.group, path.resource);
        found.ok_or_else(|| Refusal::new(404, "NotFound", "404 page not found"))
    }
}
