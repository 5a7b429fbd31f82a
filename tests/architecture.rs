//! Tidy tests over the sources: the dependency arrows of ARCHITECTURE.md, and the house rules that a reader relies on.

use std::fs;
use std::path::{Path, PathBuf};

/// Which rooms each room may use; a room that is not named here may not exist.
const ARROWS: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("engine", &["model"]),
    ("select", &["model"]),
    ("event", &["model"]),
    ("sink", &["model", "event"]),
    ("store", &["model"]),
    ("kubernetes", &["model"]),
    ("config", &["model"]),
    ("telemetry", &["model"]),
    ("admin", &["model"]),
    ("driver", &["model", "engine", "select", "event", "sink", "store", "kubernetes", "telemetry"]),
    (
        "app",
        &[
            "model",
            "engine",
            "select",
            "event",
            "sink",
            "store",
            "kubernetes",
            "config",
            "telemetry",
            "admin",
            "driver",
        ],
    ),
    ("cli", &["model", "config", "telemetry", "app", "kubernetes", "admin"]),
];

fn sources() -> Vec<PathBuf> {
    sources_in("src")
}

fn sources_in(folder: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    assert!(found.len() > 5, "the sources were not found");
    found
}

/// The first folder or file name below `src`.
fn room(path: &Path) -> String {
    let below = path.strip_prefix(Path::new(env!("CARGO_MANIFEST_DIR")).join("src")).unwrap();
    let first = below.components().next().unwrap().as_os_str().to_str().unwrap();
    first.trim_end_matches(".rs").to_owned()
}

fn used_rooms(text: &str) -> Vec<String> {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n");
    let name = |rest: &str| rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect::<String>();
    code.split("crate::").skip(1).map(name).filter(|name| !name.is_empty()).collect()
}

#[test]
fn every_room_uses_only_the_rooms_that_the_map_allows() {
    let mut wrong = Vec::new();
    for path in sources() {
        let from = room(&path);
        if from == "lib" || from == "main" {
            continue;
        }
        let Some((_, allowed)) = ARROWS.iter().find(|(room, _)| *room == from) else {
            wrong.push(format!("{}: the room {from} is not on the map", path.display()));
            continue;
        };
        for to in used_rooms(&fs::read_to_string(&path).unwrap()) {
            if to != from && !allowed.contains(&to.as_str()) {
                wrong.push(format!("{}: {from} -> {to}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "arrows that ARCHITECTURE.md does not allow:\n{}", wrong.join("\n"));
}

#[test]
fn the_engine_has_no_clock_no_randomness_and_no_io() {
    let sources = sources();
    let engine = sources.iter().filter(|path| room(path) == "engine");
    // The world that simulations put around it must not have them either.
    for path in engine.chain(&sources_in("sandbox/src/model")) {
        let text = fs::read_to_string(path).unwrap();
        for forbidden in ["tokio", "Instant", "SystemTime", "rand::", "HashMap", "HashSet", "std::fs", "std::net"] {
            assert!(!text.contains(forbidden), "{} uses {forbidden}", path.display());
        }
    }
}

#[test]
fn every_file_opens_with_what_it_is_and_stays_readable() {
    for path in sources().into_iter().chain(sources_in("sandbox/src")) {
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("//!"), "{} does not say what it is", path.display());
        let lines = text.lines().count();
        assert!(lines <= 450, "{} has {lines} lines: split it", path.display());
    }
}
