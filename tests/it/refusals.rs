//! A process that cannot begin says what failed, why, and what to do.

use std::path::Path;
use std::process::{Command, Output};

use crate::support::{Cluster, Crier};

fn crier(folder: &Path, configuration: &str, arguments: &[&str]) -> Output {
    let file = folder.join("crier.yaml");
    std::fs::write(&file, configuration.replace("{dir}", &folder.display().to_string())).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_crier"));
    command.arg("run").arg("--config").arg(&file).args(arguments).env("HOME", folder).env_remove("KUBECONFIG");
    command.output().unwrap()
}

const ROUTES: &str = "sinks: { out: { stdout: {} } }
routes:
  - { name: apps, watch: { resources: [myapps.example.com] }, sinks: [out] }
";

/// What it wrote to standard error, without its log.
fn said(output: &Output) -> String {
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    text.lines().filter(|line| !line.starts_with('{')).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_process_that_cannot_begin_names_the_cause_and_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let port = "admin: { address: \"127.0.0.1:0\" }\n";
    let good = format!("state: memory\n{port}{ROUTES}");

    let output = crier(folder.path(), "state: memory\nsinks: {}\n", &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains(":1:1: routes: missing") && said(&output).ends_with("2 mistakes"), "{output:?}");

    let output = crier(folder.path(), &good, &[]);
    assert_eq!(output.status.code(), Some(1));
    let text = said(&output);
    assert!(text.starts_with("error: there is no connection to a cluster\nCaused by: no cluster was found"), "{text}");
    assert!(text.contains("\nhint: give --kubeconfig FILE"), "{text}");

    let output = crier(folder.path(), &good, &["--kubeconfig", "/nonexistent/kubeconfig"]);
    let text = said(&output);
    assert!(text.contains("Caused by: the kubeconfig cannot be used") && text.contains("/nonexistent"), "{text}");

    let output = crier(folder.path(), &good, &["--log", "crier=loud"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");

    let secret =
        good.replace("stdout: {}", "webhook: { url: \"http://127.0.0.1:1/\", bearer: { env: CRIER_TEST_UNSET } }");
    let text = said(&crier(folder.path(), &secret, &[]));
    assert!(text.starts_with("error: the sink out cannot be set up\nCaused by: "), "{text}");
    assert!(text.contains("CRIER_TEST_UNSET is not set") && text.contains("\nhint: set the variable"), "{text}");

    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = good.replace("127.0.0.1:0", &taken.local_addr().unwrap().to_string());
    let text = said(&crier(folder.path(), &taken, &[]));
    assert!(
        text.starts_with("error: cannot listen on 127.0.0.1:") && text.contains("\nhint: set admin.address"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_state_is_nobody_elses_while_it_is_used_and_never_another_clusters() {
    let (cluster, other) = tokio::join!(Cluster::start(), Cluster::start());
    let mut first = Crier::prepare(&cluster, ROUTES);
    first.start();
    let begun = |status: &serde_json::Value| status["starting"].is_null();
    first.until("it has begun", std::time::Duration::from_secs(20), begun).await;
    let folder = tempfile::tempdir().unwrap();
    let state = first.file("state").display().to_string();
    let configuration = format!("state: {{ path: {state} }}\nadmin: {{ address: \"127.0.0.1:0\" }}\n{ROUTES}");
    let text = said(&crier(folder.path(), &configuration, &[]));
    assert!(text.contains("is in use by another process") && text.contains("\nhint: stop the other process"), "{text}");
    first.terminate().await;
    let kubeconfig = other.kubeconfig(folder.path()).display().to_string();
    let output =
        tokio::task::spawn_blocking(move || crier(folder.path(), &configuration, &["--kubeconfig", &kubeconfig]));
    let output = output.await.unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("the state belongs to cluster"), "{output:?}");
}
