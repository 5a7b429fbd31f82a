//! The engine's rules as scripts in virtual time: inputs go in, the actions that must come out are named.

use std::time::Duration;

use super::properties::object;
use super::*;
use crate::model::{Change, FeedRecord, Verdict};

pub(super) const MS: fn(u64) -> Duration = Duration::from_millis;

pub(super) fn version(number: u128) -> ResourceVersion {
    ResourceVersion::new(number).unwrap()
}

/// An engine of one route whose saves are confirmed at once, unless a script holds them back.
pub(super) struct Script {
    pub(super) engine: Engine,
    pub(super) now: Now,
    pub(super) saves: Vec<Save>,
    pub(super) hold_saves: bool,
}

impl Script {
    pub(super) fn settings(quiet: u64, max_wait: u64) -> RouteSettings {
        RouteSettings { quiet: MS(quiet), max_wait: MS(max_wait), initial: Initial::Observed, max_in_flight: 8 }
    }

    pub(super) fn with(settings: RouteSettings, feed: FeedRecord, state: RouteState) -> Self {
        let engine = Engine::new(EngineSettings::default(), feed, vec![(settings, state)], Duration::ZERO);
        Self { engine, now: Duration::ZERO, saves: Vec::new(), hold_saves: false }
    }

    /// A route that has listed an empty collection at version 10 and watches.
    pub(super) fn watching(quiet: u64, max_wait: u64) -> Self {
        Self::watching_with(Self::settings(quiet, max_wait))
    }

    pub(super) fn watching_with(settings: RouteSettings) -> Self {
        Self::watching_by(EngineSettings::default(), settings)
    }

    pub(super) fn watching_by(engine: EngineSettings, settings: RouteSettings) -> Self {
        let routes = vec![(settings, RouteState::default())];
        let engine = Engine::new(engine, FeedRecord::default(), routes, Duration::ZERO);
        let mut script = Self { engine, now: Duration::ZERO, saves: Vec::new(), hold_saves: false };
        assert_eq!(script.run(), [Action::List { streaming: true }]);
        script.engine.handle_list_finished(script.now, version(10));
        assert_eq!(script.run(), [Action::Probe]);
        script.engine.handle_probed(script.now, Ok(version(10)));
        assert_eq!(script.run(), [Action::Watch { from: version(10) }]);
        script
    }

    /// A route that resumes at version 20 with these records.
    pub(super) fn resuming(records: Vec<(Key, KeyRecord)>) -> Self {
        let feed = FeedRecord { position: Some(version(20)), newest: Some(version(20)), served: None };
        Self::with(Self::settings(0, 0), feed, RouteState { synced: true, followed: true, records })
    }

    /// All actions but saves, which are confirmed (or held) and kept.
    pub(super) fn run(&mut self) -> Vec<Action> {
        let mut actions = Vec::new();
        while let Some(action) = self.engine.poll_action(self.now) {
            match action {
                Action::Save(save) => {
                    self.saves.push(save);
                    if !self.hold_saves {
                        self.engine.handle_saved(self.now, true);
                    }
                }
                other => actions.push(other),
            }
        }
        actions
    }

    pub(super) fn publications(&mut self) -> Vec<Publication> {
        let publication = |action| match action {
            Action::Publish(publication) => publication,
            other => panic!("only publications were expected: {other:?}"),
        };
        self.run().into_iter().map(publication).collect()
    }

    pub(super) fn told(&mut self) -> Vec<(What, u128)> {
        let publications = self.publications();
        for publication in &publications {
            self.engine.handle_delivered(self.now, publication.delivery, Verdict::Delivered);
        }
        publications.iter().map(|publication| (publication.what, publication.resource_version.get())).collect()
    }

    pub(super) fn change(&mut self, uid: u64, at: u128, value: u64) {
        self.change_of("a", uid, at, value);
    }

    pub(super) fn change_of(&mut self, name: &str, uid: u64, at: u128, value: u64) {
        let change = Change { object: object(name, uid, at, value), present: true, origin: Origin::Watch };
        self.engine.handle_change(self.now, change, &[value]);
    }

    pub(super) fn deletion(&mut self, uid: u64, at: u128) {
        let change = Change { object: object("a", uid, at, 0), present: false, origin: Origin::Watch };
        self.engine.handle_change(self.now, change, &[0]);
    }

    pub(super) fn pass(&mut self, milliseconds: u64) {
        self.now += MS(milliseconds);
    }
}

pub(super) fn key() -> Key {
    Key::new("default", "a")
}

