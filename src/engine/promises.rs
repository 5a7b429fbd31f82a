//! The engine's rules as scripts in virtual time: inputs go in, the actions that must come out are named.

use super::properties::object;
use super::script::{MS, Script, key, owed, place, resumed, told, version};
use super::*;
use crate::model::{KeyRecord, Uid, Verdict, What};

#[test]
fn nothing_is_attempted_before_the_store_knows_that_it_is_owed() {
    let mut script = Script::watching(0, 0);
    script.hold_saves = true;
    script.change(1, 11, 1);
    assert_eq!(script.publications(), []);
    let save = script.saves.last().unwrap().clone();
    assert_eq!(save.feed.position, Some(version(11)), "position and debt are in one transaction");
    assert!(save.records[0].2.owed.is_some());
    script.engine.handle_saved(script.now, false);
    assert_eq!(script.publications(), [], "a save that failed has stored nothing");
    script.pass(1_000);
    assert_eq!(script.publications(), []);
    script.engine.handle_saved(script.now, true);
    assert_eq!(script.told(), [(What::Created, 11)]);
}

#[test]
fn debounce_tells_the_last_state_once_it_is_quiet_and_counts_the_rest() {
    let mut script = Script::watching(100, 1_000);
    for at in 11..14 {
        script.change(1, at, at as u64);
        script.pass(60);
        assert_eq!(script.publications(), []);
    }
    script.pass(40);
    let publications = script.publications();
    assert_eq!(publications.len(), 1);
    assert_eq!((publications[0].sequence.resource_version(), publications[0].coalesced), (version(13), 2));
}

#[test]
fn a_busy_key_is_told_at_the_latest_after_the_maximum_wait() {
    let mut script = Script::watching(100, 300);
    let mut released = Vec::new();
    for at in 11..20 {
        script.change(1, at, at as u64);
        released.extend(script.told());
        script.pass(50);
    }
    assert_eq!(released, [(What::Created, 17)], "300 ms after the first change, with changes every 50 ms");
}

#[test]
fn a_deletion_does_not_wait_for_the_debounce() {
    let mut script = Script::watching(100, 1_000);
    script.change(1, 11, 1);
    script.pass(100);
    assert_eq!(script.told(), [(What::Created, 11)]);
    script.change(1, 12, 2);
    script.deletion(1, 13);
    assert_eq!(script.told(), [(What::Deleted, 13)]);
}

#[test]
fn one_delivery_a_key_is_in_flight_and_newer_states_merge_behind_it() {
    let mut script = Script::watching(0, 0);
    script.change(1, 11, 1);
    let first = script.publications();
    for at in 12..15 {
        script.change(1, at, at as u64);
        assert_eq!(script.publications(), []);
    }
    script.engine.handle_delivered(script.now, first[0].delivery, Verdict::Delivered);
    assert_eq!(script.told(), [(What::Updated, 14)]);
}

#[test]
fn a_deletion_of_one_uid_precedes_the_creation_of_the_next() {
    let mut script = Script::watching(0, 0);
    script.change(1, 11, 1);
    assert_eq!(script.told(), [(What::Created, 11)]);
    script.deletion(1, 12);
    script.change(2, 13, 1);
    assert_eq!(script.told(), [(What::Deleted, 12)]);
    assert_eq!(script.told(), [(What::Created, 13)]);
}

#[test]
fn no_change_of_the_chosen_part_is_no_event() {
    let mut script = Script::watching(0, 0);
    script.change(1, 11, 7);
    assert_eq!(script.told(), [(What::Created, 11)]);
    script.change(1, 12, 7);
    assert_eq!(script.publications(), []);
    assert_eq!(script.engine.route_status(0).counters.suppressed, 1);
}

#[test]
fn what_may_have_been_told_is_told_again_whatever_the_fingerprint() {
    let owed = owed(Uid::new("uid-1"), 15);
    let record = KeyRecord { told: Some(told(1, 12, 7)), owed: Some(owed), ..KeyRecord::default() };
    let mut script = Script::resuming(vec![(key(), record)]);
    assert_eq!(script.run(), [Action::Probe, Action::Fetch { key: key() }]);
    script.engine.handle_fetched(script.now, &key(), Fetched::Found(object("a", 1, 15, 7), vec![Some(7)]));
    assert_eq!(script.told(), [(What::Updated, 15)]);
}

