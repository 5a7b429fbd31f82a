//! What a write does to an object: which metadata the server sets, when a generation counts up, what a finalizer holds.
//! Not what a definition's write does to its kind.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::kind::Kind;
use super::refusal::Refusal;
use super::server::ApiServer;
use super::state::State;
use super::store::{DEFINITIONS, KindId, NAMESPACES};
use super::text::{suffix, timestamp, uid};

/// Who all writes are by.
const MANAGER: &str = "sandbox";

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
        let mut metadata = take_metadata(&mut value);
        check_identity(kind, old, &name, &metadata)?;
        check_kind(kind, &name, &value)?;
        let before = old.value["metadata"].as_object().cloned().unwrap_or_default();
        let has_status = kind.version(version).is_some_and(|version| version.status);
        if part == Part::Status {
            let status = take_member(&mut value, "status");
            value = old.value.clone();
            set_member(&mut value, "status", status);
            metadata = before.clone();
        } else {
            if has_status {
                set_member(&mut value, "status", old.value.get("status").cloned());
            }
            for member in [
                "name",
                "namespace",
                "uid",
                "resourceVersion",
                "generation",
                "creationTimestamp",
                "deletionTimestamp",
                "deletionGracePeriodSeconds",
                "managedFields",
            ] {
                match before.get(member) {
                    Some(kept) => metadata.insert(member.into(), kept.clone()),
                    None => metadata.remove(member),
                };
            }
            metadata.remove("selfLink");
            drop_empty(&mut metadata);
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
        if deleting && finalizers(metadata).next().is_none() && id != NAMESPACES {
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

/// What the body says that it is must be what the path is about.
fn check_type(kind: &Kind, version: &str, value: &Value) -> Result<(), Refusal> {
    let wanted = kind.api_version(version);
    let given = value["apiVersion"].as_str().unwrap_or(&wanted);
    if given == wanted {
        return Ok(());
    }
    Err(Refusal::bad_request(format!(
        "the API version in the data ({given}) does not match the expected API version ({wanted})"
    )))
}

fn check_kind(kind: &Kind, name: &str, value: &Value) -> Result<(), Refusal> {
    let given = value["kind"].as_str().unwrap_or(&kind.kind);
    if given == kind.kind {
        return Ok(());
    }
    let message = format!("Invalid value: \"{given}\": must be {}", kind.kind);
    let named = Kind::new(&kind.group, &kind.resource, given, kind.namespaced);
    Err(Refusal::invalid(&named, name, "kind", ("FieldValueInvalid", &message), false))
}

/// Name, uid and resourceVersion of an update have to be those of what is there.
fn check_identity(kind: &Kind, old: &State, name: &str, metadata: &Map<String, Value>) -> Result<(), Refusal> {
    let text = |member: &str| metadata.get(member).and_then(Value::as_str).unwrap_or_default();
    let given = text("name");
    if given != name {
        return Err(Refusal::bad_request(format!(
            "the name of the object ({given}) does not match the name on the URL ({name})"
        )));
    }
    match text("resourceVersion") {
        "" | "0" if kind.custom => {
            let cause = ("FieldValueInvalid", "Invalid value: 0: must be specified for an update");
            return Err(Refusal::invalid(kind, name, "metadata.resourceVersion", cause, true));
        }
        "" | "0" => {}
        given if given != old.revision.to_string() => return Err(Refusal::conflict(kind, name)),
        _ => {}
    }
    if !text("uid").is_empty() && text("uid") != old.uid() {
        return Err(Refusal::other_uid(kind, name, text("uid"), old.uid()));
    }
    Ok(())
}

fn take_member(value: &mut Value, name: &str) -> Option<Value> {
    value.as_object_mut().and_then(|object| object.remove(name))
}

fn set_member(value: &mut Value, name: &str, member: Option<Value>) {
    match (value.as_object_mut(), member) {
        (Some(object), Some(member)) => drop(object.insert(name.to_owned(), member)),
        (Some(object), None) => drop(object.remove(name)),
        (None, _) => {}
    }
}

fn take_metadata(value: &mut Value) -> Map<String, Value> {
    match take_member(value, "metadata") {
        Some(Value::Object(metadata)) => metadata,
        _ => Map::new(),
    }
}

/// What is empty is not shown.
fn drop_empty(metadata: &mut Map<String, Value>) {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Object(members) => members.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    metadata.retain(|_, value| !is_empty(value));
}

fn finalizers(metadata: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    metadata.get("finalizers").and_then(Value::as_array).into_iter().flatten()
}

/// Whether more than metadata, and status where it is a part of its own, differs.
fn differs(old: &Value, new: &Value, has_status: bool) -> bool {
    let content = |value: &Value| -> Vec<(String, Value)> {
        let left_out = |name: &str| name == "metadata" || (has_status && name == "status");
        let members = value.as_object().into_iter().flatten();
        members.filter(|(name, _)| !left_out(name)).map(|(name, member)| (name.clone(), member.clone())).collect()
    };
    content(old) != content(new)
}

/// Notes the write, without the fields that it set: the manager's name and the time are what readers look at.
fn manage(metadata: &mut Map<String, Value>, api_version: &str, part: Part, now: Duration) {
    let entries = metadata.entry("managedFields").or_insert_with(|| json!([]));
    let Some(entries) = entries.as_array_mut() else { return };
    let subresource = if part == Part::Status { Value::from("status") } else { Value::Null };
    let same = |entry: &&mut Value| entry["apiVersion"] == api_version && entry["subresource"] == subresource;
    if let Some(entry) = entries.iter_mut().find(same) {
        entry["time"] = timestamp(now).into();
        return;
    }
    let mut entry = json!({
        "apiVersion": api_version, "fieldsType": "FieldsV1", "fieldsV1": {}, "manager": MANAGER,
        "operation": "Update", "time": timestamp(now),
    });
    if part == Part::Status {
        entry["subresource"] = subresource;
    }
    entries.push(entry);
}

/// RFC 7386.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(members) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let object = target.as_object_mut().expect("it was just made one");
    for (name, member) in members {
        if member.is_null() {
            object.remove(name);
        } else {
            merge(object.entry(name.as_str()).or_insert(Value::Null), member);
        }
    }
}
