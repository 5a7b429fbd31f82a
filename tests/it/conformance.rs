//! The sandbox's model and the real kube-apiserver answer the same questions alike. What is asked is in
//! `sandbox/src/scenarios`.

use std::sync::Mutex;
use std::thread;

use crier_sandbox::scenarios::{self, ModelServer, Scenario};

use crate::support::RealServer;

/// How many scenarios run at once; most of them wait most of the time.
const READERS: usize = 6;

/// The first line in which a scenario's two transcripts differ.
fn difference(scenario: Scenario, model: &mut ModelServer, real: &mut RealServer) -> Option<String> {
    let on_model = scenarios::run(scenario, model);
    let on_real = scenarios::run(scenario, real);
    let lines = on_model.len().max(on_real.len());
    let line = (0..lines).find(|line| on_model.get(*line) != on_real.get(*line))?;
    let text = |transcript: &[String]| transcript.get(line).cloned().unwrap_or_else(|| "(nothing)".to_owned());
    let (model, real) = (text(&on_model), text(&on_real));
    Some(format!("{}, line {}:\n  real:  {real}\n  model: {model}", scenario.0, line + 1))
}

fn agree(differences: &[String]) {
    assert!(differences.is_empty(), "{} scenarios differ:\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn the_model_answers_as_the_real_server_does() {
    let real = RealServer::start_with(&[]);
    let waiting = Mutex::new(scenarios::side_by_side().into_iter());
    let differences = Mutex::new(Vec::new());
    thread::scope(|scope| {
        let (waiting, differences) = (&waiting, &differences);
        for mut reader in (0..READERS).map(|_| real.another()) {
            scope.spawn(move || {
                // Taken in a block of its own, so that the lock is not held while the scenario runs.
                while let Some(scenario) = { waiting.lock().unwrap().next() } {
                    let found = difference(scenario, &mut ModelServer::default(), &mut reader);
                    differences.lock().unwrap().extend(found);
                }
            });
        }
    });
    agree(&differences.into_inner().unwrap());
}

#[test]
fn the_model_is_compacted_restarted_and_put_back_as_the_real_server_is() {
    let mut real = RealServer::start_with(&[]);
    let scenarios = scenarios::alone();
    let found = scenarios.iter().filter_map(|it| difference(*it, &mut ModelServer::default(), &mut real));
    agree(&found.collect::<Vec<_>>());
}

#[test]
fn the_model_without_streaming_lists_answers_as_the_real_server_without_them() {
    let mut real = RealServer::start_with(&["--feature-gates=WatchList=false"]);
    let mut model = ModelServer::default();
    model.api.set_streaming_lists(false);
    let scenarios = scenarios::without_streaming_lists();
    let found = scenarios.iter().filter_map(|scenario| difference(*scenario, &mut model, &mut real));
    agree(&found.collect::<Vec<_>>());
}
