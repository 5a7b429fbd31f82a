//! What a complete list means to a route beside what it shows: why it is told, what is counted, and what is not inferred.
//! Scripts in virtual time.

use super::properties::object;
use super::script::{MS, Script, key, owed, resumed, told, version};
use super::*;
use crate::model::{Cause, Epoch, KeyRecord, Origin, Owed, OwedState, Uid, Verdict, What};

const LIST: Action = Action::List { streaming: true, metadata_only: false };
const AUDIT: Action = Action::List { streaming: true, metadata_only: true };

/// The events among what is done now, each acknowledged.
fn events(script: &mut Script) -> Vec<Publication> {
    let mut events = Vec::new();
    for action in script.run() {
        if let Action::Publish(publication) = action {
            script.engine.handle_delivered(script.now, publication.delivery, Verdict::Delivered);
            events.push(publication);
        }
    }
    events
}

/// The history has been forgotten: a list is asked for.
fn list_again(script: &mut Script, at: u128) {
    script.engine.handle_stream_ended(script.now, Some(FeedFailure::Expired));
    assert_eq!(script.probed(at), [LIST]);
}

fn finish(script: &mut Script, at: u128) -> Vec<Publication> {
    script.engine.handle_list_finished(script.now, version(at));
    let events = events(script);
    script.engine.handle_probed(script.now, Ok(version(at)));
    script.run();
    script.engine.handle_watch_begun();
    events
}

#[test]
fn an_event_says_how_its_change_came_to_be_known() {
    let mut script = Script::with(Script::settings(0, 0), FeedRecord::default(), RouteState::default());
    assert_eq!(script.run(), [LIST]);
    script.engine.handle_list_item(script.now, &object("a", 1, 9, 1), &[Some(1)]);
    let first = finish(&mut script, 10).remove(0);
    assert_eq!((first.what, first.origin, first.cause), (What::Observed, Origin::Snapshot, Cause::Change));

    list_again(&mut script, 20);
    script.engine.handle_list_item(script.now, &object("a", 1, 15, 2), &[Some(2)]);
    let changed = finish(&mut script, 20).remove(0);
    assert_eq!((changed.what, changed.origin, changed.cause), (What::Updated, Origin::Relist, Cause::Change));

    script.engine.handle_resync(0);
    assert_eq!(script.probed(20), [LIST]);
    script.engine.handle_list_item(script.now, &object("a", 1, 15, 2), &[Some(2)]);
    let again = finish(&mut script, 20).remove(0);
    assert_eq!((again.what, again.origin, again.cause), (What::Observed, Origin::Resync, Cause::Resync(1)));

    list_again(&mut script, 30);
    let gone = finish(&mut script, 30).remove(0);
    assert_eq!((gone.what, gone.origin, gone.cause), (What::Deleted, Origin::Relist, Cause::Change));
    assert!(gone.inferred && gone.sorts_after, "it sorts after the state whose version it has");
    assert_eq!(script.engine.route_status(0).counters.comparisons, 4);
}

#[test]
fn an_audit_says_so_and_counts_what_is_gone_but_not_what_is_on_its_way() {
    let record = KeyRecord { told: Some(told(1, 12, 7)), ..KeyRecord::default() };
    let mut script = Script::resuming(vec![(key(), record)]);
    assert_eq!(script.probed(20), [Action::Watch { from: version(20) }]);
    script.engine.handle_watch_begun();
    script.engine.handle_audit_wanted(script.now);
    assert_eq!(script.probed(25), [AUDIT]);
    // It came into being after the position, which the watch would have told of.
    script.engine.handle_list_item(script.now, &object("b", 2, 24, 1), &[Some(0)]);
    script.engine.handle_list_finished(script.now, version(25));
    let audit = script.engine.last_audit().unwrap();
    assert_eq!((audit.objects, audit.drift), (1, 1));
    assert_eq!((&audit.differences[0].key, audit.differences[0].owes), (&key(), OwedState::Gone));
    let gone = events(&mut script).remove(0);
    assert_eq!((gone.what, gone.origin), (What::Deleted, Origin::Audit));
}

