//! Lists: order, pages, tokens, and which revision they are of.

use serde_json::{Value, json};

use super::Scenario;
use super::scene::{Scene, token_of};

pub(super) const SCENARIOS: &[Scenario] = &[
    ("an_empty_list_has_a_version", empty),
    ("objects_are_listed_in_the_order_of_their_keys", in_order_of_keys),
    ("pages_are_all_of_one_revision", pages),
    ("pages_under_a_selector_count_nothing", pages_with_selectors),
    ("a_list_says_which_revision_it_is_of", revisions),
    ("list_options_that_contradict_are_refused", refused),
    ("a_page_of_an_older_revision", old_page),
];

fn fill(scene: &mut Scene<'_>, names: &[&str]) {
    for name in names {
        scene.create(name, json!({"name": name}), json!({"color": "red"}));
    }
}

fn empty(scene: &mut Scene<'_>) {
    scene.install();
    let path = scene.things("");
    scene.get(&path);
    let path = scene.things("?limit=5");
    scene.get(&path);
    // A namespace that is not there is an empty one.
    let path = path.replace("default", "nowhere");
    scene.get(&path);
}

fn in_order_of_keys(scene: &mut Scene<'_>) {
    scene.install();
    for namespace in ["zone", "zone-1"] {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        scene.ask("POST", "/api/v1/namespaces", body);
        let path = scene.things("").replace("default", namespace);
        let thing = json!({"apiVersion": format!("{}/v1", scene.group), "kind": "Thing", "metadata": {"name": "b"}});
        scene.ask("POST", &path, thing);
    }
    fill(scene, &["c", "a", "b-1", "b", "b.1"]);
    // zone-1/b comes before zone/b: etcd sorts by the whole key, and a slash is after a hyphen.
    let path = scene.all_things("");
    let list = scene.get(&path);
    scene.note(&format!("{} items", list["items"].as_array().map_or(0, Vec::len)));
    let path = scene.all_things("?limit=6");
    let first = scene.get(&path);
    let path = scene.all_things(&format!("?limit=6&continue={}", token_of(&first)));
    scene.get(&path);
}

fn pages(scene: &mut Scene<'_>) {
    scene.install();
    fill(scene, &["a", "b", "c", "d", "e"]);
    let path = scene.things("?limit=2");
    let first = scene.get(&path);
    // What is written meanwhile is not in the next pages.
    scene.delete("c");
    scene.patch("d", json!({"spec": {"color": "blue"}}));
    fill(scene, &["ca"]);
    let path = scene.things(&format!("?limit=2&continue={}", token_of(&first)));
    let second = scene.get(&path);
    let path = scene.things(&format!("?limit=2&continue={}", token_of(&second)));
    scene.get(&path);
    // Without a limit the rest comes at once.
    let path = scene.things(&format!("?continue={}", token_of(&first)));
    scene.get(&path);
    let path = scene.things(&format!("?limit=2&continue={}&resourceVersion=5", token_of(&first)));
    scene.get(&path);
    let path = scene.things(&format!("?limit=2&continue={}&resourceVersionMatch=Exact", token_of(&first)));
    scene.get(&path);
}

fn pages_with_selectors(scene: &mut Scene<'_>) {
    scene.install();
    for (name, tier) in [("a", "one"), ("b", "two"), ("c", "one"), ("d", "two"), ("e", "one"), ("f", "two")] {
        scene.create(name, json!({"tier": tier}), json!({"color": tier}));
    }
    for selector in ["labelSelector=tier%3Done", "fieldSelector=spec.color%3Done", "labelSelector=tier"] {
        let path = scene.things(&format!("?limit=2&{selector}"));
        let first = scene.get(&path);
        let path = scene.things(&format!("?limit=2&{selector}&continue={}", token_of(&first)));
        scene.get(&path);
    }
    // More may follow, for all that the server says, though nothing does.
    let path = scene.things("?limit=3&labelSelector=tier%3Done");
    scene.get(&path);
}

fn revisions(scene: &mut Scene<'_>) {
    scene.install();
    let first = scene.create("a", json!({}), json!({"color": "red"}));
    fill(scene, &["b"]);
    let second = scene.patch("a", json!({"spec": {"color": "blue"}}));
    scene.delete("b");
    fill(scene, &["c"]);
    let path = scene.things("");
    scene.get(&path);
    for revision in [&first, &second] {
        for query in ["&resourceVersionMatch=Exact", "&resourceVersionMatch=Exact&labelSelector=name", "&limit=1"] {
            let path = scene.things(&format!("?resourceVersion={revision}{query}"));
            scene.get(&path);
        }
        for query in ["", "&resourceVersionMatch=NotOlderThan", "&resourceVersionMatch=NotOlderThan&limit=1"] {
            let path = scene.things(&format!("?resourceVersion={revision}{query}"));
            scene.get(&path);
        }
    }
    // Zero takes what there is, and minds no limit.
    let path = scene.things("?resourceVersion=0&limit=1");
    scene.get(&path);
    let path = scene.things("/a?resourceVersion=0");
    scene.get(&path);
}

fn old_page(scene: &mut Scene<'_>) {
    scene.install();
    fill(scene, &["a", "b"]);
    let then = scene.create("c", json!({}), json!({}));
    fill(scene, &["d"]);
    scene.delete("a");
    let path = scene.things(&format!("?resourceVersion={then}&resourceVersionMatch=Exact&limit=2"));
    let first = scene.get(&path);
    let path = scene.things(&format!("?limit=2&continue={}", token_of(&first)));
    scene.get(&path);
}

fn refused(scene: &mut Scene<'_>) {
    scene.install();
    for query in [
        "resourceVersionMatch=NotOlderThan",
        "resourceVersionMatch=Exact",
        "resourceVersion=0&resourceVersionMatch=Exact",
        "resourceVersion=abc",
        "resourceVersion=-1",
        "sendInitialEvents=true",
        "resourceVersion=900000000&resourceVersionMatch=NotOlderThan",
        "resourceVersion=900000000&resourceVersionMatch=Exact",
        "resourceVersion=900000000",
        "fieldSelector=spec.other%3D1",
        "labelSelector=a%3D%3D%3D",
    ] {
        let path = scene.things(&format!("?{query}"));
        scene.get(&path);
    }
    scene.create("a", Value::Null, Value::Null);
    let path = scene.things("/a?resourceVersion=900000000");
    scene.get(&path);
}
