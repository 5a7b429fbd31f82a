//! Watches from a version: what they show, where they can begin, how they end.

use std::time::Duration;

use serde_json::json;

use super::Scenario;
use super::scene::{METADATA, METADATA_LIST, Scene};

pub(super) const SCENARIOS: &[Scenario] = &[
    // First, since it takes longest.
    ("a_watch_cache_holds_what_is_young", window),
    ("a_watch_shows_each_write_after_its_version", each_write),
    ("a_watch_from_before_the_cache_is_expired", expired),
    ("a_watch_from_the_future_is_silent", from_the_future),
    ("watch_options_that_contradict_are_refused", refused),
    ("a_watch_ends_cleanly_at_its_timeout", timeout),
    ("a_watch_of_a_namespace_and_of_all", namespaces),
    ("a_watch_of_metadata_alone", metadata),
    ("each_version_shows_the_same_objects", versions),
    ("the_bytes_are_in_the_server_s_order", bytes),
];

fn each_write(scene: &mut Scene<'_>) {
    scene.install();
    let start = scene.now();
    let first = scene.create("a", json!({"x": "1"}), json!({"color": "red"}));
    scene.patch("a", json!({"spec": {"color": "blue"}}));
    scene.patch("a", json!({"metadata": {"annotations": {"note": "hello"}}}));
    scene.delete("a");
    scene.create("a", json!({}), json!({}));
    let watch = scene.watch(&format!("resourceVersion={start}"));
    scene.read(watch, 5);
    scene.create("b", json!({}), json!({}));
    scene.read(watch, 1);
    scene.silence(watch);
    scene.close(watch);
    let watch = scene.watch(&format!("resourceVersion={first}"));
    scene.read(watch, 5);
    scene.silence(watch);
}

fn window(scene: &mut Scene<'_>) {
    scene.install();
    let start = scene.create("a", json!({}), json!({}));
    let one = scene.things("/a");
    let resumed = format!("resourceVersion={start}&timeoutSeconds=1");
    let write = |scene: &mut Scene<'_>, numbers: std::ops::Range<u32>| {
        for n in numbers {
            scene.ask_quietly("PATCH", &one, json!({"spec": {"n": n}}));
        }
    };
    // More than a hundred, and all of them young: the cache becomes larger.
    write(scene, 0..150);
    scene.now();
    let watch = scene.watch(&resumed);
    scene.count_to_end(watch);
    scene.server.pass(Duration::from_secs(76));
    // Now they are old, but there is room.
    write(scene, 150..190);
    scene.now();
    let watch = scene.watch(&resumed);
    scene.count_to_end(watch);
    write(scene, 190..230);
    scene.now();
    let watch = scene.watch(&resumed);
    scene.count_to_end(watch);
}

fn expired(scene: &mut Scene<'_>) {
    scene.install();
    for query in ["resourceVersion=1", "resourceVersion=1&allowWatchBookmarks=true&labelSelector=a"] {
        let watch = scene.watch(query);
        scene.read_to_end(watch);
    }
}

fn from_the_future(scene: &mut Scene<'_>) {
    scene.install();
    let watch = scene.watch("resourceVersion=900000000&allowWatchBookmarks=true");
    scene.silence(watch);
    scene.close(watch);
    // A watch that had not come so far is not told what is behind it either: nothing is, until the counter is there.
    let watch = scene.watch("resourceVersion=900000000&timeoutSeconds=2");
    scene.create("a", json!({}), json!({}));
    scene.read_to_end(watch);
}

fn refused(scene: &mut Scene<'_>) {
    scene.install();
    for query in [
        "resourceVersion=abc",
        "resourceVersion=-1",
        "sendInitialEvents=true",
        "sendInitialEvents=true&resourceVersionMatch=Exact",
        "resourceVersion=5&resourceVersionMatch=NotOlderThan",
        "fieldSelector=spec.other%3D1",
        "labelSelector=a%3D%3D%3D",
        "continue=abc",
    ] {
        let path = scene.things(&format!("?watch=1&{query}"));
        scene.get(&path);
    }
    // A single object is not watched this way: it is fetched.
    scene.create("a", json!({}), json!({}));
    let path = scene.things("/a?watch=1");
    scene.get(&path);
    let start = scene.now();
    let watch = scene.watch(&format!("resourceVersion={start}&limit=1&timeoutSeconds=2"));
    scene.patch("a", json!({"spec": {"n": 1}}));
    scene.patch("a", json!({"spec": {"n": 2}}));
    scene.read_to_end(watch);
}

fn timeout(scene: &mut Scene<'_>) {
    scene.install();
    let start = scene.create("a", json!({}), json!({}));
    let watch = scene.watch(&format!("resourceVersion={start}&timeoutSeconds=1"));
    scene.read_to_end(watch);
}

