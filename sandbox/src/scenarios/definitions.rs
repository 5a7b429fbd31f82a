//! What happens to watches and objects when their kind's definition is written, edited, deleted, made again.

use serde_json::{Value, json};

use super::Scenario;
use super::scene::Scene;

pub(super) const SCENARIOS: &[Scenario] = &[
    ("an_edited_definition_ends_watches_and_history", edited),
    ("a_label_on_a_definition_changes_nothing", labelled),
    ("a_version_that_is_unserved", unserved),
    ("a_deleted_definition_takes_its_objects_along", deleted),
    ("a_deleted_definition_waits_for_finalizers", waits),
    ("a_definition_made_again_has_no_history", made_again),
    ("discovery_tells_what_is_served", discovery),
    ("paths_that_nothing_serves", unknown),
    ("a_cluster_wide_kind_has_no_namespaces", cluster_wide),
];

fn edited(scene: &mut Scene<'_>) {
    scene.install();
    let start = scene.create("a", json!({}), json!({}));
    let path = scene.things(&format!("?watch=1&resourceVersion={start}")).replace("/v1/", "/v2/");
    let second = scene.watch_at("application/json", &path);
    let first = scene.watch(&format!("resourceVersion={start}&allowWatchBookmarks=true"));
    scene.patch("a", json!({"spec": {"n": 1}}));
    scene.read(first, 1);
    scene.read(second, 1);
    let path = scene.definition_path();
    let mut definition = scene.fetch(&path);
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = "another".into();
    scene.define("PUT", definition);
    scene.read_to_end(first);
    scene.read_to_end(second);
    // History begins anew with the first request; which one that is does not matter.
    scene.now();
    let watch = scene.watch(&format!("resourceVersion={start}"));
    scene.read_to_end(watch);
    let path = scene.things("");
    scene.get(&path);
    let start = scene.now();
    let watch = scene.watch(&format!("resourceVersion={start}"));
    scene.patch("a", json!({"spec": {"n": 2}}));
    scene.read(watch, 1);
}

fn labelled(scene: &mut Scene<'_>) {
    scene.install();
    let start = scene.create("a", json!({}), json!({}));
    let watch = scene.watch(&format!("resourceVersion={start}"));
    scene.define("PATCH", json!({"metadata": {"labels": {"team": "x"}}}));
    scene.define("PATCH", json!({"spec": {"scope": "Namespaced"}}));
    // Longer than it takes the real server to end the watches of an edited definition.
    for _ in 0..3 {
        scene.silence(watch);
    }
    scene.patch("a", json!({"spec": {"n": 1}}));
    scene.read(watch, 1);
    let watch = scene.watch(&format!("resourceVersion={start}"));
    scene.read(watch, 1);
}

fn unserved(scene: &mut Scene<'_>) {
    scene.install();
    let start = scene.create("a", json!({}), json!({}));
    let second = scene.things("").replace("/v1/", "/v2/");
    let on_second = scene.watch_at("application/json", &format!("{second}?watch=1&resourceVersion={start}"));
    let on_first = scene.watch(&format!("resourceVersion={start}"));
    let path = scene.definition_path();
    let mut definition = scene.fetch(&path);
    definition["spec"]["versions"][1]["served"] = false.into();
    scene.define("PUT", definition);
    scene.read_to_end(on_second);
    scene.read_to_end(on_first);
    scene.until(&second, 404);
    scene.get(&second);
    scene.get(&format!("{second}?watch=1&resourceVersion={start}"));
    scene.get(&format!("{second}/a"));
    let path = scene.things("");
    scene.get(&path);
}

fn deleted(scene: &mut Scene<'_>) {
    scene.install();
    scene.create("a", json!({}), json!({"n": 1}));
    let start = scene.create("b", json!({}), json!({"n": 1}));
    let watch = scene.watch(&format!("resourceVersion={start}&allowWatchBookmarks=true"));
    let path = scene.definition_path();
    scene.define("DELETE", Value::Null);
    // Objects are deleted in no promised order.
    scene.read_in_any_order(watch, 2);
    scene.read_to_end(watch);
    scene.until(&path, 404);
    let things = scene.things("");
    scene.until(&things, 404);
    scene.get(&things);
    scene.get(&format!("{things}?watch=1&resourceVersion={start}"));
    scene.get(&path);
}

