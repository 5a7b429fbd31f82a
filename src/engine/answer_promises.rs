//! What answers that come late, or lines of a watch that has ended, must not do, as scripts in virtual time; and that the
//! scripts would notice if they did.

use super::properties::object;
use super::script::{Script, key, owed, version};
use super::*;
use crate::model::{Change, ChangeKind, Epoch, KeyRecord, Uid, What};

const LIST: Action = Action::List { streaming: true, metadata_only: false };

fn change(script: &mut Script, kind: ChangeKind, uid: u64, at: u128) {
    let change = Change { object: object("a", uid, at, 1), kind };
    script.engine.handle_change(script.now, &change, &[Some(1)]);
}

fn selective() -> Script {
    let settings = EngineSettings { selective: true, ..EngineSettings::default() };
    Script::watching_by(settings, Script::settings(0, 0))
}

#[test]
fn a_line_of_a_watch_that_was_ended_for_a_list_says_nothing() {
    let mut script = Script::watching(0, 0);
    change(&mut script, ChangeKind::Added, 1, 11);
    assert_eq!(script.told(), [(What::Created, 11)]);
    script.engine.handle_stream_ended(script.now, Some(FeedFailure::Expired));
    assert_eq!(script.probed(20), [LIST]);
    // The list was begun at 20 and shows the object still; what is told of 21 now would be taken back by it.
    change(&mut script, ChangeKind::Deleted, 1, 21);
    script.engine.handle_bookmark(version(22));
    assert_eq!(script.told_among_others(), []);
    assert!(script.saves.iter().all(|save| save.feed.position <= Some(version(11))));
}

#[test]
fn an_answer_says_nothing_of_what_came_up_after_its_question() {
    let mut script = selective();
    change(&mut script, ChangeKind::Added, 1, 11);
    assert_eq!(script.told(), [(What::Created, 11)]);
    change(&mut script, ChangeKind::Deleted, 1, 12);
    assert_eq!(script.run(), [Action::Look { key: key() }]);
    // The next object of the name comes and leaves the selection while the answer is on its way.
    change(&mut script, ChangeKind::Added, 2, 14);
    assert_eq!(script.told(), [(What::Deleted, 11)], "of the first one nobody has to be asked");
    assert_eq!(script.told(), [(What::Created, 14)]);
    change(&mut script, ChangeKind::Deleted, 2, 15);
    script.engine.handle_looked(script.now, &key(), &Looked::NotFound(version(13)));
    script.pass(1_000);
    assert_eq!(script.run(), [Action::Look { key: key() }], "the second one may have left");
}

#[test]
fn an_answer_from_the_clusters_earlier_life_is_not_believed() {
    let owed = owed(Uid::new("uid-1"), 19);
    let mut script = Script::resuming(vec![(key(), KeyRecord { owed: Some(owed), ..KeyRecord::default() })]);
    assert_eq!(script.run(), [Action::Probe, Action::Fetch { key: key() }]);
    script.engine.handle_probed(script.now, Ok(version(15)));
    assert_eq!(script.run(), [LIST]);
    script.engine.handle_list_item(script.now, &object("a", 1, 12, 5), &[Some(5)]);
    script.engine.handle_fetched(script.now, &key(), Fetched::Found(object("a", 1, 19, 9), vec![Some(9)]));
    script.engine.handle_list_finished(script.now, version(15));
    assert_eq!(script.told_among_others(), [(What::Created, 12)]);
}

#[test]
fn what_was_answered_before_the_kind_was_gone_does_not_bring_it_back() {
    let owed = owed(Uid::new("uid-1"), 19);
    let told = super::script::told(1, 12, 7);
    let record = KeyRecord { told: Some(told), owed: Some(owed), ..KeyRecord::default() };
    let mut script = Script::resuming(vec![(key(), record)]);
    assert_eq!(script.run(), [Action::Probe, Action::Fetch { key: key() }]);
    script.engine.handle_probed(script.now, Err(FeedFailure::KindGone("no such kind".into())));
    script.engine.handle_fetched(script.now, &key(), Fetched::Found(object("a", 1, 25, 9), vec![Some(9)]));
    assert_eq!(script.told_among_others(), [(What::Deleted, 19)]);
}

#[test]
fn an_object_that_was_fetched_before_its_deletion_was_found_is_not_told_after_it() {
    let owed = owed(Uid::new("uid-1"), 19);
    let told = super::script::told(1, 12, 7);
    let record = KeyRecord { told: Some(told), owed: Some(owed), ..KeyRecord::default() };
    let mut script = Script::resuming(vec![(key(), record)]);
    assert_eq!(script.run(), [Action::Probe, Action::Fetch { key: key() }]);
    script.engine.handle_probed(script.now, Ok(version(20)));
    assert_eq!(script.run(), [Action::Watch { from: version(20) }]);
    script.engine.handle_stream_ended(script.now, Some(FeedFailure::Expired));
    assert_eq!(script.probed(30), [LIST]);
    script.hold_saves = true;
    script.engine.handle_list_finished(script.now, version(30));
    // From now on the position does not speak for this route: what lies behind it may be news.
    script.engine.handle_selection_edited(0, "tier=gold".into());
    script.engine.handle_fetched(script.now, &key(), Fetched::Found(object("a", 1, 25, 9), vec![Some(9)]));
    script.hold_saves = false;
    script.engine.handle_saved(script.now, true);
    assert_eq!(script.told_among_others(), [(What::Deleted, 19)]);
    assert_eq!(script.engine.route_status(0).owed, 0);
}

