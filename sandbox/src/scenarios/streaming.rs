//! Streaming lists: watches that begin with the state.

use serde_json::json;

use super::Scenario;
use super::scene::{METADATA, Scene};

pub(super) const SCENARIOS: &[Scenario] = &[
    ("a_streaming_list_comes_by_key_with_its_end_marked", by_key),
    ("a_streaming_list_of_nothing_has_an_end", of_nothing),
    ("a_streaming_list_under_selectors", under_selectors),
    ("a_streaming_list_of_metadata", of_metadata),
    ("a_streaming_list_not_older_than_a_version", not_older),
    ("a_streaming_list_from_the_future_fails", from_the_future),
    ("a_streaming_list_without_bookmarks_has_no_end", without_bookmarks),
    ("a_watch_without_a_version_begins_with_the_state", without_version),
    ("a_watch_without_initial_events_begins_now", without_initial_events),
];

pub(super) const WITHOUT: &[Scenario] = &[("streaming_lists_are_refused_where_there_are_none", refused)];

const STREAM: &str = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";

fn fill(scene: &mut Scene<'_>) {
    for (name, color) in [("c", "red"), ("a", "blue"), ("b", "red")] {
        scene.create(name, json!({"color": color}), json!({"color": color}));
    }
    scene.patch("a", json!({"spec": {"size": 2}}));
    scene.create("gone", json!({}), json!({}));
    scene.delete("gone");
}

fn by_key(scene: &mut Scene<'_>) {
    scene.install();
    fill(scene);
    let watch = scene.watch(STREAM);
    scene.read(watch, 4);
    scene.patch("c", json!({"spec": {"size": 3}}));
    scene.delete("b");
    scene.read(watch, 2);
    scene.silence(watch);
}

fn of_nothing(scene: &mut Scene<'_>) {
    scene.install();
    let watch = scene.watch(STREAM);
    scene.read(watch, 1);
    scene.create("a", json!({}), json!({}));
    scene.read(watch, 1);
}

fn under_selectors(scene: &mut Scene<'_>) {
    scene.install();
    fill(scene);
    for selector in ["labelSelector=color%3Dred", "fieldSelector=spec.color%3Dblue", "labelSelector=color%3Dnone"] {
        let watch = scene.watch(&format!("{STREAM}&{selector}&timeoutSeconds=1"));
        scene.read_to_end(watch);
    }
}

fn of_metadata(scene: &mut Scene<'_>) {
    scene.install();
    fill(scene);
    let path = scene.things(&format!("?watch=1&{STREAM}&timeoutSeconds=1"));
    let watch = scene.watch_at(METADATA, &path);
    scene.read_to_end(watch);
}

fn not_older(scene: &mut Scene<'_>) {
    scene.install();
    fill(scene);
    let now = scene.now();
    // However old the version: nothing is expired for a list that is not older.
    for version in ["1", &now] {
        let watch = scene.watch(&format!("{STREAM}&resourceVersion={version}&timeoutSeconds=1"));
        scene.read_to_end(watch);
    }
}

fn from_the_future(scene: &mut Scene<'_>) {
    scene.install();
    let watch = scene.watch(&format!("{STREAM}&resourceVersion=900000000"));
    scene.read_to_end(watch);
}

fn without_bookmarks(scene: &mut Scene<'_>) {
    scene.install();
    fill(scene);
    let watch = scene.watch("sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1");
    scene.read_to_end(watch);
}

fn without_version(scene: &mut Scene<'_>) {
    scene.install();
    fill(scene);
    for query in ["", "&allowWatchBookmarks=true", "&resourceVersion=0", "&resourceVersion=0&allowWatchBookmarks=true"]
    {
        // A list first: the cache of version 0 has then read everything.
        scene.now();
        let watch = scene.watch(&format!("timeoutSeconds=1{query}"));
        scene.read_to_end(watch);
    }
    let watch = scene.watch("");
    scene.read(watch, 3);
    scene.delete("a");
    scene.read(watch, 1);
}

fn without_initial_events(scene: &mut Scene<'_>) {
    scene.install();
    fill(scene);
    scene.now();
    let watch = scene.watch("sendInitialEvents=false&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true");
    scene.silence(watch);
    scene.patch("c", json!({"spec": {"size": 3}}));
    scene.read(watch, 1);
}

fn refused(scene: &mut Scene<'_>) {
    scene.install();
    scene.create("a", json!({}), json!({}));
    for query in [
        STREAM,
        "sendInitialEvents=true",
        "sendInitialEvents=false&resourceVersionMatch=NotOlderThan",
        "resourceVersion=5&resourceVersionMatch=NotOlderThan",
    ] {
        let path = scene.things(&format!("?watch=1&{query}"));
        scene.get(&path);
    }
    // A watch without a version begins with the state all the same, but never says that it was all.
    let watch = scene.watch("allowWatchBookmarks=true&timeoutSeconds=1");
    scene.read_to_end(watch);
    let path = scene.things("");
    scene.get(&path);
}
