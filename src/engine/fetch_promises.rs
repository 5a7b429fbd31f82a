//! When what was let go is asked for, object by object or by one list, and when it is not. Scripts in virtual time.

use super::properties::object;
use super::script::{MS, Script, key, owed, version};
use super::*;
use crate::model::{KeyRecord, Uid, Verdict, What};

/// A feed that keeps no bytes, and takes a list for more than five fetches.
fn script(bytes_at_most: usize) -> Script {
    let settings = EngineSettings {
        bytes_at_most,
        fetch_at_most: 5,
        audit_every: Duration::ZERO,
        audit_after: Duration::from_secs(86_400),
        ..EngineSettings::default()
    };
    Script::watching_by(settings, Script::settings(0, 0))
}

/// Changes of so many objects; what is done then.
fn changes(script: &mut Script, from: u128, count: u64) -> Vec<Action> {
    for number in 0..count {
        script.change_of(&format!("app-{number}"), number, from + u128::from(number), number);
    }
    let mut actions = script.run();
    // What the lanes want of the feed is done at once, but after them.
    actions.extend(script.run());
    actions
}

fn fetches(actions: &[Action]) -> usize {
    actions.iter().filter(|action| matches!(action, Action::Fetch { .. })).count()
}

#[test]
fn a_list_replaces_more_fetches_than_it_is_worth() {
    let actions = changes(&mut script(0), 11, 5);
    assert_eq!((fetches(&actions), actions.contains(&Action::Probe)), (5, false), "so few are fetched");
    let mut script = script(0);
    assert!(changes(&mut script, 11, 6).contains(&Action::Probe), "before each list there is a probe");
}

#[test]
fn lists_that_replace_fetches_come_seldom() {
    let mut script = script(0);
    assert!(changes(&mut script, 11, 6).contains(&Action::Probe));
    script.engine.handle_probed(script.now, Ok(version(20)));
    assert!(matches!(&*script.run(), [Action::List { .. }]));
    for number in 0..6 {
        let object = object(&format!("app-{number}"), number, 11 + u128::from(number), number);
        script.engine.handle_list_item(script.now, &object, &[Some(number)]);
    }
    // Nothing of it could be kept: the budget is too small.
    script.engine.handle_list_finished(script.now, version(20));
    assert_eq!(script.run(), [Action::Probe]);
    script.engine.handle_probed(script.now, Ok(version(20)));
    assert_eq!(script.run(), [Action::Watch { from: version(20) }]);
    script.pass(4_000);
    assert!(!changes(&mut script, 21, 6).contains(&Action::Probe), "not sooner than after five seconds");
    script.pass(1_000);
    assert!(changes(&mut script, 31, 6).contains(&Action::Probe));
}

#[test]
fn while_the_sink_is_down_nothing_is_listed_for_it() {
    let mut script = script(0);
    assert_eq!(changes(&mut script, 11, 1), [Action::Fetch { key: Key::new("default", "app-0") }]);
    let found = Fetched::Found(object("app-0", 0, 11, 0), vec![Some(0)]);
    script.engine.handle_fetched(script.now, &Key::new("default", "app-0"), found);
    let delivery = script.publications().remove(0).delivery;
    script.engine.handle_delivered(script.now, delivery, Verdict::Unavailable { reason: "down".into(), after: None });
    assert_eq!(script.engine.bytes_held(), 0, "what was not taken is let go again: the budget is exceeded by it");
    script.pass(40_000);
    let actions = changes(&mut script, 21, 12);
    assert_eq!((fetches(&actions), actions.contains(&Action::Probe)), (1, false), "one finds out whether it is back");
}

