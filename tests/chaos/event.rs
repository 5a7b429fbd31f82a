//! Events as the checks look at them, whatever sink they come from. No judgement is in here.

use jiff::Timestamp;
use serde_json::Value;

use super::support::what;

/// One event that a sink holds.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    /// `resource/namespace/name`, as etcd's keys end.
    pub(crate) key: String,
    pub(crate) id: String,
    pub(crate) uid: String,
    pub(crate) version: u128,
    pub(crate) what: String,
    pub(crate) sequence: String,
    pub(crate) inferred: bool,
    /// When crier made it, which it does for each attempt.
    pub(crate) made: Timestamp,
    /// Whether it has the object, not only a reference to it.
    pub(crate) whole: bool,
    /// What it says of the object, as `content_of` has it.
    pub(crate) content: String,
    /// The same without the generation, which alone is no change.
    pub(crate) essence: String,
}

impl Event {
    pub(crate) fn read(event: &Value) -> Self {
        let text = |name: &str| event[name].as_str().unwrap_or_else(|| panic!("no {name} in {event}")).to_owned();
        // cluster/group/resource/namespace/name
        let key = text("partitionkey").splitn(3, '/').last().unwrap_or_default().to_owned();
        let mut essence = event["data"].clone();
        remove(&mut essence, "generation");
        Self {
            key,
            id: text("id"),
            uid: text("uid"),
            version: text("resourceversion").parse().unwrap(),
            what: what(event).to_owned(),
            sequence: text("sequence"),
            inferred: event["inferred"] == "true",
            made: text("recordedtime").parse().unwrap(),
            whole: event["data"]["metadata"].is_object(),
            content: content_of(&event["data"]),
            essence: content_of(&essence),
        }
    }

    pub(crate) fn is_deletion(&self) -> bool {
        self.what == "deleted"
    }

    /// Which life of the cluster's counter it is of.
    pub(crate) fn epoch(&self) -> &str {
        self.sequence.split('-').next().unwrap_or_default()
    }

    /// In a line, for people.
    pub(crate) fn line(&self) -> String {
        let inferred = if self.inferred { " (inferred)" } else { "" };
        format!("{} {}{inferred} {} {}", self.made, self.what, self.sequence, self.id)
    }
}

/// An object's content, without what every write alters and what events leave out.
pub(crate) fn content_of(object: &Value) -> String {
    let mut object = object.clone();
    remove(&mut object, "managedFields");
    remove(&mut object, "resourceVersion");
    object.to_string()
}

fn remove(object: &mut Value, name: &str) {
    // A reference has no metadata.
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove(name);
    }
}
