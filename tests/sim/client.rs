//! crier as it runs, without IO: the real engine, parsers, encoder and store between a simulated API server and simulated
//! sinks. What the driver does with tasks and timers is done here one step at a time, in whatever order the schedule
//! says. It decides nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use crier::engine::{Action, DeliveryId, Engine, EngineSettings, FeedState, Initial, Publication, RouteSettings};
use crier::event::{Encoder, Event, Occurrence, PayloadMode, RouteAttributes};
use crier::kubernetes::{Collection, Failure, LineSplitter};
use crier::model::{Key, Save, Served, Verdict};
use crier::select::Namespaces;
use crier::store::{MemoryStore, Store};
use crier_sandbox::{ApiServer, Body, Request, StreamId};
use http::StatusCode;
use jiff::Timestamp;

/// The media types that are asked for.
pub(crate) const JSON: &str = "application/json";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// A route as the schedule wants it.
#[derive(Clone, Debug)]
pub(crate) struct RoutePlan {
    pub(crate) name: String,
    pub(crate) namespaces: Namespaces,
    pub(crate) initial: Initial,
    pub(crate) quiet: Duration,
    pub(crate) max_wait: Duration,
    pub(crate) max_in_flight: usize,
}

/// A feed as the schedule wants it.
#[derive(Clone, Debug)]
pub(crate) struct FeedPlan {
    pub(crate) collection: Collection,
    pub(crate) routes: Vec<RoutePlan>,
    pub(crate) bytes_at_most: usize,
    pub(crate) fetch_at_most: usize,
    pub(crate) page: usize,
    /// Whether whole collections are compared though nothing is known to be missed.
    pub(crate) audits: bool,
    /// Seconds since 1970 at the start, by a clock that may have been set.
    pub(crate) clock: u64,
}

impl FeedPlan {
    /// The feed's name, under which its position is kept.
    pub(crate) fn name(&self) -> String {
        let collection = &self.collection;
        format!("{} {:?} {}", collection.full_name(), collection.namespace, collection.label_selector)
    }

    fn selection(&self, route: &RoutePlan) -> String {
        format!("{} {:?}{}", self.collection.label_selector, self.collection.namespace, route.namespaces)
    }
}

/// What is asked of the API server.
#[derive(Clone, Debug)]
pub(crate) enum Question {
    Probe,
    Page,
    Stream { list: bool },
    Fetch(Key),
    Look(Key),
    Definition { reason: String, of: Box<Question> },
}

/// A request on its way, or an answer on its way back.
pub(crate) struct Pending {
    pub(crate) question: Question,
    // The list or watch that it belongs to; what belongs to an earlier one is nobody's.
    pub(crate) stream: u64,
    target: String,
    accept: &'static str,
    answer: Option<Answered>,
    // Its answer is overtaken by others, often.
    slow: bool,
}

/// What came back.
pub(crate) enum Answered {
    Whole(Result<Bytes, Failure>),
    Stream(StreamId),
}

/// A list or watch that is read line by line.
pub(crate) struct OpenStream {
    pub(crate) id: StreamId,
    pub(crate) number: u64,
    pub(crate) list: bool,
    pub(crate) splitter: LineSplitter,
}

/// An event on its way to a sink, or its answer on the way back.
pub(crate) struct Delivery {
    pub(crate) id: DeliveryId,
    pub(crate) route: usize,
    pub(crate) key: Key,
    pub(crate) event: Event,
    pub(crate) verdict: Option<Verdict>,
}

/// The process.
pub(crate) struct Crier {
    pub(crate) engine: Engine,
    pub(crate) plan: FeedPlan,
    pub(crate) encoders: Vec<Encoder>,
    began: Duration,
    pub(crate) served: Served,
    pub(crate) number: u64,
    pub(crate) metadata_only: bool,
    pub(crate) pending: Vec<Pending>,
    pub(crate) open: Option<OpenStream>,
    /// A watch that was ended for a list, and how many of its lines still come.
    pub(crate) late: Option<(OpenStream, usize)>,
    saving: Option<Save>,
    pub(crate) deliveries: Vec<Delivery>,
    /// What it did, for a trace; nothing unless that is wanted.
    pub(crate) log: Option<Vec<String>>,
    /// Requests that were made, by kind.
    pub(crate) requests: BTreeMap<&'static str, usize>,
}

