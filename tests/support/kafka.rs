//! Kafka, one node in KRaft mode.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::message::OwnedMessage;
use rdkafka::{Offset, TopicPartitionList};

use super::{Process, free_port, server};

/// Any 16 bytes in base64 name a cluster; a fixed one saves the start of a Java machine.
const CLUSTER: &str = "MkU3OEVBNTcwNTJENDM2Qk";
const TIMEOUT: Duration = Duration::from_secs(10);

/// One broker and its data.
pub(crate) struct Kafka {
    process: Option<Process>,
    directory: tempfile::TempDir,
    ports: [u16; 2],
}

impl Kafka {
    /// Formats its storage, starts it, and waits until it answers.
    pub(crate) async fn start() -> Self {
        Self::start_with(None).await
    }

    /// The same, with a second listener on the first of these ports; who comes over it is sent to the second one.
    pub(crate) async fn start_behind(listener: u16, front: u16) -> Self {
        Self::start_with(Some((listener, front))).await
    }

    async fn start_with(proxied: Option<(u16, u16)>) -> Self {
        let mut kafka =
            Self { process: None, directory: tempfile::tempdir().unwrap(), ports: [free_port(), free_port()] };
        let [broker, controller] = kafka.ports;
        let (mut listener, mut front) = (String::new(), String::new());
        if let Some((listens, advertised)) = proxied {
            listener = format!(",PROXIED://127.0.0.1:{listens}");
            front = format!(",PROXIED://127.0.0.1:{advertised}");
        }
        let properties = [
            "process.roles=broker,controller".to_owned(),
            "node.id=1".to_owned(),
            format!("controller.quorum.voters=1@127.0.0.1:{controller}"),
            format!("listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}{listener}"),
            format!("advertised.listeners=PLAINTEXT://127.0.0.1:{broker}{front}"),
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,PROXIED:PLAINTEXT".to_owned(),
            "inter.broker.listener.name=PLAINTEXT".to_owned(),
            "controller.listener.names=CONTROLLER".to_owned(),
            format!("log.dirs={}", kafka.directory.path().join("data").display()),
            "offsets.topic.replication.factor=1".to_owned(),
            "auto.create.topics.enable=false".to_owned(),
        ];
        fs::write(kafka.properties(), properties.join("\n")).unwrap();
        let formatted = kafka
            .java()
            .args(["kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c"])
            .arg(kafka.properties())
            .output()
            .unwrap();
        assert!(formatted.status.success(), "Kafka's storage: {}", String::from_utf8_lossy(&formatted.stderr));
        kafka.restart().await;
        kafka
    }

    fn properties(&self) -> PathBuf {
        self.directory.path().join("server.properties")
    }

    fn java(&self) -> Command {
        let mut java = Command::new("java");
        java.args(["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-cp"])
            .arg(server("kafka").join("*"))
            .current_dir(self.directory.path());
        java
    }

    /// Kills it.
    pub(crate) fn kill(&mut self) {
        self.process = None;
    }

    /// Stops it without ending it: connections stay open and nothing answers.
    pub(crate) fn stop(&self) {
        self.process.as_ref().expect("it runs").signal("STOP");
    }

    /// Lets it go on after a stop.
    pub(crate) fn resume(&self) {
        self.process.as_ref().expect("it runs").signal("CONT");
    }

    /// Starts it again on the same data and port.
    pub(crate) async fn restart(&mut self) {
        self.kill();
        let mut process = Process::start(
            self.java().arg("kafka.Kafka").arg(self.properties()),
            &self.directory.path().join("kafka.log"),
        );
        process
            .until_ready("Kafka", async || {
                let config = self.config();
                let asked = tokio::task::spawn_blocking(move || {
                    let consumer: BaseConsumer = config.create().unwrap();
                    consumer.fetch_metadata(None, Duration::from_secs(1)).is_ok_and(|all| !all.brokers().is_empty())
                });
                asked.await.unwrap()
            })
            .await;
        self.process = Some(process);
    }

    /// `host:port` of the broker.
    pub(crate) fn broker(&self) -> String {
        format!("127.0.0.1:{}", self.ports[0])
    }

    fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.broker()).set("group.id", "test").set("log_level", "0");
        config
    }

    /// Makes a topic with so many partitions.
    pub(crate) async fn create_topic(&self, name: &str, partitions: i32) {
        let admin: AdminClient<DefaultClientContext> = self.config().create().unwrap();
        let topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
        let made = admin.create_topics([&topic], &AdminOptions::new().operation_timeout(Some(TIMEOUT))).await.unwrap();
        assert!(made.iter().all(Result::is_ok), "{made:?}");
    }

    /// All that a topic holds: each partition in its order.
    pub(crate) async fn stored(&self, topic: &str) -> Vec<OwnedMessage> {
        let (config, topic) = (self.config(), topic.to_owned());
        tokio::task::spawn_blocking(move || read(&config, &topic)).await.unwrap()
    }
}

fn read(config: &ClientConfig, topic: &str) -> Vec<OwnedMessage> {
    let consumer: BaseConsumer = config.create().unwrap();
    let metadata = consumer.fetch_metadata(Some(topic), TIMEOUT).unwrap();
    let mut wanted = 0;
    let mut assignment = TopicPartitionList::new();
    for partition in metadata.topics()[0].partitions() {
        let (low, high) = consumer.fetch_watermarks(topic, partition.id(), TIMEOUT).unwrap();
        wanted += usize::try_from(high - low).unwrap();
        assignment.add_partition_offset(topic, partition.id(), Offset::Beginning).unwrap();
    }
    consumer.assign(&assignment).unwrap();
    let mut stored = Vec::new();
    while stored.len() < wanted {
        let message = consumer.poll(TIMEOUT).expect("the topic is read in time").unwrap();
        stored.push(message.detach());
    }
    stored
}
