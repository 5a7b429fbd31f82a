//! The model on its own: all scenarios, with what each has to show.

use crier_sandbox::scenarios::{self, ModelServer};

#[test]
fn dump() {
    for scenario in scenarios::all() {
        let transcript = scenarios::run(scenario, &mut ModelServer::default());
        println!("=== {}", scenario.0);
        for line in transcript {
            println!("{line}");
        }
    }
}
