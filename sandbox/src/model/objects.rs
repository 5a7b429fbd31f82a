//! What a write does to an object: which metadata the server sets, when a generation counts up, what a finalizer holds.
//! Not what a definition's write does to its kind.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::kind::Kind;
use super::members::{
    check_identity, check_kind, check_type, differs, drop_empty, finalizers, kept_metadata, manage, merge, set_member,
    take_member, take_metadata, with_status_of,
};
use super::refusal::Refusal;
use super::server::ApiServer;
use super::state::State;
use super::store::{DEFINITIONS, KindId, NAMESPACES};
use super::text::{suffix, timestamp, uid};

/// What became of an object that is deleted.
pub(super) enum Removal {
    /// It is gone.
    Gone(Arc<State>),
    /// It waits for its finalizers.
    Held(Arc<State>),
}

/// What a delete insists on.
#[derive(Default)]
pub(super) struct Preconditions {
    pub(super) uid: Option<String>,
    pub(super) resource_version: Option<String>,
}

/// Which part of an object an update writes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Main,
    Status,
}

impl ApiServer {
    pub(super) fn create_object(
        &mut self,
        now: Duration,
        (id, version): (KindId, &str),
        namespace: Option<&str>,
        mut value: Value,
    ) -> Result<Arc<State>, Refusal> {
        let kind = &self.store.kinds[id];
        check_type(kind, version, &value)?;
        let metadata = take_metadata(&mut value);
        let place = if kind.namespaced { namespace } else { None };
        let named = metadata.get("namespace").and_then(Value::as_str).unwrap_or_default();
        if !named.is_empty() && Some(named) != place {
            let message = "the namespace of the provided object does not match the namespace sent on the request";
            return Err(Refusal::bad_request(message));
        }
        let text = |member: &str| metadata.get(member).and_then(Value::as_str).unwrap_or_default();
        let name = match (text("name"), text("generateName")) {
            ("", "") => {
                let cause = ("FieldValueRequired", "Required value: name or generateName is required");
                return Err(Refusal::invalid(kind, "", "metadata.name", cause, false));
            }
            ("", prefix) => format!("{prefix}{}", suffix(self.uids)),
            (name, _) => name.to_owned(),
        };
        self.check_place(kind, &name, place)?;
        check_kind(kind, &name, &value)?;
        let key = kind.key(place.unwrap_or_default(), &name);
        if kind.objects.contains_key(key.as_str()) {
            return Err(Refusal::already_exists(kind, &name));
        }
        // The server's own members cannot be given.
        let mut metadata = metadata;
        for member in ["deletionTimestamp", "deletionGracePeriodSeconds", "generation", "selfLink", "managedFields"] {
            metadata.remove(member);
        }
        metadata.insert("name".into(), name.as_str().into());
        if let Some(place) = place {
            metadata.insert("namespace".into(), place.into());
        }
        metadata.insert("uid".into(), uid(self.uids).into());
        metadata.insert("creationTimestamp".into(), timestamp(now).into());
        if kind.custom || id == DEFINITIONS {
            metadata.insert("generation".into(), 1.into());
        }
        manage(&mut metadata, &kind.api_version(version), Part::Main, now);
        drop_empty(&mut metadata);
        if id == NAMESPACES {
            let labels = metadata.entry("labels").or_insert_with(|| json!({}));
            labels["kubernetes.io/metadata.name"] = name.as_str().into();
            value["spec"]["finalizers"] = json!(["kubernetes"]);
            value["status"]["phase"] = "Active".into();
        } else if kind.version(version).is_some_and(|version| version.status) {
            take_member(&mut value, "status");
        }
        value["metadata"] = metadata.into();
        if id == DEFINITIONS {
            self.complete_definition(&name, &mut value)?;
        }
        self.uids += 1;
        let state = self.put(now, id, &key, value);
        if id == DEFINITIONS {
            self.add_kind(&state);
        }
        Ok(state)
    }

    fn check_place(&self, kind: &Kind, name: &str, namespace: Option<&str>) -> Result<(), Refusal> {
        if kind.terminating {
            return Err(Refusal::terminating_definition(kind, name));
        }
        let Some(namespace) = namespace else { return Ok(()) };
        let namespaces = &self.store.kinds[NAMESPACES];
        let Some(found) = namespaces.objects.get(namespace) else {
            return Err(Refusal::not_found(namespaces, namespace));
        };
        if found.value["metadata"].get("deletionTimestamp").is_some() {
            return Err(Refusal::terminating_namespace(kind, name, namespace));
        }
        Ok(())
    }

