//! The servers, the paths to them, crier, and what can be asked of them when all is over. What goes wrong is in `lanes`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::checks::{Holding, Present, Truth};
use super::event::{Event, content_of};
use super::history::{History, Recorder};
use super::support::{Cluster, Crier, Kafka, Nats, Objects, Proxy, Receiver, event_of, eventually, free_port};
use super::trace::Trace;

/// All routes owe nothing by then, or the run has failed: longer than any deadline and any wait between two attempts.
const SETTLE: Duration = Duration::from_secs(300);
const LIMIT: Duration = Duration::from_secs(60);
/// Objects of each kind that nobody writes to.
const UNTOUCHED: usize = 5;

/// A kind of custom resources.
pub(crate) struct Kind {
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) definition: &'static str,
    /// Where its objects are.
    pub(crate) path: &'static str,
}

/// One kind with namespaces, one without.
pub(crate) const KINDS: [Kind; 2] = [
    Kind {
        kind: "MyApp",
        plural: "myapps",
        definition: "myapps.example.com",
        path: "/apis/example.com/v1/namespaces/default/myapps",
    },
    Kind { kind: "Gadget", plural: "gadgets", definition: "gadgets.example.com", path: "/apis/example.com/v1/gadgets" },
];

impl Kind {
    pub(crate) fn object(&self, metadata: &Value, spec: &Value) -> Value {
        json!({"apiVersion": "example.com/v1", "kind": self.kind, "metadata": metadata, "spec": spec})
    }

    fn topic(&self) -> String {
        format!("cr.example.com.{}", self.plural)
    }

    /// As etcd's keys and partition keys end.
    fn key(&self, object: &Value) -> String {
        let text = |name: &str| object["metadata"][name].as_str().map(|text| format!("/{text}")).unwrap_or_default();
        format!("{}{}{}", self.plural, text("namespace"), text("name"))
    }
}

/// What is between crier and each server.
pub(crate) struct Paths {
    pub(crate) api_server: Proxy,
    pub(crate) kafka: Proxy,
    pub(crate) nats: Proxy,
    pub(crate) receiver: Proxy,
}

pub(crate) struct World {
    pub(crate) cluster: Cluster,
    pub(crate) kafka: Kafka,
    pub(crate) nats: Nats,
    pub(crate) receiver: Receiver,
    pub(crate) paths: Paths,
    pub(crate) objects: Objects,
    pub(crate) crier: Crier,
    pub(crate) recorder: Recorder,
}

impl World {
    /// Everything but crier runs, the kinds are there, and so are the objects that nobody will touch.
    pub(crate) async fn start() -> Self {
        let listener = free_port();
        let to_kafka = Proxy::start(listener).await;
        let (mut cluster, kafka, nats, receiver) = tokio::join!(
            Cluster::start(),
            Kafka::start_behind(listener, to_kafka.port()),
            Nats::start(),
            Receiver::start()
        );
        let paths = Paths {
            api_server: Proxy::start(cluster.port()).await,
            kafka: to_kafka,
            nats: Proxy::start(nats.port()).await,
            receiver: Proxy::start(receiver.port()).await,
        };
        cluster.put_behind(paths.api_server.port());
        let recorder = Recorder::start(cluster.etcd_url());
        let objects = Objects::of(&cluster);
        nats.create_stream().await;
        for kind in &KINDS {
            install(&objects, kind).await;
            kafka.create_topic(&kind.topic(), 3).await;
            for number in 0..UNTOUCHED {
                let metadata = json!({"name": format!("untouched-{number}"), "labels": {"tier": "prod"}});
                let body = kind.object(&metadata, &json!({"image": "app:1"}));
                objects.call("POST", kind.path, Some(body)).await.unwrap();
            }
        }
        let crier = Crier::prepare(&cluster, &configuration(&paths));
        Self { cluster, kafka, nats, receiver, paths, objects, crier, recorder }
    }

