//! A cluster's control plane as far as crier needs one: etcd and kube-apiserver with RBAC.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Process, free_port, server};

/// etcd and kube-apiserver. `admin-token` may do everything, `limited-token` nothing until it is granted.
pub(crate) struct Cluster {
    api_server: Option<Process>,
    etcd: Option<Process>,
    directory: tempfile::TempDir,
    ports: [u16; 3],
    arguments: Vec<String>,
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
        let mut cluster = Self { api_server: None, etcd: None, directory, ports, arguments };
        cluster.start_etcd();
        cluster.start_api_server().await;
        cluster
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

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    async fn start_api_server(&mut self) {
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

    /// Kills the API server; what clients read is cut off. Its watch history is gone.
    pub(crate) fn kill_api_server(&mut self) {
        self.api_server = None;
    }

    /// Starts the API server again on the same data and port.
    pub(crate) async fn restart_api_server(&mut self) {
        self.kill_api_server();
        self.start_api_server().await;
    }

    /// Keeps a copy of etcd's data. All is stopped for that and started again.
    pub(crate) async fn back_up(&mut self) {
        self.move_data("etcd", "backup").await;
    }

    /// Starts all again on the copy of etcd's data: what was written since is gone, and its versions are given again.
    pub(crate) async fn put_back(&mut self) {
        self.move_data("backup", "etcd").await;
    }

    async fn move_data(&mut self, from: &str, to: &str) {
        self.kill_api_server();
        self.etcd = None;
        let _ = fs::remove_dir_all(self.file(to));
        let copied = Command::new("cp").arg("-a").args([self.file(from), self.file(to)]).status().unwrap();
        assert!(copied.success(), "etcd's data is copied");
        self.start_etcd();
        self.start_api_server().await;
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
        format!("https://127.0.0.1:{}", self.ports[2])
    }

    /// A kubeconfig with a context for each of the two users, `admin` (the current one) and `limited`.
    pub(crate) fn kubeconfig(&self, directory: &Path) -> PathBuf {
        let path = directory.join("kubeconfig");
        let user = |name: &str| format!("- name: {name}\n  user: {{ token: {name}-token }}\n");
        let context = |name: &str| format!("- name: {name}\n  context: {{ cluster: test, user: {name} }}\n");
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: admin\nclusters:\n- name: test\n  cluster:\n    server: {}\n    \
             certificate-authority: {}\nusers:\n{}{}contexts:\n{}{}",
            self.url(),
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
            let url = format!("http://127.0.0.1:{}{path}", self.ports[0]);
            let response = client.post(url).body(body).send().await.unwrap().error_for_status().unwrap();
            serde_json::from_slice::<serde_json::Value>(&response.bytes().await.unwrap()).unwrap()
        };
        let status = post("/v3/maintenance/status", "{}".to_owned()).await;
        let revision = status["header"]["revision"].as_str().unwrap();
        post("/v3/kv/compaction", format!("{{\"revision\":\"{revision}\",\"physical\":true}}")).await;
    }
}
