use crier_sandbox::scenarios::{self, ModelServer};
#[test]
fn dump() {
    for scenario in scenarios::side_by_side() {
        scenarios::run(scenario, &mut ModelServer::default());
    }
}
