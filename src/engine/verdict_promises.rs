//! What a sink's verdicts, and the answers to fetches, lead to, as scripts in virtual time.

use super::properties::object;
use super::script::{MS, Script, key, owed, version};
use super::*;
use crate::model::{KeyRecord, Uid, Verdict, What};

#[test]
fn a_key_that_the_sink_cannot_take_now_does_not_keep_the_others_back() {
    let settings = RouteSettings { max_in_flight: 1, ..Script::settings(0, 0) };
    let mut script = Script::watching_with(settings);
    for (number, name) in ["a", "b", "c"].into_iter().enumerate() {
        script.change_of(name, 1, 11 + number as u128, 1);
    }
    // The topic of `a` does not exist; the others have one.
    let mut delivered = std::collections::BTreeSet::new();
    for second in 0..40 {
        for publication in script.publications() {
            let verdict = if publication.key == key() {
                Verdict::Unavailable { reason: "no such topic".into(), after: None }
            } else {
                delivered.insert(publication.key.name().to_owned());
                Verdict::Delivered
            };
            script.engine.handle_delivered(script.now, publication.delivery, verdict);
        }
        script.change_of("d", 1, 20 + second, 1);
        script.pass(1_000);
    }
    assert_eq!(delivered.into_iter().collect::<Vec<_>>(), ["b", "c", "d"]);
}

#[test]
fn an_object_that_comes_back_after_a_deletion_in_doubt_is_told() {
    let mut script = Script::watching(0, 0);
    script.change(1, 11, 7);
    assert_eq!(script.told(), [(What::Created, 11)]);
    script.deletion(1, 12);
    let deletion = script.publications().remove(0);
    let verdict = Verdict::Retry { reason: "timed out".into(), after: None };
    script.engine.handle_delivered(script.now, deletion.delivery, verdict);
    // Under a selector a deletion need not be one: the same incarnation, as it was told.
    script.change(1, 13, 7);
    script.pass(5_000);
    assert_eq!(script.told().len(), 1, "the sink may believe that it is gone");
}

#[test]
fn a_refused_deletion_of_an_earlier_incarnation_does_not_keep_its_key_back() {
    let mut script = Script::watching(0, 0);
    script.change(1, 11, 1);
    assert_eq!(script.told(), [(What::Created, 11)]);
    script.deletion(1, 12);
    let deletion = script.publications().remove(0);
    script.change(2, 13, 1);
    let refused = Verdict::Reject { reason: "400".into() };
    script.engine.handle_delivered(script.now, deletion.delivery, refused.clone());
    script.pass(100);
    let again = script.publications();
    assert_eq!(again.iter().map(|publication| publication.what).collect::<Vec<_>>(), [What::Created]);
}

#[test]
fn what_stands_behind_a_delivery_waits_until_the_store_knows_its_answer() {
    let mut script = Script::watching(0, 0);
    script.change(1, 11, 1);
    let first = script.publications().remove(0);
    script.change(1, 12, 2);
    let saves = script.saves.len();
    assert_eq!(script.run(), []);
    script.pass(100);
    assert_eq!((script.run(), script.saves.len()), (vec![], saves + 1), "saved, and behind what is in flight");
    script.hold_saves = true;
    script.engine.handle_delivered(script.now, first.delivery, Verdict::Delivered);
    script.pass(100);
    assert_eq!(script.publications(), [], "after a crash it would be told as created, by another id");
    script.engine.handle_saved(script.now, true);
    assert_eq!(script.told(), [(What::Updated, 12)]);
}

#[test]
fn a_busy_key_is_not_asked_for_more_often_than_the_sink_allows() {
    let mut script = Script::watching(0, 0);
    script.change(1, 11, 1);
    let first = script.publications().remove(0);
    let verdict = Verdict::Retry { reason: "408".into(), after: Some(MS(60_000)) };
    script.engine.handle_delivered(script.now, first.delivery, verdict);
    for second in 1..60 {
        script.pass(1_000);
        script.change(1, 11 + second, second as u64);
        assert_eq!(script.publications(), [], "after {second} s");
    }
    script.pass(2_000);
    assert_eq!(script.publications().len(), 1);
}