impl Crier {
    /// Starts on what the store has.
    pub(crate) fn start(plan: FeedPlan, store: &MemoryStore, now: Duration, seed: u64) -> Self {
        let names: Vec<String> = plan.routes.iter().map(|route| route.name.clone()).collect();
        let state = store.load(&plan.name(), &names, &|_, _| true).expect("memory can be read");
        let encoders: Vec<Encoder> = plan.routes.iter().map(|_| encoder()).collect();
        let settings = EngineSettings {
            seed,
            began: plan.clock,
            epoch: store.identity().epoch,
            rewinds: store.identity().rewinds,
            selective: plan.collection.is_selective(),
            scope: plan.collection.namespace.clone(),
            fetch_at_most: plan.fetch_at_most,
            bytes_at_most: plan.bytes_at_most,
            audit_after: Duration::from_secs(if plan.audits { 2 } else { 1_000_000_000 }),
            audit_every: Duration::from_secs(if plan.audits { 600 } else { 0 }),
            ..EngineSettings::default()
        };
        let routes = plan.routes.iter().zip(state.routes).map(|(route, state)| {
            let settings = RouteSettings {
                quiet: route.quiet,
                max_wait: route.max_wait,
                initial: route.initial,
                max_in_flight: route.max_in_flight,
                selection: plan.selection(route),
                recipe: "any".to_owned(),
            };
            (settings, state)
        });
        let engine = Engine::new(settings, state.feed, routes.collect(), Duration::ZERO);
        Self {
            engine,
            encoders,
            began: now,
            served: Served { version: "v1".into(), kind: "Thing".into(), defined: true },
            number: 0,
            metadata_only: false,
            pending: Vec::new(),
            open: None,
            late: None,
            saving: None,
            deliveries: Vec::new(),
            log: None,
            requests: BTreeMap::new(),
            plan,
        }
    }

    pub(crate) fn engine_time(&self, now: Duration) -> Duration {
        now - self.began
    }

