//! What a feed's view costs in memory, and what a sink that is down for a day costs: 100,000 objects under the real engine,
//! with every byte counted by the allocator. Not what a run's checks see on the way.

use std::time::Duration;

use allocation_counter::AllocationInfo;
use bytes::Bytes;
use crier::engine::{Action, Engine, EngineSettings, Fetched, Initial, RouteSettings};
use crier::kubernetes::read_object;
use crier::model::{
    Change, ChangeKind, Epoch, FeedRecord, Key, KeyRecord, Object, ResourceVersion, RouteRecord, RouteState, Sequence,
    Told, Uid, Verdict,
};

const OBJECTS: u64 = 100_000;
/// What the view may cost in memory for each key and route, in bytes: the sizing rule of `docs/concepts/state.md`.
const VIEW: i64 = 150;
const BUDGET: usize = 32 << 20;

fn name(number: u64) -> (String, String) {
    (format!("team-{}", number % 500), format!("gateway-route-{number:06}"))
}

fn uid(number: u64) -> String {
    format!("01234567-89ab-4cde-8123-{number:012x}")
}

fn version(number: u64) -> ResourceVersion {
    ResourceVersion::new(number.into()).expect("a version is not 0")
}

/// An object of about 1 kB.
fn object(number: u64, at: u64) -> Object {
    let ((namespace, name), uid) = (name(number), uid(number));
    let text = format!(
        r#"{{"apiVersion":"example.com/v1","kind":"Thing","metadata":{{"namespace":"{namespace}","name":"{name}","uid":"{uid}","resourceVersion":"{at}"}},"spec":{{"value":{at},"text":"{}"}}}}"#,
        "x".repeat(800)
    );
    read_object(Bytes::from(text), None).expect("an object")
}

fn settings() -> RouteSettings {
    RouteSettings {
        quiet: Duration::ZERO,
        max_wait: Duration::ZERO,
        initial: Initial::Observed,
        max_in_flight: 16,
        selection: String::new(),
        recipe: String::new(),
    }
}

/// An engine whose routes have told everything, up to this version.
fn at_rest(routes: usize, at: u64) -> Engine {
    let route = || {
        let record = |number| {
            let (namespace, name) = name(number);
            let told = Told {
                uid: Uid::new(&uid(number)),
                sequence: Sequence::new(Epoch::default(), version(number + 1)),
                fingerprint: number,
                recipe: 0,
                deleting: false,
            };
            (Key::new(&namespace, &name), KeyRecord { told: Some(told), ..KeyRecord::default() })
        };
        let state = RouteState {
            record: Some(RouteRecord { synced: true, ..RouteRecord::default() }),
            elsewhere: None,
            newest_elsewhere: None,
            followed: true,
            records: (0..OBJECTS).map(record).collect(),
        };
        (settings(), state)
    };
    let feed = FeedRecord { position: Some(version(at)), newest: Some(version(at)), ..FeedRecord::default() };
    let settings = EngineSettings { bytes_at_most: BUDGET, audit_every: Duration::ZERO, ..EngineSettings::default() };
    Engine::new(settings, feed, (0..routes).map(|_| route()).collect(), Duration::ZERO)
}

/// Runs this and says what of it stays in memory.
fn held<T>(work: impl FnOnce() -> T) -> (T, AllocationInfo) {
    let mut result = None;
    let info = allocation_counter::measure(|| result = Some(work()));
    (result.expect("it was run"), info)
}

#[test]
fn the_view_costs_no_more_than_the_sizing_rule_says_for_each_key_and_route() {
    for routes in [1, 2, 4] {
        let (engine, info) = held(|| at_rest(routes, OBJECTS));
        let each = info.bytes_current / (OBJECTS as i64 * routes as i64);
        println!(
            "{routes} routes: {each} bytes a key and route, {} allocations a key",
            info.count_current / OBJECTS as i64
        );
        assert_eq!(engine.route_status(routes - 1).told as u64, OBJECTS);
        assert!(each <= VIEW, "{each} bytes a key and route with {routes} routes");
    }
}

