//! A cluster's control plane as far as crier needs one: etcd and kube-apiserver with RBAC.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Process, START, eventually, free_port, server};

/// etcd and kube-apiserver. `admin-token` may do everything, `limited-token` nothing until it is granted.
pub(crate) struct Cluster {
    api_server: Option<Process>,
    etcd: Option<Process>,
    directory: tempfile::TempDir,
    ports: [u16; 3],
    arguments: Vec<String>,
    // Where a kubeconfig says that the API server is, if something stands before it.
    front: Option<u16>,
}

impl Cluster {
    /// Starts both and waits until the API server is ready.
    pub(crate) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// The same, with more arguments for the API server.
    pub(crate) async fn start_with(arguments: &[&str]) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let directory = tempfile::tempdir().unwrap();
        let ports = [free_port(), free_port(), free_port()];
        let tokens = "admin-token,admin,admin,\"system:masters\"\nlimited-token,limited,limited,\"limited\"\n";
        fs::write(directory.path().join("tokens.csv"), tokens).unwrap();
        let key = directory.path().join("sa.key");
        let made = Command::new("openssl").args(["genrsa", "-out"]).arg(key).arg("2048").output().unwrap();
        assert!(made.status.success(), "openssl makes a key");
        let arguments = arguments.iter().map(ToString::to_string).collect();
        let mut cluster = Self { api_server: None, etcd: None, directory, ports, arguments, front: None };
        cluster.start_etcd();
        cluster.start_api_server().await;
        cluster
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn start_etcd(&mut self) {
        let [client, peer, _] = self.ports.map(|port| format!("http://127.0.0.1:{port}"));
        let etcd = Process::start(
            Command::new(server("etcd"))
                .arg("--data-dir")
                .arg(self.file("etcd"))
                .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
                .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
                .args(["--initial-cluster", &format!("default={peer}"), "--unsafe-no-fsync"]),
            &self.file("etcd.log"),
        );
        self.etcd = Some(etcd);
    }

    /// Starts the API server, which must not run.
    pub(crate) async fn start_api_server(&mut self) {
        let [etcd, _, secure] = self.ports;
        let mut process = Process::start(
            Command::new(server("kube-apiserver"))
                .arg(format!("--etcd-servers=http://127.0.0.1:{etcd}"))
                .arg(format!("--secure-port={secure}"))
                .arg(format!("--cert-dir={}", self.file("certificates").display()))
                .arg(format!("--service-account-key-file={}", self.file("sa.key").display()))
                .arg(format!("--service-account-signing-key-file={}", self.file("sa.key").display()))
                .arg(format!("--token-auth-file={}", self.file("tokens.csv").display()))
                .args(["--bind-address=127.0.0.1", "--service-account-issuer=https://kubernetes.default.svc"])
                .args(["--authorization-mode=RBAC", "--disable-admission-plugins=ServiceAccount"])
                .arg("--service-cluster-ip-range=10.0.0.0/24")
                .args(&self.arguments),
            &self.file("kube-apiserver.log"),
        );
        process
            .until_ready("the API server", async || {
                if !self.file("certificates/apiserver.crt").exists() {
                    return false;
                }
                let client = self.client();
                let ready = http::Request::get("/readyz").body(Vec::new()).unwrap();
                // The namespace is made some moments after the server is ready.
                let namespace = http::Request::get("/api/v1/namespaces/kube-system").body(Vec::new()).unwrap();
                client.request_text(ready).await.is_ok_and(|text| text == "ok")
                    && client.request_text(namespace).await.is_ok()
            })
            .await;
        self.api_server = Some(process);
    }

    /// From the next start on the API server knows this user by another token.
    pub(crate) fn set_token(&self, user: &str, token: &str) {
        let tokens = fs::read_to_string(self.file("tokens.csv")).unwrap();
        fs::write(self.file("tokens.csv"), tokens.replace(&format!("{user}-token,"), &format!("{token},"))).unwrap();
    }

    /// Kills the API server; what clients read is cut off. Its watch history is gone.
    pub(crate) fn kill_api_server(&mut self) {
        self.api_server = None;
    }

    /// Starts the API server again on the same data and port.
    pub(crate) async fn restart_api_server(&mut self) {
        self.kill_api_server();
        self.start_api_server().await;
    }

    /// Sends a signal such as `STOP` to the API server.
    pub(crate) fn signal_api_server(&self, name: &str) {
        self.api_server.as_ref().expect("it runs").signal(name);
    }

