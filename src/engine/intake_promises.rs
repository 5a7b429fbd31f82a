//! What merged and repeated states come to: which event is made of them, and how they are counted. Scripts in virtual time.

use std::sync::Arc;

use super::properties::object;
use super::script::{Script, key, owed, told, version};
use super::*;
use crate::model::{Change, ChangeKind, KeyRecord, Object, Origin, Uid, Verdict, What};

fn seen(script: &mut Script, kind: ChangeKind, object: Object, selected: Option<u64>) {
    script.engine.handle_change(script.now, &Change { object, kind }, &[selected]);
}

fn modified(script: &mut Script, uid: u64, at: u128, selected: Option<u64>) {
    seen(script, ChangeKind::Modified, object("a", uid, at, at as u64), selected);
}

fn deleting(uid: u64, at: u128) -> Object {
    let mut object = object("a", uid, at, at as u64);
    Arc::make_mut(&mut object.metadata).deletion_timestamp = Some("2026-01-01T00:00:00Z".into());
    object
}

fn retry(script: &mut Script, publication: &Publication) {
    let verdict = Verdict::Retry { reason: "busy".into(), after: None };
    script.engine.handle_delivered(script.now, publication.delivery, verdict);
}

fn without_a_budget() -> Script {
    let settings = EngineSettings { bytes_at_most: 0, ..EngineSettings::default() };
    Script::watching_by(settings, Script::settings(0, 0))
}

fn fetched(script: &mut Script, uid: u64, at: u128, value: u64) {
    let found = Fetched::Found(object("a", uid, at, value), vec![Some(value)]);
    script.engine.handle_fetched(script.now, &key(), found);
}

#[test]
fn an_event_says_how_many_changes_it_covers_whatever_became_of_the_object() {
    for (gone, what) in [(false, What::Left), (true, What::Deleted)] {
        let mut script = Script::watching(100, 1_000);
        script.change(1, 11, 1);
        script.pass(100);
        assert_eq!(script.told(), [(What::Created, 11)]);
        script.change(1, 12, 2);
        script.change(1, 13, 3);
        if gone {
            script.deletion(1, 14);
        } else {
            modified(&mut script, 1, 14, None);
        }
        let event = script.publications().remove(0);
        assert_eq!((event.what, event.sequence.resource_version().get(), event.coalesced), (what, 14, 2));
        assert!(!event.inferred, "the watch has shown it");
        assert_eq!(script.engine.route_status(0).counters.coalesced, 2);
    }
}

#[test]
fn what_is_in_flight_is_no_part_of_the_event_behind_it() {
    for (gone, what) in [(None, What::Updated), (Some(false), What::Left), (Some(true), What::Deleted)] {
        let mut script = Script::watching(0, 0);
        script.change(1, 11, 1);
        let first = script.publications().remove(0);
        match gone {
            None => {
                script.change(1, 12, 2);
                script.change(1, 13, 3);
            }
            Some(false) => modified(&mut script, 1, 13, None),
            Some(true) => script.deletion(1, 13),
        }
        script.engine.handle_delivered(script.now, first.delivery, Verdict::Delivered);
        let second = script.publications().remove(0);
        let covered = u32::from(gone.is_none());
        assert_eq!((second.what, second.coalesced), (what, covered));
        assert_eq!(script.engine.route_status(0).counters.coalesced, u64::from(covered));
    }
}

#[test]
fn merged_states_are_told_as_what_the_first_of_them_was() {
    let mut script = Script::watching(100, 1_000);
    script.change(1, 11, 1);
    modified(&mut script, 1, 12, Some(2));
    script.pass(100);
    assert_eq!(script.told(), [(What::Created, 12)], "that it was changed meanwhile is no reason for another word");

    let mut script = Script::watching(0, 0);
    script.change(1, 11, 1);
    let first = script.publications().remove(0);
    modified(&mut script, 1, 12, Some(2));
    retry(&mut script, &first);
    assert!(matches!(&*script.run_later(), [Action::Publish(next)] if next.what == What::Created));
}

