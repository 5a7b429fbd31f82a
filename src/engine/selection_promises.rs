//! What comes into a route's selection and what leaves it, by the object's change or the selection's, as scripts in
//! virtual time.

use super::properties::object;
use super::script::{MS, Script, key, place, told, version};
use super::*;
use crate::model::{Cause, Change, ChangeKind, FeedRecord, KeyRecord, OwedState, RouteRecord, Uid, Verdict, What};

const LIST: Action = Action::List { streaming: true, metadata_only: false };

fn change(script: &mut Script, kind: ChangeKind, at: u128, selected: Option<u64>) {
    let change = Change { object: object("a", 1, at, 1), kind };
    script.engine.handle_change(script.now, &change, &[selected]);
}

fn selective() -> Script {
    let settings = EngineSettings { selective: true, ..EngineSettings::default() };
    Script::watching_by(settings, Script::settings(0, 0))
}

#[test]
fn an_object_that_leaves_the_selection_has_left_and_one_that_comes_back_has_entered() {
    let mut script = Script::watching(0, 0);
    change(&mut script, ChangeKind::Added, 11, Some(1));
    assert_eq!(script.told(), [(What::Created, 11)]);
    change(&mut script, ChangeKind::Modified, 12, None);
    let left = script.publications().remove(0);
    assert_eq!((left.what, left.object), (What::Left, None), "nothing is shown of what is outside");
    script.engine.handle_delivered(script.now, left.delivery, Verdict::Delivered);
    change(&mut script, ChangeKind::Modified, 13, None);
    assert_eq!(script.told(), []);
    change(&mut script, ChangeKind::Modified, 14, Some(2));
    assert_eq!(script.told(), [(What::Entered, 14)]);
}

#[test]
fn what_left_before_it_was_attempted_is_not_told_at_all() {
    let mut script = Script::watching(100, 1_000);
    change(&mut script, ChangeKind::Added, 11, Some(1));
    change(&mut script, ChangeKind::Modified, 12, None);
    script.pass(2_000);
    assert_eq!(script.told(), []);
    assert_eq!(script.engine.route_status(0).owed, 0);
}

#[test]
fn under_a_selector_for_the_server_a_look_tells_what_has_left_from_what_is_deleted() {
    for (looked, what) in [
        (Looked::Found(Uid::new("uid-1"), version(12)), What::Left),
        (Looked::Found(Uid::new("uid-2"), version(12)), What::Deleted),
        (Looked::NotFound(version(12)), What::Deleted),
    ] {
        let mut script = selective();
        change(&mut script, ChangeKind::Added, 11, Some(1));
        assert_eq!(script.told(), [(What::Created, 11)]);
        change(&mut script, ChangeKind::Deleted, 12, Some(1));
        assert_eq!(script.run(), [Action::Look { key: key() }]);
        script.engine.handle_looked(script.now, &key(), &Looked::Failed("no answer".into()));
        script.pass(1_000);
        assert_eq!(script.run(), [Action::Look { key: key() }], "nothing is guessed");
        script.engine.handle_looked(script.now, &key(), &looked);
        assert_eq!(script.told(), [(what, 12)]);
    }
}

#[test]
fn under_a_selector_for_the_server_what_a_list_does_not_show_is_asked_for() {
    let record = KeyRecord { told: Some(told(1, 15, 1)), ..KeyRecord::default() };
    let settings = EngineSettings { selective: true, ..EngineSettings::default() };
    let state = super::script::resumed(false, vec![(key(), record)]);
    let routes = vec![(Script::settings(0, 0), state)];
    let engine = Engine::new(settings, FeedRecord::default(), routes, MS(0));
    let mut script = Script { engine, now: MS(0), saves: Vec::new(), hold_saves: false };
    assert_eq!(script.probed(20), [LIST]);
    script.engine.handle_list_finished(script.now, version(30));
    assert_eq!(script.run(), [Action::Probe, Action::Look { key: key() }]);
    script.pass(100);
    assert_eq!(script.run(), []);
    let owed = script.saves.last().unwrap().records[0].2.owed.clone().unwrap();
    assert_eq!(owed.state, OwedState::Missing, "it is known to be owed before it is known what it is");
    script.engine.handle_looked(script.now, &key(), &Looked::Found(Uid::new("uid-1"), version(30)));
    let left = script.publications().remove(0);
    assert_eq!((left.what, left.inferred, left.sequence), (What::Left, true, place(15)));
}

#[test]
fn an_edited_selection_is_compared_and_its_finds_have_ids_of_their_own() {
    let record = RouteRecord { synced: true, selection: "old".into(), ..RouteRecord::default() };
    let keys = KeyRecord { told: Some(told(1, 15, 1)), ..KeyRecord::default() };
    let state = RouteState { record: Some(record), ..super::script::resumed(true, vec![(key(), keys)]) };
    let feed = FeedRecord { position: Some(version(20)), newest: Some(version(20)), ..FeedRecord::default() };
    let settings = RouteSettings { selection: "new".into(), ..Script::settings(0, 0) };
    let mut script = Script::with(settings, feed, state);
    assert_eq!(script.probed(20), [LIST], "the old position says nothing of what is selected now");
    script.engine.handle_list_item(script.now, &object("a", 1, 15, 1), &[None]);
    script.engine.handle_list_item(script.now, &object("b", 2, 14, 1), &[Some(1)]);
    script.engine.handle_list_finished(script.now, version(30));
    let told = script.run().into_iter().filter_map(|action| match action {
        Action::Publish(publication) => Some((publication.key.name().to_owned(), publication.what, publication.cause)),
        _ => None,
    });
    let edit = Cause::Selection(1);
    assert_eq!(told.collect::<Vec<_>>(), [("a".into(), What::Left, edit), ("b".into(), What::Entered, edit)]);
    assert_eq!(script.saves.last().unwrap().routes[0].revision, 1);
    assert_eq!(script.engine.rewinds(), 0, "that nobody had heard of b is the selection's doing");
}

