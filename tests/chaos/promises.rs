//! The promises, held against what the sinks have. Each function finds what breaks one of them; none repairs or excuses
//! more than its comment says.

use std::collections::{BTreeMap, BTreeSet};

use super::checks::{Fall, Holding, Lane, Truth};
use super::event::Event;

/// Everything that breaks a promise.
pub(crate) fn all(holdings: &[Holding], truth: &Truth) -> Vec<String> {
    let mut broken = Vec::new();
    for holding in holdings {
        let mut found = nothing_is_lost(holding, truth);
        found.extend(order(holding, truth));
        found.extend(deletions_are_told(holding, truth));
        found.extend(kinds_of_events(holding));
        found.extend(states_are_real(holding, truth));
        found.extend(no_change_no_event(holding, truth));
        broken.extend(found.into_iter().map(|text| format!("{}: {text}", holding.sink)));
    }
    broken.extend(identity(holdings));
    broken
}

/// P1: whoever believes the last arrival, the highest sequence, or ids not seen before, holds what the cluster holds. For
/// the first and the last of them, except where the very last arrival was overtaken on its way (see `order`).
fn nothing_is_lost(holding: &Holding, truth: &Truth) -> Vec<String> {
    let lanes: BTreeMap<&str, Lane<'_>> = holding.lanes().into_iter().map(|lane| (lane.key, lane)).collect();
    let expected = |key: &str| truth.present.get(key).filter(|present| !holding.selected || present.selected);
    let read = |key: &str| holding.sink != "chosen" || key.starts_with("myapps/");
    let mut broken = Vec::new();
    for key in truth.present.keys().filter(|key| read(key)) {
        if expected(key).is_some() && !lanes.contains_key(&**key) {
            broken.push(format!("P1: {key} was never told"));
        }
    }
    for (key, lane) in &lanes {
        let consumers =
            [("by arrival", lane.by_arrival()), ("by sequence", lane.by_sequence()), ("by ids", lane.by_id())];
        for (consumer, event) in consumers {
            let difference = match expected(key) {
                _ if lane.ends_late(event) => continue,
                None if event.is_deletion() => continue,
                None => "it is gone".to_owned(),
                // A write that changes nothing that is told moves the version, and is no event.
                Some(present) if !event.is_deletion() && event.uid == present.uid && same(event, &present.content) => {
                    continue;
                }
                Some(present) => {
                    format!("the cluster has {} of {}: {}", present.version, present.uid, cut(&present.content))
                }
            };
            let told = format!("{} with {}", event.line(), cut(&event.content));
            broken.push(format!("P1: {key} ends {consumer} as {told}, but {difference}\n{}", lane.tail()));
        }
    }
    broken
}

/// Whether an event says of an object what the cluster does; the generation alone is no change.
fn same(event: &Event, content: &str) -> bool {
    let strip = |text: &str| {
        let mut object: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
        object["metadata"].as_object_mut().map(|metadata| metadata.remove("generation"));
        object
    };
    event.content == content || strip(&event.content) == strip(content)
}

/// P2, as it is sent: in the order in which crier made them (each attempt has its `recordedtime`) the sequences of a key
/// never fall, without exception, and one incarnation is deleted before the next one is told.
///
/// P2, as it arrives: a fall is tolerated where the sink had that very id before (at least once), and where the event was
/// made before the one that it falls below. At most one delivery of a key is under way, so crier had then given it up
/// unanswered, by a kill or a deadline, and the other side has applied it late: that is what the promise's parenthesis
/// names. A file has no other side, and Kafka's client gives up nothing: there crier must have died in between.
fn order(holding: &Holding, truth: &Truth) -> Vec<String> {
    let mut broken = Vec::new();
    for lane in holding.lanes() {
        let mut sent = lane.events.clone();
        sent.sort_by_key(|event| event.made);
        for pair in sent.windows(2).filter(|pair| pair[1].sequence < pair[0].sequence) {
            let (before, after) = (pair[0].line(), pair[1].line());
            broken.push(format!("P2: {} is sent as\n      {after}\n    after\n      {before}", lane.key));
        }
        for (highest, event, _) in lane.falls(holding, truth).into_iter().filter(|(_, _, fall)| *fall == Fall::Broken) {
            let (highest, event) = (highest.line(), event.line());
            broken.push(format!("P2: {} falls to\n      {event}\n    below\n      {highest}", lane.key));
        }
        let mut ordered = lane.events.clone();
        ordered.sort_by(|one, other| one.sequence.cmp(&other.sequence));
        for pair in ordered.windows(2).filter(|pair| pair[0].uid != pair[1].uid && !pair[0].is_deletion()) {
            let (before, after) = (pair[0].line(), pair[1].line());
            broken.push(format!(
                "P2: {} has another incarnation\n      {after}\n    before the deletion of\n      {before}",
                lane.key
            ));
        }
    }
    broken
}

/// P3: of each incarnation that is told, the event of the highest sequence is `deleted` if and only if it is gone, or has
/// left the selection.
fn deletions_are_told(holding: &Holding, truth: &Truth) -> Vec<String> {
    let mut broken = Vec::new();
    for lane in holding.lanes() {
        let present = truth.present.get(lane.key).filter(|present| !holding.selected || present.selected);
        let mut newest: BTreeMap<&str, &Event> = BTreeMap::new();
        for event in lane.events.iter().copied() {
            let held = newest.entry(&event.uid).or_insert(event);
            if event.sequence >= held.sequence {
                *held = event;
            }
        }
        for (uid, event) in newest {
            let gone = present.is_none_or(|present| present.uid != uid);
            if gone != event.is_deletion() {
                let state = if gone { "is gone" } else { "is there" };
                let last = event.line();
                broken.push(format!(
                    "P3: {} of {uid} {state}, and is told last as\n      {last}\n{}",
                    lane.key,
                    lane.tail()
                ));
            }
        }
    }
    broken
}

