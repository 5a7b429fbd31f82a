//! Sinks of the simulation, and what their consumers come to believe: by what arrived last, by the highest sequence, and
//! by ids that were not seen before. What they believe is compared with the cluster elsewhere.

use std::collections::{BTreeMap, BTreeSet};

use crier::event::Event;
use crier::model::{Key, Verdict};
use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::Value;

/// What a consumer holds of an object: its uid, its value and its label.
pub(crate) type Content = (String, u64, String);

/// How a sink behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mood {
    /// It takes everything.
    Well,
    /// It loses answers, refuses for now, is unavailable, and refuses for good.
    Moody,
    /// It takes nothing.
    Down,
}

/// A sink and all that was ever applied to it.
#[derive(Default)]
pub(crate) struct Sink {
    last: BTreeMap<Key, Option<Content>>,
    by_sequence: BTreeMap<Key, Option<Content>>,
    by_id: BTreeMap<Key, Option<Content>>,
    sequences: BTreeMap<Key, String>,
    // What each id stands for, and which id each state has.
    ids: BTreeMap<String, (String, Option<Content>)>,
    states: BTreeMap<String, String>,
    /// Deliveries that reached it, applied or not.
    pub(crate) asked: usize,
    /// Events that were applied, and those of them whose id had been seen.
    pub(crate) events: usize,
    pub(crate) repeats: usize,
    /// Promises that were broken on the way.
    pub(crate) violations: Vec<String>,
    /// Incarnations whose deletion was refused for good: until there are dead letters, that is all that becomes of it.
    pub(crate) refused: BTreeSet<String>,
    /// How often each kind of event was seen.
    pub(crate) kinds: BTreeMap<String, usize>,
}

impl Sink {
    /// What it makes of a delivery: whether it is applied, and what is answered in the end.
    pub(crate) fn decide(random: &mut StdRng, mood: Mood) -> (bool, Verdict) {
        let reason = || "the sink says so".to_owned();
        let retry = Verdict::Retry { reason: reason(), after: None };
        let unavailable = Verdict::Unavailable { reason: reason(), after: None };
        match (mood, random.random_range(0..20)) {
            (Mood::Well, _) | (Mood::Moody, 0..=9) => (true, Verdict::Delivered),
            (Mood::Moody, 10..=12) => (true, retry),
            (Mood::Moody, 13 | 14) => (false, retry),
            (Mood::Moody, 15) => (true, unavailable),
            (Mood::Moody, 16 | 17) | (Mood::Down, _) => (false, unavailable),
            (Mood::Moody, _) => (false, Verdict::Reject { reason: reason() }),
        }
    }

    /// An event arrives.
    pub(crate) fn apply(&mut self, key: &Key, event: &Event) {
        self.events += 1;
        let attribute = |name| event.attribute(name).unwrap_or_default();
        let kind = attribute("type").rsplit('.').next().unwrap_or_default();
        *self.kinds.entry(kind.to_owned()).or_default() += 1;
        let gone = matches!(kind, "deleted" | "left");
        let content = if gone { None } else { content(event) };
        let sequence = attribute("sequence").to_owned();
        let id = event.id().to_owned();
        let newest = self.sequences.entry(key.clone()).or_default();
        if sequence < *newest {
            self.violations.push(format!("P2: the sequence of {key} falls from {newest} to {sequence}: {id}"));
        }
        if sequence >= *newest {
            newest.clone_from(&sequence);
            self.by_sequence.insert(key.clone(), content.clone());
        }
        self.last.insert(key.clone(), content.clone());
        let means = (format!("{key} {kind}"), content.clone());
        match self.ids.get(&id) {
            Some(known) if *known == means => self.repeats += 1,
            Some(known) => self.violations.push(format!("P4: {id} stands for {known:?} and for {means:?}")),
            None => {
                self.ids.insert(id.clone(), means);
                self.by_id.insert(key.clone(), content);
            }
        }
        // One state of an incarnation has one id, but for the suffix that says why it is told once more. That it has left
        // and that it is gone may both be told, one after the other.
        if gone {
            return;
        }
        let suffix: String = id.split('-').skip(5).filter(|part| is_suffix(part)).collect::<Vec<_>>().join("-");
        let state = format!("{} {sequence} {suffix}", attribute("uid"));
        let known = self.states.entry(state).or_insert_with(|| id.clone());
        if *known != id {
            self.violations.push(format!("P4: one state is told as {known} and as {id}"));
        }
    }

    /// What each kind of consumer holds of this key.
    pub(crate) fn held(&self, key: &Key) -> [(&'static str, Option<&Content>); 3] {
        [
            ("arrival", self.last.get(key).and_then(Option::as_ref)),
            ("sequence", self.by_sequence.get(key).and_then(Option::as_ref)),
            ("id", self.by_id.get(key).and_then(Option::as_ref)),
        ]
    }

    /// All keys that were ever told.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &Key> {
        self.last.keys()
    }
}

/// `e1`, `s2`, `r3` at the end of an id.
fn is_suffix(part: &str) -> bool {
    let (head, digits) = part.split_at(part.len().min(1));
    ["e", "s", "r"].contains(&head)
        && !digits.is_empty()
        && digits.len() < 9
        && digits.bytes().all(|b| b.is_ascii_digit())
}

fn content(event: &Event) -> Option<Content> {
    let data: Value = serde_json::from_slice(event.data()?).ok()?;
    let label = data["metadata"]["labels"]["tier"].as_str().unwrap_or_default().to_owned();
    let value = data["spec"]["value"].as_u64()?;
    Some((data["metadata"]["uid"].as_str()?.to_owned(), value, label))
}
