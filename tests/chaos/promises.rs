//! The promises, held against what the sinks have. Each function finds what breaks one of them; none repairs or excuses
//! more than its comment says.

use std::collections::BTreeMap;

use super::checks::{Fall, Holding, Lane, Truth};
use super::event::{Event, is_selected};

/// Everything that breaks a promise.
pub(crate) fn all(holdings: &[Holding], truth: &Truth) -> Vec<String> {
    let mut broken = Vec::new();
    for holding in holdings {
        let mut found = nothing_is_lost(holding, truth);
        found.extend(order(holding, truth));
        found.extend(deletions_are_told(holding, truth));
        found.extend(kinds_of_events(holding, truth));
        found.extend(forms(holding));
        found.extend(states_are_real(holding, truth));
        found.extend(no_change_no_event(holding, truth));
        broken.extend(found.into_iter().map(|text| format!("{}: {text}", holding.sink)));
    }
    broken.extend(identity(holdings, truth));
    broken
}

/// P1: whoever believes the last arrival, the highest sequence, or ids not seen before, holds what the cluster holds. For
/// the first and the last of them, except where the very last arrival was overtaken on its way (see `order`); for the
/// last, except where a rewind went unnoticed, so that a new state has an id that was seen.
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
            let unnoticed = holding.noticed(key) < truth.history.rewinds() && lane.by_arrival().id != event.id;
            let difference = match expected(key) {
                _ if lane.ends_late(event) => continue,
                _ if consumer == "by ids" && unnoticed => continue,
                None if event.is_gone() => continue,
                None => "it is gone".to_owned(),
                // A write that changes nothing that is told moves the version, and is no event.
                Some(present) if !event.is_gone() && event.uid == present.uid && same(event, &present.content) => {
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
        for pair in ordered.windows(2).filter(|pair| pair[0].uid != pair[1].uid && !pair[0].is_gone()) {
            let (before, after) = (pair[0].line(), pair[1].line());
            broken.push(format!(
                "P2: {} has another incarnation\n      {after}\n    before the deletion of\n      {before}",
                lane.key
            ));
        }
    }
    broken
}

