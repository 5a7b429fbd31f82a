//! The loop of one feed: one input in, actions out, one timer. It carries out what the engine decides and decides
//! nothing itself.

mod feed;
mod reader;
mod report;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use crate::engine::{Action, DeliveryId, Engine, EngineSettings, FeedFailure, Fetched, Looked, Publication};
use crate::event::{Occurrence, SpanError};
use crate::kubernetes::{Connection, Failure, Requests, TypeMeta, WatchLine};
use crate::model::{Change, ChangeKind, Key, Object, ResourceVersion, Save, Served, Uid, Verdict};
use crate::sink::Delivery;
use crate::store::{Store, StoreError};
pub use feed::{Belongs, DriverFeed, DriverRoute};
use reader::Reader;
pub use reader::feed_failure;
use report::Report;
pub use report::{Heartbeat, Status, describe_cause};

/// Inputs that wait for the loop. The loop never waits for a sink, so that the reader is never held up for long.
const QUEUE: usize = 1_024;
/// So many inputs are taken before the engine is asked what to do; the rest wait their turn.
const BATCH: usize = 256;
/// The loop turns at least this often, so that one that hangs can be told from one that has nothing to do.
const BEAT: Duration = Duration::from_secs(5);
/// What is in flight when the process is asked to stop may take this long to finish.
const DRAIN: Duration = Duration::from_secs(20);

/// A store that several feeds share.
pub type SharedStore = Arc<Mutex<dyn Store>>;

enum Input {
    /// From the list or watch of this number; what an earlier one still had under way is nobody's any more.
    Stream(u64, StreamInput),
    Probed(Result<ResourceVersion, Failure>),
    Fetched(Key, Result<Option<Object>, Failure>),
    Looked(Key, Result<(Option<Uid>, ResourceVersion), Failure>),
    Delivered(DeliveryId, Verdict),
    Saved(Result<(), String>),
    /// The namespaces that a route selects by label have changed.
    Namespaces(usize),
    AuditWanted,
}

enum StreamInput {
    Listed(Vec<Object>),
    ListRemoved(Object),
    ListEnded(Result<ResourceVersion, FeedFailure>),
    WatchBegun,
    Line(WatchLine),
    WatchEnded(Option<FeedFailure>),
}

/// Drives one feed until it is told to stop.
pub struct Driver {
    feed: String,
    engine: Engine,
    routes: Vec<DriverRoute>,
    names: Arc<[String]>,
    requests: Requests,
    // Of the collection's objects; known before anything is told, since all begins with a list.
    types: TypeMeta,
    store: SharedStore,
    tasks: JoinSet<()>,
    // Whether the list that is under way shows no more than metadata.
    metadata_only: bool,
    // The number of the newest list or watch, and how to end it.
    stream: u64,
    stream_task: Option<AbortHandle>,
    sender: mpsc::Sender<Input>,
    inputs: mpsc::Receiver<Input>,
    report: Report,
    beat: Arc<Heartbeat>,
    began: Instant,
    watch_duration: Duration,
}