    /// When the engine wants to be asked again.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        self.engine.poll_deadline().map(|deadline| self.began + deadline)
    }

    /// Carries out whatever the engine wants now, as far as that is sending.
    pub(crate) fn act(&mut self, server: &mut ApiServer, store: &MemoryStore, now: Duration) {
        while let Some(action) = self.engine.poll_action(self.engine_time(now)) {
            match &action {
                Action::Publish(publication) => {
                    let (route, what, key) = (publication.route, publication.what.as_str(), &publication.key);
                    self.note(|| format!("   sends {what} {key} {:?} of route {route}", publication.sequence));
                }
                Action::Save(save) => {
                    let keys: Vec<String> =
                        save.records.iter().map(|(route, key, _)| format!("{route}:{key}")).collect();
                    self.note(|| format!("   saves {:?} and {keys:?}", save.feed.position));
                }
                other => self.note(|| format!("   {other:?}")),
            }
            match action {
                Action::Probe => self.ask("probe", Question::Probe, vec![("limit", "1")], JSON),
                Action::List { streaming, metadata_only } => {
                    // What an earlier watch had read when the list was wanted may still arrive.
                    if let Some(open) = self.open.take_if(|open| !open.list) {
                        self.end_late(server);
                        self.late = Some((open, 20));
                    }
                    self.end_stream(server);
                    self.metadata_only = metadata_only;
                    if streaming {
                        let parameters = vec![
                            ("watch", "1"),
                            ("sendInitialEvents", "true"),
                            ("resourceVersionMatch", "NotOlderThan"),
                            ("allowWatchBookmarks", "true"),
                            ("timeoutSeconds", "300"),
                        ];
                        let accept = if metadata_only { METADATA } else { JSON };
                        self.ask("list", Question::Stream { list: true }, parameters, accept);
                    } else {
                        self.ask_page(None);
                    }
                }
                Action::Watch { from } => {
                    self.end_late(server);
                    self.end_stream(server);
                    let from = from.to_string();
                    let parameters = vec![
                        ("watch", "1"),
                        ("allowWatchBookmarks", "true"),
                        ("resourceVersion", &*from),
                        ("timeoutSeconds", "180"),
                    ];
                    self.ask("watch", Question::Stream { list: false }, parameters, JSON);
                }
                Action::Fetch { key } => {
                    let collection = &self.plan.collection;
                    let target = if collection.is_selective() {
                        collection.query_of(&self.served, &key, true)
                    } else {
                        format!("{}/{}", collection.path(&self.served, key.namespace()), key.name())
                    };
                    self.send("fetch", Question::Fetch(key), target, JSON);
                }
                Action::Look { key } => {
                    let target = self.plan.collection.query_of(&self.served, &key, false);
                    self.send("look", Question::Look(key), target, METADATA_LIST);
                }
                Action::Save(save) => {
                    assert!(self.saving.is_none(), "one transaction at a time");
                    self.saving = Some(save);
                }
                Action::Publish(publication) => self.publish(&publication, store),
            }
        }
    }

    pub(crate) fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(log) = &mut self.log {
            log.push(line());
        }
    }

    fn publish(&mut self, publication: &Publication, store: &MemoryStore) {
        // The rule behind the rest, held against what is durable.
        let name = &self.plan.routes[publication.route].name;
        let state = store.load("", std::slice::from_ref(name), &|_, key| *key == publication.key).expect("memory");
        let record = state.routes[0].records.first().map(|(_, record)| record);
        let owed = record.into_iter().flat_map(|record| record.owed.iter().chain(&record.predecessor));
        let known = owed.filter(|owed| owed.uid == publication.uid).count() > 0;
        assert!(known, "I1: the store does not know that this is owed: {publication:?}");
        let object = publication.object.as_ref();
        let time = Timestamp::UNIX_EPOCH;
        let occurrence = Occurrence {
            what: publication.what,
            api_version: "example.com/v1",
            kind: "Thing",
            key: &publication.key,
            uid: &publication.uid,
            sequence: publication.sequence,
            rewinds: publication.rewinds,
            cause: publication.cause,
            object,
            inferred: publication.inferred,
            sorts_after: publication.sorts_after,
            origin: publication.origin,
            coalesced: publication.coalesced,
            seen: time,
            recorded: time,
        };
        let event = self.encoders[publication.route].encode(&occurrence).expect("an object's bytes");
        self.deliveries.push(Delivery {
            id: publication.delivery,
            route: publication.route,
            key: publication.key.clone(),
            event,
            verdict: None,
        });
    }

    fn ask(&mut self, kind: &'static str, question: Question, parameters: Vec<(&str, &str)>, accept: &'static str) {
        let target = self.plan.collection.query(&self.served, &parameters);
        self.send(kind, question, target, accept);
    }

    pub(crate) fn ask_page(&mut self, token: Option<String>) {
        let limit = self.plan.page.to_string();
        let mut parameters = vec![("limit", &*limit)];
        parameters.extend(token.as_deref().map(|token| ("continue", token)));
        let accept = if self.metadata_only { METADATA_LIST } else { JSON };
        let target = self.plan.collection.query(&self.served, &parameters);
        self.send("list", Question::Page, target, accept);
    }

    pub(crate) fn send(&mut self, kind: &'static str, question: Question, target: String, accept: &'static str) {
        *self.requests.entry(kind).or_default() += 1;
        self.pending.push(Pending { question, stream: self.number, target, accept, answer: None, slow: false });
    }

    fn end_stream(&mut self, server: &mut ApiServer) {
        self.number += 1;
        if let Some(open) = self.open.take() {
            server.close_stream(open.id);
        }
    }

    fn end_late(&mut self, server: &mut ApiServer) {
        if let Some((late, _)) = self.late.take() {
            server.close_stream(late.id);
        }
    }

    /// The process is gone, and with it what it had open.
    pub(crate) fn crash(mut self, server: &mut ApiServer) -> Option<Save> {
        self.end_late(server);
        self.end_stream(server);
        for pending in self.pending {
            if let Some(Answered::Stream(id)) = pending.answer {
                server.close_stream(id);
            }
        }
        self.saving
    }

    /// Requests and answers that are on their way.
    pub(crate) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Lets one request arrive, or one answer.
    pub(crate) fn step_request(&mut self, server: &mut ApiServer, now: Duration, choice: usize) {
        if self.pending.is_empty() {
            return;
        }
        let index = choice % self.pending.len();
        let pending = &mut self.pending[index];
        if pending.slow && !choice.is_multiple_of(7) {
            return;
        }
        if pending.answer.is_none() {
            let request = Request { method: "GET", target: &pending.target, accept: pending.accept, body: b"" };
            let answer = server.request(now, &request);
            pending.answer = Some(match answer.body {
                Body::Stream(id) => Answered::Stream(id),
                Body::Whole(bytes) if answer.status == 200 => Answered::Whole(Ok(bytes)),
                Body::Whole(bytes) => {
                    let status = StatusCode::from_u16(answer.status).expect("a status");
                    let after = answer.retry_after.map(Duration::from_secs);
                    Answered::Whole(Err(Failure::of_response(status, after, &bytes)))
                }
            });
            // What is asked about a key has to bear any delay.
            pending.slow = choice % 3 == 1 && matches!(pending.question, Question::Fetch(_) | Question::Look(_));
            return;
        }
        let pending = self.pending.swap_remove(index);
        let Some(answer) = pending.answer else { return };
        self.take(server, now, pending.question, pending.stream, answer);
    }

    /// Cuts every connection: what was on its way is lost, in both directions or only towards the API server.
    pub(crate) fn cut(&mut self, server: &mut ApiServer, now: Duration, both: bool) {
        let lost = || Failure::Other("the connection was cut".to_owned());
        self.end_late(server);
        let arrives = |pending: &Pending| !both && matches!(pending.answer, Some(Answered::Whole(_)));
        let (kept, cut) = std::mem::take(&mut self.pending).into_iter().partition(arrives);
        self.pending = kept;
        let cut: Vec<Pending> = cut;
        for pending in cut {
            if let Some(Answered::Stream(id)) = pending.answer {
                server.close_stream(id);
            }
            self.take(server, now, pending.question, pending.stream, Answered::Whole(Err(lost())));
        }
        if let Some(open) = self.open.take() {
            server.close_stream(open.id);
            self.stream_failed(now, open.number, open.list, Some(lost()));
        }
    }

    /// Whether a transaction is under way.
    pub(crate) fn is_saving(&self) -> bool {
        self.saving.is_some()
    }

    /// The transaction that is under way ends: kept or not, and answered as kept or not.
    pub(crate) fn step_save(&mut self, store: &mut MemoryStore, now: Duration, kept: bool, answered: bool) {
        let Some(save) = self.saving.take() else { return };
        if kept {
            self.commit(store, &save);
        }
        self.engine.handle_saved(self.engine_time(now), answered);
    }

    /// Makes a save durable.
    pub(crate) fn commit(&self, store: &mut MemoryStore, save: &Save) {
        commit(&self.plan, store, save);
    }

    /// The sink's answer arrives.
    pub(crate) fn step_verdict(&mut self, now: Duration, index: usize, verdict: Verdict) {
        let delivery = self.deliveries.swap_remove(index);
        self.engine.handle_delivered(self.engine_time(now), delivery.id, verdict);
    }

    /// The namespaces that a route selects have changed.
    pub(crate) fn edit(&mut self, route: usize, namespaces: Namespaces) {
        self.plan.routes[route].namespaces = namespaces;
        let selection = self.plan.selection(&self.plan.routes[route]);
        self.engine.handle_selection_edited(route, selection);
    }

    /// Whether the feed follows and nothing is on its way, owed or unsaved; but for what this route's sink does not take.
    pub(crate) fn is_quiet(&self, without: Option<usize>) -> bool {
        let mut others = (0..self.plan.routes.len()).filter(|route| Some(*route) != without);
        self.pending.is_empty()
            && self.deliveries.iter().all(|delivery| Some(delivery.route) == without)
            && self.saving.is_none()
            && self.engine.is_saved()
            && self.engine.feed_state() == FeedState::Watching
            && others.all(|route| self.engine.route_status(route).owed == 0)
    }
}

/// Makes a save of this plan's feed durable.
pub(crate) fn commit(plan: &FeedPlan, store: &mut MemoryStore, save: &Save) {
    let names: Vec<String> = plan.routes.iter().map(|route| route.name.clone()).collect();
    store.commit(&plan.name(), &names, save).expect("memory can be written");
}

fn encoder() -> Encoder {
    let route = RouteAttributes {
        cluster: "sim".into(),
        group: "example.com".into(),
        resource: "things".into(),
        type_prefix: "t".into(),
    };
    let omitted = vec!["metadata.managedFields".parse().expect("a path")];
    Encoder::new(route, PayloadMode::Object, omitted, [7; 16])
}
