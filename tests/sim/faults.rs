//! What goes wrong in a run, and what is changed under it. Not when.

use crier::select::Namespaces;
use crier_sandbox::Failure;
use rand::RngExt;

use crate::run::Run;

impl Run {
    pub(crate) fn step_fault(&mut self) {
        match self.random.random_range(0..24) {
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
            17 | 22 | 23 => self.edit_while_down(),
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
}
