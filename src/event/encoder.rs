//! A route's recipe for events: which attributes, which payload, which identity. It has no say in whether one is sent.

use std::borrow::Cow;
use std::hash::Hasher;
use std::ops::Range;

use bytes::Bytes;
use jiff::Timestamp;
use siphasher::sip::SipHasher24;

use super::Event;
use super::path::{Path, PathSet};
use super::spans::{SpanError, kept_spans, member_span};
use crate::model::{Cause, Key, Object, Origin, PayloadMode, Sequence, Uid, What};

/// What all events of a route have in common.
#[derive(Clone, Debug)]
pub struct RouteAttributes {
    /// The cluster's name.
    pub cluster: String,
    /// The API group; empty for the core group.
    pub group: String,
    /// The plural, as in the API path.
    pub resource: String,
    /// The first part of each event's `type`.
    pub type_prefix: String,
}

/// One thing to tell, as the engine publishes it.
#[derive(Clone, Debug)]
pub struct Occurrence<'a> {
    /// What happened.
    pub what: What,
    /// `group/version`, for deletions of which no object is at hand.
    pub api_version: &'a str,
    /// The kind, for the same.
    pub kind: &'a str,
    /// The object's key.
    pub key: &'a Key,
    /// The incarnation.
    pub uid: &'a Uid,
    /// The state's place in the order; of what was inferred that of the newest state that was told or attempted.
    pub sequence: Sequence,
    /// How often the cluster's counter had stepped back before.
    pub rewinds: u32,
    /// Why it is told.
    pub cause: Cause,
    /// The object; absent where no watch showed that it is gone, since no body is invented, and where it has left the
    /// route's selection, since what is outside of that is nobody's to see.
    pub object: Option<&'a Object>,
    /// Whether no watch showed that it is gone or has left.
    pub inferred: bool,
    /// Whether it sorts after the state that its sequence names, as a deletion that no watch showed: before a successor.
    pub sorts_after: bool,
    /// How the change came to be known.
    pub origin: Origin,
    /// How many earlier changes the event covers.
    pub coalesced: u32,
    /// When the change was seen.
    pub seen: Timestamp,
    /// When the event is made.
    pub recorded: Timestamp,
}

/// Makes a route's events.
pub struct Encoder {
    route: RouteAttributes,
    source: String,
    mode: PayloadMode,
    omitted: PathSet,
    recipe: String,
    // What the change fingerprint leaves out: the omitted parts, and what alters with every write.
    unchanging: PathSet,
    fingerprint_key: [u8; 16],
}

impl Encoder {
    /// A route's encoder. `fingerprint_key` is the store's.
    pub fn new(route: RouteAttributes, mode: PayloadMode, omitted: Vec<Path>, fingerprint_key: [u8; 16]) -> Self {
        let group = if route.group.is_empty() { "core" } else { &route.group };
        let source = format!("/clusters/{}/apis/{group}/{}", route.cluster, route.resource);
        let mut paths: Vec<String> = omitted.iter().map(|path| format!("{path:?}")).collect();
        paths.sort();
        let recipe = format!("any without {}", paths.join(" "));
        let omitted = PathSet::from_iter(omitted);
        let mut unchanging = omitted.clone();
        for path in ["metadata.resourceVersion", "metadata.generation", "metadata.managedFields"] {
            unchanging.insert(&path.parse().expect("these are paths"));
        }
        Self { route, source, mode, omitted, recipe, unchanging, fingerprint_key }
    }

    /// How change fingerprints are made, as text: those of another recipe say nothing.
    pub fn recipe(&self) -> &str {
        &self.recipe
    }

    /// The fingerprint by which two states of an object are the same to this route (`changes: any`): over the object
    /// without what is omitted and without resourceVersion, generation and managedFields.
    ///
    /// # Errors
    /// When the bytes are not an object's.
    pub fn change_fingerprint(&self, object: &Object) -> Result<u64, SpanError> {
        Ok(self.fingerprint(&object.bytes, &kept_spans(&object.bytes, &self.unchanging)?))
    }

    /// The event of this occurrence.
    ///
    /// # Errors
    /// When the object's bytes are not an object's: what is to be omitted cannot be found, so nothing is sent.
    pub fn encode(&self, occurrence: &Occurrence<'_>) -> Result<Event, SpanError> {
        let spans = match occurrence.object {
            Some(object) => kept_spans(&object.bytes, &self.omitted)?,
            None => Vec::new(),
        };
        let data = match (occurrence.object, self.mode) {
            (Some(object), PayloadMode::Object) => splice(&object.bytes, &spans),
            (Some(object), PayloadMode::Metadata) => self.metadata(occurrence, &splice(&object.bytes, &spans))?,
            (_, PayloadMode::Reference) | (None, _) => self.reference(occurrence),
        };
        let id = self.id(occurrence, &spans);
        let mode = if occurrence.object.is_some() { self.mode } else { PayloadMode::Reference };
        Ok(self.event(occurrence, id, mode, data))
    }

    fn id(&self, occurrence: &Occurrence<'_>, spans: &[Range<usize>]) -> String {
        let (uid, version) = (occurrence.uid, occurrence.sequence.resource_version());
        let mut id = match (occurrence.what, occurrence.object) {
            // A deletion that was seen and one that was inferred are the same event.
            (What::Deleted, _) => format!("{uid}-deleted"),
            (what, None) => format!("{uid}-{version}-{}", what.as_str()),
            (what, Some(object)) => {
                // Over the object as sent whatever the payload mode, so that all sinks have one id for one change.
                let fingerprint = self.fingerprint(&object.bytes, spans);
                format!("{uid}-{version}-{}-{fingerprint:016x}", what.as_str())
            }
        };
        // Another life of the cluster, another selection, another resync: another event, though the object is the same.
        if occurrence.rewinds > 0 {
            id.push_str(&format!("-e{}", occurrence.rewinds));
        }
        match occurrence.cause {
            Cause::Change => {}
            Cause::Selection(revision) => id.push_str(&format!("-s{revision}")),
            Cause::Resync(number) => id.push_str(&format!("-r{number}")),
        }
        id
    }

