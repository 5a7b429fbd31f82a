//! The program itself, as a user runs it: a configuration, a kubeconfig, a process.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Cluster, Process, eventually, free_port, parse_lines};

/// Whoever has not ended by then will not: the drain is shorter.
const TERMINATION: Duration = Duration::from_secs(40);

/// A folder with a configuration and its state, and the process that runs on them.
pub(crate) struct Crier {
    directory: tempfile::TempDir,
    process: Option<Process>,
    port: u16,
    arguments: Vec<String>,
}

impl Crier {
    /// Writes the configuration; `{dir}` in it stands for the folder. `state`, `admin` and the cluster's name are added.
    pub(crate) fn prepare(cluster: &Cluster, sinks_and_routes: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let port = free_port();
        let kubeconfig = cluster.kubeconfig(directory.path()).display().to_string();
        let arguments = vec!["--kubeconfig".to_owned(), kubeconfig];
        let crier = Self { directory, process: None, port, arguments };
        crier.configure(sinks_and_routes);
        crier
    }

    /// Writes another configuration for the next start.
    pub(crate) fn configure(&self, sinks_and_routes: &str) {
        let (port, folder) = (self.port, self.directory.path().display().to_string());
        let head =
            format!("cluster: test\nstate: {{ path: {{dir}}/state }}\nadmin: {{ address: \"127.0.0.1:{port}\" }}\n");
        fs::write(self.file("crier.yaml"), (head + sinks_and_routes).replace("{dir}", &folder)).unwrap();
    }

    /// As this user of the kubeconfig.
    pub(crate) fn with_context(mut self, name: &str) -> Self {
        self.arguments.extend(["--context".to_owned(), name.to_owned()]);
        self
    }

    /// A file in the folder.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Starts the process; does not wait for anything.
    pub(crate) fn start(&mut self) {
        self.start_with(&[]);
    }

    /// The same, with more arguments.
    pub(crate) fn start_with(&mut self, arguments: &[&str]) {
        assert!(self.process.is_none(), "it runs already");
        let open = |path: &Path| File::options().append(true).create(true).open(path).unwrap();
        let log = self.file("log");
        let mut command = Command::new(env!("CARGO_BIN_EXE_crier"));
        command
            .args(["run", "--log-format", "json", "--config"])
            .arg(self.file("crier.yaml"))
            .args(&self.arguments)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(open(&self.file("stdout")))
            .stderr(open(&log));
        self.process = Some(Process::start_with_output(&mut command, &log));
    }