#[test]
fn a_list_that_is_older_than_what_was_given_is_of_another_life_of_the_cluster() {
    let record = KeyRecord { told: Some(told(1, 12, 7)), ..KeyRecord::default() };
    let settings = EngineSettings { began: 1_700_000_000, ..EngineSettings::default() };
    let feed = FeedRecord { newest: Some(version(20)), ..FeedRecord::default() };
    let state = resumed(false, vec![(key(), record)]);
    let engine = Engine::new(settings, feed, vec![(Script::settings(0, 0), state)], MS(0));
    let mut script = Script { engine, now: MS(5_000), saves: Vec::new(), hold_saves: false };
    assert_eq!(script.probed(20), [LIST]);
    script.engine.handle_list_finished(script.now, version(19));
    assert_eq!(events(&mut script), [], "nothing is inferred from it");
    assert_eq!((script.engine.rewinds(), script.engine.feed_state()), (1, FeedState::Listing));
    let epoch = script.saves.last().unwrap().feed.epoch;
    assert_eq!(epoch, Epoch::new(1_700_000_005), "an epoch is named by the second in which it began");
}

#[test]
fn after_a_silent_start_what_is_gone_is_told_like_anything_else() {
    let settings = RouteSettings { initial: Initial::None, ..Script::settings(0, 0) };
    let mut script = Script::with(settings, FeedRecord::default(), RouteState::default());
    script.run();
    script.engine.handle_list_item(script.now, &object("a", 1, 9, 1), &[Some(1)]);
    assert_eq!(finish(&mut script, 10), []);
    list_again(&mut script, 20);
    assert_eq!(finish(&mut script, 20).remove(0).what, What::Deleted);
}

#[test]
fn a_silent_start_that_is_begun_again_owes_nothing_of_the_first_try() {
    let settings = RouteSettings { initial: Initial::None, ..Script::settings(0, 0) };
    let record = KeyRecord { owed: Some(owed(Uid::new("uid-1"), 9)), ..KeyRecord::default() };
    let other = (Key::new("default", "b"), record.clone());
    let state = RouteState {
        record: Some(RouteRecord::default()),
        elsewhere: None,
        newest_elsewhere: None,
        followed: false,
        records: vec![(key(), record), other],
    };
    let mut script = Script::with(settings, FeedRecord::default(), state);
    assert!(script.run().contains(&Action::Probe));
    script.engine.handle_probed(script.now, Ok(version(9)));
    assert!(script.run().contains(&LIST));
    script.engine.handle_list_item(script.now, &object("a", 1, 9, 1), &[Some(1)]);
    assert_eq!(finish(&mut script, 10), []);
    script.pass(100);
    assert_eq!(script.run(), []);
    let status = script.engine.route_status(0);
    assert_eq!((status.told, status.owed), (1, 0));
}

#[test]
fn what_was_missing_where_the_feed_looks_no_more_has_left() {
    let missing = Owed { state: OwedState::Missing, ..owed(Uid::new("uid-1"), 16) };
    let record = KeyRecord { told: Some(told(1, 12, 1)), owed: Some(missing), ..KeyRecord::default() };
    let settings = EngineSettings { selective: true, scope: Some("elsewhere".into()), ..EngineSettings::default() };
    let state = resumed(false, vec![(key(), record)]);
    let engine = Engine::new(settings, FeedRecord::default(), vec![(Script::settings(0, 0), state)], MS(0));
    let mut script = Script { engine, now: MS(0), saves: Vec::new(), hold_saves: false };
    assert_eq!(script.probed(20), [LIST], "nobody is asked about it: the feed reads another namespace");
    assert_eq!(finish(&mut script, 30).remove(0).what, What::Left);
    assert_eq!(script.engine.route_status(0).told, 0);
}

#[test]
fn an_edit_gives_ids_of_their_own_to_its_finds_and_to_nothing_after_them() {
    let mut script = Script::watching(0, 0);
    for revision in 1..=2 {
        script.engine.handle_selection_edited(0, format!("edit-{revision}"));
        assert_eq!(script.probed(20), [LIST]);
        let selected = if revision == 1 { Some(1) } else { None };
        script.engine.handle_list_item(script.now, &object("a", 1, 9, 1), &[selected]);
        assert_eq!(finish(&mut script, 20).remove(0).cause, Cause::Selection(revision));
    }
    list_again(&mut script, 30);
    script.engine.handle_list_item(script.now, &object("b", 2, 25, 1), &[Some(1)]);
    let next = finish(&mut script, 30).remove(0);
    assert_eq!((next.what, next.cause), (What::Created, Cause::Change));
}