/// An incarnation is told first as created, observed or deleted, and never again as created once it was told as updated;
/// by the order in which the events were made. With a selector it may come again, when its deletion was told.
fn kinds_of_events(holding: &Holding) -> Vec<String> {
    let mut broken = Vec::new();
    for lane in holding.lanes() {
        let mut sent = lane.events.clone();
        sent.sort_by_key(|event| event.made);
        let mut last: BTreeMap<&str, &Event> = BTreeMap::new();
        for event in sent {
            let before = last.insert(&event.uid, event);
            let first = matches!(&*event.what, "created" | "observed");
            let wrong = match before {
                // The cluster was put back: what is there again is told again.
                Some(before) if before.epoch() != event.epoch() => false,
                None => !first && !event.is_deletion(),
                Some(before) if before.is_deletion() => !(event.is_deletion() || holding.selected && first),
                Some(before) => first && matches!(&*before.what, "updated" | "deleting"),
            };
            if wrong {
                let before = before.map_or_else(|| "nothing".to_owned(), Event::line);
                let text = event.line();
                broken.push(format!("P4: {} is told as\n      {text}\n    after\n      {before}", lane.key));
            }
        }
    }
    broken
}

/// Nothing is told that never was: each event has a state of etcd's history, with its incarnation and its content.
fn states_are_real(holding: &Holding, truth: &Truth) -> Vec<String> {
    let mut broken = Vec::new();
    for event in &holding.events {
        let found = truth.history.at(&event.key, event.version).any(|state| {
            let content = state.content.as_ref();
            // What leaves a selection is told as deleted at the version of the write that took it out.
            let fits = match (event.is_deletion(), event.inferred || holding.selected) {
                (true, false) => content.is_none() && (!event.whole || truth.history.was(event)),
                (true, true) => true,
                (false, _) => content == Some(&event.content),
            };
            state.uid == event.uid && fits
        });
        if !found {
            let states: Vec<_> = truth.history.at(&event.key, event.version).collect();
            let states = format!("{states:?}");
            let (told, states) = (cut(&event.content), cut(&states));
            broken.push(format!("P4: {} is told as {} with {told}, but etcd had {states}", event.key, event.line()));
        }
    }
    broken
}

/// P4, over all sinks: one id is one content; one state told as one thing is one id; in one sink one state is told as one
/// thing. A deletion that was seen and one that was inferred are one event with one id, whatever their versions; under a
/// selector each has its own. A deletion's bytes do not survive a crash: it has the last state, or a reference.
fn identity(holdings: &[Holding]) -> Vec<String> {
    let mut broken = Vec::new();
    let mut contents: BTreeMap<&str, &Event> = BTreeMap::new();
    let mut ids: BTreeMap<(&str, &str, u128, &str), &Event> = BTreeMap::new();
    for holding in holdings {
        let mut whats: BTreeMap<(&str, &str, u128), &Event> = BTreeMap::new();
        for event in &holding.events {
            let sink = holding.sink;
            let known = *contents.entry(&event.id).or_insert(event);
            let alike = event.key == known.key && event.uid == known.uid && event.what == known.what;
            let place = event.version == known.version && event.epoch() == known.epoch();
            let inferred = event.is_deletion() && (event.inferred || known.inferred);
            let bare = event.is_deletion() && (!event.whole || !known.whole);
            if !alike || !(place || inferred) || !(event.content == known.content || bare) {
                broken.push(format!(
                    "{sink}: P4: two events share an id\n      {}\n      {}",
                    known.line(),
                    event.line()
                ));
            }
            if event.is_deletion() && (holding.selected || event.inferred) {
                continue;
            }
            let state = (event.epoch(), &*event.uid, event.version, &*event.what);
            let known = *ids.entry(state).or_insert(event);
            if known.id != event.id {
                broken.push(format!(
                    "{sink}: P4: one state has two ids\n      {}\n      {}",
                    known.line(),
                    event.line()
                ));
            }
            let known = *whats.entry((event.epoch(), &event.uid, event.version)).or_insert(event);
            if known.what != event.what {
                broken.push(format!(
                    "{sink}: P4: one state is told twice\n      {}\n      {}",
                    known.line(),
                    event.line()
                ));
            }
        }
    }
    broken
}

/// P6: what nobody touches is told once (by its id). And what is told after another state of the same object differs from
/// it, unless crier had died in between: what may have been told is told again. Where deliveries are given up without
/// that, this is not checked.
fn no_change_no_event(holding: &Holding, truth: &Truth) -> Vec<String> {
    let mut broken = Vec::new();
    for lane in holding.lanes() {
        let ids: BTreeSet<&str> = lane.events.iter().map(|event| &*event.id).collect();
        if truth.untouched.contains(lane.key) && ids.len() != 1 {
            broken.push(format!("P6: nobody touched {}\n{}", lane.key, lane.tail()));
        }
        for pair in lane.events.windows(2).filter(|_| holding.in_process) {
            let (before, after) = (pair[0], pair[1]);
            let again =
                before.uid == after.uid && before.id != after.id && !before.is_deletion() && !after.is_deletion();
            let same_life = before.epoch() == after.epoch();
            if again && same_life && before.essence == after.essence && !truth.died_between(before.made, after.made) {
                let (before, after) = (before.line(), after.line());
                broken.push(format!(
                    "P6: {} is told without a change as\n      {after}\n    after\n      {before}",
                    lane.key
                ));
            }
        }
    }
    broken
}

fn cut(text: &str) -> &str {
    text.char_indices().nth(600).map_or(text, |(at, _)| &text[..at])
}