#[test]
fn a_list_waits_until_half_of_the_budget_is_free() {
    // Bytes of these objects are the digits of their values.
    let mut script = script(9);
    script.hold_saves = true;
    let first: Vec<u64> = (0..6).collect();
    for number in &first {
        script.change_of(&format!("held-{number}"), 100 + number, 11 + u128::from(*number), *number);
    }
    assert_eq!(script.engine.bytes_held(), 6, "more than half of it");
    for number in 0..12_u64 {
        script.change_of(&format!("app-{number:02}"), number, 31 + u128::from(number), 1_000_000 + number);
    }
    let actions = script.run();
    assert!(fetches(&actions) > 0 && !actions.contains(&Action::Probe), "{actions:?}");
}

#[test]
fn what_could_not_be_read_is_asked_for_again_and_not_in_a_loop() {
    let record = KeyRecord { owed: Some(owed(Uid::new("uid-1"), 15)), ..KeyRecord::default() };
    let mut script = Script::resuming(vec![(key(), record)]);
    assert_eq!(script.run(), [Action::Probe, Action::Fetch { key: key() }]);
    for _ in 0..3 {
        script.engine.handle_fetched(script.now, &key(), Fetched::Failed("no answer".into()));
        assert_eq!(script.run(), []);
        assert_eq!(script.run_later(), [Action::Fetch { key: key() }]);
    }
    assert!(script.now >= MS(750), "three waits, each longer than the one before");
    script.engine.handle_fetched(script.now, &key(), Fetched::Found(object("a", 1, 15, 3), vec![Some(3)]));
    assert_eq!(script.told(), [(What::Created, 15)]);
}

#[test]
fn what_waits_for_the_store_is_told_as_it_was_and_what_follows_counts_only_itself() {
    let mut script = Script::watching(0, 0);
    script.hold_saves = true;
    script.change(1, 11, 1);
    assert_eq!(script.publications(), [], "it is ready, and waits for the store");
    script.change(1, 12, 2);
    script.change(1, 13, 3);
    script.hold_saves = false;
    script.engine.handle_saved(script.now, true);
    let first = script.publications().remove(0);
    assert_eq!((first.sequence.resource_version().get(), first.coalesced), (11, 0));
    script.engine.handle_delivered(script.now, first.delivery, Verdict::Delivered);
    let second = script.publications().remove(0);
    assert_eq!((second.sequence.resource_version().get(), second.coalesced), (13, 1));
}

#[test]
fn each_verdict_is_counted_as_what_it_is() {
    let verdicts = [
        Verdict::Delivered,
        Verdict::Retry { reason: "busy".into(), after: None },
        Verdict::Reject { reason: "no".into() },
        Verdict::Unavailable { reason: "down".into(), after: None },
    ];
    let mut script = Script::watching(0, 0);
    let mut at = 10;
    for _ in 0..2 {
        for verdict in &verdicts {
            at += 1;
            script.change(1, at, at as u64);
            script.pass(120_000);
            let event = script.publications().remove(0);
            assert_eq!(script.engine.route_status(0).in_flight_since, Some(script.now));
            script.engine.handle_delivered(script.now, event.delivery, verdict.clone());
            assert_eq!(script.engine.route_status(0).in_flight_since, None);
            script.pass(120_000);
        }
    }
    let counters = script.engine.route_status(0).counters;
    let counted = (counters.delivered, counters.retried, counters.rejected, counters.unavailable);
    assert_eq!(counted, (2, 2, 2, 2));
}

#[test]
fn a_deletion_of_an_object_that_nobody_was_told_of_is_none_of_another_one() {
    let mut script = Script::watching(0, 0);
    script.change(1, 11, 1);
    assert_eq!(script.told(), [(What::Created, 11)]);
    script.deletion(7, 12);
    assert_eq!(script.told(), []);
    let status = script.engine.route_status(0);
    assert_eq!((status.told, status.owed), (1, 0));
}

#[test]
fn sixteen_fetches_are_under_way_at_once_and_no_more() {
    let settings = EngineSettings { bytes_at_most: 0, fetch_at_most: 1_000, ..EngineSettings::default() };
    let mut script = Script::watching_by(settings, RouteSettings { max_in_flight: 100, ..Script::settings(0, 0) });
    assert_eq!(fetches(&changes(&mut script, 20, 40)), 16);
}
