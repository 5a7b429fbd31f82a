//! CustomResourceDefinitions: what their writes do to the kinds that they define.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::kind::{Kind, Version};
use super::objects::{Preconditions, Removal};
use super::refusal::Refusal;
use super::server::ApiServer;
use super::state::State;
use super::store::{DEFINITIONS, KindId};
use super::text::timestamp;
use super::watch::Ending;

const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

impl ApiServer {
    /// Checks a definition, and adds what the server does: defaults, and the status that its controllers write some
    /// moments later and this server at once.
    pub(super) fn complete_definition(&self, name: &str, value: &mut Value) -> Result<(), Refusal> {
        let spec = &mut value["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let full = format!("{}.{}", text(&spec["names"]["plural"]), text(&spec["group"]));
        if name != full {
            let message = format!("Invalid value: \"{name}\": must be spec.names.plural+\".\"+spec.group");
            let cause = ("FieldValueInvalid", message.as_str());
            return Err(Refusal::invalid(&self.store.kinds[DEFINITIONS], name, "metadata.name", cause, false));
        }
        let kind = text(&spec["names"]["kind"]);
        for (member, default) in [("listKind", format!("{kind}List")), ("singular", kind.to_lowercase())] {
            if spec["names"][member].is_null() {
                spec["names"][member] = default.into();
            }
        }
        if spec["conversion"].is_null() {
            spec["conversion"] = json!({"strategy": "None"});
        }
        let names = spec["names"].clone();
        let versions = spec["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
        let stored = versions.iter().find(|version| version["storage"] == true).map(|version| version["name"].clone());
        if value["status"].is_null() {
            let at = value["metadata"]["creationTimestamp"].clone();
            let condition = |of: &str, reason: &str, message: &str| {
                json!({"lastTransitionTime": at, "message": message, "observedGeneration": 1, "reason": reason,
                       "status": "True", "type": of})
            };
            value["status"] = json!({"acceptedNames": names, "storedVersions": [], "conditions": [
                condition("NamesAccepted", "NoConflicts", "no conflicts found"),
                condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
            ]});
        }
        if let (Some(stored), Some(known)) = (stored, value["status"]["storedVersions"].as_array_mut())
            && !known.contains(&stored)
        {
            known.push(stored);
        }
        Ok(())
    }

    /// A new definition's kind is served at once.
    pub(super) fn add_kind(&mut self, definition: &State) {
        self.store.kinds.push(read_kind(&definition.value["spec"]));
    }

    /// Any change of a spec ends the watches of all its versions, and the watch cache forgets.
    pub(super) fn change_kind(&mut self, old: &State, new: &State) {
        let Some(id) = self.kind_of(&new.value) else { return };
        if old.value["spec"] == new.value["spec"] {
            return;
        }
        let kind = &mut self.store.kinds[id];
        kind.versions = read_kind(&new.value["spec"]).versions;
        kind.cache = None;
        self.end_streams(id, Ending::Clean);
    }

    /// The definition waits until the last of its objects is gone.
    pub(super) fn delete_definition(&mut self, now: Duration, old: &Arc<State>) -> Removal {
        let id = self.kind_of(&old.value);
        if old.value["metadata"].get("deletionTimestamp").is_some() {
            return Removal::Held(Arc::clone(old));
        }
        let mut value = old.value.clone();
        value["metadata"]["deletionTimestamp"] = timestamp(now).into();
        value["metadata"]["finalizers"] = json!([FINALIZER]);
        let marked = self.put(now, DEFINITIONS, &old.key, value);
        let Some(id) = id else { return Removal::Held(marked) };
        self.store.kinds[id].terminating = true;
        let objects: Vec<_> = self.store.kinds[id].objects.values().map(Arc::clone).collect();
        for object in objects {
            // Without preconditions nothing is refused.
            let _ = self.delete_object(now, id, &object, &Preconditions::default());
        }
        self.finish_kind(now, id);
        Removal::Held(marked)
    }

    /// Takes a kind away whose definition is being deleted and whose last object is gone.
    pub(super) fn finish_kind(&mut self, now: Duration, id: KindId) {
        let kind = &mut self.store.kinds[id];
        if !kind.terminating || kind.removed || !kind.objects.is_empty() {
            return;
        }
        kind.removed = true;
        let name = kind.full_name();
        self.end_streams(id, Ending::Clean);
        self.remove(now, DEFINITIONS, &name);
    }

    fn kind_of(&self, definition: &Value) -> Option<KindId> {
        let spec = &definition["spec"];
        self.store.find(spec["group"].as_str()?, spec["names"]["plural"].as_str()?)
    }
}

fn read_kind(spec: &Value) -> Kind {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let names = &spec["names"];
    let namespaced = spec["scope"] == "Namespaced";
    let mut kind = Kind::new(&text(&spec["group"]), &text(&names["plural"]), &text(&names["kind"]), namespaced);
    kind.singular = text(&names["singular"]);
    kind.list_kind = text(&names["listKind"]);
    kind.custom = true;
    let versions = spec["versions"].as_array().into_iter().flatten();
    kind.versions = versions.map(read_version).collect();
    kind
}

fn read_version(version: &Value) -> Version {
    let selectable = version["selectableFields"].as_array().into_iter().flatten();
    let path = |field: &Value| Some(field["jsonPath"].as_str()?.trim_start_matches('.').to_owned());
    Version {
        name: version["name"].as_str().unwrap_or_default().to_owned(),
        served: version["served"] == true,
        storage: version["storage"] == true,
        status: version["subresources"]["status"].is_object(),
        selectable: selectable.filter_map(path).collect(),
    }
}
