//! What has to be true once everything has healed: all that was owed is told, every kind of consumer holds what the cluster
//! holds, and restarts tell nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use crier::engine::Initial;
use crier::model::Key;
use crier::store::Store;

use crate::client::{Crier, FeedPlan};
use crate::run::{Run, milliseconds};

/// Steps in which everything has to drain once the faults have ended.
const HEALING: usize = 30_000;
const TEN_MINUTES: Duration = Duration::from_secs(600);

impl Run {
    /// Everything works again, and nothing more is written.
    pub(crate) fn heal(&mut self) {
        self.trace(|| "== everything heals".to_owned());
        self.mend();
        let before = self.audits();
        if self.plan.audits
            && let Some(crier) = &mut self.crier
        {
            crier.engine.handle_audit_wanted(Duration::ZERO);
        }
        let audits = self.plan.audits;
        self.drain(move |done| !audits || done > before);
    }

    fn mend(&mut self) {
        self.world.server.unavailable(crier_sandbox::Failure::Starting, 0);
        self.world.release_all(self.now);
        if self.joined.len() < self.all_routes.len() {
            self.crash();
            self.joined = (0..self.all_routes.len()).collect();
            self.start();
        }
        self.world.define(self.now);
    }

    /// All but one sink work again: theirs is told, and the one that is down is not stormed.
    pub(crate) fn leave_one_down(&mut self) {
        self.trace(|| "== everything heals but the first sink".to_owned());
        self.mend();
        self.down = Some(0);
        self.drain(|_| true);
        if self.outcome.violation.is_none() && !self.outcome.faults.contains_key("a rewind") {
            self.check(Some(0));
        }
        let (asked, until) = (self.sinks[0].asked, self.now + TEN_MINUTES);
        while self.now < until && self.outcome.violation.is_none() {
            self.drain(|_| true);
            let deadline = self.crier.as_ref().and_then(Crier::deadline).unwrap_or(until);
            self.now = deadline.max(self.now + milliseconds(1));
        }
        let asked = self.sinks[0].asked - asked;
        if asked > 60 {
            self.violate(format!("P8: a sink that is down was called {asked} times in ten minutes"));
        }
        self.down = None;
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
                if crier.is_quiet(self.down) && audited(self.audits()) {
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
    pub(crate) fn check(&mut self, without: Option<usize>) {
        let violations: Vec<String> =
            self.sinks.iter_mut().flat_map(|sink| std::mem::take(&mut sink.violations)).collect();
        for violation in violations {
            self.violate(violation);
        }
        // Whoever takes what comes is owed the last state all the same.
        self.excuse();
        if self.outcome.violation.is_some() {
            return;
        }
        for route in (0..self.all_routes.len()).filter(|route| Some(*route) != without) {
            let truth = self.world.selected(&self.plan_of_all(), route);
            let silent = self.all_routes[route].initial == Initial::None;
            let keys: BTreeSet<Key> = truth.keys().chain(self.sinks[route].keys()).cloned().collect();
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
    pub(crate) fn restart_in_peace(&mut self) {
        let before: Vec<usize> = self.sinks.iter().map(|sink| sink.events).collect();
        for compacted in [false, true] {
            self.trace(|| format!("== a restart in peace, compacted: {compacted}"));
            if compacted {
                self.world.server.compact();
                self.world.server.restart_server();
            }
            self.crash();
            self.start();
            let audits = self.plan.audits;
            self.drain(|done| !audits || done > 0 || compacted);
        }
        let after: Vec<usize> = self.sinks.iter().map(|sink| sink.events).collect();
        if before != after && self.outcome.violation.is_none() {
            self.violate(format!("P6: nothing has changed, and {before:?} events became {after:?}"));
        }
    }

    /// A key that changes without a pause is told at the latest after the maximum wait.
    pub(crate) fn change_without_a_pause(&mut self) {
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
        for (route, told_before) in before.into_iter().enumerate() {
            let selected = self.world.selected(&self.plan_of_all(), route).contains_key(&key);
            let wait = self.all_routes[route].max_wait + milliseconds(200);
            let least = (self.now - began).as_millis() / wait.as_millis() / 3;
            let told = self.sinks[route].events - told_before;
            if selected && (told as u128) < least {
                self.violate(format!(
                    "P5: route-{route} was told {told} times of a busy key, {least} at least were due"
                ));
            }
        }
    }
}
