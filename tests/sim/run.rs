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
use crate::sink::{Mood, Sink};
use crate::world::World;

/// Steps in which everything has to drain once the faults have ended.
const HEALING: usize = 30_000;

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
    random: StdRng,
    now: Duration,
    world: World,
    store: MemoryStore,
    crier: Option<Crier>,
    plan: FeedPlan,
    // All routes that there may be; which of them are configured changes.
    all_routes: Vec<RoutePlan>,
    joined: Vec<usize>,
    sinks: Vec<Sink>,
    moods: Vec<Mood>,
    starts: u64,
    seed: u64,
    faults_on: bool,
    traced: bool,
    outcome: Outcome,
    rewinds: bool,
}

fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

impl Run {
    pub(crate) fn new(seed: u64, traced: bool) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let routes = 1 + usize::from(random.random_bool(0.6));
        // One configuration in eight begins in silence; then the counter does not step back.
        let silent = random.random_range(0..8) == 0;
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
            faults_on: seed % 8 != 0,
            traced,
            outcome: Outcome::default(),
            rewinds: !silent,
            random,
        }
    }

    fn trace(&mut self, line: impl FnOnce() -> String) {
        if self.traced {
            let line = format!("{:>9} ms  {}", self.now.as_millis(), line());
            self.outcome.trace.push(line);
        }
    }

    fn fault(&mut self, name: &'static str) {
        *self.outcome.faults.entry(name).or_default() += 1;
        self.trace(|| format!("-- {name}"));
    }

    fn start(&mut self) {
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

    fn trace_with(&mut self, line: impl FnOnce(&Self) -> String) {
        if self.traced {
            let line = line(self);
            self.trace(|| line);
        }
    }

    fn crash(&mut self) {
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

    fn apply(&mut self, route: usize, key: &Key, event: &crier::event::Event) {
        let sink = self.joined[route];
        self.trace(|| {
            let sequence = event.attribute("sequence").unwrap_or_default();
            format!("route-{sink} is told {} ({sequence})", event.id())
        });
        let known = self.sinks[sink].violations.len();
        self.sinks[sink].apply(key, event);
        if let Some(violation) = self.sinks[sink].violations.get(known).cloned() {
            self.trace(|| format!("VIOLATION {violation}"));
        }
    }

    fn act(&mut self) {
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
        if self.outcome.violation.is_none() {
            self.heal();
        }
        self.check();
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

    /// A rewind whose counter has passed every mark before anyone looked, and that brought back no state that contradicts
    /// what is known, cannot be noticed. Then one version of one incarnation may have had two contents, and an incarnation
    /// may be deleted twice under one id. No last state is lost by it for a consumer that takes what comes.
    fn excuse(&mut self) {
        let rewound = self.outcome.faults.contains_key("a rewind");
        let excused = |violation: &String| {
            rewound && (violation.starts_with("P4: one state") || violation.contains("the consumer by id"))
        };
        self.outcome.limit = self.outcome.violation.take_if(|violation| excused(violation));
    }

    fn violate(&mut self, what: String) {
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
            0..=17 => {
                if self.world.defined {
                    let written = self.world.write(&mut self.random, self.now);
                    self.trace(|| written);
                }
            }
            18..=37 => self.step_request(),
            38..=55 => self.step_stream(),
            56..=67 => self.step_save(),
            68..=82 => self.step_delivery(),
            83..=92 => self.pass(),
            _ if self.faults_on => self.step_fault(),
            _ => {}
        }
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
    fn step_delivery(&mut self) {
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
        let mood = if self.faults_on { self.moods[self.joined[route]] } else { Mood::Well };
        let (applied, verdict) = Sink::decide(&mut self.random, mood);
        delivery.verdict = Some(verdict.clone());
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

    fn step_fault(&mut self) {
        match self.random.random_range(0..22) {
            0..=3 => {
                self.fault("a crash");
                self.crash();
                self.start();
            }
            4 | 5 => {
                self.fault("a cut connection");
                if let Some(crier) = &mut self.crier {
                    crier.cut(&mut self.world.server, self.now);
                }
            }
            6 | 7 => {
                self.fault("a compaction");
                self.world.server.compact();
                let window = self.random.random_range(0..4);
                self.world.server.set_window("example.com", "things", window);
            }
            8 => {
                self.fault("a restart of the API server");
                self.world.server.restart_server();
            }
            9 => {
                self.fault("an eviction of slow readers");
                self.world.server.evict_slow_readers();
            }
            10 => {
                self.fault("an edit of the kind");
                self.world.edit_kind(self.now);
            }
            11 if self.random.random_bool(0.3) => {
                self.fault("a deletion of the kind");
                self.world.delete_kind(self.now);
            }
            11 | 12 => self.world.define(self.now),
            13 => self.world.back_up(),
            14 if self.rewinds => {
                if self.world.restore(&mut self.random) {
                    self.fault("a rewind");
                    // API servers are down while etcd is put back: nothing that was asked before is answered after.
                    if let Some(crier) = &mut self.crier {
                        crier.cut(&mut self.world.server, self.now);
                    }
                }
            }
            15 | 16 => self.edit_live(),
            17 => self.edit_while_down(),
            18 => {
                self.fault("a route that leaves or joins");
                self.crash();
                let one = self.random.random_range(0..self.all_routes.len());
                let all: Vec<usize> = (0..self.all_routes.len()).collect();
                self.joined = if self.joined.len() > 1 { vec![one] } else { all };
                self.start();
            }
            19 => {
                self.fault("a resync");
                if let Some(crier) = &mut self.crier {
                    crier.engine.handle_resync(0);
                }
            }
            20 => {
                self.fault("a clock that was set");
                self.crash();
                self.plan.clock = 1_600_000_000 + self.random.random_range(0..200_000_000);
                self.start();
            }
            _ => {
                self.fault("a refusal of the API server");
                self.refuse();
            }
        }
    }

    fn refuse(&mut self) {
        use crier_sandbox::Failure;
        let failures = [Failure::Initializing(3), Failure::Conversion, Failure::Starting, Failure::Unauthorized];
        let failure = failures[self.random.random_range(0..failures.len())];
        let count = self.random.random_range(1..4);
        self.world.server.unavailable(failure, count);
    }

    fn namespaces(&mut self) -> Namespaces {
        let set = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        match self.random.random_range(0..4) {
            0 => Namespaces { only: Some(set(&["a"])), ..Namespaces::default() },
            1 => Namespaces { except: set(&["a"]), ..Namespaces::default() },
            _ => Namespaces::default(),
        }
    }

    fn edit_live(&mut self) {
        let namespaces = self.namespaces();
        let index = self.random.random_range(0..self.joined.len());
        if self.all_routes[self.joined[index]].namespaces == namespaces {
            return;
        }
        self.fault("an edited selection");
        self.all_routes[self.joined[index]].namespaces = namespaces.clone();
        if let Some(crier) = &mut self.crier {
            crier.edit(index, namespaces);
        }
    }

    fn edit_while_down(&mut self) {
        self.fault("an edited selection at a restart");
        self.crash();
        let namespaces = self.namespaces();
        let index = self.random.random_range(0..self.all_routes.len());
        self.all_routes[index].namespaces = namespaces;
        if self.random.random_bool(0.5) {
            let labels = ["", "tier=a", "tier=b"];
            self.plan.collection.label_selector = labels[self.random.random_range(0..3)].to_owned();
        }
        if self.random.random_bool(0.3) {
            self.plan.collection.namespace = self.random.random_bool(0.5).then(|| "a".to_owned());
        }
        self.start();
    }

    /// Everything works again, and nothing more is written.
    fn heal(&mut self) {
        self.trace(|| "== everything heals".to_owned());
        self.world.server.unavailable(crier_sandbox::Failure::Starting, 0);
        self.world.release_all(self.now);
        if self.joined.len() < self.all_routes.len() {
            self.crash();
            self.joined = (0..self.all_routes.len()).collect();
            self.start();
        }
        self.world.define(self.now);
        if let Some(crier) = &mut self.crier {
            crier.engine.handle_audit_wanted(Duration::ZERO);
        }
        let before = self.audits();
        self.drain(move |audits| audits > before);
    }

    fn audits(&self) -> u64 {
        let crier = self.crier.as_ref();
        crier.and_then(|crier| crier.engine.last_audit()).map_or(0, |audit| audit.number)
    }

    /// Lets everything go well until nothing is left to do.
    fn drain(&mut self, audited: impl Fn(u64) -> bool) {
        let faults = std::mem::replace(&mut self.faults_on, false);
        for _ in 0..HEALING {
            self.act();
            let Some(crier) = &mut self.crier else { break };
            if crier.pending() > 0 {
                crier.step_request(&mut self.world.server, self.now, 0);
            } else if !crier.deliveries.is_empty() {
                self.step_delivery();
            } else if crier.is_saving() {
                crier.step_save(&mut self.store, self.now, true, true);
            } else if !crier.step_stream(&mut self.world.server, self.now) {
                if crier.is_quiet() && audited(self.audits()) {
                    self.faults_on = faults;
                    return;
                }
                let deadline = self.crier.as_ref().and_then(Crier::deadline);
                self.now = deadline.unwrap_or(self.now).max(self.now + milliseconds(1));
            }
        }
        self.faults_on = faults;
        let state = self.crier.as_ref().map(|crier| {
            let routes = 0..crier.plan.routes.len();
            let statuses: Vec<_> = routes.map(|route| crier.engine.route_status(route)).collect();
            let names: Vec<String> = crier.plan.routes.iter().map(|route| route.name.clone()).collect();
            let state = self.store.load(&crier.plan.name(), &names, &|_, _| true).expect("memory");
            let owed = state.routes.iter().flat_map(|route| &route.records).filter(|(_, record)| record.owed.is_some());
            let owed: Vec<_> = owed.collect();
            format!("{:?} {} audits {owed:?} {statuses:?}", crier.engine.feed_state(), self.audits())
        });
        self.violate(format!("P1: it does not drain: {}", state.unwrap_or_default()));
    }

    /// Each kind of consumer holds what the cluster holds.
    fn check(&mut self) {
        let violations: Vec<String> =
            self.sinks.iter_mut().flat_map(|sink| std::mem::take(&mut sink.violations)).collect();
        for violation in violations {
            self.violate(violation);
        }
        if self.outcome.violation.is_some() {
            return;
        }
        for route in 0..self.all_routes.len() {
            let truth = self.world.selected(&self.plan_of_all(), route);
            let silent = self.all_routes[route].initial == Initial::None;
            let keys: std::collections::BTreeSet<Key> = truth.keys().chain(self.sinks[route].keys()).cloned().collect();
            for key in keys {
                let expected = truth.get(&key).map(|(_, content)| content);
                let held = self.sinks[route].held(&key);
                let differs = held.iter().find(|(_, held)| {
                    let unspoken = silent && held.is_none();
                    let refused = held.is_some_and(|(uid, ..)| self.sinks[route].refused.contains(uid));
                    *held != expected && !unspoken && !(refused && expected.is_none())
                });
                if let Some((consumer, held)) = differs {
                    let found = format!("the consumer by {consumer} holds {held:?}, the cluster has {expected:?}");
                    return self.violate(format!("P1: route-{route}, {key}: {found}"));
                }
            }
        }
    }

    fn plan_of_all(&self) -> FeedPlan {
        FeedPlan { routes: self.all_routes.clone(), ..self.plan.clone() }
    }

    /// Restarts, with the history and without it, tell nothing.
    fn restart_in_peace(&mut self) {
        let before: Vec<usize> = self.sinks.iter().map(|sink| sink.events).collect();
        for compacted in [false, true] {
            self.trace(|| format!("== a restart in peace, compacted: {compacted}"));
            if compacted {
                self.world.server.compact();
                self.world.server.restart_server();
            }
            self.crash();
            self.start();
            self.drain(|audits| audits > 0 || compacted);
        }
        let after: Vec<usize> = self.sinks.iter().map(|sink| sink.events).collect();
        if before != after && self.outcome.violation.is_none() {
            self.violate(format!("P6: nothing has changed, and {before:?} events became {after:?}"));
        }
    }

    /// A key that changes without a pause is told at the latest after the maximum wait.
    fn change_without_a_pause(&mut self) {
        self.trace(|| "== changes without a pause".to_owned());
        let key = Key::new("a", "busy");
        self.world.make(self.now, &key);
        let before: Vec<usize> = self.sinks.iter().map(|sink| sink.events).collect();
        let began = self.now;
        for value in 0..400 {
            self.world.set(self.now, &key, value + 10);
            for _ in 0..12 {
                self.act();
                let Some(crier) = &mut self.crier else { return };
                if crier.pending() > 0 {
                    crier.step_request(&mut self.world.server, self.now, 0);
                } else if !crier.deliveries.is_empty() {
                    let faults = std::mem::replace(&mut self.faults_on, false);
                    self.step_delivery();
                    self.faults_on = faults;
                } else if crier.is_saving() {
                    crier.step_save(&mut self.store, self.now, true, true);
                } else {
                    crier.step_stream(&mut self.world.server, self.now);
                }
            }
            self.now += milliseconds(20);
        }
        for route in 0..self.all_routes.len() {
            let selected = self.world.selected(&self.plan_of_all(), route).contains_key(&key);
            let wait = self.all_routes[route].max_wait + milliseconds(200);
            let least = (self.now - began).as_millis() / wait.as_millis() / 3;
            let told = self.sinks[route].events - before[route];
            if selected && (told as u128) < least {
                self.violate(format!(
                    "P5: route-{route} was told {told} times of a busy key, {least} at least were due"
                ));
            }
        }
    }
}