#[test]
fn the_next_object_of_a_name_is_not_told_as_what_the_first_was() {
    // The first one entered the selection, the next one is created in it.
    let mut script = Script::watching(0, 0);
    modified(&mut script, 1, 11, Some(1));
    let first = script.publications().remove(0);
    assert_eq!(first.what, What::Entered);
    script.deletion(1, 12);
    script.change(2, 13, 3);
    script.engine.handle_delivered(script.now, first.delivery, Verdict::Delivered);
    assert_eq!(script.told(), [(What::Deleted, 12)]);
    assert_eq!(script.told(), [(What::Created, 13)]);

    // The first one was there before crier was, the next one was not.
    for uid in [1, 2] {
        let settings = Script::settings(100, 1_000);
        let mut script = Script::with(settings, FeedRecord::default(), RouteState::default());
        script.run();
        script.engine.handle_list_item(script.now, &object("a", 1, 9, 1), &[Some(1)]);
        script.engine.handle_list_finished(script.now, version(10));
        script.run();
        script.engine.handle_probed(script.now, Ok(version(10)));
        script.run();
        script.change(uid, 11, 2);
        script.pass(100);
        let first = script.publications().remove(0);
        let expected = if uid == 1 { (What::Observed, Origin::Snapshot) } else { (What::Created, Origin::Watch) };
        assert_eq!((first.what, first.origin), expected, "uid {uid}");
    }
}

#[test]
fn a_deletion_that_was_seen_is_told_as_it_was_seen_however_much_follows_it() {
    for selected in [Some(1), None] {
        let mut script = Script::watching(0, 0);
        script.change(1, 11, 1);
        assert_eq!(script.told(), [(What::Created, 11)]);
        script.hold_saves = true;
        script.deletion(1, 12);
        modified(&mut script, 2, 13, selected);
        modified(&mut script, 2, 14, selected.map(|_| 2));
        script.run();
        script.engine.handle_saved(script.now, true);
        let deletion = script.publications().remove(0);
        let at = deletion.sequence.resource_version().get();
        assert_eq!((deletion.what, at, deletion.inferred), (What::Deleted, 12, false), "next one {selected:?}");
    }
}

#[test]
fn what_was_owed_of_an_object_whose_name_another_one_has_is_not_told_any_more() {
    for selected in [Some(1), None] {
        let mut script = Script::watching(100, 1_000);
        script.change(1, 11, 1);
        script.pass(100);
        assert_eq!(script.told(), [(What::Created, 11)]);
        script.change(1, 12, 2);
        modified(&mut script, 2, 13, selected);
        let deletion = script.publications().remove(0);
        assert_eq!((deletion.what, deletion.sequence.resource_version().get()), (What::Deleted, 11));
        assert!(deletion.inferred, "nobody has seen it");
        script.engine.handle_delivered(script.now, deletion.delivery, Verdict::Delivered);
        script.pass(100);
        let next = if selected.is_some() { vec![(What::Entered, 13)] } else { Vec::new() };
        assert_eq!(script.told(), next);
    }
}

#[test]
fn what_a_fetch_has_told_already_is_counted_when_the_watch_shows_it() {
    let owed = owed(Uid::new("uid-1"), 15);
    let record = KeyRecord { told: Some(told(1, 12, 7)), owed: Some(owed), ..KeyRecord::default() };
    let mut script = Script::resuming(vec![(key(), record)]);
    script.run();
    fetched(&mut script, 1, 30, 5);
    assert_eq!(script.told(), [(What::Updated, 30)]);
    script.engine.handle_probed(script.now, Ok(version(30)));
    script.run();
    modified(&mut script, 1, 22, Some(3));
    assert_eq!(script.engine.route_status(0).counters.repeats, 1);
    modified(&mut script, 1, 24, None);
    assert_eq!(script.engine.route_status(0).counters.repeats, 2);
    script.deletion(0, 26);
    assert_eq!(script.engine.route_status(0).counters.repeats, 3);
    assert_eq!(script.told(), []);
    assert_eq!(script.engine.route_status(0).owed, 0);
}

