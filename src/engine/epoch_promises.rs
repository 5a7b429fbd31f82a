//! What a cluster whose counter has stepped back leads to, and what audits are for, as scripts in virtual time.

use super::properties::object;
use super::script::{MS, Script, key, owed, place, resumed, told, version};
use super::*;
use crate::model::{Doubt, Epoch, KeyRecord, Owed, OwedState, Uid, What};

const LIST: Action = Action::List { streaming: true, metadata_only: false };

fn later(at: u128) -> Sequence {
    Sequence::new(Epoch::new(1), version(at))
}

fn resuming_with(record: KeyRecord) -> Script {
    let mut script = Script::resuming(vec![(key(), record)]);
    assert_eq!(script.run(), [Action::Probe]);
    script
}

/// The script's route after its start's audit is over.
fn followed(record: KeyRecord) -> Script {
    let mut script = resuming_with(record);
    script.engine.handle_probed(script.now, Ok(version(20)));
    assert_eq!(script.run(), [Action::Watch { from: version(20) }]);
    script.engine.handle_watch_begun();
    script
}

#[test]
fn a_cluster_whose_counter_stepped_back_begins_an_epoch_and_is_compared() {
    let record = KeyRecord { told: Some(told(1, 18, 7)), ..KeyRecord::default() };
    let mut script = resuming_with(record);
    script.engine.handle_probed(script.now, Ok(version(15)));
    assert_eq!(script.run(), [LIST], "a watch from a future version would be silent");
    let save = script.saves.last().unwrap();
    assert_eq!((save.feed.epoch, save.feed.rewinds, save.feed.position), (Epoch::new(1), 1, None));
    // The object is as it was at an earlier version: that is told, and its place in the order is a later one.
    script.engine.handle_list_item(script.now, &object("a", 1, 12, 3), &[Some(3)]);
    script.engine.handle_list_finished(script.now, version(15));
    let publication = script.run().into_iter().find_map(|action| match action {
        Action::Publish(publication) => Some(publication),
        _ => None,
    });
    let publication = publication.unwrap();
    assert_eq!((publication.what, publication.sequence, publication.rewinds), (What::Updated, later(12), 1));
}

#[test]
fn a_rewind_is_known_by_the_newest_version_ever_given_not_by_the_position_alone() {
    let mut script = followed(KeyRecord::default());
    // A probe has heard of 40, though nothing of this kind has changed since 20.
    script.engine.handle_stream_ended(script.now + MS(5_000), None);
    assert_eq!(script.run(), [Action::Probe]);
    script.engine.handle_probed(script.now, Ok(version(40)));
    script.run();
    script.engine.handle_stream_ended(script.now + MS(5_000), None);
    script.run();
    script.engine.handle_probed(script.now, Ok(version(30)));
    assert_eq!(script.engine.rewinds(), 1);
}

#[test]
fn an_audit_follows_every_start_and_finds_a_rewind_whose_counter_has_passed_the_old_mark() {
    let record = KeyRecord { told: Some(told(1, 18, 7)), ..KeyRecord::default() };
    for (uid, at) in [(1, 17), (2, 18), (2, 12)] {
        let mut script = followed(record.clone());
        assert_eq!(script.probed_later(20), [Action::List { streaming: true, metadata_only: true }]);
        assert!(script.now <= MS(20_000));
        script.engine.handle_list_item(script.now, &object("a", uid, at, 7), &[Some(7)]);
        assert_eq!((script.engine.rewinds(), script.run()), (1, vec![LIST]), "uid {uid} at {at}");
    }
}

#[test]
fn an_object_that_nobody_heard_of_though_the_position_had_passed_it_is_of_another_life() {
    let mut script = followed(KeyRecord::default());
    script.engine.handle_audit_wanted(script.now);
    assert_eq!(script.probed(20), [Action::List { streaming: true, metadata_only: true }]);
    script.engine.handle_list_item(script.now, &object("b", 9, 19, 1), &[Some(1)]);
    assert_eq!(script.engine.rewinds(), 1);
}

#[test]
fn what_a_fetch_brought_while_a_list_was_on_its_way_is_no_rewind() {
    let record = KeyRecord {
        told: Some(told(1, 12, 7)),
        owed: Some(super::script::owed(Uid::new("uid-1"), 15)),
        ..KeyRecord::default()
    };
    let mut script = Script::resuming(vec![(key(), record)]);
    assert_eq!(script.run(), [Action::Probe, Action::Fetch { key: key() }]);
    script.engine.handle_probed(script.now, Ok(version(20)));
    script.run();
    script.engine.handle_stream_ended(script.now, Some(FeedFailure::Expired));
    assert_eq!(script.probed(20), [LIST]);
    script.engine.handle_fetched(script.now, &key(), Fetched::Found(object("a", 1, 40, 9), vec![Some(9)]));
    script.engine.handle_list_item(script.now, &object("a", 1, 25, 8), &[Some(8)]);
    script.engine.handle_list_finished(script.now, version(30));
    assert_eq!(script.engine.rewinds(), 0);
    let told: Vec<_> = script.told_among_others();
    assert_eq!(told, [(What::Updated, 40)]);
}

