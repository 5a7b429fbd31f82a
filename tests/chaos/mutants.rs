//! What the checks are worth: each breach of a promise, made by hand, is found and named, and what is tolerated is not.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::json;

use super::checks::{Holding, Present, Truth};
use super::event::{Event, content_of};
use super::history::{History, Life, State};
use super::promises;

const KEY: &str = "myapps/default/one";
const CALM: &str = "myapps/default/calm";

fn content(value: u64) -> String {
    content_of(&json!({"metadata": {"name": "one"}, "spec": {"value": value}}))
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// An event whose content is its version's, made at the second of its version.
fn event(key: &str, uid: &str, version: u128, what: &str) -> Event {
    // A deletion has the state before it.
    let content = content(version as u64 - u64::from(what == "deleted"));
    let id = if what == "deleted" { format!("{uid}-deleted") } else { format!("{uid}-{version}-{what}") };
    let sequence = format!("1-{version:020}");
    let (key, uid, what, made) = (key.to_owned(), uid.to_owned(), what.to_owned(), at(version as i64));
    Event {
        key,
        id,
        uid,
        version,
        what,
        sequence,
        inferred: false,
        whole: true,
        made,
        essence: content.clone(),
        content,
    }
}

/// One object that was changed, deleted, and made again; and one that nobody touched.
fn truth() -> Truth {
    let state = |uid: &str, version: u64| State { uid: uid.to_owned(), content: Some(content(version)) };
    let deletion = State { uid: "a".to_owned(), content: None };
    let one = [(10, state("a", 10)), (11, state("a", 11)), (12, state("a", 12)), (13, deletion), (14, state("b", 14))];
    let life = Life::from([(KEY.to_owned(), one.into()), (CALM.to_owned(), [(5, state("c", 5))].into())]);
    let present = |uid: &str, version: u64| Present {
        uid: uid.to_owned(),
        version: version.into(),
        content: content(version),
        selected: true,
    };
    Truth {
        present: BTreeMap::from([(KEY.to_owned(), present("b", 14)), (CALM.to_owned(), present("c", 5))]),
        untouched: BTreeSet::from([CALM.to_owned()]),
        history: History::of(vec![life]),
        deaths: Vec::new(),
    }
}

fn events() -> Vec<Event> {
    vec![
        event(CALM, "c", 5, "observed"),
        event(KEY, "a", 10, "created"),
        event(KEY, "a", 11, "updated"),
        event(KEY, "a", 12, "updated"),
        event(KEY, "a", 13, "deleted"),
        event(KEY, "b", 14, "created"),
    ]
}

fn found(in_process: bool, events: Vec<Event>, truth: &Truth) -> Vec<String> {
    promises::all(&[Holding { sink: "sink", in_process, selected: false, events }], truth)
}

/// Fails unless exactly these promises are named.
fn breaks(expected: &[&str], change: impl FnOnce(&mut Vec<Event>)) {
    let mut events = events();
    change(&mut events);
    let found = found(true, events, &truth());
    let named: BTreeSet<&str> = found.iter().filter_map(|text| text.split(": ").nth(1)).collect();
    assert_eq!(named, expected.iter().copied().collect(), "{found:#?}");
}

#[test]
fn a_sink_that_was_told_everything_breaks_nothing() {
    breaks(&[], |_| {});
    // Merged states are no loss.
    breaks(&[], |events| drop(events.drain(2..4)));
    // Nor is a deletion that was inferred, at the version that was told last.
    breaks(&[], |events| {
        let deletion = &mut events[4];
        (deletion.version, deletion.inferred) = (12, true);
        deletion.sequence = format!("1-{:020}d", 12);
    });
}

#[test]
fn what_is_lost_is_found() {
    breaks(&["P1"], |events| drop(events.remove(0)));
    breaks(&["P1"], |events| drop(events.pop()));
    breaks(&["P1", "P4"], |events| events[5].content = content(15));
}

#[test]
fn a_step_back_is_found() {
    // Sent in the wrong order, and so arrived.
    breaks(&["P2"], |events| {
        events.swap(2, 3);
        (events[2].made, events[3].made) = (at(11), at(12));
    });
    // Arrived in the wrong order in a file, which nobody else writes to.
    breaks(&["P2"], |events| events.swap(2, 3));
}

#[test]
fn what_was_given_up_and_applied_late_is_tolerated_where_there_is_another_side() {
    let mut late = events();
    late.swap(2, 3);
    assert!(found(false, late.clone(), &truth()).is_empty());
    // Between the two attempts the process has died.
    let died = Truth { deaths: vec!["1970-01-01T00:00:11.5Z".parse().unwrap()], ..truth() };
    assert!(found(true, late, &died).is_empty());
    let mut repeated = events();
    repeated.insert(4, events()[2].clone());
    assert!(found(true, repeated, &truth()).is_empty());
}

#[test]
fn a_deletion_that_is_not_told_is_found() {
    breaks(&["P2", "P3"], |events| drop(events.remove(4)));
    breaks(&["P1", "P3"], |events| {
        events.push(event(KEY, "b", 14, "deleted"));
        events[6].inferred = true;
        events[6].sequence.push('d');
    });
}

#[test]
fn ids_that_are_not_what_they_stand_for_are_found() {
    breaks(&["P4"], |events| events[3].id = events[2].id.clone());
    breaks(&["P4"], |events| {
        let mut again = events[3].clone();
        again.id.push('x');
        again.essence.push('x');
        events.insert(4, again);
    });
    // An incarnation that was told as updated is not created once more, and one that never was is not updated.
    breaks(&["P4"], |events| events[3].what = "created".to_owned());
    breaks(&["P4"], |events| drop(events.remove(1)));
}

#[test]
fn events_without_a_change_are_found() {
    breaks(&["P6"], |events| {
        let essence = events[2].essence.clone();
        events[3].essence = essence;
    });
}
