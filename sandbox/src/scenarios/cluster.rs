//! Compaction, restarts, missing rights, and bookmarks, which other kinds' writes may move.

use serde_json::json;

use super::Scenario;
use super::scene::{Scene, token_of};

pub(super) const SCENARIOS: &[Scenario] = &[
    ("missing_rights_are_named", forbidden),
    ("a_bookmark_comes_before_the_timeout", bookmark),
    ("compaction_hurts_no_watch_and_no_cached_list", compaction),
    ("a_restart_cuts_watches_and_forgets_history", restart),
    ("tokens_and_old_lists_expire_when_cache_and_etcd_forget", expired),
    ("a_backup_put_back_makes_the_future_silent", put_back),
    ("old_lists_survive_a_restart_until_compaction", etcd_remembers),
];

fn forbidden(scene: &mut Scene<'_>) {
    scene.install();
    scene.create("a", json!({}), json!({}));
    for path in [scene.things(""), scene.all_things(""), scene.things("/a"), scene.things("?watch=1")] {
        scene.ask_as_limited("GET", &path);
    }
    let path = scene.all_things("?watch=1&resourceVersion=1");
    scene.ask_as_limited("GET", &path);
    let path = scene.things("/a");
    scene.ask_as_limited("DELETE", &path);
    scene.ask_as_limited("GET", "/api/v1/namespaces?watch=1");
    scene.ask_as_limited("GET", "/api/v1/namespaces/default/configmaps/absent");
    // Rights come first: whether the kind is there is nobody's business.
    scene.ask_as_limited("GET", "/apis/nothing.test.io/v1/things");
}

fn bookmark(scene: &mut Scene<'_>) {
    scene.install();
    let start = scene.create("a", json!({}), json!({}));
    let watch = scene.watch(&format!("resourceVersion={start}&timeoutSeconds=4&allowWatchBookmarks=true"));
    scene.patch("a", json!({"spec": {"n": 1}}));
    scene.bookmark_before_end(watch);
    // Nothing has happened since: there is nothing to say.
    let start = scene.now();
    let watch = scene.watch(&format!("resourceVersion={start}&timeoutSeconds=4&allowWatchBookmarks=true"));
    scene.bookmark_before_end(watch);
    let watch = scene.watch(&format!("resourceVersion={start}&timeoutSeconds=4"));
    scene.patch("a", json!({"spec": {"n": 2}}));
    scene.bookmark_before_end(watch);
}

fn compaction(scene: &mut Scene<'_>) {
    scene.install();
    let start = scene.create("a", json!({}), json!({"n": 0}));
    scene.create("b", json!({}), json!({}));
    let path = scene.things("?limit=1");
    let page = scene.get(&path);
    let open = scene.watch(&format!("resourceVersion={start}"));
    scene.read(open, 1);
    scene.patch("a", json!({"spec": {"n": 1}}));
    scene.delete("b");
    scene.server.compact();
    scene.read(open, 2);
    let watch = scene.watch(&format!("resourceVersion={start}"));
    scene.read(watch, 3);
    let path = scene.things(&format!("?resourceVersion={start}&resourceVersionMatch=Exact"));
    scene.get(&path);
    let path = scene.things(&format!("?limit=1&continue={}", token_of(&page)));
    scene.get(&path);
    scene.patch("a", json!({"spec": {"n": 2}}));
    scene.read(open, 1);
}

fn restart(scene: &mut Scene<'_>) {
    scene.install();
    scene.create("a", json!({}), json!({"n": 0}));
    let start = scene.now();
    let watch = scene.watch(&format!("resourceVersion={start}&allowWatchBookmarks=true"));
    scene.patch("a", json!({"spec": {"n": 1}}));
    scene.read(watch, 1);
    scene.server.restart();
    scene.read_to_end(watch);
    let path = scene.things("");
    scene.until(&path, 200);
    scene.get(&path);
    let watch = scene.watch(&format!("resourceVersion={start}"));
    scene.read_to_end(watch);
    let now = scene.now();
    let watch = scene.watch(&format!("resourceVersion={now}"));
    scene.patch("a", json!({"spec": {"n": 2}}));
    scene.read(watch, 1);
}

fn expired(scene: &mut Scene<'_>) {
    scene.install();
    for name in ["a", "b", "c", "d"] {
        scene.create(name, json!({}), json!({}));
    }
    let start = scene.now();
    let path = scene.things("?limit=2");
    let page = scene.get(&path);
    scene.patch("c", json!({"spec": {"n": 1}}));
    scene.delete("a");
    scene.server.compact();
    scene.server.restart();
    let path = scene.things("");
    scene.until(&path, 200);
    let path = scene.things(&format!("?limit=1&continue={}", token_of(&page)));
    let refusal = scene.get(&path);
    // The refusal has a token that leads on, at a newer revision.
    let path = scene.things(&format!("?limit=1&continue={}", token_of(&refusal)));
    let third = scene.get(&path);
    let path = scene.things(&format!("?limit=1&continue={}", token_of(&third)));
    scene.get(&path);
    for query in ["&resourceVersionMatch=Exact", "&limit=1", "&resourceVersionMatch=NotOlderThan"] {
        let path = scene.things(&format!("?resourceVersion={start}{query}"));
        scene.get(&path);
    }
}

fn put_back(scene: &mut Scene<'_>) {
    scene.install();
    scene.create("a", json!({}), json!({"n": 0}));
    scene.server.back_up();
    let things = scene.things("");
    scene.until(&things, 200);
    // More writes than a real server makes by itself when it starts. Their versions are given again, so that nothing of
    // them is written down.
    let one = scene.things("/a");
    for n in 0..150 {
        scene.ask_quietly("PATCH", &one, json!({"spec": {"n": n}}));
    }
    let newest = scene.now();
    let open = scene.watch(&format!("resourceVersion={newest}"));
    scene.server.put_back();
    scene.read_to_end(open);
    scene.until(&things, 200);
    scene.get(&things);
    scene.get(&one);
    for query in ["&resourceVersionMatch=NotOlderThan", "&resourceVersionMatch=Exact"] {
        let path = scene.things(&format!("?resourceVersion={newest}{query}"));
        scene.get(&path);
    }
    let watch = scene.watch(&format!("resourceVersion={newest}&allowWatchBookmarks=true"));
    scene.create("b", json!({}), json!({}));
    scene.silence(watch);
    let stream = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let watch = scene.watch(&format!("{stream}&resourceVersion={newest}"));
    scene.read_to_end(watch);
}

fn etcd_remembers(scene: &mut Scene<'_>) {
    scene.install();
    scene.create("a", json!({}), json!({}));
    scene.create("b", json!({}), json!({}));
    let start = scene.now();
    let path = scene.things("?limit=1");
    let page = scene.get(&path);
    scene.patch("b", json!({"spec": {"n": 1}}));
    scene.server.restart();
    let path = scene.things("");
    scene.until(&path, 200);
    let path = scene.things(&format!("?limit=1&continue={}", token_of(&page)));
    scene.get(&path);
    let path = scene.things(&format!("?resourceVersion={start}&resourceVersionMatch=Exact"));
    scene.get(&path);
}