    /// Starts a process that cannot begin: its exit code, and what it says for people.
    pub(crate) async fn fail_with(&mut self, arguments: &[&str]) -> (i32, String) {
        let before = fs::read(self.file("log")).unwrap_or_default().len();
        self.start_with(arguments);
        let began = Instant::now();
        while self.is_running() {
            assert!(began.elapsed() < TERMINATION, "it runs:\n{}", self.end_of_log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let status = self.process.take().expect("it was started").child.wait().unwrap();
        let log = fs::read_to_string(self.file("log")).unwrap();
        let said: Vec<&str> = log[before..].lines().filter(|line| !line.starts_with('{')).collect();
        (status.code().expect("it exits by itself"), said.join("\n"))
    }

    /// Runs another command on the same configuration: its exit code, its output and its errors.
    pub(crate) async fn command(&self, name: &str, arguments: &[&str]) -> (i32, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_crier"));
        command.arg(name).arg("--config").arg(self.file("crier.yaml")).args(arguments);
        let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().expect("it exits by itself"), text(output.stdout), text(output.stderr))
    }

    /// Kills it with -9.
    pub(crate) fn kill(&mut self) {
        self.process = None;
    }

    /// Sends a signal such as `STOP`.
    pub(crate) fn signal(&self, name: &str) {
        self.process.as_ref().expect("it runs").signal(name);
    }

    /// Whether it was started and has not ended by itself.
    pub(crate) fn is_running(&mut self) -> bool {
        self.process.as_mut().is_some_and(Process::is_running)
    }

    /// Sends SIGTERM and waits for its exit code.
    pub(crate) async fn terminate(&mut self) -> i32 {
        self.try_terminate().await.unwrap_or_else(|failure| panic!("{failure}"))
    }

    /// The same; what went wrong if it does not exit by itself. Then it is killed.
    pub(crate) async fn try_terminate(&mut self) -> Result<i32, String> {
        self.signal("TERM");
        let began = Instant::now();
        loop {
            let process = self.process.as_mut().expect("it runs");
            if let Some(status) = process.child.try_wait().unwrap() {
                let log = self.end_of_log();
                self.process = None;
                return status.code().ok_or_else(|| format!("it exits by {status}, not by itself:\n{log}"));
            }
            if began.elapsed() >= TERMINATION {
                let (status, log) = (self.status().await, self.end_of_log());
                self.process = None;
                return Err(format!("it does not end within {TERMINATION:?}:\n{status:?}\n{log}"));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// What the admin port answers, with its status; `None` while it does not answer.
    pub(crate) async fn get(&self, path: &str) -> Option<(u16, String)> {
        let response = reqwest::get(format!("http://127.0.0.1:{}{path}", self.port)).await.ok()?;
        Some((response.status().as_u16(), response.text().await.ok()?))
    }

    /// `/routes`, parsed.
    pub(crate) async fn status(&self) -> Option<Value> {
        serde_json::from_str(&self.get("/routes").await?.1).ok()
    }

    /// Waits for a status that `condition` likes.
    pub(crate) async fn until(&self, what: &str, limit: Duration, condition: impl Fn(&Value) -> bool) -> Value {
        let waited = async || {
            let status = self.status().await?;
            condition(&status).then_some(status)
        };
        match tokio::time::timeout(limit, eventually(what, limit * 2, waited)).await {
            Ok(status) => status,
            Err(_) => panic!("waited in vain for {limit:?}: {what}\n{:#?}\n{}", self.status().await, self.end_of_log()),
        }
    }

    /// Waits until every feed of MyApps has read up to this version and each of their routes has told all of it.
    pub(crate) async fn until_told(&self, version: u128, limit: Duration) {
        self.until(&format!("everything up to {version} is told"), limit, |status| {
            let of_apps = |feed: &&Value| feed["feed"].as_str().unwrap().starts_with("myapps");
            let feeds: Vec<&Value> = status["feeds"].as_array().unwrap().iter().filter(of_apps).collect();
            !feeds.is_empty()
                && feeds.iter().all(|feed| {
                    let read =
                        feed["resourceVersion"].as_str().is_some_and(|at| at.parse::<u128>().unwrap() >= version);
                    let routes = feed["routes"].as_array().unwrap();
                    read && routes.iter().all(|route| route["synced"] == true && route["owed"] == 0)
                })
        })
        .await;
    }

    /// The lines of a file sink.
    pub(crate) fn lines(&self, name: &str) -> Vec<Value> {
        parse_lines(&fs::read_to_string(self.file(name)).unwrap_or_default())
    }

    /// Its log so far.
    pub(crate) fn log(&self) -> Vec<Value> {
        parse_lines(&fs::read_to_string(self.file("log")).unwrap_or_default())
    }

    fn end_of_log(&self) -> String {
        self.process.as_ref().map(Process::end_of_log).unwrap_or_default()
    }

    /// Resident memory, in KiB.
    pub(crate) fn resident(&self) -> u64 {
        self.memory().0
    }

    /// Resident memory now and at its peak, in KiB.
    pub(crate) fn memory(&self) -> (u64, u64) {
        let status = fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let field = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().nth(1).unwrap().parse().unwrap()
        };
        (field("VmRSS:"), field("VmHWM:"))
    }

    /// The CPU time that the process has used, to 10 ms (the kernel counts hundredths of a second).
    #[allow(dead_code, reason = "the benchmark uses it")]
    pub(crate) fn cpu(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.id())).unwrap();
        // The name, in parentheses, may have spaces; user and system time are the 14th and 15th field.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        Duration::from_millis(10 * (fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()))
    }

    fn id(&self) -> u32 {
        self.process.as_ref().expect("it runs").id()
    }
}