fn waits(scene: &mut Scene<'_>) {
    scene.install();
    let start = scene.now();
    scene.create_from(json!({"metadata": {"name": "held", "finalizers": ["x.io/y"]}, "spec": {}}));
    let watch = scene.watch(&format!("resourceVersion={start}"));
    scene.define("DELETE", Value::Null);
    scene.read(watch, 2);
    let things = scene.things("");
    let thing = json!({"apiVersion": format!("{}/v1", scene.group), "kind": "Thing", "metadata": {"name": "late"}});
    scene.ask("POST", &things, thing);
    scene.patch("held", json!({"spec": {"n": 1}}));
    scene.read(watch, 1);
    scene.patch("held", json!({"metadata": {"finalizers": null}}));
    scene.read_to_end(watch);
    scene.until(&things, 404);
    scene.get(&things);
}

fn made_again(scene: &mut Scene<'_>) {
    scene.install();
    let before = scene.definition_path();
    let before = scene.fetch(&before)["metadata"]["uid"].clone();
    let start = scene.create("a", json!({}), json!({}));
    let path = scene.definition_path();
    scene.define("DELETE", Value::Null);
    scene.until(&path, 404);
    let things = scene.things("");
    scene.until(&things, 404);
    scene.install();
    let after = scene.fetch(&path)["metadata"]["uid"].clone();
    scene.note(&format!("the uid is another one: {}", before != after));
    let watch = scene.watch(&format!("resourceVersion={start}"));
    scene.read_to_end(watch);
    scene.create("a", json!({}), json!({}));
    scene.get(&things);
}

fn discovery(scene: &mut Scene<'_>) {
    scene.install_with(&|definition| {
        let versions = definition["spec"]["versions"].as_array_mut().expect("versions are an array");
        for name in ["v1beta1", "v10", "v1alpha2", "v3", "odd"] {
            let mut version = versions[1].clone();
            version["name"] = name.into();
            version["served"] = (name != "v3").into();
            versions.push(version);
        }
    });
    let group = format!("/apis/{}", scene.group);
    // The real server's discovery follows some moments later.
    scene.until(&group, 200);
    scene.until(&format!("{group}/v1"), 200);
    scene.get(&group);
    scene.get(&format!("{group}/v1"));
    scene.get(&format!("{group}/v10"));
    scene.get(&format!("{group}/v3"));
    scene.get("/apis/nothing.test.io");
    let all = scene.fetch("/apis");
    let mine = all["groups"].as_array().into_iter().flatten().find(|group| group["name"] == scene.group.as_str());
    let mine = mine.cloned().unwrap_or_default();
    scene.note(&format!("in all groups: {}", mine["preferredVersion"]));
    let core = scene.fetch("/api/v1");
    for name in ["configmaps", "namespaces"] {
        let mut resources = core["resources"].as_array().into_iter().flatten();
        let found = resources.find(|resource| resource["name"] == name).cloned().unwrap_or_default();
        scene.note(&format!("{name}: {} {} {}", found["kind"], found["namespaced"], found["verbs"]));
    }
    let versions = scene.fetch("/api");
    scene.note(&format!("{} {}", versions["kind"], versions["versions"]));
}

fn unknown(scene: &mut Scene<'_>) {
    scene.install();
    let group = format!("/apis/{}", scene.group);
    for path in [
        format!("{group}/v1/others"),
        format!("{group}/v1/namespaces/default/others"),
        format!("{group}/v3/things"),
        format!("{group}/v3/things?watch=1"),
        "/apis/nothing.test.io/v1/things".to_owned(),
        format!("{group}/v1/namespaces/default/things/absent"),
        format!("{group}/v1/namespaces/nowhere/things/absent"),
        "/api/v1/namespaces/default/configmaps/absent".to_owned(),
    ] {
        scene.get(&path);
    }
}

fn cluster_wide(scene: &mut Scene<'_>) {
    scene.install_with(&|definition| definition["spec"]["scope"] = "Cluster".into());
    let path = scene.all_things("");
    let thing = json!({"apiVersion": format!("{}/v1", scene.group), "kind": "Thing", "metadata": {"name": "a"}});
    let created = scene.ask("POST", &path, thing.clone());
    scene.ask("PATCH", &format!("{path}/a"), json!({"spec": {"n": 1}}));
    scene.get(&format!("{path}/a"));
    scene.get(&format!("{path}?limit=1"));
    scene.ask("DELETE", &format!("{path}/a"), Value::Null);
    let target =
        format!("{path}?watch=1&resourceVersion={}", created["metadata"]["resourceVersion"].as_str().unwrap_or(""));
    let watch = scene.watch_at("application/json", &target);
    scene.read(watch, 2);
    let inside = scene.things("");
    scene.get(&inside);
    scene.ask("POST", &inside, thing);
}
