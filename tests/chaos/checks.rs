//! What the checks are about: what is true, what a sink holds, and what three kinds of consumers make of it. Which
//! promise is broken by a difference is said in `promises`.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::event::Event;
use super::history::History;

/// An object that the cluster holds.
#[derive(Clone, Debug)]
pub(crate) struct Present {
    pub(crate) uid: String,
    pub(crate) version: u128,
    pub(crate) content: String,
    /// Whether the selected route reads it.
    pub(crate) selected: bool,
}

/// What is true when all is over.
pub(crate) struct Truth {
    pub(crate) present: BTreeMap<String, Present>,
    /// Keys of objects that nobody has written to since before crier's first start.
    pub(crate) untouched: BTreeSet<String>,
    pub(crate) history: History,
    /// When crier's process ended.
    pub(crate) deaths: Vec<Timestamp>,
}

impl Truth {
    pub(crate) fn died_between(&self, earlier: Timestamp, later: Timestamp) -> bool {
        self.deaths.iter().any(|death| earlier <= *death && *death <= later)
    }
}

/// What a sink holds, in its order: of Kafka each partition's.
pub(crate) struct Holding {
    pub(crate) sink: &'static str,
    /// Whether a delivery is given up only when the process ends: a file is written by the process itself, and Kafka's
    /// client keeps what it was given until it is answered.
    pub(crate) in_process: bool,
    /// Whether each delivery is answered at once: nothing is under way but in the moment in which the process ends.
    pub(crate) prompt: bool,
    /// Whether the route has a selector, so that objects leave and enter it.
    pub(crate) selected: bool,
    pub(crate) events: Vec<Event>,
}

/// How an event that is below an earlier one in its key came to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fall {
    /// The sink had it before: at least once is more than once.
    Repeat,
    /// It was made before what had arrived already: crier sent it first and had no answer, and the other side applied it
    /// late.
    Late,
    /// crier has sent it after a later state.
    Broken,
}

/// The events of one key, in the order of arrival.
pub(crate) struct Lane<'a> {
    pub(crate) key: &'a str,
    pub(crate) events: Vec<&'a Event>,
}

impl Holding {
    pub(crate) fn lanes(&self) -> Vec<Lane<'_>> {
        let mut lanes: BTreeMap<&str, Vec<&Event>> = BTreeMap::new();
        for event in &self.events {
            lanes.entry(&event.key).or_default().push(event);
        }
        lanes.into_iter().map(|(key, events)| Lane { key, events }).collect()
    }

    /// How many rewinds crier had noticed of the kind of this key, as far as it has told anything since.
    pub(crate) fn noticed(&self, key: &str) -> usize {
        let kind = |key: &str| key.split('/').next().unwrap_or_default().to_owned();
        let events = self.events.iter().filter(|event| kind(&event.key) == kind(key));
        events.filter_map(Event::rewinds).max().unwrap_or_default() as usize
    }

    /// Whether an answer may have been lost between these two: the first may be told again, or as if it never was.
    pub(crate) fn may_doubt(&self, earlier: &Event, later: &Event, truth: &Truth) -> bool {
        !self.prompt || truth.died_between(earlier.made, later.made)
    }

    /// How many events the sink had before, by their ids.
    pub(crate) fn repeats(&self) -> usize {
        let ids: BTreeSet<&str> = self.events.iter().map(|event| &*event.id).collect();
        self.events.len() - ids.len()
    }
}

impl<'a> Lane<'a> {
    /// What a consumer holds that believes whatever came last.
    pub(crate) fn by_arrival(&self) -> &'a Event {
        self.events.last().expect("a lane has events")
    }

    /// What a consumer holds that drops what is below the highest sequence.
    pub(crate) fn by_sequence(&self) -> &'a Event {
        self.events
            .iter()
            .copied()
            .reduce(|held, next| if next.sequence >= held.sequence { next } else { held })
            .expect("a lane has events")
    }

    /// What a consumer holds that drops ids which it has seen, and believes the rest.
    pub(crate) fn by_id(&self) -> &'a Event {
        let mut seen = BTreeSet::new();
        self.events.iter().copied().filter(|event| seen.insert(&*event.id)).last().expect("a lane has events")
    }

    /// Each event that is below an earlier one, with the highest before it, and how that came to be.
    pub(crate) fn falls(&self, holding: &Holding, truth: &Truth) -> Vec<(&'a Event, &'a Event, Fall)> {
        let (mut falls, mut ids) = (Vec::new(), BTreeSet::new());
        let mut highest: Option<&Event> = None;
        for event in self.events.iter().copied() {
            match highest {
                Some(highest) if event.sequence < highest.sequence => {
                    let given_up = !holding.in_process || truth.died_between(event.made, highest.made);
                    let fall = if ids.contains(&*event.id) {
                        Fall::Repeat
                    } else if event.made < highest.made && given_up {
                        Fall::Late
                    } else {
                        Fall::Broken
                    };
                    falls.push((highest, event, fall));
                }
                // Of what is repeated, the first arrival counts.
                Some(highest) if event.sequence == highest.sequence => {}
                _ => highest = Some(event),
            }
            ids.insert(&*event.id);
        }
        falls
    }

    /// Whether the last arrival was overtaken on its way: it was made before what is above it.
    pub(crate) fn ends_late(&self, last: &Event) -> bool {
        let highest = self.by_sequence();
        last.sequence < highest.sequence && last.made < highest.made
    }

    /// The last events, for people.
    pub(crate) fn tail(&self) -> String {
        let from = self.events.len().saturating_sub(12);
        let lines: Vec<String> = self.events[from..].iter().map(|event| format!("      {}", event.line())).collect();
        lines.join("\n")
    }
}