#[test]
fn an_edit_while_a_list_is_under_way_begins_it_anew() {
    let mut script = Script::with(Script::settings(100, 1_000), FeedRecord::default(), RouteState::default());
    assert_eq!(script.run(), [LIST]);
    script.engine.handle_list_item(script.now, &object("a", 1, 9, 1), &[Some(1)]);
    script.engine.handle_selection_edited(0, "other".into());
    assert_eq!(script.probed(9)[0], LIST);
    script.engine.handle_list_item(script.now, &object("b", 2, 8, 1), &[None]);
    script.engine.handle_list_finished(script.now, version(10));
    assert_eq!(script.told_among_others(), [], "what was seen before the edit is judged anew, and absent");
}

#[test]
fn what_was_told_of_namespaces_that_the_route_reads_no_more_has_left() {
    let record = KeyRecord { told: Some(told(1, 15, 1)), ..KeyRecord::default() };
    let settings = EngineSettings { scope: Some("default".into()), ..EngineSettings::default() };
    let other = Key::new("elsewhere", "a");
    let state = super::script::resumed(false, vec![(key(), record.clone()), (other.clone(), record)]);
    let engine = Engine::new(settings, FeedRecord::default(), vec![(Script::settings(0, 0), state)], MS(0));
    let mut script = Script { engine, now: MS(0), saves: Vec::new(), hold_saves: false };
    assert_eq!(script.probed(20), [LIST]);
    script.engine.handle_list_finished(script.now, version(30));
    let told = script.run().into_iter().filter_map(|action| match action {
        Action::Publish(publication) => Some((publication.key, publication.what)),
        _ => None,
    });
    assert_eq!(told.collect::<Vec<_>>(), [(key(), What::Deleted), (other, What::Left)]);
}

#[test]
fn a_resync_tells_everything_again_as_observed_with_ids_of_its_own() {
    let mut script = Script::watching(0, 0);
    change(&mut script, ChangeKind::Added, 11, Some(1));
    assert_eq!(script.told(), [(What::Created, 11)]);
    for number in 1..=2 {
        script.engine.handle_resync(0);
        assert_eq!(script.probed(20), [LIST]);
        script.engine.handle_list_item(script.now, &object("a", 1, 11, 1), &[Some(1)]);
        script.engine.handle_list_finished(script.now, version(20));
        script.pass(100);
        let told = script.run().into_iter().filter_map(|action| match action {
            Action::Publish(publication) => Some(publication),
            _ => None,
        });
        let told: Vec<_> = told.collect();
        assert_eq!((told[0].what, told[0].cause), (What::Observed, Cause::Resync(number)));
        script.engine.handle_delivered(script.now, told[0].delivery, Verdict::Delivered);
        script.engine.handle_probed(script.now, Ok(version(20)));
        assert_eq!(script.run(), [Action::Watch { from: version(20) }]);
    }
}

#[test]
fn another_recipe_of_fingerprints_is_taken_over_without_an_event() {
    let record = RouteRecord { synced: true, recipe: "old".into(), ..RouteRecord::default() };
    let keys = KeyRecord { told: Some(told(1, 15, 1)), ..KeyRecord::default() };
    let state = RouteState { record: Some(record), ..super::script::resumed(true, vec![(key(), keys)]) };
    let settings = RouteSettings { recipe: "new".into(), ..Script::settings(0, 0) };
    let mut script = Script::with(settings, FeedRecord::default(), state);
    assert_eq!(script.probed(20), [LIST]);
    script.engine.handle_list_item(script.now, &object("a", 1, 15, 9), &[Some(9)]);
    script.engine.handle_list_finished(script.now, version(20));
    script.pass(1_000);
    assert_eq!(script.told_among_others(), []);
    let told = script.saves.last().unwrap().records[0].2.told.clone().unwrap();
    assert_eq!((told.fingerprint, told.recipe), (9, 1));
}

#[test]
fn an_object_that_an_edit_of_its_definition_has_altered_is_told_at_its_old_version() {
    let keys = KeyRecord { told: Some(told(1, 15, 1)), ..KeyRecord::default() };
    let state = super::script::resumed(false, vec![(key(), keys)]);
    let mut script = Script::with(Script::settings(0, 0), FeedRecord::default(), state);
    assert_eq!(script.probed(20), [LIST]);
    script.engine.handle_list_item(script.now, &object("a", 1, 15, 2), &[Some(2)]);
    script.engine.handle_list_finished(script.now, version(20));
    assert_eq!(script.told_among_others(), [(What::Updated, 15)]);
}

#[test]
fn a_kind_that_is_gone_takes_its_objects_with_it_once() {
    let keys = KeyRecord { told: Some(told(1, 15, 1)), ..KeyRecord::default() };
    let state = super::script::resumed(false, vec![(key(), keys)]);
    let mut script = Script::with(Script::settings(0, 0), FeedRecord::default(), state);
    let mut told = Vec::new();
    for _ in 0..3 {
        told.extend(script.told_among_others());
        script.engine.handle_probed(script.now, Err(FeedFailure::KindGone("not served".into())));
        assert!(matches!(script.engine.feed_state(), FeedState::Parked(ParkCause::NotServed(_))));
        told.extend(script.told_among_others());
        script.now = script.engine.poll_deadline().unwrap();
    }
    assert_eq!(told, [(What::Deleted, 15)]);
}