#[test]
fn what_was_fetched_of_a_kind_that_is_gone_now_does_not_come_back() {
    let record = KeyRecord { owed: Some(owed(Uid::new("uid-1"), 15)), ..KeyRecord::default() };
    let mut script = Script::resuming(vec![(key(), record)]);
    assert_eq!(script.run(), [Action::Probe, Action::Fetch { key: key() }]);
    script.engine.handle_fetched(script.now, &key(), Fetched::Found(object("a", 1, 30, 5), vec![Some(5)]));
    assert_eq!(events(&mut script).remove(0).what, What::Created);
    script.engine.handle_probed(script.now, Err(FeedFailure::KindGone("not served".into())));
    assert_eq!(events(&mut script).remove(0).what, What::Deleted);
    script.pass(100);
    script.run();
    assert_eq!(script.probed_later(35), [LIST]);
    script.engine.handle_list_item(script.now, &object("a", 1, 30, 5), &[Some(5)]);
    assert_eq!(script.engine.rewinds(), 1, "only a backup that was put back brings it");
}

#[test]
fn names_that_come_and_go_leave_nothing_behind() {
    let mut script = Script::watching(0, 0);
    for number in 0..100_u64 {
        let at = 11 + u128::from(number) * 2;
        let name = format!("app-{number}");
        script.change_of(&name, number, at, 1);
        events(&mut script);
        let gone =
            crate::model::Change { object: object(&name, number, at + 1, 0), kind: crate::model::ChangeKind::Deleted };
        script.engine.handle_change(script.now, &gone, &[Some(0)]);
        events(&mut script);
        for _ in 0..2 {
            script.pass(60);
            events(&mut script);
        }
    }
    assert!(script.engine.keys.len() < 4, "{} numbers were given", script.engine.keys.len());
    assert_eq!(script.engine.keys.numbers().count(), 0);
}

#[test]
fn an_audit_names_a_thousand_differences_and_counts_all() {
    let record = |number: u64| (Key::new("default", &format!("app-{number}")), told(number, 12, 7));
    let records = (0..1_001).map(record);
    let records = records.map(|(key, told)| (key, KeyRecord { told: Some(told), ..KeyRecord::default() })).collect();
    let mut script = Script::resuming(records);
    assert_eq!(script.probed(20), [Action::Watch { from: version(20) }]);
    script.engine.handle_watch_begun();
    script.engine.handle_audit_wanted(script.now);
    assert_eq!(script.probed(20), [AUDIT]);
    script.engine.handle_list_finished(script.now, version(20));
    let audit = script.engine.last_audit().unwrap();
    assert_eq!((audit.drift, audit.differences.len()), (1_001, 1_000));
}

#[test]
fn a_deletion_that_a_resync_finds_is_told_as_any_other() {
    let mut script = Script::with(Script::settings(0, 0), FeedRecord::default(), RouteState::default());
    assert_eq!(script.run(), [LIST]);
    script.engine.handle_list_item(script.now, &object("a", 1, 9, 1), &[Some(1)]);
    finish(&mut script, 10);
    script.engine.handle_resync(0);
    assert_eq!(script.probed(20), [LIST]);
    let gone = finish(&mut script, 20).remove(0);
    assert_eq!((gone.what, gone.cause), (What::Deleted, Cause::Change), "a resync tells again what is there");
}

#[test]
fn a_resync_does_not_step_back_behind_what_a_fetch_has_brought() {
    let record =
        KeyRecord { told: Some(told(1, 12, 7)), owed: Some(owed(Uid::new("uid-1"), 15)), ..KeyRecord::default() };
    let mut script = Script::resuming(vec![(key(), record)]);
    assert_eq!(script.run(), [Action::Probe, Action::Fetch { key: key() }]);
    script.engine.handle_probed(script.now, Ok(version(20)));
    script.run();
    script.engine.handle_watch_begun();
    script.engine.handle_resync(0);
    assert_eq!(script.probed(20), [LIST]);
    script.engine.handle_fetched(script.now, &key(), Fetched::Found(object("a", 1, 40, 9), vec![Some(9)]));
    assert_eq!(script.told_among_others(), [(What::Updated, 40)]);
    script.engine.handle_list_item(script.now, &object("a", 1, 25, 8), &[Some(8)]);
    script.engine.handle_list_finished(script.now, version(30));
    assert_eq!(script.told_among_others(), [], "what is newer than the list is told already");
}
