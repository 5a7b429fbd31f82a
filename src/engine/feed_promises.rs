//! What the feed asks next, what it shows of its troubles, and what is saved on the way. Scripts in virtual time.

use super::properties::object;
use super::script::{MS, Script, version};
use super::*;
use crate::model::Served;

const LIST: Action = Action::List { streaming: true, metadata_only: false };

fn broken() -> FeedFailure {
    FeedFailure::Other("the watch broke off".into())
}

/// The watch fails and is taken up again by a probe.
fn break_off(script: &mut Script, failure: FeedFailure, at: u128) {
    script.engine.handle_stream_ended(script.now, Some(failure));
    assert_eq!(script.probed_later(at), [Action::Watch { from: version(at) }]);
}

#[test]
fn a_bookmark_moves_the_position_and_that_is_saved() {
    let mut script = Script::watching(0, 0);
    script.engine.handle_bookmark(version(15));
    let soon = |at: Now| at <= script.now + MS(50);
    assert!(script.engine.poll_deadline().is_some_and(soon), "not at the next change only");
    script.pass(60);
    script.run();
    script.pass(60);
    script.run();
    assert_eq!(script.saves.last().unwrap().feed.position, Some(version(15)));
    script.engine.handle_stream_ended(script.now, None);
    assert_eq!(script.probed(15), [Action::Watch { from: version(15) }]);
}

#[test]
fn how_the_kind_is_served_is_saved_when_it_is_another_way_than_before() {
    let mut script = Script::watching(0, 0);
    script.pass(100);
    script.run();
    let served = |version: &str| Served { version: version.into(), kind: "MyApp".into(), defined: true };
    let mut saves = 0;
    for (name, saved) in [("v1", true), ("v1", false), ("v2", true)] {
        script.engine.handle_served(served(name));
        for _ in 0..2 {
            script.pass(60);
            script.run();
        }
        assert_eq!(script.saves.last().unwrap().feed.served, Some(served(name)));
        assert_eq!(script.saves.len() > std::mem::replace(&mut saves, script.saves.len()), saved, "{name}");
    }
}

#[test]
fn a_watch_that_ends_at_once_without_a_word_is_not_asked_for_in_a_loop() {
    let mut script = Script::watching(0, 0);
    script.engine.handle_stream_ended(script.now, None);
    assert_eq!(script.run(), [], "there is a wait first");
    assert!(matches!(script.engine.feed_state(), FeedState::Waiting { .. }));
    assert_eq!(script.probed_later(10), [Action::Watch { from: version(10) }]);
    script.pass(1_000);
    script.engine.handle_stream_ended(script.now, None);
    assert_eq!(script.probed(10), [Action::Watch { from: version(10) }], "this one has lasted");
    script.engine.handle_bookmark(version(11));
    script.engine.handle_stream_ended(script.now, None);
    assert_eq!(script.probed(11), [Action::Watch { from: version(11) }], "this one has said something");
}

#[test]
fn the_third_failure_in_a_row_without_a_word_leads_to_a_list() {
    let mut script = Script::watching(0, 0);
    break_off(&mut script, broken(), 10);
    break_off(&mut script, broken(), 10);
    script.engine.handle_bookmark(version(11));
    break_off(&mut script, broken(), 11);
    break_off(&mut script, broken(), 11);
    script.engine.handle_stream_ended(script.now, Some(broken()));
    assert_eq!(script.probed_later(11), [LIST]);
}

#[test]
fn an_api_server_that_is_busy_is_not_asked_for_lists() {
    let mut script = Script::watching(0, 0);
    for _ in 0..4 {
        break_off(&mut script, FeedFailure::Throttled { reason: "busy".into(), after: None }, 10);
    }
}

#[test]
fn trouble_is_shown_until_something_gets_further() {
    let mut script = Script::watching(0, 0);
    script.engine.handle_stream_ended(script.now, Some(broken()));
    let waiting = FeedState::Waiting { reason: "the watch broke off".into() };
    assert_eq!(script.run_later(), [Action::Probe]);
    assert_eq!(script.engine.feed_state(), waiting, "a question is no answer");
    script.engine.handle_probed(script.now, Ok(version(10)));
    script.run();
    script.engine.handle_bookmark(version(11));
    assert_eq!(script.engine.feed_state(), FeedState::Watching);

    script.engine.handle_stream_ended(script.now, Some(FeedFailure::Expired));
    assert_eq!(script.probed(20), [LIST]);
    script.engine.handle_list_failed(script.now, broken());
    assert_eq!(script.probed_later(20), [LIST]);
    assert_eq!(script.engine.feed_state(), waiting);
    script.engine.handle_list_item(script.now, &object("a", 1, 12, 1), &[Some(1)]);
    assert_eq!(script.engine.feed_state(), FeedState::Listing);
}

#[test]
fn an_answer_that_cannot_be_read_is_counted_and_the_collection_is_read_anew() {
    let mut script = Script::watching(0, 0);
    for count in 1..=2 {
        script.engine.handle_stream_ended(script.now, Some(FeedFailure::Undecodable("no uid".into())));
        assert_eq!(script.engine.unreadable(), count);
        assert_eq!(script.engine.feed_state(), FeedState::Waiting { reason: "no uid".into() });
        assert_eq!(script.probed_later(10), [LIST], "it is not stepped over");
        script.engine.handle_list_finished(script.now, version(10));
        assert_eq!(script.probed(10), [Action::Watch { from: version(10) }]);
    }
}

#[test]
fn after_a_success_the_waits_begin_anew() {
    let mut script = Script::watching(0, 0);
    let wait = |script: &mut Script, at: u128| {
        let began = script.now;
        break_off(script, FeedFailure::Throttled { reason: "busy".into(), after: None }, at);
        script.now - began
    };
    for _ in 0..8 {
        wait(&mut script, 10);
    }
    assert!(wait(&mut script, 10) > MS(10_000));
    script.engine.handle_bookmark(version(11));
    assert!(wait(&mut script, 11) <= MS(500));
}

#[test]
fn a_server_without_streaming_lists_is_asked_for_pages_from_then_on() {
    let pages = Action::List { streaming: false, metadata_only: false };
    let mut script = Script::with(Script::settings(0, 0), FeedRecord::default(), RouteState::default());
    assert_eq!(script.run(), [LIST]);
    script.engine.handle_list_failed(script.now, FeedFailure::StreamingUnsupported);
    assert_eq!(script.run(), std::slice::from_ref(&pages), "at once");
    script.engine.handle_list_failed(script.now, FeedFailure::StreamingUnsupported);
    assert_eq!(script.run(), [], "a server that refuses those, too, is not asked in a loop");
    assert_eq!(script.run_later(), [pages]);
}

#[test]
fn an_object_that_a_streaming_list_saw_deleted_before_its_end_is_gone() {
    let mut script = Script::watching(0, 0);
    script.change(1, 11, 1);
    assert_eq!(script.told(), [(crate::model::What::Created, 11)]);
    script.engine.handle_stream_ended(script.now, Some(FeedFailure::Expired));
    assert_eq!(script.probed(20), [LIST]);
    script.engine.handle_list_item(script.now, &object("a", 1, 11, 1), &[Some(1)]);
    script.engine.handle_list_removed(&object("a", 1, 19, 1));
    script.engine.handle_list_finished(script.now, version(20));
    assert_eq!(script.told_among_others(), [(crate::model::What::Deleted, 11)]);
}
