//! Selectors on lists, and what a watch shows when an object comes into a selection or falls out of it.

use serde_json::{Value, json};

use super::Scenario;
use super::scene::Scene;

pub(super) const SCENARIOS: &[Scenario] = &[
    ("label_selectors_choose_what_they_say", labels),
    ("field_selectors_choose_names_and_declared_fields", fields),
    ("leaving_a_label_selection_looks_as_a_deletion", leaving_labels),
    ("leaving_a_field_selection_looks_as_a_deletion", leaving_fields),
    ("a_selection_resumes_as_it_was", resumed),
];

fn names(list: &Value) -> String {
    let items = list["items"].as_array().into_iter().flatten();
    items.filter_map(|item| item["metadata"]["name"].as_str()).collect::<Vec<_>>().join(" ")
}

fn choose(scene: &mut Scene<'_>, queries: &[&str]) {
    for query in queries {
        let path = scene.things(&format!("?{query}"));
        let list = scene.get(&path);
        scene.note(&format!("{query}: {}", names(&list)));
    }
}

fn labels(scene: &mut Scene<'_>) {
    scene.install();
    scene.create("both", json!({"tier": "prod", "zone": "a"}), json!({}));
    scene.create("test", json!({"tier": "test", "zone": "b"}), json!({}));
    scene.create("none", json!({}), json!({}));
    scene.create("empty", json!({"tier": ""}), json!({}));
    choose(
        scene,
        &[
            "labelSelector=tier%3Dprod",
            "labelSelector=tier%3D%3Dprod",
            "labelSelector=tier%21%3Dprod",
            "labelSelector=tier%20in%20%28prod%2Ctest%29",
            "labelSelector=tier+in+(prod)",
            "labelSelector=tier%20notin%20%28prod%2Ctest%29",
            "labelSelector=tier",
            "labelSelector=%21tier",
            "labelSelector=tier%3D",
            "labelSelector=tier,zone%3Da",
            "labelSelector=tier%20in%20%28prod%2Ctest%29%2Czone%21%3Da",
            "labelSelector=absent",
            "labelSelector=tier%3Dprod&fieldSelector=metadata.name%3Dboth",
        ],
    );
}

fn fields(scene: &mut Scene<'_>) {
    scene.install();
    scene.create("a", json!({}), json!({"color": "red"}));
    scene.create("b", json!({}), json!({"color": "blue"}));
    scene.create("c", json!({}), json!({}));
    choose(
        scene,
        &[
            "fieldSelector=metadata.name%3Da",
            "fieldSelector=metadata.name%21%3Da",
            "fieldSelector=metadata.namespace%3Ddefault,metadata.name%3D%3Db",
            "fieldSelector=metadata.namespace%3Dother",
            "fieldSelector=spec.color%3Dred",
            "fieldSelector=spec.color%21%3Dred",
            "fieldSelector=spec.color%3D",
            "fieldSelector=spec.color%3Dred,metadata.name%3Db",
            "fieldSelector=spec.size%3D1",
            "fieldSelector=status.phase%3D1",
        ],
    );
    let start = scene.now();
    let watch = scene.watch(&format!("resourceVersion={start}&fieldSelector=metadata.name%3Da"));
    scene.patch("b", json!({"spec": {"color": "green"}}));
    scene.patch("a", json!({"spec": {"color": "green"}}));
    scene.read(watch, 1);
    scene.silence(watch);
}

fn leaving_labels(scene: &mut Scene<'_>) {
    scene.install();
    let start = scene.now();
    scene.create("in", json!({"tier": "prod"}), json!({"n": 1}));
    scene.create("out", json!({"tier": "test"}), json!({"n": 1}));
    scene.patch("in", json!({"spec": {"n": 2}}));
    scene.patch("in", json!({"metadata": {"labels": {"tier": "test"}}, "spec": {"n": 3}}));
    scene.patch("in", json!({"spec": {"n": 4}}));
    scene.patch("out", json!({"metadata": {"labels": {"tier": "prod"}}}));
    scene.patch("in", json!({"metadata": {"labels": {"tier": "prod"}}}));
    scene.delete("in");
    scene.patch("out", json!({"metadata": {"labels": {"tier": null}}}));
    scene.delete("out");
    let watch = scene.watch(&format!("resourceVersion={start}&labelSelector=tier%3Dprod"));
    scene.read(watch, 7);
    scene.silence(watch);
}

fn leaving_fields(scene: &mut Scene<'_>) {
    scene.install();
    let start = scene.now();
    let watch = scene.watch(&format!("resourceVersion={start}&fieldSelector=spec.color%3Dred"));
    scene.create("a", json!({}), json!({"color": "red"}));
    scene.patch("a", json!({"spec": {"color": "blue"}}));
    scene.patch("a", json!({"spec": {"color": "red"}}));
    scene.patch("a", json!({"spec": {"size": 2}}));
    scene.delete("a");
    scene.read(watch, 5);
    scene.silence(watch);
}

fn resumed(scene: &mut Scene<'_>) {
    scene.install();
    scene.create("a", json!({"tier": "prod"}), json!({}));
    let start = scene.now();
    // What was selected before the watch begins is known to have been: leaving is told.
    scene.patch("a", json!({"metadata": {"labels": {"tier": "test"}}}));
    let watch = scene.watch(&format!("resourceVersion={start}&labelSelector=tier%3Dprod"));
    scene.read(watch, 1);
    // Another selection at the same place knows nothing of it.
    let watch = scene.watch(&format!("resourceVersion={start}&labelSelector=tier%3Dother"));
    scene.silence(watch);
}
