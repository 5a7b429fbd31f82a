//! The sandbox's model and the real kube-apiserver answer the same questions alike. What is asked is in
//! `sandbox/src/scenarios`.

use crier_sandbox::scenarios::{self, ModelServer};

use crate::support::RealServer;

#[test]
fn the_model_answers_as_the_real_server_does() {
    let mut real = RealServer::start();
    let mut differing = Vec::new();
    for scenario in scenarios::all() {
        let on_model = scenarios::run(scenario, &mut ModelServer::default());
        let on_real = scenarios::run(scenario, &mut real);
        if let Ok(d) = std::env::var("SBX_DUMP") { std::fs::write(format!("{d}/model/{}", scenario.0), on_model.join("\n")).unwrap(); std::fs::write(format!("{d}/real/{}", scenario.0), on_real.join("\n")).unwrap(); }
        let lines = on_model.len().max(on_real.len());
        let different = (0..lines).find(|line| on_model.get(*line) != on_real.get(*line));
        if let Some(line) = different {
            let text = |transcript: &[String]| transcript.get(line).cloned().unwrap_or_else(|| "(nothing)".to_owned());
            let (real, model) = (text(&on_real), text(&on_model));
            differing.push(format!("{}, line {}:\n  real:  {real}\n  model: {model}", scenario.0, line + 1));
        }
    }
    assert!(differing.is_empty(), "{} scenarios differ:\n{}", differing.len(), differing.join("\n"));
}