#[test]
fn a_key_that_changes_faster_than_it_can_be_fetched_is_told_in_its_older_state() {
    let mut script = without_a_budget();
    script.change(1, 11, 7);
    assert_eq!(script.run(), [Action::Fetch { key: key() }]);
    script.change(1, 12, 7);
    script.change(1, 13, 7);
    fetched(&mut script, 1, 12, 7);
    let first = script.publications().remove(0);
    assert_eq!((first.what, first.sequence.resource_version().get(), first.coalesced), (What::Created, 12, 0));
    assert_eq!(first.object.as_ref().map(|object| object.metadata.resource_version), Some(version(12)));
    script.engine.handle_delivered(script.now, first.delivery, Verdict::Delivered);
    assert_eq!(script.run(), [], "it is as it was told");
    assert_eq!(script.engine.route_status(0).counters.suppressed, 1);
    script.change(1, 14, 8);
    assert_eq!(script.run(), [Action::Fetch { key: key() }]);
    // What was told meanwhile, or is of another object, is no older state to tell.
    fetched(&mut script, 1, 13, 7);
    assert_eq!(script.told(), []);
    script.pass(1_000);
    assert_eq!(script.run(), [Action::Fetch { key: key() }]);
    fetched(&mut script, 0, 10, 7);
    assert_eq!(script.told(), []);
    assert_eq!(script.engine.route_status(0).owed, 1);
}

#[test]
fn that_an_object_is_being_deleted_does_not_wait_for_the_debounce_the_first_time() {
    let mut script = Script::watching(100, 1_000);
    script.change(1, 11, 1);
    script.pass(100);
    assert_eq!(script.told(), [(What::Created, 11)]);
    seen(&mut script, ChangeKind::Modified, deleting(1, 12), Some(12));
    assert_eq!(script.told(), [(What::Deleting, 12)]);
    seen(&mut script, ChangeKind::Modified, deleting(1, 13), Some(13));
    assert_eq!(script.told(), [], "it is known, and what changes now is a change like any other");
    script.pass(100);
    assert_eq!(script.told(), [(What::Updated, 13)]);
    // Of the next one of its name it is not known.
    seen(&mut script, ChangeKind::Modified, deleting(2, 14), Some(14));
    assert_eq!(script.told(), [(What::Deleted, 13)]);
    assert_eq!(script.told(), [(What::Entered, 14)]);
}

#[test]
fn under_a_selector_for_the_server_what_was_written_after_its_creation_has_entered() {
    let times = |created: &str, written: &str| (Some(created.to_owned()), Some(written.to_owned()));
    let (noon, later) = ("2026-01-01T12:00:00Z", "2026-01-01T12:00:01Z");
    let cases = [
        (true, None, times(noon, noon), What::Created),
        (true, Some(1), times(noon, noon), What::Created),
        (true, Some(2), times(noon, noon), What::Entered),
        (true, Some(1), times(noon, later), What::Entered),
        (true, None, (Some(noon.to_owned()), None), What::Created),
        (false, Some(2), times(noon, later), What::Created),
    ];
    for (selective, generation, (creation_timestamp, last_write), what) in cases {
        let settings = EngineSettings { selective, ..EngineSettings::default() };
        let mut script = Script::watching_by(settings, Script::settings(0, 0));
        let mut object = object("a", 1, 11, 1);
        let metadata = Arc::make_mut(&mut object.metadata);
        (metadata.generation, metadata.creation_timestamp, metadata.last_write) =
            (generation, creation_timestamp, last_write);
        seen(&mut script, ChangeKind::Added, object, Some(1));
        assert_eq!(script.told(), [(what, 11)], "generation {generation:?}");
    }
}

#[test]
fn the_older_state_of_a_busy_key_is_told_as_what_it_is() {
    let mut script = without_a_budget();
    script.change(1, 11, 7);
    assert_eq!(script.run(), [Action::Fetch { key: key() }]);
    fetched(&mut script, 1, 11, 7);
    assert_eq!(script.told(), [(What::Created, 11)]);
    // What it looks like itself is told, not what is owed behind it.
    script.change(1, 12, 8);
    assert_eq!(script.run(), [Action::Fetch { key: key() }]);
    script.change(1, 13, 9);
    let found = Fetched::Found(deleting(1, 12), vec![Some(8)]);
    script.engine.handle_fetched(script.now, &key(), found);
    assert_eq!(script.told_among_others(), [(What::Deleting, 12)]);
    assert_eq!(script.engine.route_status(0).owed, 1);
}