#[test]
fn an_endpoint_that_is_gone_stays_so_whatever_was_under_way() {
    let mut script = Script::watching(0, 0);
    for (at, name) in (11..).zip(["a", "b"]) {
        script.change_of(name, 1, at, 1);
    }
    let [first, second] = &script.publications()[..] else { panic!() };
    script.engine.handle_delivered(script.now, first.delivery, Verdict::Gone { reason: "410".into() });
    script.engine.handle_delivered(script.now, second.delivery, Verdict::Delivered);
    let status = script.engine.route_status(0);
    assert_eq!((status.gone, status.last_error.as_deref()), (true, Some("410")));
}

#[test]
fn a_drain_is_over_when_the_last_word_is_saved() {
    let mut script = Script::watching(3_600_000, 3_600_000);
    script.pass(100);
    script.run();
    script.pass(100);
    script.run();
    assert!(script.engine.is_saved() && !script.engine.is_drained());
    script.hold_saves = true;
    // A position alone, a debt, and the save that is under way: each is a reason to wait.
    script.engine.handle_bookmark(version(11));
    assert!(!script.engine.is_saved());
    script.change(1, 12, 1);
    script.engine.handle_drain();
    assert_eq!(script.run(), []);
    let held = script.saves.last().unwrap();
    assert_eq!((held.feed.position, held.records.len()), (Some(version(12)), 1));
    assert!(!script.engine.is_saved() && !script.engine.is_drained(), "nobody has said that it is saved");
    script.engine.handle_saved(script.now, false);
    assert!(!script.engine.is_saved() && !script.engine.is_drained());
    assert!(script.engine.poll_deadline().is_some_and(|at| at <= script.now + MS(1_000)), "it is tried again");
    script.pass(1_000);
    script.run();
    script.engine.handle_saved(script.now, true);
    assert!(script.engine.is_saved() && script.engine.is_drained());
    assert_eq!(script.engine.poll_deadline(), None);
}

#[test]
fn a_drain_begins_no_watch() {
    let mut script = Script::resuming(Vec::new());
    assert_eq!(script.run(), [Action::Probe]);
    script.engine.handle_drain();
    script.engine.handle_probed(script.now, Ok(version(20)));
    assert_eq!(script.run(), []);
}

#[test]
fn fetches_are_asked_for_a_few_at_a_time() {
    let record = |number: usize| {
        let owed = owed(Uid::new(&format!("uid-{number}")), 15);
        (Key::new("default", &format!("app-{number:02}")), KeyRecord { owed: Some(owed), ..KeyRecord::default() })
    };
    let mut script = Script::resuming((0..40).map(record).collect());
    let mut fetched = 0;
    let mut fetches = script.run();
    assert!(matches!(fetches.remove(0), Action::Probe));
    while !fetches.is_empty() {
        assert!(fetches.len() <= 16, "{}", fetches.len());
        for action in std::mem::take(&mut fetches) {
            let Action::Fetch { key } = action else { continue };
            fetched += 1;
            script.engine.handle_fetched(script.now, &key, Fetched::NotFound);
            fetches.extend(script.run().into_iter().filter(|action| matches!(action, Action::Fetch { .. })));
        }
    }
    assert_eq!(fetched, 40);
}

#[test]
fn without_the_right_to_get_what_is_owed_comes_from_one_list() {
    let owed = owed(Uid::new("uid-1"), 15);
    let mut script = Script::resuming(vec![(key(), KeyRecord { owed: Some(owed), ..KeyRecord::default() })]);
    assert_eq!(script.run(), [Action::Probe, Action::Fetch { key: key() }]);
    script.engine.handle_probed(script.now, Ok(version(20)));
    assert_eq!(script.run(), [Action::Watch { from: version(20) }]);
    script.engine.handle_fetched(script.now, &key(), Fetched::Forbidden("cannot get resource \"myapps\"".into()));
    let error = script.engine.route_status(0).last_error.unwrap();
    assert_eq!(error, "default/a cannot be read: cannot get resource \"myapps\"");
    assert_eq!(script.probed(20), [Action::List { streaming: true, metadata_only: false }]);
    script.engine.handle_list_item(script.now, &object("a", 1, 15, 3), &[Some(3)]);
    script.engine.handle_list_finished(script.now, version(21));
    script.pass(1_000);
    let told: Vec<_> = script.run().into_iter().filter(|action| matches!(action, Action::Publish(_))).collect();
    assert_eq!(told.len(), 1);
}
