//! A sink that takes nothing for long costs no memory beyond the budget, and no last state. Scripts in virtual time.

use super::properties::object;
use super::script::{MS, Script};
use super::*;
use crate::model::{Verdict, What};

const KEYS: u64 = 1_000;
const BUDGET: usize = 100;

fn script() -> Script {
    let settings = EngineSettings { bytes_at_most: BUDGET, audit_every: Duration::ZERO, ..EngineSettings::default() };
    Script::watching_by(settings, Script::settings(0, 0))
}

fn change(script: &mut Script, number: u64, at: u128, value: u64) {
    script.change_of(&format!("app-{number}"), number, at, value);
}

#[test]
fn a_sink_that_is_down_costs_no_more_memory_than_the_budget_and_no_last_state() {
    let mut script = script();
    let (mut at, mut most, mut latest) = (20, 0, BTreeMap::new());
    // An hour of changes; the sink answers nothing but that it is not there.
    for second in 0..3_600 {
        for number in 0..5 {
            at += 1;
            let key = (second * 5 + number) % KEYS;
            latest.insert(key, (at, second % 10));
            change(&mut script, key, at, second % 10);
        }
        for action in script.run() {
            match action {
                Action::Publish(publication) => {
                    let verdict = Verdict::Unavailable { reason: "down".into(), after: None };
                    script.engine.handle_delivered(script.now, publication.delivery, verdict);
                }
                Action::Fetch { key } => {
                    let number: u64 = key.name()[4..].parse().unwrap();
                    let (at, value) = latest[&number];
                    let found = object(key.name(), number, at, value);
                    script.engine.handle_fetched(script.now, &key, Fetched::Found(found, vec![Some(value)]));
                }
                _ => {}
            }
        }
        most = most.max(script.engine.bytes_held());
        script.pass(1_000);
    }
    // Each probe may have fetched one more; objects of these tests have a byte or two.
    assert!(most > BUDGET / 2, "so little was held, {most} bytes, that the budget was not tried");
    assert!(most <= BUDGET + 2 * 8, "{most} bytes were held");

    // It is back: every key is told in its last state. Much of it was let go, and comes by lists; the rest is fetched.
    let (mut told, mut fetches, mut lists) = (BTreeMap::new(), 0, 0);
    for _ in 0..2_000 {
        for action in script.run() {
            match action {
                Action::Publish(publication) => {
                    assert!(publication.object.is_some());
                    told.insert(publication.key.clone(), publication.sequence.resource_version().get());
                    script.engine.handle_delivered(script.now, publication.delivery, Verdict::Delivered);
                }
                Action::Fetch { key } => {
                    fetches += 1;
                    let number: u64 = key.name()[4..].parse().unwrap();
                    let (at, value) = latest[&number];
                    let found = object(key.name(), number, at, value);
                    script.engine.handle_fetched(script.now, &key, Fetched::Found(found, vec![Some(value)]));
                }
                Action::List { .. } => {
                    lists += 1;
                    for (number, (at, value)) in &latest {
                        let item = object(&format!("app-{number}"), *number, *at, *value);
                        script.engine.handle_list_item(script.now, &item, &[Some(*value)]);
                    }
                    script.engine.handle_list_finished(script.now, ResourceVersion::new(at).unwrap());
                }
                Action::Probe => script.engine.handle_probed(script.now, Ok(ResourceVersion::new(at).unwrap())),
                Action::Watch { .. } => script.engine.handle_watch_begun(),
                Action::Look { .. } | Action::Save(_) => {}
            }
            assert!(script.engine.bytes_held() <= BUDGET + 2 * 8);
        }
        script.now += MS(100);
    }
    let expected = latest.iter().map(|(number, (at, _))| (Key::new("default", &format!("app-{number}")), *at));
    assert_eq!(told, expected.collect());
    assert_eq!(script.engine.route_status(0).owed, 0);
    assert!(lists > 0 && fetches > 0 && fetches < KEYS, "{lists} lists, {fetches} fetches");
    assert_eq!(script.engine.bytes_held(), 0, "what is told is let go");
}

#[test]
fn that_nothing_has_changed_is_known_without_the_bytes() {
    let settings = EngineSettings { bytes_at_most: 0, ..EngineSettings::default() };
    let mut script = Script::watching_by(settings, Script::settings(0, 0));
    change(&mut script, 1, 20, 7);
    let [Action::Fetch { key }] = &script.run()[..] else { panic!("its bytes were let go") };
    let found = object("app-1", 1, 20, 7);
    script.engine.handle_fetched(script.now, key, Fetched::Found(found, vec![Some(7)]));
    assert_eq!(script.told(), [(What::Created, 20)]);
    change(&mut script, 1, 21, 7);
    assert_eq!(script.run(), [], "the fingerprint says so");
    assert_eq!(script.engine.route_status(0).counters.suppressed, 1);
}

#[test]
fn what_fills_the_budget_to_its_last_byte_is_kept() {
    let bytes_at_most = object("app-1", 1, 20, 7).bytes.len();
    let settings = EngineSettings { bytes_at_most, ..EngineSettings::default() };
    let mut script = Script::watching_by(settings, Script::settings(100, 1_000));
    change(&mut script, 1, 20, 7);
    assert_eq!((script.run(), script.engine.bytes_held()), (vec![], bytes_at_most));
    script.pass(100);
    assert_eq!(script.told(), [(What::Created, 20)], "and is not fetched");
}
