//! One run: a seed chooses a configuration and a schedule of writes, faults and steps; then everything heals, and the
//! promises are held against what the sinks were told.

use std::collections::BTreeMap;
use std::time::Duration;

use crier::engine::Initial;
use crier::kubernetes::Collection;
use crier::model::{Key, Verdict};
use crier::select::Namespaces;
use crier::store::{MemoryStore, Store};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::client::{self, Crier, FeedPlan, RoutePlan};
use crate::faults::{self, Fault};
use crate::sink::{Mood, Sink};
use crate::world::World;

/// What a run found, and what it went through.
#[derive(Default)]
pub(crate) struct Outcome {
    /// The first promise that was broken.
    pub(crate) violation: Option<String>,
    /// What nobody could have noticed: see [`Outcome::limit`] being set.
    pub(crate) limit: Option<String>,
    /// What happened, line by line, if it was asked for.
    pub(crate) trace: Vec<String>,
    pub(crate) faults: BTreeMap<&'static str, usize>,
    pub(crate) events: usize,
    pub(crate) repeats: usize,
    pub(crate) kinds: BTreeMap<String, usize>,
    pub(crate) requests: usize,
    pub(crate) writes: usize,
}

/// A run.
pub(crate) struct Run {
    pub(crate) random: StdRng,
    pub(crate) now: Duration,
    pub(crate) world: World,
    pub(crate) store: MemoryStore,
    pub(crate) crier: Option<Crier>,
    pub(crate) plan: FeedPlan,
    // All routes that there may be; which of them are configured changes.
    pub(crate) all_routes: Vec<RoutePlan>,
    pub(crate) joined: Vec<usize>,
    pub(crate) sinks: Vec<Sink>,
    pub(crate) moods: Vec<Mood>,
    pub(crate) starts: u64,
    pub(crate) seed: u64,
    pub(crate) faults_on: bool,
    pub(crate) traced: bool,
    pub(crate) outcome: Outcome,
    pub(crate) rewinds: bool,
    pub(crate) favourite: Option<Fault>,
    fault_rate: f64,
    write_rate: f64,
    /// The last live edit: which route selected what before it.
    pub(crate) edited: Option<(usize, Namespaces)>,
    /// The sink that takes nothing.
    pub(crate) down: Option<usize>,
}

pub(crate) fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

