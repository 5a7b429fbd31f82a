//! Writes: what the server sets, refuses and leaves as it is, and what it tells of it.

use serde_json::{Value, json};

use super::Scenario;
use super::scene::{Scene, version_of};

pub(super) const SCENARIOS: &[Scenario] = &[
    ("finalizers_hold_a_deletion", finalizers),
    ("generations_with_a_status_subresource", generations),
    ("generations_without_a_status_subresource", generations_without),
    ("a_write_that_changes_nothing_is_none", no_change),
    ("updates_are_optimistic", optimistic),
    ("creations_that_are_refused", refused_creations),
    ("deletions_may_insist", preconditions),
    ("a_new_object_of_an_old_name", recreated),
    ("a_collection_is_deleted_object_by_object", collection),
    ("config_maps_are_built_in", config_maps),
    ("namespaces_are_objects", namespaces),
];

fn finalizers(scene: &mut Scene<'_>) {
    scene.install();
    let start = scene.now();
    let metadata = json!({"name": "a", "finalizers": ["x.io/one", "x.io/two"]});
    scene.create_from(json!({"metadata": metadata, "spec": {"color": "red"}}));
    scene.delete("a");
    scene.delete("a");
    scene.patch("a", json!({"metadata": {"finalizers": ["x.io/one", "x.io/two", "x.io/three"]}}));
    scene.patch("a", json!({"metadata": {"finalizers": ["x.io/one"]}}));
    scene.patch("a", json!({"spec": {"color": "blue"}}));
    scene.patch("a", json!({"metadata": {"finalizers": []}}));
    let path = scene.things("/a");
    scene.get(&path);
    let watch = scene.watch(&format!("resourceVersion={start}"));
    scene.read(watch, 5);
    scene.silence(watch);
}

fn generations(scene: &mut Scene<'_>) {
    scene.install();
    let start = scene.now();
    let created = json!({"metadata": {"name": "a", "generation": 7}, "spec": {"color": "red"}, "status": {"x": 1}});
    scene.create_from(created);
    scene.patch("a", json!({"spec": {"color": "blue"}}));
    scene.patch("a", json!({"status": {"x": 2}}));
    scene.patch("a", json!({"metadata": {"labels": {"a": "b"}}}));
    let status = scene.things("/a/status");
    scene.ask(
        "PATCH",
        &status,
        json!({"status": {"x": 3}, "spec": {"color": "no"}, "metadata": {"labels": {"no": "no"}}}),
    );
    scene.get(&status);
    let path = scene.things("/a");
    let mut object = scene.get(&path);
    object["status"] = json!({"x": 4});
    object["spec"] = json!({"size": 1});
    scene.ask("PUT", &path, object);
    let mut object = scene.get(&path);
    object["status"] = json!({"x": 5});
    scene.ask("PUT", &status, object);
    let watch = scene.watch(&format!("resourceVersion={start}"));
    scene.read(watch, 6);
    scene.silence(watch);
}

fn generations_without(scene: &mut Scene<'_>) {
    scene.install_with(&|definition| {
        for version in definition["spec"]["versions"].as_array_mut().into_iter().flatten() {
            if let Some(version) = version.as_object_mut() {
                version.remove("subresources");
            }
        }
    });
    scene.create_from(json!({"metadata": {"name": "a"}, "spec": {"color": "red"}, "status": {"x": 1}}));
    scene.patch("a", json!({"status": {"x": 2}}));
    scene.patch("a", json!({"metadata": {"labels": {"a": "b"}}}));
    scene.patch("a", json!({"spec": {"color": "blue"}}));
    let path = scene.things("/a/status");
    scene.ask("PATCH", &path, json!({"status": {"x": 3}}));
    scene.get(&path);
}

fn no_change(scene: &mut Scene<'_>) {
    scene.install();
    let start = scene.create("a", json!({"x": "1"}), json!({"color": "red"}));
    scene.patch("a", json!({}));
    scene.patch("a", json!({"spec": {"color": "red"}}));
    scene.patch("a", json!({"spec": {"absent": null}, "metadata": {"labels": {"y": null}, "annotations": {}}}));
    let path = scene.things("/a");
    let object = scene.get(&path);
    scene.ask("PUT", &path, object);
    let watch = scene.watch(&format!("resourceVersion={start}"));
    scene.silence(watch);
    scene.patch("a", json!({"spec": {"color": null}}));
    scene.read(watch, 1);
}

fn optimistic(scene: &mut Scene<'_>) {
    scene.install();
    let first = scene.create("a", json!({}), json!({"n": 0}));
    let path = scene.things("/a");
    let object = scene.get(&path);
    let second = scene.patch("a", json!({"spec": {"n": 1}}));
    // What was read before the patch is out of date.
    scene.ask("PUT", &path, object.clone());
    scene.patch("a", json!({"metadata": {"resourceVersion": first}, "spec": {"n": 2}}));
    scene.patch("a", json!({"metadata": {"resourceVersion": second}, "spec": {"n": 3}}));
    let mut object = scene.get(&path);
    object["spec"]["n"] = 4.into();
    scene.ask("PUT", &path, object.clone());
    let mut without = object.clone();
    without["metadata"]["resourceVersion"] = Value::Null;
    scene.ask("PUT", &path, without);
    let mut object = scene.get(&path);
    object["metadata"]["name"] = "b".into();
    scene.ask("PUT", &path, object);
    let absent = scene.things("/absent");
    let mut object = scene.get(&path);
    object["metadata"]["name"] = "absent".into();
    scene.ask("PUT", &absent, object);
    scene.ask("PATCH", &absent, json!({"spec": {}}));
}