#[test]
fn what_was_attempted_before_a_rewind_is_told_whatever_its_fingerprint() {
    let doubt = Doubt { uid: Uid::new("uid-1"), sequence: place(19), gone: false };
    let record = KeyRecord { told: Some(told(1, 18, 7)), doubts: vec![doubt], ..KeyRecord::default() };
    let mut script = resuming_with(record);
    script.engine.handle_probed(script.now, Ok(version(15)));
    assert_eq!(script.run(), [LIST]);
    script.engine.handle_list_item(script.now, &object("a", 1, 12, 7), &[Some(7)]);
    script.engine.handle_list_finished(script.now, version(15));
    assert_eq!(script.told_among_others(), [(What::Updated, 12)], "the sink may have the state of 19");
}

#[test]
fn an_audit_tells_what_no_watch_has_told_of_and_counts_it() {
    let record = KeyRecord { told: Some(told(1, 12, 7)), ..KeyRecord::default() };
    let mut script = followed(record);
    script.engine.handle_audit_wanted(script.now);
    assert_eq!(script.probed(20), [Action::List { streaming: true, metadata_only: true }]);
    script.engine.handle_list_item(script.now, &object("a", 1, 16, 0), &[Some(0)]);
    script.engine.handle_list_finished(script.now, version(20));
    let audit = script.engine.last_audit().unwrap();
    assert_eq!((audit.number, audit.objects, audit.drift), (1, 1, 1));
    assert_eq!((&audit.differences[0].key, audit.differences[0].owes), (&key(), OwedState::Present));
    assert_eq!(script.engine.route_status(0).counters.drift, 1);
    // Only the metadata was read: the object is fetched when it is its turn.
    assert!(script.run().contains(&Action::Fetch { key: key() }));
    script.engine.handle_fetched(script.now, &key(), Fetched::Found(object("a", 1, 16, 8), vec![Some(8)]));
    assert_eq!(script.told_among_others(), [(What::Updated, 16)]);
}

#[test]
fn an_audit_that_finds_nothing_says_nothing() {
    let record = KeyRecord { told: Some(told(1, 12, 7)), ..KeyRecord::default() };
    let mut script = followed(record);
    for number in 1..=3 {
        let before = script.now;
        assert_eq!(script.probed_later(20), [Action::List { streaming: true, metadata_only: true }]);
        let waited = script.now - before;
        assert!(number == 1 || (waited > MS(1_800_000) && waited < MS(5_400_000)), "about every hour: {waited:?}");
        script.engine.handle_list_item(script.now, &object("a", 1, 12, 7), &[Some(7)]);
        script.engine.handle_list_finished(script.now, version(20));
        assert_eq!(script.run(), [Action::Probe]);
        script.engine.handle_probed(script.now, Ok(version(20)));
        assert_eq!(script.run(), [Action::Watch { from: version(20) }]);
        script.engine.handle_watch_begun();
        let audit = script.engine.last_audit().unwrap();
        assert_eq!((audit.number, audit.drift), (number, 0));
    }
}

#[test]
fn what_was_seen_to_be_gone_or_to_have_left_does_not_come_back_as_it_was_within_one_life() {
    use OwedState::{Gone, Left, Present};
    // What is owed at 15, whether the route has followed, what the list shows, and the rewinds that it tells of.
    let cases = [
        (Gone, true, (1, 15), Some(1), 1),
        (Gone, false, (1, 15), Some(1), 1),
        (Gone, true, (1, 15), None, 0),
        (Gone, true, (1, 16), Some(1), 0),
        (Gone, true, (2, 16), Some(1), 0),
        (Left, true, (1, 15), Some(1), 1),
        // Its selection was edited: what had left may be selected again.
        (Left, false, (1, 15), Some(1), 0),
        (Present, true, (1, 15), Some(1), 0),
        (Present, false, (1, 15), Some(1), 0),
    ];
    for case in cases {
        let (state, followed, (uid, at), selected, rewinds) = case;
        let owed = Owed { state, ..owed(Uid::new("uid-1"), 15) };
        let record = KeyRecord { told: Some(told(1, 12, 7)), owed: Some(owed), ..KeyRecord::default() };
        let feed = FeedRecord { position: Some(version(20)), newest: Some(version(20)), ..FeedRecord::default() };
        let mut script = Script::with(Script::settings(0, 0), feed, resumed(followed, vec![(key(), record)]));
        let listing = (0..10).any(|_| {
            let actions = script.run();
            for action in &actions {
                match action {
                    Action::Probe => script.engine.handle_probed(script.now, Ok(version(20))),
                    Action::Watch { .. } => {
                        script.engine.handle_watch_begun();
                        script.engine.handle_audit_wanted(script.now);
                    }
                    _ => {}
                }
            }
            actions.iter().any(|action| matches!(action, Action::List { .. }))
        });
        assert!(listing, "{case:?}");
        script.engine.handle_list_item(script.now, &object("a", uid, at, 7), &[selected]);
        assert_eq!(script.engine.rewinds(), rewinds, "{case:?}");
    }
}

#[test]
fn a_rewind_is_known_by_what_the_route_learned_in_another_feed() {
    let feed = FeedRecord { position: Some(version(20)), newest: Some(version(20)), ..FeedRecord::default() };
    let state = RouteState { newest_elsewhere: Some(place(60)), ..resumed(true, Vec::new()) };
    let mut script = Script::with(Script::settings(0, 0), feed, state);
    assert_eq!(script.run(), [Action::Probe]);
    script.engine.handle_probed(script.now, Ok(version(50)));
    assert_eq!(script.engine.rewinds(), 1);
}
