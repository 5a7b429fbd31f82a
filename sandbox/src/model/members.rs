//! What objects are made of: their members and metadata, and how two states of one are told apart. Not when they are
//! written.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::kind::Kind;
use super::objects::Part;
use super::refusal::Refusal;
use super::state::State;
use super::text::timestamp;

/// Who all writes are by.
const MANAGER: &str = "sandbox";
/// What a writer cannot change.
const KEPT: &[&str] = &[
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
];

/// The old object with a new status.
pub(super) fn with_status_of(old: &Value, new: &mut Value) -> Value {
    let mut value = old.clone();
    set_member(&mut value, "status", take_member(new, "status"));
    value
}

/// New metadata with what is not the writer's put back.
pub(super) fn kept_metadata(mut metadata: Map<String, Value>, before: &Map<String, Value>) -> Map<String, Value> {
    for member in KEPT {
        match before.get(*member) {
            Some(kept) => metadata.insert((*member).into(), kept.clone()),
            None => metadata.remove(*member),
        };
    }
    metadata.remove("selfLink");
    drop_empty(&mut metadata);
    metadata
}

/// What the body says that it is must be what the path is about.
pub(super) fn check_type(kind: &Kind, version: &str, value: &Value) -> Result<(), Refusal> {
    let wanted = kind.api_version(version);
    let given = value["apiVersion"].as_str().unwrap_or(&wanted);
    if given == wanted {
        return Ok(());
    }
    Err(Refusal::bad_request(format!(
        "the API version in the data ({given}) does not match the expected API version ({wanted})"
    )))
}

pub(super) fn check_kind(kind: &Kind, name: &str, value: &Value) -> Result<(), Refusal> {
    let given = value["kind"].as_str().unwrap_or(&kind.kind);
    if given == kind.kind {
        return Ok(());
    }
    let message = format!("Invalid value: \"{given}\": must be {}", kind.kind);
    let named = Kind::new(&kind.group, &kind.resource, given, kind.namespaced);
    Err(Refusal::invalid(&named, name, "kind", ("FieldValueInvalid", &message), false))
}

/// Name, uid and resourceVersion of an update have to be those of what is there.
pub(super) fn check_identity(
    kind: &Kind,
    old: &State,
    name: &str,
    metadata: &Map<String, Value>,
) -> Result<(), Refusal> {
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

pub(super) fn take_member(value: &mut Value, name: &str) -> Option<Value> {
    value.as_object_mut().and_then(|object| object.remove(name))
}

pub(super) fn set_member(value: &mut Value, name: &str, member: Option<Value>) {
    match (value.as_object_mut(), member) {
        (Some(object), Some(member)) => drop(object.insert(name.to_owned(), member)),
        (Some(object), None) => drop(object.remove(name)),
        (None, _) => {}
    }
}

pub(super) fn take_metadata(value: &mut Value) -> Map<String, Value> {
    match take_member(value, "metadata") {
        Some(Value::Object(metadata)) => metadata,
        _ => Map::new(),
    }
}

/// What is empty is not shown.
pub(super) fn drop_empty(metadata: &mut Map<String, Value>) {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Object(members) => members.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    metadata.retain(|_, value| !is_empty(value));
}

pub(super) fn finalizers(metadata: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    metadata.get("finalizers").and_then(Value::as_array).into_iter().flatten()
}

/// Whether more than metadata, and status where it is a part of its own, differs.
pub(super) fn differs(old: &Value, new: &Value, has_status: bool) -> bool {
    let content = |value: &Value| -> Vec<(String, Value)> {
        let left_out = |name: &str| name == "metadata" || (has_status && name == "status");
        let members = value.as_object().into_iter().flatten();
        members.filter(|(name, _)| !left_out(name)).map(|(name, member)| (name.clone(), member.clone())).collect()
    };
    content(old) != content(new)
}

/// Notes the write, without the fields that it set: the manager's name and the time are what readers look at.
pub(super) fn manage(metadata: &mut Map<String, Value>, api_version: &str, part: Part, now: Duration) {
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
pub(super) fn merge(target: &mut Value, patch: &Value) {
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