impl Run {
    pub(crate) fn new(seed: u64, traced: bool) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let routes = 1 + usize::from(random.random_bool(0.6));
        // One configuration in eight begins in silence; then the counter does not step back.
        let silent = random.random_range(0..8) == 0;
        // An audit would find what the rules have missed. Without one, the counter does not step back either: what a rewind
        // hides at first, an audit finds.
        let audits = random.random_bool(0.5);
        let all_routes: Vec<RoutePlan> = (0..routes)
            .map(|number| {
                let quiet = [0, 0, 50, 200][random.random_range(0..4)];
                RoutePlan {
                    name: format!("route-{number}"),
                    namespaces: Namespaces::default(),
                    initial: if silent { Initial::None } else { Initial::Observed },
                    quiet: milliseconds(quiet),
                    max_wait: milliseconds(quiet * 5),
                    max_in_flight: [1, 4][random.random_range(0..2)],
                }
            })
            .collect();
        let collection = Collection {
            group: "example.com".into(),
            version: None,
            resource: "things".into(),
            namespace: random.random_bool(0.15).then(|| "a".to_owned()),
            label_selector: if random.random_bool(0.35) { "tier=a".to_owned() } else { String::new() },
            field_selector: String::new(),
        };
        let plan = FeedPlan {
            collection,
            routes: all_routes.clone(),
            bytes_at_most: [0, 500, 1 << 20][random.random_range(0..3)],
            fetch_at_most: [1, 500][random.random_range(0..2)],
            page: 1 + random.random_range(0..3),
            audits,
            clock: 1_700_000_000,
        };
        let moods = (0..routes).map(|_| if random.random_bool(0.3) { Mood::Well } else { Mood::Moody }).collect();
        let mut world = World::new();
        if random.random_bool(0.3) {
            world.server.set_streaming_lists(false);
        }
        for _ in 0..random.random_range(0..6) {
            world.write(&mut random, Duration::ZERO);
        }
        Self {
            now: Duration::ZERO,
            world,
            store: MemoryStore::new(1_700_000_000, [7; 16]),
            crier: None,
            joined: (0..routes).collect(),
            all_routes,
            plan,
            sinks: (0..routes).map(|_| Sink::default()).collect(),
            moods,
            starts: 0,
            seed,
            faults_on: !seed.is_multiple_of(8),
            traced,
            outcome: Outcome::default(),
            rewinds: audits && !silent,
            down: None,
            // Much happens between faults, or little.
            fault_rate: [0.15, 0.4, 1.0][random.random_range(0..3)],
            write_rate: [0.2, 1.0, 1.0][random.random_range(0..3)],
            edited: None,
            favourite: faults::favourite(&mut random),
            random,
        }
    }

    pub(crate) fn trace(&mut self, line: impl FnOnce() -> String) {
        if self.traced {
            let line = format!("{:>9} ms  {}", self.now.as_millis(), line());
            self.outcome.trace.push(line);
        }
    }

    pub(crate) fn fault(&mut self, name: &'static str) {
        *self.outcome.faults.entry(name).or_default() += 1;
        self.trace(|| format!("-- {name}"));
    }

    pub(crate) fn start(&mut self) {
        self.starts += 1;
        self.plan.routes = self.joined.iter().map(|route| self.all_routes[*route].clone()).collect();
        let seed = self.seed.wrapping_mul(1_000).wrapping_add(self.starts);
        let mut crier = Crier::start(self.plan.clone(), &self.store, self.now, seed);
        crier.log = self.traced.then(Vec::new);
        self.trace_with(|run| {
            let routes = run.plan.routes.iter().map(|route| format!("{}{}", route.name, route.namespaces));
            format!("starts with {:?} on {}", routes.collect::<Vec<_>>(), run.plan.name())
        });
        self.crier = Some(crier);
    }

    pub(crate) fn trace_with(&mut self, line: impl FnOnce(&Self) -> String) {
        if self.traced {
            let line = line(self);
            self.trace(|| line);
        }
    }

    pub(crate) fn crash(&mut self) {
        let Some(mut crier) = self.crier.take() else { return };
        // What was under way to a sink may still have been applied; nothing of it is applied later.
        for delivery in std::mem::take(&mut crier.deliveries) {
            if delivery.verdict.is_none() && self.random.random_bool(0.5) {
                self.apply(delivery.route, &delivery.key, &delivery.event);
            }
        }
        self.outcome.requests += crier.requests.values().sum::<usize>();
        let plan = crier.plan.clone();
        if let Some(save) = crier.crash(&mut self.world.server)
            && self.random.random_bool(0.5)
        {
            // A commit that was under way when the process died may have become durable.
            client::commit(&plan, &mut self.store, &save);
        }
    }

    pub(crate) fn apply(&mut self, route: usize, key: &Key, event: &crier::event::Event) {
        let sink = self.joined[route];
        self.trace(|| {
            let sequence = event.attribute("sequence").unwrap_or_default();
            format!("route-{sink} is told {} ({sequence})", event.id())
        });
        let known = self.sinks[sink].violations.len();
        self.sinks[sink].apply(key, event);
        let uid = event.attribute("uid").unwrap_or_default();
        if event.id().contains("-deleted") && !self.outcome.faults.contains_key("a rewind") && self.world.exists(uid) {
            self.violate(format!("P3: route-{sink} is told that {key} of {uid} is deleted, and it is there"));
        }
        if let Some(violation) = self.sinks[sink].violations.get(known).cloned() {
            self.trace(|| format!("VIOLATION {violation}"));
        }
    }

    pub(crate) fn act(&mut self) {
        let Some(crier) = &mut self.crier else { return };
        crier.act(&mut self.world.server, &self.store, self.now);
        if let Some(log) = &mut crier.log {
            for line in std::mem::take(log) {
                self.trace(|| line);
            }
        }
    }

    /// Goes through the faults, then heals and checks.
    pub(crate) fn go(mut self) -> Outcome {
        self.start();
        self.act();
        let steps = self.random.random_range(60..500);
        for _ in 0..steps {
            self.step();
            self.act();
            self.bounds();
        }
        if self.outcome.violation.is_none() && self.seed % 8 == 5 {
            self.leave_one_down();
        }
        if self.outcome.violation.is_none() {
            self.heal();
        }
        self.check(None);
        if self.outcome.violation.is_none() {
            self.restart_in_peace();
        }
        if self.outcome.violation.is_none() && self.seed % 16 == 3 {
            self.change_without_a_pause();
        }
        self.outcome.events = self.sinks.iter().map(|sink| sink.events).sum();
        self.outcome.repeats = self.sinks.iter().map(|sink| sink.repeats).sum();
        for sink in &self.sinks {
            for (kind, count) in &sink.kinds {
                *self.outcome.kinds.entry(kind.clone()).or_default() += count;
            }
        }
        self.outcome.writes = self.world.writes;
        if !self.faults_on && self.outcome.repeats > 0 {
            self.violate("P4: without a fault something was told twice".to_owned());
        }
        self.excuse();
        self.outcome
    }

    /// Until a rewind is noticed, a version of an incarnation may have had two contents, which are told by two ids. And one
    /// whose counter has passed every mark before anyone looked, and that brought back no state that contradicts what is
    /// known, cannot be noticed: then an incarnation may be deleted twice under one id, or told again at a version before.
    /// No last state is lost by either for a consumer that takes what comes.
    pub(crate) fn excuse(&mut self) {
        let (rewinds, noticed) = (self.world.rewinds, self.store.identity().rewinds);
        let excused = |violation: &String| {
            let kinds = ["P2", "the consumer by id", "the consumer by sequence"];
            (rewinds > 0 && violation.starts_with("P4: one state"))
                || (rewinds > noticed && kinds.iter().any(|kind| violation.contains(kind)))
        };
        if let Some(limit) = self.outcome.violation.take_if(|violation| excused(violation)) {
            self.outcome.limit = Some(limit);
        }
    }

    pub(crate) fn violate(&mut self, what: String) {
        self.trace(|| format!("VIOLATION {what}"));
        self.outcome.violation.get_or_insert(what);
    }

    fn bounds(&mut self) {
        let Some(crier) = &self.crier else { return };
        let held = crier.engine.bytes_held();
        // What is fetched because it is its turn comes on top, an object for each place among the deliveries.
        let places: usize = crier.plan.routes.iter().map(|route| route.max_in_flight).sum();
        let most = crier.plan.bytes_at_most + (places + 16) * 700;
        if held > most {
            self.violate(format!("P7: {held} bytes are held, {most} at most are allowed"));
        }
    }

    fn step(&mut self) {
        match self.random.random_range(0..100) {
            0..=17 if self.world.defined && self.random.random_bool(self.write_rate) => {
                self.write();
            }
            0..=17 => {}
            18..=37 => self.step_request(),
            38..=55 => self.step_stream(),
            56..=67 => self.step_save(),
            68..=82 => self.step_delivery(),
            83..=92 => self.pass(),
            _ if self.faults_on && self.random.random_bool(self.fault_rate) => self.step_fault(),
            _ => {}
        }
    }

    /// Somebody writes something.
    pub(crate) fn write(&mut self) {
        let written = self.world.write(&mut self.random, self.now);
        self.trace(|| written);
    }

    fn pass(&mut self) {
        let deadline = self.crier.as_ref().and_then(Crier::deadline).filter(|deadline| *deadline > self.now);
        let some = milliseconds([5, 60, 300, 2_000, 40_000][self.random.random_range(0..5)]);
        self.now = match deadline {
            Some(deadline) if self.random.random_bool(0.6) => deadline,
            _ => self.now + some,
        };
    }

    fn step_request(&mut self) {
        let choice = self.random.random_range(0..64);
        if let Some(crier) = &mut self.crier {
            crier.step_request(&mut self.world.server, self.now, choice);
        }
    }

    fn step_stream(&mut self) {
        if let Some(crier) = &mut self.crier {
            crier.step_stream(&mut self.world.server, self.now);
        }
    }

    fn step_save(&mut self) {
        let fails = self.faults_on && self.random.random_bool(0.1);
        let kept = !fails || self.random.random_bool(0.5);
        if let Some(crier) = &mut self.crier
            && crier.is_saving()
        {
            crier.step_save(&mut self.store, self.now, kept, !fails);
            if fails {
                self.fault("a failed save");
            }
        }
    }

    /// A delivery reaches its sink, or its answer comes back.
    pub(crate) fn step_delivery(&mut self) {
        let Some(crier) = &mut self.crier else { return };
        if crier.deliveries.is_empty() {
            return;
        }
        let index = self.random.random_range(0..crier.deliveries.len());
        let delivery = &mut crier.deliveries[index];
        if let Some(verdict) = delivery.verdict.clone() {
            crier.step_verdict(self.now, index, verdict);
            return;
        }
        let (route, key, event) = (delivery.route, delivery.key.clone(), delivery.event.clone());
        let sink = self.joined[route];
        let mood = match self.down {
            Some(down) if down == sink => Mood::Down,
            _ if self.faults_on => self.moods[sink],
            _ => Mood::Well,
        };
        let (applied, verdict) = Sink::decide(&mut self.random, mood);
        delivery.verdict = Some(verdict.clone());
        self.sinks[sink].asked += 1;
        if applied {
            self.apply(route, &key, &event);
        }
        if matches!(verdict, Verdict::Reject { .. }) && event.id().contains("-deleted") {
            let sink = &mut self.sinks[self.joined[route]];
            sink.refused.extend(event.attribute("uid").map(str::to_owned));
        }
        if verdict != Verdict::Delivered {
            self.fault(match verdict {
                Verdict::Retry { .. } => "a retry",
                Verdict::Unavailable { .. } => "a sink that is unavailable",
                _ => "a rejection",
            });
        }
    }
}