fn namespaces(scene: &mut Scene<'_>) {
    scene.install();
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "second"}});
    scene.ask("POST", "/api/v1/namespaces", body);
    let start = scene.now();
    let path = scene.things("").replace("default", "second");
    let thing = json!({"apiVersion": format!("{}/v1", scene.group), "kind": "Thing", "metadata": {"name": "a"}});
    scene.ask("POST", &path, thing);
    scene.create("a", json!({}), json!({}));
    scene.ask("DELETE", &format!("{path}/a"), json!({}));
    let watch = scene.watch(&format!("resourceVersion={start}"));
    scene.read(watch, 1);
    scene.silence(watch);
    let path = scene.all_things(&format!("?watch=1&resourceVersion={start}"));
    let watch = scene.watch_at("application/json", &path);
    scene.read(watch, 3);
    scene.silence(watch);
}

fn metadata(scene: &mut Scene<'_>) {
    scene.install();
    let start = scene.create("a", json!({"x": "1"}), json!({"color": "red"}));
    scene.patch("a", json!({"spec": {"color": "blue"}}));
    scene.delete("a");
    scene.create("b", json!({}), json!({}));
    let path = scene.things(&format!("?watch=1&resourceVersion={start}"));
    let watch = scene.watch_at(METADATA, &path);
    scene.read(watch, 3);
    scene.silence(watch);
    let path = scene.things("?limit=1");
    scene.get_as(METADATA_LIST, &path);
    scene.create("c", json!({}), json!({}));
    scene.get_as(METADATA_LIST, &path);
    let path = scene.things("/b");
    scene.get_as(METADATA, &path);
    let path = scene.things("?watch=1&resourceVersion=1");
    let watch = scene.watch_at(METADATA, &path);
    scene.read_to_end(watch);
}

fn versions(scene: &mut Scene<'_>) {
    scene.install();
    let start = scene.now();
    scene.create("a", json!({}), json!({"color": "red"}));
    let second = |path: String| path.replace("/v1/", "/v2/");
    let body = json!({"apiVersion": format!("{}/v2", scene.group), "kind": "Thing", "metadata": {"name": "b"}});
    let path = second(scene.things(""));
    scene.ask("POST", &path, body);
    let path = second(scene.things("/a"));
    scene.ask("PATCH", &path, json!({"spec": {"size": 1}}));
    let path = second(scene.things("/a/status"));
    scene.ask("PATCH", &path, json!({"status": {"ready": true}}));
    scene.delete("a");
    for version in ["v1", "v2"] {
        let path = scene.things("").replace("/v1/", &format!("/{version}/"));
        scene.get(&path);
        let path = format!("{path}?watch=1&resourceVersion={start}");
        let watch = scene.watch_at("application/json", &path);
        scene.read(watch, 5);
    }
    let path = second(scene.things("?fieldSelector=spec.color%3Dred"));
    scene.get(&path);
}

fn bytes(scene: &mut Scene<'_>) {
    scene.install();
    let start = scene.now();
    let metadata = json!({
        "name": "a", "labels": {"z": "1", "a": "2"}, "annotations": {"note": "<b> & \u{e9} \" \\ \n"},
        "finalizers": ["x.io/y"],
    });
    scene
        .create_from(json!({"metadata": metadata, "spec": {"zeta": [1, 2.5, null, true], "alpha": {}, "color": "<>"}}));
    let path = scene.things("/a");
    scene.get_raw("application/json", &path);
    scene.get_raw(METADATA, &path);
    let path = scene.things("");
    scene.get_raw("application/json", &path);
    scene.get_raw(METADATA_LIST, &path);
    scene.delete("a");
    scene.patch("a", json!({"metadata": {"finalizers": null}}));
    for accept in ["application/json", METADATA] {
        let path = scene.things(&format!("?watch=1&resourceVersion={start}"));
        let watch = scene.watch_at(accept, &path);
        for _ in 0..3 {
            scene.read_raw(watch);
        }
    }
    let stream = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let watch = scene.watch(stream);
    scene.read_raw(watch);
    let path = "/api/v1/namespaces/default/configmaps";
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "bytes", "labels": {"case": "bytes"}}, "data": {"b": "<", "a": "2"}});
    scene.ask("POST", path, map);
    scene.get_raw("application/json", &format!("{path}/bytes"));
    scene.get_raw("application/json", &format!("{path}?labelSelector=case%3Dbytes"));
    let watch = scene.watch_at("application/json", &format!("{path}?watch=1&labelSelector=case%3Dbytes"));
    scene.read_raw(watch);
}