    /// Waits until all that has happened is told to everybody; if it is not, what keeps it. After a rewind crier's position
    /// may be above every mark before it knows: it is asked to compare then, as it does by itself some seconds later.
    pub(crate) async fn settle(&mut self, trace: &Trace, rewound: bool) -> Result<(), String> {
        if !self.crier.is_running() {
            trace.broken("crier has ended by itself".to_owned());
            self.crier.kill();
            self.crier.start();
        }
        let mut marks = BTreeMap::new();
        for kind in &KINDS {
            marks.insert(kind.plural, self.mark(kind).await);
        }
        let began = Instant::now();
        let mut shown = String::from("crier did not answer");
        if rewound {
            self.audit(trace, began).await?;
        }
        while began.elapsed() < SETTLE {
            if let Some(status) = self.crier.status().await {
                match unsettled(&status, &marks) {
                    None => return Ok(()),
                    Some(what) => shown = what,
                }
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        Err(format!("after {} s with everything healed: {shown}", SETTLE.as_secs()))
    }

    /// Asks crier to compare until that finds everything in order.
    async fn audit(&self, trace: &Trace, began: Instant) -> Result<(), String> {
        loop {
            let (code, found, errors) = self.crier.command("audit", &[]).await;
            trace.note(&format!("an audit ends with {code}: {}{}", found.replace('\n', "; "), errors.trim()));
            if code == 0 {
                return Ok(());
            }
            if began.elapsed() > SETTLE {
                return Err(format!("no audit finds everything in order: {found}{errors}"));
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// Changes an object that every route reads; whoever has read up to the version has read all that happened before.
    async fn mark(&self, kind: &Kind) -> u128 {
        let path = format!("{}/mark", kind.path);
        let marked = async || {
            let metadata = json!({"name": "mark", "labels": {"tier": "prod"}});
            let _ = self.objects.call("POST", kind.path, Some(kind.object(&metadata, &json!({})))).await;
            let at = json!({"metadata": {"annotations": {"at": jiff::Timestamp::now().to_string()}}});
            let marked = self.objects.call("PATCH", &path, Some(at)).await.ok()?;
            marked["metadata"]["resourceVersion"].as_str()?.parse().ok()
        };
        eventually("an object is marked", LIMIT, marked).await
    }

    /// What each sink holds, and what is true.
    pub(crate) async fn look(&self, trace: &Trace) -> (Vec<Holding>, Truth) {
        let mut kafka = Vec::new();
        for kind in &KINDS {
            kafka.extend(self.kafka.stored(&kind.topic()).await.iter().map(|record| Event::read(&event_of(record))));
        }
        let nats = self.nats.stored().await;
        let nats = nats.iter().map(|message| Event::read(&serde_json::from_slice(&message.payload).unwrap())).collect();
        let read = |events: Vec<Value>| events.iter().map(Event::read).collect();
        let webhook = read(self.receiver.events());
        let (file, chosen) = (read(self.crier.lines("file")), read(self.crier.lines("chosen")));
        let holding = |sink, in_process, selected, events| {
            // What a file is given is written when the call returns.
            let prompt = matches!(sink, "file" | "chosen");
            Holding { sink, in_process, prompt, selected, events }
        };
        let holdings = vec![
            holding("kafka", true, false, kafka),
            holding("nats", false, false, nats),
            holding("webhook", false, false, webhook),
            holding("file", true, false, file),
            holding("chosen", true, true, chosen),
        ];
        (holdings, self.truth(trace).await)
    }

    async fn truth(&self, trace: &Trace) -> Truth {
        let (mut present, mut untouched, mut newest) = (BTreeMap::new(), BTreeSet::new(), 0);
        for kind in &KINDS {
            let list = self.objects.call("GET", kind.path, None).await.unwrap();
            for object in list["items"].as_array().unwrap() {
                let metadata = &object["metadata"];
                let version = metadata["resourceVersion"].as_str().unwrap().parse().unwrap();
                newest = newest.max(version);
                let key = kind.key(object);
                if metadata["name"].as_str().unwrap().starts_with("untouched") {
                    untouched.insert(key.clone());
                }
                let found = Present {
                    uid: metadata["uid"].as_str().unwrap().to_owned(),
                    version,
                    content: content_of(object),
                    selected: kind.kind == "MyApp" && metadata["labels"]["tier"] == "prod",
                };
                present.insert(key, found);
            }
        }
        let read = async || match self.recorder.up_to(newest) {
            Ok(history) => history,
            Err(fault) => panic!("{fault}"),
        };
        let history: History = eventually("etcd's history is read", LIMIT, read).await;
        Truth { present, untouched, history, deaths: trace.deaths() }
    }

    /// Ends crier as an operator would.
    pub(crate) async fn end(&mut self, trace: &Trace) {
        if !self.crier.is_running() {
            return trace.broken("crier has ended by itself".to_owned());
        }
        let ended = self.crier.try_terminate().await;
        if ended != Ok(0) {
            trace.broken(format!("crier does not end well after SIGTERM: {ended:?}"));
        }
    }
}

async fn install(objects: &Objects, kind: &Kind) {
    let mut definition = Objects::sample_definition();
    if kind.kind != "MyApp" {
        definition["metadata"]["name"] = kind.definition.into();
        definition["spec"]["scope"] = "Cluster".into();
        let singular = kind.kind.to_lowercase();
        definition["spec"]["names"] = json!({"kind": kind.kind, "plural": kind.plural, "singular": singular});
    }
    objects.define(definition).await;
    eventually("the kind is served", LIMIT, async || objects.call("GET", kind.path, None).await.ok()).await;
}

fn configuration(paths: &Paths) -> String {
    format!(
        "sinks:
  kafka: {{ kafka: {{ brokers: [\"127.0.0.1:{}\"], topic: \"cr.{{group}}.{{resource}}\" }} }}
  nats: {{ nats: {{ servers: [\"nats://127.0.0.1:{}\"], stream: CR, subject: \"cr.{{resource}}.{{name}}\" }} }}
  webhook: {{ webhook: {{ url: \"http://127.0.0.1:{}/events\" }} }}
  file: {{ file: {{ path: {{dir}}/file }} }}
  chosen: {{ file: {{ path: {{dir}}/chosen }} }}
routes:
  - name: all
    watch: {{ resources: [myapps.example.com, gadgets.example.com] }}
    sinks: [kafka, nats, webhook, file]
  - name: chosen
    watch: {{ resources: [myapps.example.com], labelSelector: tier=prod }}
    debounce: {{ quiet: 0s }}
    sinks: [chosen]
",
        paths.kafka.port(),
        paths.nats.port(),
        paths.receiver.port()
    )
}

/// What the first feed or route that is not done says of itself.
fn unsettled(status: &Value, marks: &BTreeMap<&str, u128>) -> Option<String> {
    let Some(feeds) = status["feeds"].as_array().filter(|feeds| feeds.len() == 3) else {
        return Some(format!("crier has not begun: {status}"));
    };
    for feed in feeds {
        let plural = feed["feed"].as_str()?.split('.').next()?;
        let read = feed["resourceVersion"].as_str().and_then(|at| at.parse::<u128>().ok());
        let done = |route: &Value| route["synced"] == true && route["owed"] == 0 && route["inFlight"] == 0;
        if read < Some(marks[plural]) || !feed["routes"].as_array()?.iter().all(done) {
            return Some(format!("the newest version is {}, and this is not told: {feed:#}", marks[plural]));
        }
    }
    None
}