#[test]
fn delete_missed_while_down_is_told_after_compaction() {
    let record = KeyRecord { told: Some(told(1, 12, 7)), ..KeyRecord::default() };
    let mut script = Script::resuming(vec![(key(), record)]);
    assert_eq!(script.run(), [Action::Probe]);
    script.engine.handle_probed(script.now, Ok(version(30)));
    assert_eq!(script.run(), [Action::Watch { from: version(20) }]);
    script.engine.handle_stream_ended(script.now, Some(FeedFailure::Expired));
    assert_eq!(script.probed(30), [Action::List { streaming: true, metadata_only: false }]);
    script.engine.handle_list_finished(script.now, version(30));
    let actions = script.run();
    let Action::Publish(publication) = &actions[1] else { panic!("{actions:?}") };
    assert_eq!(
        (publication.what, publication.inferred, publication.sequence.resource_version()),
        (What::Deleted, true, version(12))
    );
    assert_eq!(publication.object, None, "no body is invented");
}

#[test]
fn deletions_are_never_inferred_from_a_failed_list() {
    let record = KeyRecord { told: Some(told(1, 12, 7)), ..KeyRecord::default() };
    let state = resumed(true, vec![(key(), record)]);
    for failure in [
        FeedFailure::Expired,
        FeedFailure::Forbidden("list myapps".into()),
        FeedFailure::NotServed("404 page not found".into()),
        FeedFailure::Undecodable("cut".into()),
        FeedFailure::Other("500".into()),
    ] {
        let mut script = Script::with(Script::settings(0, 0), FeedRecord::default(), state.clone());
        assert_eq!(script.probed(12), [Action::List { streaming: true, metadata_only: false }]);
        script.engine.handle_list_failed(script.now, failure);
        assert_eq!(script.run(), []);
        assert_eq!(script.engine.route_status(0).told, 1);
    }
}

#[test]
fn a_missing_kind_parks_the_feed_and_is_looked_for_within_five_seconds() {
    let mut script = Script::with(Script::settings(0, 0), FeedRecord::default(), RouteState::default());
    for _ in 0..20 {
        let asked = script.now;
        assert_eq!(script.run_later(), [Action::List { streaming: true, metadata_only: false }]);
        assert!(script.now <= asked + MS(5_000));
        script.engine.handle_list_failed(script.now, FeedFailure::NotServed("404 page not found".into()));
        assert!(matches!(script.engine.feed_state(), FeedState::Parked(ParkCause::NotServed(_))));
    }
}

#[test]
fn a_watch_that_is_refused_is_no_watch() {
    let mut script = Script::watching(0, 0);
    assert_eq!(script.engine.feed_state(), FeedState::Probing, "it was only asked for");
    let refused = FeedFailure::Forbidden("cannot watch".into());
    script.engine.handle_stream_ended(script.now, Some(refused));
    assert_eq!(script.engine.feed_state(), FeedState::Parked(ParkCause::Forbidden("cannot watch".into())));
    script.pass(5_000);
    assert_eq!(script.run(), [Action::Probe]);
    script.engine.handle_probed(script.now, Ok(version(10)));
    assert_eq!(script.run(), [Action::Watch { from: version(10) }]);
    assert!(matches!(script.engine.feed_state(), FeedState::Parked(_)), "a probe proves nothing of the watch");
    script.engine.handle_watch_begun();
    assert_eq!(script.engine.feed_state(), FeedState::Watching);
}

#[test]
fn a_kind_that_comes_up_slowly_is_followed_soon_however_long_it_was_missing() {
    let mut script = Script::with(Script::settings(0, 0), FeedRecord::default(), RouteState::default());
    let fail = |script: &mut Script, failure| {
        assert_eq!(script.run_later(), [Action::List { streaming: true, metadata_only: false }]);
        script.engine.handle_list_failed(script.now, failure);
        assert_eq!(script.run(), []);
    };
    let missing = FeedState::Parked(ParkCause::NotServed("no such kind".into()));
    for _ in 0..20 {
        fail(&mut script, FeedFailure::NotServed("no such kind".into()));
        assert_eq!(script.engine.feed_state(), missing);
        script.now = script.engine.poll_deadline().unwrap();
        assert_eq!(script.engine.feed_state(), missing, "looking again is no news until it has found something");
    }
    // Its storage comes up: the API server asks to wait a second, once and again.
    let asked = script.now;
    for _ in 0..2 {
        let reason = "storage is (re)initializing".to_owned();
        fail(&mut script, FeedFailure::Throttled { reason, after: Some(MS(1_000)) });
    }
    assert_eq!(script.run_later(), [Action::List { streaming: true, metadata_only: false }]);
    assert!(script.now - asked <= MS(2_500), "{:?}", script.now - asked);
}