    fn fingerprint(&self, text: &[u8], spans: &[Range<usize>]) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&self.fingerprint_key);
        spans.iter().for_each(|span| hasher.write(&text[span.clone()]));
        hasher.finish()
    }

    fn metadata(&self, occurrence: &Occurrence<'_>, kept: &Bytes) -> Result<Bytes, SpanError> {
        let metadata = member_span(kept, "metadata")?.ok_or(SpanError(0))?;
        let (api_version, kind) = api_version_and_kind(occurrence);
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let head = format!("{{\"apiVersion\":{},\"kind\":{},\"metadata\":", quoted(api_version), quoted(kind));
        Ok([head.as_bytes(), &kept[metadata], b"}"].concat().into())
    }

    fn reference(&self, occurrence: &Occurrence<'_>) -> Bytes {
        let (api_version, kind) = api_version_and_kind(occurrence);
        let mut reference = serde_json::Map::new();
        let mut put = |name: &str, value: &str| reference.insert(name.to_owned(), value.into());
        put("apiVersion", api_version);
        put("kind", kind);
        if let Some(namespace) = occurrence.key.namespace() {
            put("namespace", namespace);
        }
        put("name", occurrence.key.name());
        put("uid", &occurrence.uid.to_string());
        put("resourceVersion", &occurrence.sequence.resource_version().to_string());
        serde_json::Value::from(reference).to_string().into()
    }

    fn event(&self, occurrence: &Occurrence<'_>, id: String, mode: PayloadMode, data: Bytes) -> Event {
        let (route, key) = (&self.route, occurrence.key);
        let group = if route.group.is_empty() { "core" } else { &route.group };
        let (api_version, kind) = api_version_and_kind(occurrence);
        let time = change_time(occurrence);
        let recorded = occurrence.recorded.max(time);
        let mut attributes = Vec::with_capacity(26);
        let mut put = |name: &'static str, value: String| attributes.push((Cow::Borrowed(name), value));
        put("specversion", "1.0".to_owned());
        put("id", id);
        put("source", self.source.clone());
        put("type", format!("{}.{}", route.type_prefix, occurrence.what.as_str()));
        put("subject", key.as_str().to_owned());
        put("time", time.to_string());
        put("recordedtime", recorded.to_string());
        put("dataschema", format!("urn:crier:payload:{}:v1", mode.as_str()));
        put("partitionkey", format!("{}/{group}/{}/{key}", route.cluster, route.resource));
        let suffix = if occurrence.sorts_after { "d" } else { "" };
        // A width is a minimum: versions of more than 20 digits exceed every counter there is.
        let (epoch, version) = (occurrence.sequence.epoch(), occurrence.sequence.resource_version());
        put("sequence", format!("{:010}-{:020}{suffix}", epoch.get(), version.get()));
        put("cluster", route.cluster.clone());
        put("apigroup", group.to_owned());
        put("apiversion", api_version.to_owned());
        put("kind", kind.to_owned());
        if let Some(namespace) = key.namespace() {
            put("namespace", namespace.to_owned());
        }
        put("name", key.name().to_owned());
        put("uid", occurrence.uid.to_string());
        put("resourceversion", version.to_string());
        if let Some(generation) = occurrence.object.and_then(|object| object.metadata.generation) {
            put("generation", generation.to_string());
        }
        put("origin", occurrence.origin.as_str().to_owned());
        if occurrence.inferred {
            put("inferred", "true".to_owned());
        }
        if occurrence.coalesced > 0 {
            put("coalesced", occurrence.coalesced.to_string());
        }
        if let Some(manager) = occurrence.object.and_then(|object| object.metadata.field_manager.as_ref()) {
            put("fieldmanager", manager.clone());
        }
        Event { attributes, data: Some(data), recorded }
    }
}

fn api_version_and_kind<'a>(occurrence: &Occurrence<'a>) -> (&'a str, &'a str) {
    match occurrence.object {
        Some(object) => (&object.metadata.api_version, &object.metadata.kind),
        None => (occurrence.api_version, occurrence.kind),
    }
}

fn splice(text: &Bytes, spans: &[Range<usize>]) -> Bytes {
    match spans {
        // Nothing is left out: the bytes pass through.
        [whole] if whole.len() == text.len() => text.clone(),
        spans => {
            let mut spliced = Vec::with_capacity(spans.iter().map(Range::len).sum());
            spans.iter().for_each(|span| spliced.extend_from_slice(&text[span.clone()]));
            spliced.into()
        }
    }
}

/// When the change was made, as far as the object tells. Of a deletion without a deletionTimestamp it tells nothing: the
/// last write was before it.
fn change_time(occurrence: &Occurrence<'_>) -> Timestamp {
    let Some(object) = occurrence.object else { return occurrence.seen };
    let metadata = &object.metadata;
    let written = metadata.last_write.as_ref().or(metadata.creation_timestamp.as_ref());
    let known = match (&metadata.deletion_timestamp, occurrence.what) {
        (Some(deletion), What::Deleting | What::Deleted) => Some(deletion),
        (None, What::Deleted) => None,
        _ => written,
    };
    known.and_then(|text| text.parse().ok()).unwrap_or(occurrence.seen)
}
