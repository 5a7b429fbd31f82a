//! Real servers on free loopback ports in temporary directories: an API server with its etcd, and NATS with JetStream.
//! Each is ended and its directory removed when dropped.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const START: Duration = Duration::from_secs(60);

/// The folder of the built servers; they are built if they are missing.
fn binaries() -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/build.sh");
    let output = Command::new(script).stderr(Stdio::inherit()).output().expect("tests/servers/build.sh runs");
    assert!(output.status.success(), "the servers did not build: run `make servers`");
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A process that is ended when this is dropped.
struct Process(Child);

impl Process {
    fn start(command: &mut Command, log: &Path) -> Self {
        let log = File::options().append(true).create(true).open(log).unwrap();
        Self(command.stdout(log.try_clone().unwrap()).stderr(log).spawn().expect("a server starts"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// etcd and kube-apiserver, with an administrator's token.
pub(crate) struct Cluster {
    api_server: Option<Process>,
    _etcd: Process,
    directory: tempfile::TempDir,
    binaries: PathBuf,
    ports: [u16; 3],
}

impl Cluster {
    /// Starts both and waits until the API server is ready.
    pub(crate) async fn start() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (binaries, directory) = (binaries(), tempfile::tempdir().unwrap());
        let ports = [free_port(), free_port(), free_port()];
        let [client, peer, _] = ports.map(|port| format!("http://127.0.0.1:{port}"));
        let etcd = Process::start(
            Command::new(binaries.join("etcd"))
                .arg("--data-dir")
                .arg(directory.path().join("etcd"))
                .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
                .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
                .args(["--initial-cluster", &format!("default={peer}"), "--unsafe-no-fsync"]),
            &directory.path().join("etcd.log"),
        );
        fs::write(directory.path().join("tokens.csv"), "admin-token,admin,admin,\"system:masters\"\n").unwrap();
        let key = directory.path().join("sa.key");
        let made = Command::new("openssl").args(["genrsa", "-out"]).arg(key).arg("2048").output().unwrap();
        assert!(made.status.success(), "openssl makes a key");
        let mut cluster = Self { api_server: None, _etcd: etcd, directory, binaries, ports };
        cluster.start_api_server().await;
        cluster
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    async fn start_api_server(&mut self) {
        let [etcd, _, secure] = self.ports;
        self.api_server = Some(Process::start(
            Command::new(self.binaries.join("kube-apiserver"))
                .arg(format!("--etcd-servers=http://127.0.0.1:{etcd}"))
                .arg(format!("--secure-port={secure}"))
                .arg(format!("--cert-dir={}", self.file("certificates").display()))
                .arg(format!("--service-account-key-file={}", self.file("sa.key").display()))
                .arg(format!("--service-account-signing-key-file={}", self.file("sa.key").display()))
                .arg(format!("--token-auth-file={}", self.file("tokens.csv").display()))
                .args(["--bind-address=127.0.0.1", "--service-account-issuer=https://kubernetes.default.svc"])
                .args(["--authorization-mode=RBAC", "--disable-admission-plugins=ServiceAccount"])
                .arg("--service-cluster-ip-range=10.0.0.0/24"),
            &self.file("kube-apiserver.log"),
        ));
        let began = Instant::now();
        loop {
            if self.file("certificates/apiserver.crt").exists() {
                let ready = http::Request::get("/readyz").body(Vec::new()).unwrap();
                if self.client().request_text(ready).await.is_ok_and(|text| text == "ok") {
                    return;
                }
            }
            if began.elapsed() > START {
                let log = fs::read_to_string(self.file("kube-apiserver.log")).unwrap_or_default();
                panic!("the API server is not ready:\n{}", &log[log.len().saturating_sub(4_000)..]);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
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

    /// A client with all rights.
    pub(crate) fn client(&self) -> kube::Client {
        let mut config = kube::Config::new(format!("https://127.0.0.1:{}", self.ports[2]).parse().unwrap());
        config.root_cert_file = Some(self.file("certificates/apiserver.crt"));
        config.auth_info.token = Some("admin-token".to_owned().into());
        config.default_retry = false;
        kube::Client::try_from(config).unwrap()
    }
}

/// nats-server with JetStream.
pub(crate) struct Nats {
    process: Option<Process>,
    directory: tempfile::TempDir,
    binaries: PathBuf,
    port: u16,
}

impl Nats {
    /// Starts it and waits until it accepts connections.
    pub(crate) async fn start() -> Self {
        let mut nats =
            Self { process: None, directory: tempfile::tempdir().unwrap(), binaries: binaries(), port: free_port() };
        nats.restart().await;
        nats
    }

    /// Kills it.
    pub(crate) fn kill(&mut self) {
        self.process = None;
    }

    /// Starts it again on the same data and port.
    pub(crate) async fn restart(&mut self) {
        self.kill();
        self.process = Some(Process::start(
            Command::new(self.binaries.join("nats-server"))
                .args(["-a", "127.0.0.1", "-js", "-p", &self.port.to_string(), "-sd"])
                .arg(self.directory.path()),
            &self.directory.path().join("nats.log"),
        ));
        let accepts = async {
            while tokio::net::TcpStream::connect(("127.0.0.1", self.port)).await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(START, accepts).await.expect("nats-server accepts connections");
    }

    /// Its address.
    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }
}
