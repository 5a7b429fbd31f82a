//! What goes wrong in a run, and what is changed under it. Not when.

use crier::engine::FeedState;
use crier::select::Namespaces;
use crier_sandbox::Failure;
use rand::RngExt;
use rand::rngs::StdRng;

use crate::run::Run;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Crash,
    Cut,
    Compaction,
    /// The history is forgotten just when it would be needed.
    Expiry,
    ApiServer,
    Eviction,
    KindEdit,
    KindDeletion,
    Definition,
    Rewind,
    LiveEdit,
    EditAtRestart,
    Membership,
    Resync,
    Clock,
    Refusal,
}

/// All of them, the frequent ones more than once.
const FAULTS: [Fault; 24] = [
    Fault::Crash,
    Fault::Crash,
    Fault::Crash,
    Fault::Cut,
    Fault::Cut,
    Fault::Compaction,
    Fault::Expiry,
    Fault::Expiry,
    Fault::ApiServer,
    Fault::Eviction,
    Fault::KindEdit,
    Fault::KindDeletion,
    Fault::Definition,
    Fault::Definition,
    Fault::Rewind,
    Fault::Rewind,
    Fault::LiveEdit,
    Fault::LiveEdit,
    Fault::EditAtRestart,
    Fault::Membership,
    Fault::Membership,
    Fault::Resync,
    Fault::Clock,
    Fault::Refusal,
];

/// The fault that a run has more of than of others, if any: what it takes several of happens in some run.
pub(crate) fn favourite(random: &mut StdRng) -> Option<Fault> {
    let frequent = [Fault::Rewind, Fault::LiveEdit][random.random_range(0..2)];
    match random.random_range(0..10) {
        0..=2 => None,
        3..=5 => Some(frequent),
        _ => Some(FAULTS[random.random_range(0..FAULTS.len())]),
    }
}

impl Run {
    pub(crate) fn step_fault(&mut self) {
        let chosen = FAULTS[self.random.random_range(0..FAULTS.len())];
        let favourite = self.favourite.filter(|_| self.random.random_bool(0.5));
        let listing = self.crier.as_ref().is_some_and(|crier| crier.engine.feed_state() == FeedState::Listing);
        let fault = favourite.unwrap_or(chosen);
        // What is half read is where it hurts.
        let fault = if listing && self.random.random_bool(0.2) { Fault::Crash } else { fault };
        match fault {
            Fault::Crash => self.restart("a crash"),
            Fault::Cut => self.cut(),
            Fault::Compaction => self.compact(),
            Fault::Expiry => {
                self.cut();
                self.compact();
            }
            Fault::ApiServer => {
                self.fault("a restart of the API server");
                self.world.server.restart_server();
            }
            Fault::Eviction => {
                self.fault("an eviction of slow readers");
                self.world.server.evict_slow_readers();
            }
            Fault::KindEdit => {
                self.fault("an edit of the kind");
                self.world.edit_kind(self.now);
            }
            Fault::KindDeletion if self.random.random_bool(0.3) => {
                self.fault("a deletion of the kind");
                self.world.delete_kind(self.now);
            }
            Fault::KindDeletion | Fault::Definition => self.world.define(self.now),
            Fault::Rewind if self.rewinds => self.rewind(),
            Fault::Rewind => {}
            Fault::LiveEdit => self.edit_live(),
            Fault::EditAtRestart => self.edit_while_down(),
            Fault::Membership => {
                let one = self.random.random_range(0..self.all_routes.len());
                let all: Vec<usize> = (0..self.all_routes.len()).collect();
                let joined = if self.joined.len() > 1 { vec![one] } else { all };
                self.fault("a route that leaves or joins");
                self.crash();
                self.joined = joined;
                self.start();
            }
            Fault::Resync => {
                self.fault("a resync");
                if let Some(crier) = &mut self.crier {
                    crier.engine.handle_resync(0);
                }
            }
            Fault::Clock => {
                self.plan.clock = 1_600_000_000 + self.random.random_range(0..200_000_000);
                self.restart("a clock that was set");
            }
            Fault::Refusal => {
                self.fault("a refusal of the API server");
                self.refuse();
            }
        }
    }

    fn restart(&mut self, fault: &'static str) {
        self.fault(fault);
        self.crash();
        self.start();
    }

    fn cut(&mut self) {
        self.fault("a cut connection");
        if let Some(crier) = &mut self.crier {
            crier.cut(&mut self.world.server, self.now, true);
        }
    }

    fn compact(&mut self) {
        self.fault("a compaction");
        self.world.server.compact();
        // Some time later the cache holds much again.
        let window = [0, 1, 3, 1_000, 1_000][self.random.random_range(0..5)];
        self.world.server.set_window("example.com", "things", window);
    }

    /// A backup is put back, or taken if there is none. API servers are down for that: nothing that was asked before is
    /// answered after, but what was answered may arrive later. The counter may have passed its old mark before anyone looks.
    fn rewind(&mut self) {
        if !self.world.restore(&mut self.random) {
            return self.world.back_up();
        }
        self.fault("a rewind");
        self.world.rewinds += 1;
        if let Some(crier) = &mut self.crier {
            crier.cut(&mut self.world.server, self.now, false);
        }
        for _ in 0..[0, 0, 4, 12][self.random.random_range(0..4)] {
            if self.world.defined {
                self.write();
            }
        }
    }

    fn refuse(&mut self) {
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
        let index = self.random.random_range(0..self.joined.len());
        // Often it is an edit taken back.
        let namespaces = match self.edited.take() {
            Some((route, before)) if route == self.joined[index] && self.random.random_bool(0.7) => before,
            _ => self.namespaces(),
        };
        let route = self.joined[index];
        let before = std::mem::replace(&mut self.all_routes[route].namespaces, namespaces.clone());
        if before == namespaces {
            return;
        }
        self.fault("an edited selection");
        self.edited = Some((route, before));
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
}
