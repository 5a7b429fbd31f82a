//! Events as the checks look at them, whatever sink they come from. No judgement is in here.

use jiff::Timestamp;
use serde_json::Value;

use super::support::what;

/// What a reference has.
const REFERENCE: [&str; 6] = ["apiVersion", "kind", "namespace", "name", "uid", "resourceVersion"];

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
    /// Whether it shows anything of the object, not only a reference to it.
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
            whole: event["data"].as_object().is_none_or(|data| data.keys().any(|name| !REFERENCE.contains(&&**name))),
            content: content_of(&event["data"]),
            essence: content_of(&essence),
        }
    }

    pub(crate) fn is_deletion(&self) -> bool {
        self.what == "deleted"
    }

    pub(crate) fn has_left(&self) -> bool {
        self.what == "left"
    }

    /// Whether a consumer holds nothing of the object after it.
    pub(crate) fn is_gone(&self) -> bool {
        self.is_deletion() || self.has_left()
    }

    /// Whether it tells of an object of which the sink was not told before, or not any more.
    pub(crate) fn is_first(&self) -> bool {
        matches!(&*self.what, "created" | "observed" | "entered")
    }

    /// How many rewinds its id tells of; `None` if the id is not made as the documents say.
    pub(crate) fn rewinds(&self) -> Option<u32> {
        let Self { id, uid, version, what, .. } = self;
        let rest = id.strip_prefix(&**uid)?.strip_prefix('-')?;
        let rest = match &**what {
            "deleted" => rest.strip_prefix("deleted")?,
            "left" => rest.strip_prefix(&*format!("{version}-left"))?,
            _ => {
                let (fingerprint, rest) = rest.strip_prefix(&*format!("{version}-{what}-"))?.split_at_checked(16)?;
                fingerprint.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(rest)?
            }
        };
        if rest.is_empty() {
            return Some(0);
        }
        rest.strip_prefix("-e")?.parse().ok().filter(|rewinds| *rewinds > 0)
    }

    /// Whether its sequence is made of an epoch and its version, and of a `d` where it has to be.
    pub(crate) fn is_in_order(&self) -> bool {
        let place = self.sequence.strip_suffix('d');
        let must = self.is_deletion() && self.inferred;
        let (epoch, version) = place.unwrap_or(&self.sequence).split_once('-').unwrap_or_default();
        (place.is_some() || !must) && epoch.len() == 10 && version == format!("{:020}", self.version)
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

/// Whether the route `chosen` selects an object with this content.
pub(crate) fn is_selected(content: &str) -> bool {
    let object: Value = serde_json::from_str(content).unwrap_or_default();
    object["metadata"]["labels"]["tier"] == "prod"
}

fn remove(object: &mut Value, name: &str) {
    // A reference has no metadata.
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove(name);
    }
}