    /// Sends a signal such as `STOP` to etcd.
    pub(crate) fn signal_etcd(&self, name: &str) {
        self.etcd.as_ref().expect("it runs").signal(name);
    }

    /// Keeps a copy of etcd's data as it is now, in place of an earlier one.
    pub(crate) fn copy_etcd(&self) {
        let _ = fs::remove_dir_all(self.file("copy"));
        // What is copied while nothing is written is what a crash would have left.
        self.signal_etcd("STOP");
        let copied = Command::new("cp").arg("-a").args([self.file("etcd"), self.file("copy")]).status().unwrap();
        self.signal_etcd("CONT");
        assert!(copied.success(), "etcd's data can be copied");
    }

    /// Puts etcd's data back to the copy, and says at which revision that is. The API server does not run then.
    pub(crate) async fn put_etcd_back(&mut self) -> u64 {
        self.kill_api_server();
        self.etcd = None;
        fs::remove_dir_all(self.file("etcd")).unwrap();
        let copied = Command::new("cp").arg("-a").args([self.file("copy"), self.file("etcd")]).status().unwrap();
        assert!(copied.success(), "the copy can be put back");
        self.start_etcd();
        eventually("etcd answers", START, async || self.revision().await).await
    }

    /// etcd's newest revision; `None` while it does not answer.
    pub(crate) async fn revision(&self) -> Option<u64> {
        let url = format!("{}/v3/maintenance/status", self.etcd_url());
        let answer = reqwest::Client::new().post(url).body("{}").send().await.ok()?.bytes().await.ok()?;
        let status: serde_json::Value = serde_json::from_slice(&answer).ok()?;
        status["header"]["revision"].as_str()?.parse().ok()
    }

    /// etcd's address.
    pub(crate) fn etcd_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports[0])
    }

    /// The API server's port.
    pub(crate) fn port(&self) -> u16 {
        self.ports[2]
    }

    /// From now on kubeconfigs name this port of loopback in place of the API server's own.
    pub(crate) fn put_behind(&mut self, port: u16) {
        self.front = Some(port);
    }

    /// A client with all rights.
    pub(crate) fn client(&self) -> kube::Client {
        self.client_of("admin")
    }

    /// A client of a user, `admin` or `limited`.
    pub(crate) fn client_of(&self, user: &str) -> kube::Client {
        let mut config = kube::Config::new(self.url().parse().unwrap());
        config.root_cert_file = Some(self.file("certificates/apiserver.crt"));
        config.auth_info.token = Some(format!("{user}-token").into());
        config.default_retry = false;
        kube::Client::try_from(config).unwrap()
    }

    fn url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port())
    }

    /// A kubeconfig with a context for each of the two users, `admin` (the current one) and `limited`.
    pub(crate) fn kubeconfig(&self, directory: &Path) -> PathBuf {
        let path = directory.join("kubeconfig");
        let user = |name: &str| format!("- name: {name}\n  user: {{ token: {name}-token }}\n");
        let context = |name: &str| format!("- name: {name}\n  context: {{ cluster: test, user: {name} }}\n");
        let server = format!("https://127.0.0.1:{}", self.front.unwrap_or(self.port()));
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: admin\nclusters:\n- name: test\n  cluster:\n    server: {server}\n    \
             certificate-authority: {}\nusers:\n{}{}contexts:\n{}{}",
            self.file("certificates/apiserver.crt").display(),
            user("admin"),
            user("limited"),
            context("admin"),
            context("limited"),
        );
        fs::write(&path, text).unwrap();
        path
    }

    /// The API server's own metrics.
    pub(crate) async fn metrics(&self) -> String {
        self.client().request_text(http::Request::get("/metrics").body(Vec::new()).unwrap()).await.unwrap()
    }

    /// Compacts etcd up to now: what the API server's own cache does not hold can no longer be watched.
    pub(crate) async fn compact(&self) {
        let client = reqwest::Client::new();
        let post = async |path: &str, body: String| {
            let url = format!("{}{path}", self.etcd_url());
            let response = client.post(url).body(body).send().await.unwrap().error_for_status().unwrap();
            serde_json::from_slice::<serde_json::Value>(&response.bytes().await.unwrap()).unwrap()
        };
        let status = post("/v3/maintenance/status", "{}".to_owned()).await;
        let revision = status["header"]["revision"].as_str().unwrap();
        post("/v3/kv/compaction", format!("{{\"revision\":\"{revision}\",\"physical\":true}}")).await;
    }
}