pub(super) fn told(uid: u64, at: u128, fingerprint: u64) -> crate::model::Told {
    let uid = Uid::new(&format!("uid-{uid}"));
    crate::model::Told { uid, resource_version: version(at), fingerprint, deleting: false }
}

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
    assert_eq!((publications[0].resource_version, publications[0].coalesced), (version(13), 2));
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
    let owed = crate::model::Owed {
        uid: Uid::new("uid-1"),
        resource_version: version(15),
        state: crate::model::OwedState::Present,
        origin: Origin::Watch,
        coalesced: 0,
    };
    let record = KeyRecord { told: Some(told(1, 12, 7)), owed: Some(owed), ..KeyRecord::default() };
    let mut script = Script::resuming(vec![(key(), record)]);
    assert_eq!(script.run(), [Action::Probe, Action::Fetch { key: key() }]);
    script.engine.handle_fetched(script.now, &key(), Fetched::Found(object("a", 1, 15, 7), vec![7]));
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
    assert_eq!(script.run(), [Action::List { streaming: true }]);
    script.engine.handle_list_finished(script.now, version(30));
    let actions = script.run();
    let Action::Publish(publication) = &actions[1] else { panic!("{actions:?}") };
    assert_eq!(
        (publication.what, publication.inferred, publication.resource_version),
        (What::Deleted, true, version(12))
    );
    assert_eq!(publication.object, None, "no body is invented");
}

#[test]
fn deletions_are_never_inferred_from_a_failed_list() {
    let record = KeyRecord { told: Some(told(1, 12, 7)), ..KeyRecord::default() };
    let state = RouteState { synced: true, followed: true, records: vec![(key(), record)] };
    for failure in [
        FeedFailure::Expired,
        FeedFailure::Forbidden("list myapps".into()),
        FeedFailure::NotServed("404 page not found".into()),
        FeedFailure::Undecodable("cut".into()),
        FeedFailure::Other("500".into()),
    ] {
        let mut script = Script::with(Script::settings(0, 0), FeedRecord::default(), state.clone());
        assert_eq!(script.run(), [Action::List { streaming: true }]);
        script.engine.handle_list_failed(script.now, failure);
        assert_eq!(script.run(), []);
        assert_eq!(script.engine.route_status(0).told, 1);
    }
}

#[test]
fn a_missing_kind_parks_the_feed_and_is_looked_for_within_five_seconds() {
    let mut script = Script::with(Script::settings(0, 0), FeedRecord::default(), RouteState::default());
    for _ in 0..20 {
        assert_eq!(script.run(), [Action::List { streaming: true }]);
        script.engine.handle_list_failed(script.now, FeedFailure::NotServed("404 page not found".into()));
        assert!(matches!(script.engine.feed_state(), FeedState::Parked(ParkCause::NotServed(_))));
        let deadline = script.engine.poll_deadline().unwrap();
        assert!(deadline > script.now && deadline <= script.now + MS(5_000));
        script.now = deadline;
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
        assert_eq!(script.run(), [Action::List { streaming: true }]);
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
        script.now = script.engine.poll_deadline().unwrap();
    }
    assert!(script.now - asked <= MS(2_500), "{:?}", script.now - asked);
}

#[test]
fn an_unavailable_sink_is_asked_by_one_delivery_at_a_time() {
    let mut script = Script::watching(0, 0);
    for name in ["a", "b", "c"] {
        script.change_of(name, 1, 11, 1);
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
    assert_eq!(script.run(), [Action::List { streaming: true }]);
    script.engine.handle_list_item(script.now, &object("a", 1, 9, 1), &[1]);
    script.engine.handle_list_finished(script.now, version(10));
    assert_eq!(script.run(), [Action::Probe]);
    script.engine.handle_probed(script.now, Ok(version(10)));
    assert_eq!(script.run(), [Action::Watch { from: version(10) }]);
    script.change(1, 11, 2);
    assert_eq!(script.told(), [(What::Updated, 11)]);
}

#[test]
fn a_cluster_whose_counter_stepped_back_parks_the_feed_instead_of_a_silent_watch() {
    let mut script = Script::resuming(Vec::new());
    assert_eq!(script.run(), [Action::Probe]);
    script.engine.handle_probed(script.now, Ok(version(15)));
    let cause = ParkCause::Rewound { newest: version(20), cluster: version(15) };
    assert_eq!(script.engine.feed_state(), FeedState::Parked(cause));
    assert_eq!(script.run(), []);
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
    assert_eq!(record.told.as_ref().unwrap().resource_version, version(11));
}

#[test]
fn a_route_that_did_not_follow_up_to_the_position_compares_before_it_resumes() {
    let feed = FeedRecord { position: Some(version(20)), newest: Some(version(20)), served: None };
    let record = KeyRecord { told: Some(told(1, 15, 1)), ..KeyRecord::default() };
    let state = RouteState { synced: true, followed: false, records: vec![(key(), record)] };
    let mut script = Script::with(Script::settings(0, 0), feed, state);
    assert_eq!(script.run(), [Action::List { streaming: true }], "it may have missed what was before the position");
    script.pass(100);
    script.run();
    assert!(script.saves.iter().all(|save| save.followed.is_empty()), "nor may a save claim otherwise meanwhile");
    script.engine.handle_list_finished(script.now, version(30));
    assert_eq!(script.run().len(), 2, "the probe, and the deletion that it had missed");
    assert_eq!(script.saves.last().unwrap().followed, [0]);
}