#[test]
fn an_unavailable_sink_is_asked_by_one_delivery_at_a_time() {
    let mut script = Script::watching(0, 0);
    for (at, name) in (11..).zip(["a", "b", "c"]) {
        script.change_of(name, 1, at, 1);
    }
    for publication in script.publications() {
        let after = Some(MS(20_000));
        let verdict = Verdict::Unavailable { reason: "503".into(), after };
        script.engine.handle_delivered(script.now, publication.delivery, verdict);
    }
    script.pass(19_999);
    assert_eq!(script.publications(), [], "Retry-After is obeyed");
    script.now = script.engine.poll_deadline().unwrap();
    assert_eq!(script.publications().len(), 1, "one probe, not a storm");
}

#[test]
fn deliveries_that_fail_together_are_one_failure_of_the_sink() {
    let mut script = Script::watching(0, 0);
    for number in 0..8 {
        script.change_of(&format!("app-{number}"), number, 11 + u128::from(number), 1);
    }
    let failed = script.publications();
    assert_eq!(failed.len(), 8);
    for publication in failed {
        let verdict = Verdict::Unavailable { reason: "refused".into(), after: None };
        script.engine.handle_delivered(script.now, publication.delivery, verdict);
    }
    script.pass(1_000);
    assert_eq!(script.told().len(), 1, "one delivery asks after a second whether the sink is back");
    assert_eq!(script.told().len(), 7, "and when it is, the others follow at once");
}

#[test]
fn a_refused_state_is_kept_and_the_next_one_is_tried_at_once() {
    let mut script = Script::watching(0, 0);
    script.change(1, 11, 1);
    let refused = script.publications();
    let verdict = Verdict::Reject { reason: "422".into() };
    script.engine.handle_delivered(script.now, refused[0].delivery, verdict);
    assert_eq!(script.publications(), []);
    assert_eq!(script.engine.route_status(0).owed, 1, "nothing is dropped");
    script.change(1, 12, 2);
    assert_eq!(script.told(), [(What::Created, 12)]);
}

#[test]
fn initial_none_takes_what_exists_into_the_view_without_events() {
    let settings = RouteSettings { initial: Initial::None, ..Script::settings(0, 0) };
    let mut script = Script::with(settings, FeedRecord::default(), RouteState::default());
    assert_eq!(script.run(), [Action::List { streaming: true, metadata_only: false }]);
    script.engine.handle_list_item(script.now, &object("a", 1, 9, 1), &[Some(1)]);
    script.engine.handle_list_finished(script.now, version(10));
    assert_eq!(script.run(), [Action::Probe]);
    script.engine.handle_probed(script.now, Ok(version(10)));
    assert_eq!(script.run(), [Action::Watch { from: version(10) }]);
    script.change(1, 11, 2);
    assert_eq!(script.told(), [(What::Updated, 11)]);
}

#[test]
fn a_drain_waits_for_what_is_in_flight_and_saves_its_verdict() {
    let mut script = Script::watching(0, 0);
    script.change(1, 11, 1);
    let sent = script.publications();
    script.engine.handle_drain();
    script.change(1, 12, 2);
    assert_eq!(script.publications(), []);
    assert!(!script.engine.is_drained());
    script.engine.handle_delivered(script.now, sent[0].delivery, Verdict::Delivered);
    script.pass(50);
    assert_eq!(script.publications(), []);
    assert!(script.engine.is_drained());
    let record = &script.saves.last().unwrap().records[0].2;
    assert_eq!(record.told.as_ref().unwrap().sequence, place(11));
}

#[test]
fn a_route_that_did_not_follow_up_to_the_position_compares_before_it_resumes() {
    let feed = FeedRecord { position: Some(version(20)), newest: Some(version(20)), ..FeedRecord::default() };
    let record = KeyRecord { told: Some(told(1, 15, 1)), ..KeyRecord::default() };
    let state = resumed(false, vec![(key(), record)]);
    let mut script = Script::with(Script::settings(0, 0), feed, state);
    assert_eq!(
        script.probed(20),
        [Action::List { streaming: true, metadata_only: false }],
        "it may have missed what was before the position"
    );
    script.pass(100);
    script.run();
    assert!(script.saves.iter().all(|save| save.followed.is_empty()), "nor may a save claim otherwise meanwhile");
    script.engine.handle_list_finished(script.now, version(30));
    assert_eq!(script.run().len(), 2, "the probe, and the deletion that it had missed");
    assert_eq!(script.saves.last().unwrap().followed, [0]);
}