/// P3: of each incarnation that is told, the event of the highest sequence is `deleted` or `left` if and only if it is gone
/// or has left the selection; and what is still there has not been told as `deleted`. What has left may be deleted later
/// without a word. A cluster that was put back may hold, outside of the selection, what was told as `deleted`.
fn deletions_are_told(holding: &Holding, truth: &Truth) -> Vec<String> {
    let mut broken = Vec::new();
    for lane in holding.lanes() {
        let there = truth.present.get(lane.key);
        let present = there.filter(|present| !holding.selected || present.selected);
        let mut newest: BTreeMap<&str, &Event> = BTreeMap::new();
        for event in lane.events.iter().copied() {
            let held = newest.entry(&event.uid).or_insert(event);
            if event.sequence >= held.sequence {
                *held = event;
            }
        }
        for (uid, event) in newest {
            let gone = present.is_none_or(|present| present.uid != uid);
            let exists = there.is_some_and(|there| there.uid == uid) && !truth.history.was_revived(lane.key, uid);
            if gone != event.is_gone() || event.is_deletion() && exists {
                let state = match (gone, exists) {
                    (true, false) => "is gone",
                    (true, true) => "is there outside of the selection",
                    (false, _) => "is there",
                };
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

/// An incarnation is told first as created, observed, entered or deleted, and never again as the first three once it was told
/// as updated; by the order in which the events were made. After it has left it comes as new. What is not answered may be
/// told again, or as if it had never been: only then is `left` the first of all, twice in a row, or followed by `updated`,
/// and what was told as new told as new once more. After `deleted` nothing comes, unless the cluster was put back.
fn kinds_of_events(holding: &Holding, truth: &Truth) -> Vec<String> {
    let mut broken = Vec::new();
    for lane in holding.lanes() {
        let mut sent = lane.events.clone();
        sent.sort_by_key(|event| event.made);
        let mut last: BTreeMap<&str, &Event> = BTreeMap::new();
        for event in sent {
            let before = last.insert(&event.uid, event);
            let first = event.is_first();
            let wrong = match before {
                None if event.has_left() => holding.prompt && truth.deaths.iter().all(|death| *death > event.made),
                None => !first && !event.is_deletion(),
                // The cluster was put back: what is there again is told again.
                Some(before) if before.rewinds() != event.rewinds() => false,
                Some(before) if before.id == event.id => false,
                Some(before) if before.is_deletion() => !first || !truth.history.was_revived(lane.key, &event.uid),
                Some(before) if before.has_left() => {
                    !first && !event.is_deletion() && !holding.may_doubt(before, event, truth)
                }
                Some(before) => first && !(before.is_first() && holding.may_doubt(before, event, truth)),
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

/// Ids and sequences are made as the documents say; of one kind of objects, what a later epoch tells has ids that tell of
/// more rewinds. A deletion or a `left` that was inferred may bear an epoch from before.
fn forms(holding: &Holding) -> Vec<String> {
    let mut broken = Vec::new();
    let mut epochs: BTreeMap<(&str, &str), (u32, &Event)> = BTreeMap::new();
    for event in &holding.events {
        let Some(rewinds) = event.rewinds().filter(|_| event.is_in_order()) else {
            broken.push(format!("P4: {} has a form of its own: {}", event.key, event.line()));
            continue;
        };
        if !event.is_gone() {
            let kind = event.key.split('/').next().unwrap_or_default();
            let (known, first) = *epochs.entry((kind, event.epoch())).or_insert((rewinds, event));
            if known != rewinds {
                let (first, event) = (first.line(), event.line());
                broken.push(format!("P4: one epoch has two numbers\n      {first}\n      {event}"));
            }
        }
    }
    let epochs: Vec<_> = epochs.into_iter().collect();
    for pair in epochs.windows(2) {
        let [((kind, _), (earlier, one)), ((of, _), (later, other))] = pair else { continue };
        if kind == of && later <= earlier {
            let (one, other) = (one.line(), other.line());
            broken.push(format!("P4: a later epoch does not tell of more rewinds\n      {one}\n      {other}"));
        }
    }
    broken
}

/// Nothing is told that never was: each event has a state of etcd's history, with its incarnation and its content; what is
/// told as deleted was gone, what is told as left was outside of the selection, what is told as entered had existed.
fn states_are_real(holding: &Holding, truth: &Truth) -> Vec<String> {
    let mut broken = Vec::new();
    for event in &holding.events {
        let history = &truth.history;
        let found = history.at(&event.key, event.version).any(|state| {
            let shown = || state.content.as_ref() == Some(&event.content);
            let inside = || !holding.selected || is_selected(&event.content);
            let fits = match (&*event.what, event.inferred) {
                // No body is invented.
                ("deleted", true) => !event.whole && history.was_gone(&event.key, &event.uid),
                ("deleted", false) => {
                    // It may have left by this write, and be gone when crier looks.
                    let gone_since = holding.selected && state.is_outside();
                    (state.content.is_none() || gone_since && history.was_gone(&event.key, &event.uid))
                        && (!event.whole || history.was(event) && inside())
                }
                // What is outside of the selection is nobody's to see.
                ("left", true) => holding.selected && !event.whole && history.had_left_since(event),
                ("left", false) => holding.selected && !event.whole && state.is_outside(),
                ("entered", _) => shown() && inside() && history.had_existed(event, holding.selected),
                (_, _) => shown() && inside(),
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
/// thing. A deletion that was seen and one that was inferred are one event with one id, whatever their versions; so is one
/// that a selected route has seen, as the write that took the object out. A deletion's bytes do not survive a crash: it has
/// the last state, or a reference. Until a rewind is noticed one version may be two states, which are two events, and one
/// incarnation may be deleted twice under one id.
fn identity(holdings: &[Holding], truth: &Truth) -> Vec<String> {
    let mut broken = Vec::new();
    let mut contents: BTreeMap<&str, (&Event, &Holding)> = BTreeMap::new();
    let mut ids: BTreeMap<(Option<u32>, &str, u128, &str), &Event> = BTreeMap::new();
    for holding in holdings {
        let mut whats: BTreeMap<(Option<u32>, &str, u128), &Event> = BTreeMap::new();
        for event in &holding.events {
            let sink = holding.sink;
            let mut complain = |what: &str, known: &Event| {
                let (known, event) = (known.line(), event.line());
                broken.push(format!("{sink}: P4: {what}\n      {known}\n      {event}"));
            };
            let (known, of) = *contents.entry(&event.id).or_insert((event, holding));
            let alike = event.key == known.key && event.uid == known.uid && event.what == known.what;
            // Each route notices a rewind by itself, and begins an epoch of its own then.
            let one_route = of.selected == holding.selected;
            let place = event.version == known.version && (event.epoch() == known.epoch() || !one_route);
            let inferred = event.is_gone() && (event.inferred || known.inferred);
            let seen_otherwise = event.is_deletion() && !one_route;
            // A selected route has the last state that it selected.
            let bare = event.is_deletion() && (!event.whole || !known.whole) || seen_otherwise;
            let twice = event.is_deletion() && truth.history.was_revived(&event.key, &event.uid);
            let same = (place || inferred || seen_otherwise) && (event.content == known.content || bare);
            if !alike || !(same || twice) {
                complain("two events share an id", known);
            }
            let ambiguous = |known: &Event| {
                truth.history.is_ambiguous(event) && (event.content != known.content || event.is_gone())
            };
            let state = (event.rewinds(), &*event.uid, event.version, &*event.what);
            let known = *ids.entry(state).or_insert(event);
            if known.id != event.id && !ambiguous(known) {
                complain("one state has two ids", known);
            }
            if event.is_gone() && event.inferred {
                continue;
            }
            let known = *whats.entry((event.rewinds(), &event.uid, event.version)).or_insert(event);
            if known.what != event.what && !ambiguous(known) {
                complain("one state is told twice", known);
            }
        }
    }
    broken
}

/// P6: what nobody touches is told once (by its id); after a rewind once more if it was in doubt. And what is told after
/// another state of the same object differs from it, unless crier had died in between: what may have been told is told
/// again. Where deliveries are given up without that, this is not checked. That something has left is told once.
fn no_change_no_event(holding: &Holding, truth: &Truth) -> Vec<String> {
    let mut broken = Vec::new();
    for lane in holding.lanes() {
        let mut told: Vec<&Event> = Vec::new();
        for event in lane.events.iter().copied() {
            if told.iter().all(|known| known.id != event.id) {
                told.push(event);
            }
        }
        let needless =
            |pair: &[&Event]| pair[0].rewinds() == pair[1].rewinds() || !holding.may_doubt(pair[0], pair[1], truth);
        if truth.untouched.contains(lane.key) && told.windows(2).any(needless) {
            broken.push(format!("P6: nobody touched {}\n{}", lane.key, lane.tail()));
        }
        for pair in lane.events.windows(2).filter(|_| holding.in_process) {
            let (before, after) = (pair[0], pair[1]);
            let again = before.uid == after.uid && before.id != after.id;
            let same = !before.is_gone() && !after.is_gone() && before.essence == after.essence
                || before.has_left() && after.has_left();
            let same_life = before.rewinds() == after.rewinds();
            if again && same && same_life && !truth.died_between(before.made, after.made) {
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