    /// Replaces an object, or its status. The same content again is no write.
    pub(super) fn update_object(
        &mut self,
        now: Duration,
        (id, version): (KindId, &str),
        old: &Arc<State>,
        part: Part,
        mut value: Value,
    ) -> Result<Arc<State>, Refusal> {
        let kind = &self.store.kinds[id];
        let name = old.value["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        check_type(kind, version, &value)?;
        let metadata = take_metadata(&mut value);
        check_identity(kind, old, &name, &metadata)?;
        check_kind(kind, &name, &value)?;
        let has_status = kind.version(version).is_some_and(|version| version.status);
        let before = old.value["metadata"].as_object().cloned().unwrap_or_default();
        let (mut value, metadata) = match part {
            Part::Status => (with_status_of(&old.value, &mut value), before.clone()),
            Part::Main => (value, kept_metadata(metadata, &before)),
        };
        if part == Part::Main && has_status {
            set_member(&mut value, "status", old.value.get("status").cloned());
        }
        let deleting = metadata.contains_key("deletionTimestamp");
        let unknown = finalizers(&metadata).filter(|name| !finalizers(&before).any(|known| known == *name));
        let unknown: Vec<&str> = unknown.filter_map(Value::as_str).collect();
        if deleting && !unknown.is_empty() {
            return Err(Refusal::new_finalizers(kind, &name, &unknown));
        }
        for member in ["apiVersion", "kind"] {
            // Stored as in the storage version, whatever version the writer speaks.
            set_member(&mut value, member, old.value.get(member).cloned());
        }
        if !kind.custom
            && let Some(members) = value.as_object_mut()
        {
            drop_empty(members);
        }
        let content_changed = part == Part::Main && differs(&old.value, &value, has_status);
        value["metadata"] = metadata.into();
        if value == old.value {
            return Ok(Arc::clone(old));
        }
        let metadata = value["metadata"].as_object_mut().expect("it was just set");
        if let Some(generation) = metadata.get("generation").and_then(Value::as_u64).filter(|_| content_changed) {
            metadata.insert("generation".into(), (generation + 1).into());
        }
        manage(metadata, &kind.api_version(version), part, now);
        // Namespaces wait for finalizers of another kind, and definitions for their objects.
        let released = id != NAMESPACES && id != DEFINITIONS && finalizers(metadata).next().is_none();
        if deleting && released {
            // Nothing is written: the object is deleted as it was, and the writer sees what it has made of it.
            let last = Arc::new(State::new(Arc::clone(&old.key), value, old.revision, kind.custom));
            self.remove(now, id, &old.key);
            return Ok(last);
        }
        if id == DEFINITIONS {
            self.complete_definition(&name, &mut value)?;
        }
        let state = self.put(now, id, &old.key, value);
        if id == DEFINITIONS {
            self.change_kind(old, &state);
        }
        Ok(state)
    }

    /// A JSON merge patch.
    pub(super) fn patch_object(
        &mut self,
        now: Duration,
        kind: (KindId, &str),
        old: &Arc<State>,
        part: Part,
        patch: &Value,
    ) -> Result<Arc<State>, Refusal> {
        let mut value = old.value.clone();
        // The writer speaks its own version; the stored one may be another.
        value["apiVersion"] = self.store.kinds[kind.0].api_version(kind.1).into();
        merge(&mut value, patch);
        self.update_object(now, kind, old, part, value)
    }

    pub(super) fn delete_object(
        &mut self,
        now: Duration,
        id: KindId,
        old: &Arc<State>,
        preconditions: &Preconditions,
    ) -> Result<Removal, Refusal> {
        let kind = &self.store.kinds[id];
        let name = old.value["metadata"]["name"].as_str().unwrap_or_default();
        if let Some(wanted) = preconditions.uid.as_deref().filter(|wanted| *wanted != old.uid()) {
            return Err(Refusal::other_uid(kind, name, wanted, old.uid()));
        }
        let current = old.revision.to_string();
        if let Some(wanted) = preconditions.resource_version.as_deref().filter(|wanted| *wanted != current) {
            return Err(Refusal::other_version(kind, name, wanted, old.revision));
        }
        if id == DEFINITIONS {
            return Ok(self.delete_definition(now, old));
        }
        let metadata = old.value["metadata"].as_object().expect("every object has metadata");
        if id != NAMESPACES && finalizers(metadata).next().is_none() {
            let last = Arc::clone(old);
            self.remove(now, id, &old.key);
            return Ok(Removal::Gone(last));
        }
        if metadata.contains_key("deletionTimestamp") {
            return Ok(Removal::Held(Arc::clone(old)));
        }
        let mut value = old.value.clone();
        value["metadata"]["deletionTimestamp"] = timestamp(now).into();
        if id == NAMESPACES {
            // What a namespace holds is deleted by a controller, and here is none.
            value["status"]["phase"] = "Terminating".into();
        } else {
            value["metadata"]["deletionGracePeriodSeconds"] = 0.into();
        }
        if let Some(generation) = value["metadata"]["generation"].as_u64() {
            value["metadata"]["generation"] = (generation + 1).into();
        }
        Ok(Removal::Held(self.put(now, id, &old.key, value)))
    }
}