/// Answers as a cluster does that has every object at its latest version, and a sink that is down. Whether that was called.
fn answer(engine: &mut Engine, now: Duration, action: Action, newest: u64, latest: &[u64]) -> bool {
    match action {
        Action::Save(_) => engine.handle_saved(now, true),
        Action::Probe => engine.handle_probed(now, Ok(version(newest))),
        Action::Watch { .. } => engine.handle_watch_begun(),
        Action::List { .. } => {
            for (number, at) in latest.iter().enumerate() {
                engine.handle_list_item(now, &object(number as u64, *at), &[Some(*at)]);
            }
            engine.handle_list_finished(now, version(newest));
        }
        Action::Fetch { key } => {
            let number: u64 = key.name()["gateway-route-".len()..].parse().expect("a number");
            let at = latest[number as usize];
            engine.handle_fetched(now, &key, Fetched::Found(object(number, at), vec![Some(at)]));
        }
        Action::Look { .. } => unreachable!("nothing is missing"),
        Action::Publish(publication) => {
            let down = Verdict::Unavailable { reason: "down".to_owned(), after: None };
            engine.handle_delivered(now, publication.delivery, down);
            return true;
        }
    }
    false
}

#[test]
fn a_day_without_the_sink_costs_the_budget_and_the_view_and_no_last_state() {
    let mut engine = at_rest(1, OBJECTS);
    let mut latest: Vec<u64> = (1..=OBJECTS).collect();
    let (mut newest, mut calls, mut most) = (OBJECTS, 0, 0);
    let (_, info) = held(|| {
        // Each object changes three times in the day: 3.5 changes a second.
        let changes = OBJECTS * 3;
        for change in 0..changes {
            let now = Duration::from_millis(change * 86_400_000 / changes);
            while let Some(action) = engine.poll_action(now) {
                calls += usize::from(answer(&mut engine, now, action, newest, &latest));
            }
            // No order that a cache could like.
            let number = change * 7_919 % OBJECTS;
            newest += 1;
            latest[number as usize] = newest;
            let change = Change { object: object(number, newest), kind: ChangeKind::Modified };
            engine.handle_change(now, &change, &[Some(newest)]);
            most = most.max(engine.bytes_held());
        }
    });
    let owed = engine.route_status(0).owed;
    println!("{owed} owed, {most} bytes of objects at most, {calls} calls, {} bytes more than at rest", info.bytes_max);
    assert_eq!(owed as u64, OBJECTS, "every object is owed");
    assert!(most > BUDGET / 2, "the budget was not tried: {most} bytes");
    assert!(most <= BUDGET + 64 * 1_200, "{most} bytes of objects were held");
    assert!(calls < 86_400 / 10, "a sink that is down was called {calls} times in a day");
    // A debt costs more than what it owes at rest; that is bounded by the number of keys.
    let debts = info.bytes_max as usize - most;
    assert!(debts <= OBJECTS as usize * 750, "{} bytes a debt", debts / OBJECTS as usize);

    // It is back: every object is told in its last state.
    let mut told = vec![0; OBJECTS as usize];
    let mut now = Duration::from_secs(86_400);
    for _ in 0..1_000_000 {
        let Some(action) = engine.poll_action(now) else {
            match engine.poll_deadline() {
                Some(at) if engine.route_status(0).owed > 0 => now = at.max(now + Duration::from_millis(1)),
                _ => break,
            }
            continue;
        };
        if let Action::Publish(publication) = action {
            let number: usize = publication.key.name()["gateway-route-".len()..].parse().expect("a number");
            told[number] = u64::try_from(publication.sequence.resource_version().get()).expect("a small number");
            engine.handle_delivered(now, publication.delivery, Verdict::Delivered);
        } else {
            answer(&mut engine, now, action, newest, &latest);
        }
        assert!(engine.bytes_held() <= BUDGET + 64 * 1_200);
    }
    assert!(
        told == latest,
        "{} objects are not in their last state",
        told.iter().zip(&latest).filter(|(a, b)| a != b).count()
    );
}