impl Driver {
    /// A driver that goes on where the store's state of this feed ends. `seed` feeds the jitter of waits.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub fn new(
        feed: DriverFeed,
        connection: Arc<Connection>,
        store: SharedStore,
        seed: u64,
    ) -> Result<(Self, watch::Receiver<Status>, Arc<Heartbeat>), StoreError> {
        let DriverFeed { name: feed, collection, mut routes, belongs, bytes_at_most, audit_every, audits, lives } =
            feed;
        for route in &mut routes {
            route.note_namespaces();
        }
        let asked: Vec<String> = routes.iter().map(|route| route.name.to_string()).collect();
        let (state, identity) = {
            let store = store.lock().unwrap_or_else(PoisonError::into_inner);
            let state = store.load(&feed, &asked, &*belongs)?;
            (state, store.identity().clone())
        };
        let settings = EngineSettings {
            seed,
            began: Timestamp::now().as_second().try_into().unwrap_or_default(),
            epoch: identity.epoch,
            rewinds: identity.rewinds,
            lives,
            selective: collection.is_selective(),
            scope: collection.namespace.clone(),
            bytes_at_most,
            audit_every,
            ..EngineSettings::default()
        };
        let requests = Requests::new(connection, collection, state.feed.served.clone());
        let types = requests.types().unwrap_or_default();
        let restored = routes.iter().map(DriverRoute::engine_settings).zip(state.routes).collect();
        let engine = Engine::new(settings, state.feed, restored, Duration::ZERO);
        let names: Arc<[String]> = routes.iter().map(|route| route.name.to_string()).collect();
        let (sender, inputs) = mpsc::channel(QUEUE);
        let (report, status) = Report::new(&feed, &names, &engine);
        let beat = Arc::new(Heartbeat::new());
        let mut driver = Self {
            feed,
            engine,
            routes,
            names,
            requests,
            types,
            store,
            tasks: JoinSet::new(),
            metadata_only: false,
            stream: 0,
            stream_task: None,
            sender,
            inputs,
            report,
            beat: Arc::clone(&beat),
            began: Instant::now(),
            // Watches of many feeds do not end all at once: 150 to 220 s.
            watch_duration: Duration::from_secs(150 + seed % 71),
        };
        driver.listen(audits);
        Ok((driver, status, beat))
    }

    /// What changes from outside becomes an input like any other.
    fn listen(&mut self, mut audits: watch::Receiver<u64>) {
        let sender = self.sender.clone();
        self.tasks.spawn(async move {
            while audits.changed().await.is_ok() && sender.send(Input::AuditWanted).await.is_ok() {}
        });
        for number in 0..self.routes.len() {
            let Some(mut labelled) = self.routes[number].labelled.clone() else { continue };
            let sender = self.sender.clone();
            self.tasks.spawn(async move {
                while labelled.changed().await.is_ok() && sender.send(Input::Namespaces(number)).await.is_ok() {}
            });
        }
    }

    /// Runs until `stop` turns true; then reading stops, what is in flight finishes or is given up, and all is saved.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let mut drain_by = None;
        loop {
            while let Some(action) = self.engine.poll_action(self.now()) {
                self.act(action);
            }
            self.beat.beat();
            let drained = self.engine.is_drained();
            self.report.publish(&self.engine, self.now(), drained);
            if drained {
                break;
            }
            let engine_deadline = self.engine.poll_deadline().map(|deadline| self.began + deadline);
            let rest = Instant::now() + BEAT;
            let deadlines = engine_deadline.into_iter().chain(drain_by).chain(self.report.deadline());
            let timer = tokio::time::sleep_until(deadlines.fold(rest, Instant::min));
            tokio::select! {
                input = self.inputs.recv() => {
                    // The driver holds a sender itself, so that there is always an input to come.
                    let Some(input) = input else { break };
                    self.take(input);
                    // What else has arrived goes into the same round of decisions.
                    for _ in 0..BATCH {
                        let Ok(input) = self.inputs.try_recv() else { break };
                        self.take(input);
                    }
                    self.report.touch();
                }
                Some(ended) = self.tasks.join_next() => {
                    let mut ended = Some(ended);
                    while let Some(one) = ended {
                        if let Err(error) = one && error.is_panic() {
                            // Its answer will never come. Whoever owns the driver begins it again, as after a crash.
                            std::panic::resume_unwind(error.into_panic());
                        }
                        ended = self.tasks.try_join_next();
                    }
                }
                () = timer => {
                    self.report.touch();
                    if drain_by.is_some_and(|by| Instant::now() >= by) {
                        let unsaved = !self.engine.is_saved();
                        tracing::warn!(
                            feed = self.feed,
                            unsaved,
                            "gave up waiting for answers or for the state to be saved; what is not known to be told is told again at the next start"
                        );
                        break;
                    }
                }
                _ = stop.wait_for(|stop| *stop), if drain_by.is_none() => {
                    drain_by = Some(Instant::now() + DRAIN);
                    self.end_stream();
                    self.engine.handle_drain();
                }
            }
        }
        // Nothing of it goes on when another driver takes its place.
        self.tasks.shutdown().await;
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn act(&mut self, action: Action) {
        let (requests, sender) = (self.requests.clone(), self.sender.clone());
        match action {
            Action::Probe => self.spawn(async move { Input::Probed(requests.probe().await) }),
            Action::List { streaming, metadata_only } => {
                let reader = Reader { requests, sender, stream: self.end_stream() };
                self.metadata_only = metadata_only;
                self.stream_task = Some(self.tasks.spawn(reader.list(streaming, metadata_only)));
            }
            Action::Watch { from } => {
                let reader = Reader { requests, sender, stream: self.end_stream() };
                self.stream_task = Some(self.tasks.spawn(reader.follow(from, self.watch_duration)));
            }
            Action::Fetch { key } => self.spawn(async move {
                let fetched = requests.get(&key).await;
                Input::Fetched(key, fetched)
            }),
            Action::Look { key } => self.spawn(async move {
                let looked = requests.look(&key).await;
                Input::Looked(key, looked)
            }),
            Action::Save(save) => self.save(save),
            Action::Publish(publication) => self.publish(&publication),
        }
    }

    /// Ends the list or watch that is under way; the number of the next one. The two never overlap.
    fn end_stream(&mut self) -> u64 {
        if let Some(task) = self.stream_task.take() {
            task.abort();
        }
        self.stream += 1;
        self.stream
    }

    fn spawn(&mut self, work: impl Future<Output = Input> + Send + 'static) {
        let sender = self.sender.clone();
        self.tasks.spawn(async move {
            // A driver that has ended needs no answer.
            let _ = sender.send(work.await).await;
        });
    }

    fn save(&mut self, save: Save) {
        let (store, feed, names) = (Arc::clone(&self.store), self.feed.clone(), Arc::clone(&self.names));
        let written = tokio::task::spawn_blocking(move || {
            store.lock().unwrap_or_else(PoisonError::into_inner).commit(&feed, &names, &save)
        });
        self.spawn(async move {
            let error = match written.await {
                Ok(Ok(())) => return Input::Saved(Ok(())),
                Ok(Err(error)) => anyhow::Error::new(error),
                Err(error) => anyhow::Error::new(error),
            };
            Input::Saved(Err(format!("{error:#}")))
        });
    }

    fn publish(&mut self, publication: &Publication) {
        let route = &self.routes[publication.route];
        let (delivery, now) = (publication.delivery, Timestamp::now());
        let occurrence = Occurrence {
            what: publication.what,
            api_version: &self.types.api_version,
            kind: &self.types.kind,
            key: &publication.key,
            uid: &publication.uid,
            sequence: publication.sequence,
            rewinds: publication.rewinds,
            cause: publication.cause,
            object: publication.object.as_ref(),
            inferred: publication.inferred,
            sorts_after: publication.sorts_after,
            origin: publication.origin,
            coalesced: publication.coalesced,
            seen: now,
            recorded: now,
        };
        let delivered = route
            .encoder
            .encode(&occurrence)
            .map(|event| route.sink.deliver(Delivery { route: Arc::clone(&route.name), event: Arc::new(event) }));
        let (name, key) = (Arc::clone(&route.name), publication.key.clone());
        self.spawn(async move {
            let verdict = match delivered {
                Ok(delivered) => delivered.await,
                Err(error) => Verdict::Reject { reason: error.to_string() },
            };
            if let Verdict::Reject { reason } = &verdict {
                tracing::warn!(route = &*name, key = key.as_str(), reason, "the sink refuses this event for good");
            }
            Input::Delivered(delivery, verdict)
        });
    }

    /// For each route that selects it, the fingerprint of the object's chosen part.
    fn judge(&self, object: &Object, metadata_only: bool) -> Result<Vec<Option<u64>>, SpanError> {
        let judge = |route: &DriverRoute| {
            if !route.selects.selects(&object.metadata.key) {
                return Ok(None);
            }
            // Of metadata alone there is no fingerprint, and nobody asks for it.
            if metadata_only { Ok(Some(0)) } else { route.encoder.change_fingerprint(object).map(Some) }
        };
        self.routes.iter().map(judge).collect()
    }

    fn take(&mut self, input: Input) {
        let now = self.now();
        match input {
            Input::Probed(answer) => {
                self.note_served();
                self.engine.handle_probed(now, answer.map_err(feed_failure));
            }
            Input::Stream(stream, input) if stream == self.stream => self.take_stream(now, input),
            Input::Stream(..) => {}
            Input::Fetched(key, fetched) => {
                let fetched = match fetched {
                    Ok(Some(object)) => match self.judge(&object, false) {
                        Ok(selected) => Fetched::Found(object, selected),
                        Err(error) => Fetched::Failed(error.to_string()),
                    },
                    Ok(None) => Fetched::NotFound,
                    Err(Failure::Forbidden(reason)) => Fetched::Forbidden(reason),
                    Err(failure) => Fetched::Failed(failure.to_string()),
                };
                self.engine.handle_fetched(now, &key, fetched);
            }
            Input::Looked(key, looked) => {
                let looked = match looked {
                    Ok((Some(uid), at)) => Looked::Found(uid, at),
                    Ok((None, at)) => Looked::NotFound(at),
                    Err(failure) => Looked::Failed(failure.to_string()),
                };
                self.engine.handle_looked(now, &key, &looked);
            }
            Input::Namespaces(number) => {
                let route = &mut self.routes[number];
                route.note_namespaces();
                let selection = route.engine_settings().selection;
                tracing::info!(route = &*route.name, selection, "the route's namespaces have changed");
                self.engine.handle_selection_edited(number, selection);
            }
            Input::AuditWanted => self.engine.handle_audit_wanted(now),
            Input::Delivered(delivery, verdict) => {
                if verdict != Verdict::Delivered {
                    tracing::debug!(feed = self.feed, ?verdict, "a delivery did not succeed");
                }
                self.engine.handle_delivered(now, delivery, verdict);
            }
            Input::Saved(saved) => {
                self.engine.handle_saved(now, saved.is_ok());
                self.report.note_saved(saved.err());
            }
        }
    }

    /// What discovery found is kept with the position, and is what deletions without an object are told with.
    fn note_served(&mut self) {
        if let Some(served) = self.requests.found() {
            self.types = self.requests.types().unwrap_or_default();
            self.engine.handle_served(Served::clone(&served));
        }
    }

    fn take_stream(&mut self, now: Duration, input: StreamInput) {
        match input {
            StreamInput::Listed(objects) => {
                for object in &objects {
                    match self.judge(object, self.metadata_only) {
                        Ok(selected) => self.engine.handle_list_item(now, object, &selected),
                        Err(error) => {
                            self.end_stream();
                            let failure = FeedFailure::Undecodable(error.to_string());
                            return self.engine.handle_list_failed(now, failure);
                        }
                    }
                }
            }
            StreamInput::ListRemoved(object) => self.engine.handle_list_removed(&object),
            StreamInput::ListEnded(Ok(at)) => {
                self.note_served();
                self.engine.handle_list_finished(now, at);
            }
            StreamInput::ListEnded(Err(failure)) => self.engine.handle_list_failed(now, failure),
            StreamInput::WatchBegun => self.engine.handle_watch_begun(),
            StreamInput::Line(line) => self.take_line(now, line),
            StreamInput::WatchEnded(failure) => self.engine.handle_stream_ended(now, failure),
        }
    }

    fn take_line(&mut self, now: Duration, line: WatchLine) {
        let (object, kind) = match line {
            WatchLine::Added(object) => (object, ChangeKind::Added),
            WatchLine::Modified(object) => (object, ChangeKind::Modified),
            WatchLine::Deleted(object) => (object, ChangeKind::Deleted),
            WatchLine::Bookmark { resource_version, .. } => return self.engine.handle_bookmark(resource_version),
            // The edge has turned it into a failure.
            WatchLine::Error(_) => return,
        };
        match self.judge(&object, false) {
            Ok(selected) => self.engine.handle_change(now, &Change { object, kind }, &selected),
            Err(error) => {
                self.end_stream();
                let failure = FeedFailure::Undecodable(error.to_string());
                self.engine.handle_stream_ended(now, Some(failure));
            }
        }
    }
}