#[test]
fn an_object_that_was_fetched_before_a_list_without_it_is_not_told_after_the_list() {
    let owed = owed(Uid::new("uid-1"), 19);
    let told = super::script::told(1, 12, 7);
    let record = KeyRecord { told: Some(told), owed: Some(owed), ..KeyRecord::default() };
    let mut script = Script::resuming(vec![(key(), record)]);
    assert_eq!(script.run(), [Action::Probe, Action::Fetch { key: key() }]);
    script.engine.handle_probed(script.now, Ok(version(20)));
    assert_eq!(script.run(), [Action::Watch { from: version(20) }]);
    script.hold_saves = true;
    change(&mut script, ChangeKind::Deleted, 1, 21);
    change(&mut script, ChangeKind::Added, 2, 22);
    script.engine.handle_stream_ended(script.now, Some(FeedFailure::Expired));
    assert_eq!(script.probed(30), [LIST]);
    // The second object was never told: by the list it is not owed any more, and the deletion of the first one is.
    script.engine.handle_list_finished(script.now, version(30));
    script.engine.handle_fetched(script.now, &key(), Fetched::Found(object("a", 2, 25, 9), vec![Some(9)]));
    script.hold_saves = false;
    script.engine.handle_saved(script.now, true);
    assert_eq!(script.told_among_others(), [(What::Deleted, 21)]);
    assert_eq!(script.told(), [], "nothing would tell that the second one is gone");
}

#[test]
fn an_incarnation_that_a_look_found_to_be_gone_is_over_whatever_the_watch_has_still_to_show() {
    let mut script = selective();
    change(&mut script, ChangeKind::Added, 1, 11);
    assert_eq!(script.told(), [(What::Created, 11)]);
    change(&mut script, ChangeKind::Deleted, 1, 12);
    assert_eq!(script.run(), [Action::Look { key: key() }]);
    // It had only left; by now it has come back, was deleted, and another object has its name.
    script.engine.handle_looked(script.now, &key(), &Looked::Found(Uid::new("uid-2"), version(20)));
    assert_eq!(script.told(), [(What::Deleted, 12)]);
    change(&mut script, ChangeKind::Added, 1, 15);
    change(&mut script, ChangeKind::Deleted, 1, 16);
    assert_eq!(script.told(), [], "its deletion has one id, and was told");
    change(&mut script, ChangeKind::Added, 2, 17);
    assert_eq!(script.told(), [(What::Created, 17)]);
}

#[test]
fn what_a_look_did_not_find_takes_with_it_what_the_watch_has_shown_meanwhile() {
    let mut script = selective();
    change(&mut script, ChangeKind::Added, 1, 11);
    assert_eq!(script.told(), [(What::Created, 11)]);
    change(&mut script, ChangeKind::Deleted, 1, 12);
    assert_eq!(script.run(), [Action::Look { key: key() }]);
    script.hold_saves = true;
    change(&mut script, ChangeKind::Added, 2, 13);
    script.engine.handle_looked(script.now, &key(), &Looked::NotFound(version(20)));
    script.hold_saves = false;
    script.engine.handle_saved(script.now, true);
    script.pass(1_000);
    let told = script.told();
    assert!(!told.contains(&(What::Created, 13)), "nothing would tell that it is gone: {told:?}");
    change(&mut script, ChangeKind::Deleted, 2, 14);
    script.pass(1_000);
    script.told();
    assert_eq!(script.engine.route_status(0).owed, 0);
}

#[test]
fn each_mutant_that_is_held_by_a_script_breaks_it() {
    let scripts: [fn(); 5] = [
        what_is_told_after_a_rewind_has_ids_of_its_own,
        an_answer_says_nothing_of_what_came_up_after_its_question,
        an_answer_from_the_clusters_earlier_life_is_not_believed,
        an_object_that_was_fetched_before_a_list_without_it_is_not_told_after_the_list,
        an_object_that_was_fetched_before_its_deletion_was_found_is_not_told_after_it,
    ];
    for (mutant, script) in Mutant::SCRIPTED.into_iter().zip(scripts) {
        plant(Some(mutant));
        let outcome = std::panic::catch_unwind(script);
        plant(None);
        assert!(outcome.is_err(), "nobody notices {mutant:?}");
    }
}

#[test]
fn what_is_told_after_a_rewind_has_ids_of_its_own() {
    let mut script = Script::resuming(Vec::new());
    assert_eq!(script.run(), [Action::Probe]);
    script.engine.handle_probed(script.now, Ok(version(15)));
    assert_eq!(script.run(), [LIST]);
    script.engine.handle_list_item(script.now, &object("a", 1, 12, 5), &[Some(5)]);
    script.engine.handle_list_finished(script.now, version(15));
    let publication = script.run().into_iter().find_map(|action| match action {
        Action::Publish(publication) => Some(publication),
        _ => None,
    });
    let publication = publication.unwrap();
    assert_eq!((publication.rewinds, publication.sequence.epoch()), (1, Epoch::new(1)));
}
