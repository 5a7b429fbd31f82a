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

fn sequence(epoch: u64, version: u128) -> String {
    format!("{epoch:010}-{version:020}")
}

/// An event whose content is its version's, made at the second of its version.
fn event(key: &str, uid: &str, version: u128, what: &str) -> Event {
    // A deletion has the state before it.
    let content = content(version as u64 - u64::from(what == "deleted"));
    let id = match what {
        "deleted" => format!("{uid}-deleted"),
        "left" => format!("{uid}-{version}-left"),
        _ => format!("{uid}-{version}-{what}-{version:016x}"),
    };
    let sequence = sequence(1, version);
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
    promises::all(&[Holding { sink: "sink", in_process, prompt: in_process, selected: false, events }], truth)
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
        (deletion.sequence, deletion.whole) = (sequence(1, 12) + "d", false);
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
    // It was never gone, either.
    breaks(&["P1", "P3", "P4"], |events| {
        events.push(event(KEY, "b", 14, "deleted"));
        (events[6].inferred, events[6].whole) = (true, false);
        events[6].sequence.push('d');
    });
}

#[test]
fn ids_that_are_not_what_they_stand_for_are_found() {
    breaks(&["P4"], |events| events[3].id = events[2].id.clone());
    breaks(&["P4"], |events| {
        let mut again = events[3].clone();
        again.id = again.id.replace("-000", "-fff");
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

/// What a selected route is told of an object that left, came in again, left, and was deleted: nothing more.
fn selected() -> (Vec<Event>, Truth) {
    let content = |version: u64| {
        let labels = if [11, 13].contains(&version) { json!({}) } else { json!({"tier": "prod"}) };
        content_of(&json!({"metadata": {"name": "one", "labels": labels}, "spec": {"value": version}}))
    };
    let told = |version: u128, what: &str| {
        let mut event = event(KEY, "a", version, what);
        event.whole = what != "left";
        event.content = if event.whole { content(version as u64) } else { "{}".to_owned() };
        event.essence = event.content.clone();
        event
    };
    let state = |version| (u128::from(version), State { uid: "a".to_owned(), content: Some(content(version)) });
    let states = BTreeMap::from([10, 11, 12, 13].map(state));
    let there = Present { uid: "a".to_owned(), version: 13, content: content(13), selected: false };
    let truth = Truth {
        present: BTreeMap::from([(KEY.to_owned(), there)]),
        untouched: BTreeSet::new(),
        history: History::of(vec![Life::from([(KEY.to_owned(), states)])]),
        deaths: Vec::new(),
    };
    (vec![told(10, "created"), told(11, "left"), told(12, "entered"), told(13, "left")], truth)
}

/// Fails unless exactly these promises are named of the selected route.
fn breaks_selected(expected: &[&str], change: impl FnOnce(&mut Vec<Event>, &mut Truth)) {
    let (mut events, mut truth) = selected();
    change(&mut events, &mut truth);
    let found =
        promises::all(&[Holding { sink: "sink", in_process: true, prompt: true, selected: true, events }], &truth);
    let named: BTreeSet<&str> = found.iter().filter_map(|text| text.split(": ").nth(1)).collect();
    assert_eq!(named, expected.iter().copied().collect(), "{found:#?}");
}

#[test]
fn what_leaves_and_enters_a_selection_breaks_nothing() {
    breaks_selected(&[], |_, _| {});
    // Deleted outside of the selection.
    breaks_selected(&[], |_, truth| {
        truth.present.clear();
        let deletion = State { uid: "a".to_owned(), content: None };
        truth.history.lives[0].get_mut(KEY).unwrap().insert(14, deletion);
    });
}

#[test]
fn what_is_wrong_about_a_selection_is_found() {
    // It has not left, but is told so; or has, and is not; or is not gone.
    breaks_selected(&["P1", "P3"], |events, _| drop(events.pop()));
    breaks_selected(&["P3", "P4"], |events, _| {
        (events[3].what, events[3].id, events[3].inferred) = ("deleted".to_owned(), "a-deleted".to_owned(), true);
        events[3].sequence.push('d');
    });
    breaks_selected(&["P4"], |events, _| {
        events.remove(1);
        (events[1].what, events[1].id) = ("left".to_owned(), "a-12-left".to_owned());
        (events[1].whole, events[1].content) = (false, "{}".to_owned());
        events.pop();
    });
    // What is outside is shown; what left is updated; what had not existed has entered; an id is of another form.
    breaks_selected(&["P4"], |events, _| events[3].whole = true);
    breaks_selected(&["P4"], |events, _| {
        (events[2].what, events[2].id) = ("updated".to_owned(), events[2].id.replace("entered", "updated"));
    });
    breaks_selected(&["P4"], |events, _| {
        (events[0].what, events[0].id) = ("entered".to_owned(), events[0].id.replace("created", "entered"));
    });
    breaks_selected(&["P4"], |events, _| events[3].id.push('x'));
    // It left once, and is told twice.
    breaks_selected(&["P4", "P6"], |events, _| drop(events.remove(2)));
}

#[test]
fn kinds_of_a_selection_are_found_where_there_is_none() {
    breaks(&["P4"], |events| {
        (events[5].what, events[5].id) = ("entered".to_owned(), events[5].id.replace("created", "entered"));
    });
}

#[test]
fn epochs_that_do_not_fit_the_ids_are_found() {
    let rewound = |epoch: u64, suffix: &'static str| {
        move |events: &mut Vec<Event>| {
            events[5].sequence = sequence(epoch, 14);
            events[5].id.push_str(suffix);
        }
    };
    breaks(&[], rewound(2, "-e1"));
    breaks(&["P4"], rewound(2, ""));
    breaks(&["P4"], rewound(1, "-e1"));
}