fn refused_creations(scene: &mut Scene<'_>) {
    scene.install();
    let (group, path) = (scene.group.clone(), scene.things(""));
    let thing = |name: &str| json!({"apiVersion": format!("{group}/v1"), "kind": "Thing", "metadata": {"name": name}, "spec": {}});
    scene.ask("POST", &path, thing("a"));
    scene.ask("POST", &path, thing("a"));
    scene.ask("POST", &path, json!({"apiVersion": format!("{group}/v1"), "kind": "Thing", "metadata": {}}));
    let mut other = thing("b");
    other["apiVersion"] = format!("{group}/v2").into();
    scene.ask("POST", &path, other);
    let mut other = thing("b");
    other["kind"] = "Other".into();
    scene.ask("POST", &path, other);
    let mut other = thing("b");
    other["metadata"]["namespace"] = "kube-system".into();
    scene.ask("POST", &path, other);
    let mut other = thing("c");
    other["metadata"]["namespace"] = "default".into();
    scene.ask("POST", &path, other);
    scene.ask("POST", &path.replace("default", "nowhere"), thing("b"));
}

fn preconditions(scene: &mut Scene<'_>) {
    scene.install();
    let first = scene.create("a", json!({}), json!({}));
    scene.patch("a", json!({"spec": {"n": 1}}));
    let path = scene.things("/a");
    scene.ask("DELETE", &path, json!({"preconditions": {"uid": "another"}}));
    let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"resourceVersion": first}});
    scene.ask("DELETE", &path, options);
    let object = scene.get(&path);
    let uid = object["metadata"]["uid"].clone();
    let version = version_of(&object);
    let options = json!({"preconditions": {"uid": uid, "resourceVersion": version}});
    scene.ask("DELETE", &path, options);
    scene.ask("DELETE", &path, Value::Null);
}

fn recreated(scene: &mut Scene<'_>) {
    scene.install();
    let start = scene.now();
    scene.create("a", json!({}), json!({"n": 1}));
    scene.delete("a");
    scene.create("a", json!({}), json!({"n": 1}));
    scene.delete("a");
    let watch = scene.watch(&format!("resourceVersion={start}"));
    scene.read(watch, 4);
}

fn collection(scene: &mut Scene<'_>) {
    scene.install();
    scene.create("a", json!({"x": "1"}), json!({}));
    scene.create("b", json!({}), json!({}));
    let start = scene.create("c", json!({"x": "1"}), json!({}));
    // The answer is a list of what there was; its metadata is not worth a comparison.
    let path = scene.things("?labelSelector=x");
    let reply = scene.ask_quietly("DELETE", &path, Value::Null);
    scene.note(&format!("deleted: {reply}"));
    let watch = scene.watch(&format!("resourceVersion={start}"));
    // The real server deletes them side by side.
    scene.read_in_any_order(watch, 2);
    let path = scene.things("");
    scene.get(&path);
}

fn config_maps(scene: &mut Scene<'_>) {
    let path = "/api/v1/namespaces/default/configmaps";
    let selected = "labelSelector=case%3Dmaps";
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "maps", "labels": {"case": "maps"}}, "data": {"a": "1"}});
    let created = scene.ask("POST", path, map);
    let one = format!("{path}/maps");
    scene.ask("PATCH", &one, json!({"data": {"b": "2"}}));
    scene.ask("PATCH", &one, json!({"data": {"b": "2"}}));
    // An update need not name the version that it is made from.
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "maps", "labels": {"case": "maps"}}, "data": {}});
    scene.ask("PUT", &one, map);
    scene.get(&format!("{path}?{selected}"));
    // A limit of one would promise more: other config maps may follow on a real server.
    scene.get(&format!("/api/v1/configmaps?{selected}&limit=100"));
    scene.get(&format!("{path}?fieldSelector=data.x%3D1"));
    scene.ask("DELETE", &one, Value::Null);
    scene.get(&one);
    let watch = format!("{path}?watch=1&{selected}&resourceVersion={}", version_of(&created));
    let watch = scene.watch_at("application/json", &watch);
    scene.read(watch, 3);
    scene.silence(watch);
    let watch = format!("{path}?watch=1&{selected}&allowWatchBookmarks=true&timeoutSeconds=1");
    let watch = scene.watch_at("application/json", &watch);
    scene.read_to_end(watch);
}

fn namespaces(scene: &mut Scene<'_>) {
    let path = "/api/v1/namespaces";
    let body =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "third", "labels": {"case": "third"}}});
    let created = scene.ask("POST", path, body);
    scene.get("/api/v1/namespaces/third");
    scene.get(&format!("{path}?labelSelector=case%3Dthird"));
    scene.get(&format!("{path}?fieldSelector=metadata.name%3Dthird"));
    scene.ask("PATCH", "/api/v1/namespaces/third", json!({"metadata": {"labels": {"more": "1"}}}));
    scene.ask("DELETE", "/api/v1/namespaces/third", Value::Null);
    // Nobody empties namespaces here: it stays as it is.
    scene.get("/api/v1/namespaces/third");
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late"}});
    scene.ask("POST", "/api/v1/namespaces/third/configmaps", map.clone());
    scene.ask("POST", "/api/v1/namespaces/nowhere/configmaps", map);
    let watch = format!("{path}?watch=1&labelSelector=case&resourceVersion={}", version_of(&created));
    let watch = scene.watch_at("application/json", &watch);
    scene.read(watch, 2);
    scene.silence(watch);
    scene.get("/api/v1/namespaces/nowhere");
}
