//! The loop of one feed: one input in, actions out, one timer. It carries out what the engine decides and decides
//! nothing itself.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

use crate::engine::{
    Action, DeliveryId, Engine, EngineSettings, FeedFailure, FeedState, Fetched, Publication, RouteSettings,
    RouteState, RouteStatus,
};
use crate::event::{Encoder, Occurrence, SpanError};
use crate::kubernetes::{Failure, Requests, WatchLine};
use crate::model::{Change, Key, Object, Origin, ResourceVersion, Save, Verdict};
use crate::sink::{Delivery, Sink};
use crate::store::{Store, StoreError};

/// Inputs that wait for the loop. The loop never waits for a sink, so that the reader is never held up for long.
const QUEUE: usize = 1_024;
/// What is in flight when the process is asked to stop may take this long to finish.
const DRAIN: Duration = Duration::from_secs(20);

/// One route as the driver needs it.
pub struct DriverRoute {
    /// The route's name, under which its state is kept.
    pub name: String,
    /// How it debounces and retries.
    pub settings: RouteSettings,
    /// How its events are made.
    pub encoder: Encoder,
    /// Where they go.
    pub sink: Arc<dyn Sink>,
}

/// Where a feed and its routes stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The feed.
    pub feed: FeedState,
    /// The newest version that was read.
    pub position: Option<ResourceVersion>,
    /// The routes by name.
    pub routes: BTreeMap<String, RouteStatus>,
}

/// A store that several feeds share.
pub type SharedStore = Arc<Mutex<dyn Store>>;

enum Input {
    /// From the list or watch of this number; what an earlier one still had under way is nobody's any more.
    Stream(u64, StreamInput),
    Probed(Result<ResourceVersion, Failure>),
    Fetched(Key, Result<Option<Object>, Failure>),
    Delivered(DeliveryId, Verdict),
    Saved(bool),
}

enum StreamInput {
    Listed(Vec<Object>),
    ListEnded(Result<ResourceVersion, Failure>),
    Line(WatchLine),
    WatchEnded(Option<Failure>),
}

/// Drives one feed until it is told to stop.
pub struct Driver {
    feed: String,
    engine: Engine,
    routes: Vec<DriverRoute>,
    names: Arc<[String]>,
    requests: Requests,
    store: SharedStore,
    tasks: JoinSet<()>,
    // The number of the newest list or watch, and how to end it.
    stream: u64,
    stream_task: Option<AbortHandle>,
    sender: mpsc::Sender<Input>,
    inputs: mpsc::Receiver<Input>,
    status: watch::Sender<Status>,
    began: Instant,
    watch_duration: Duration,
}

impl Driver {
    /// A driver that goes on where the store's state of this feed ends. `seed` feeds the jitter of waits.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub fn new(
        feed: String,
        requests: Requests,
        routes: Vec<DriverRoute>,
        store: SharedStore,
        seed: u64,
    ) -> Result<(Self, watch::Receiver<Status>), StoreError> {
        let mut state = store.lock().unwrap_or_else(PoisonError::into_inner).load(&feed)?;
        let restored = routes.iter().map(|route| {
            let records = state.records.remove(&route.name).unwrap_or_default();
            (route.settings.clone(), RouteState { synced: state.synced.contains(&route.name), records })
        });
        let settings = EngineSettings { seed, ..EngineSettings::default() };
        let engine = Engine::new(settings, state.feed, restored.collect(), Duration::ZERO);
        let names: Arc<[String]> = routes.iter().map(|route| route.name.clone()).collect();
        let (sender, inputs) = mpsc::channel(QUEUE);
        let (status, watcher) = watch::channel(describe(&engine, &names));
        let driver = Self {
            feed,
            engine,
            routes,
            names,
            requests,
            store,
            tasks: JoinSet::new(),
            stream: 0,
            stream_task: None,
            sender,
            inputs,
            status,
            began: Instant::now(),
            // Watches of many feeds do not end all at once: 150 to 220 s.
            watch_duration: Duration::from_secs(150 + seed % 71),
        };
        Ok((driver, watcher))
    }

    /// Runs until `stop` turns true; then reading stops, what is in flight finishes or is given up, and all is saved.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let mut drain_by = None;
        loop {
            while let Some(action) = self.engine.poll_action(self.now()) {
                self.act(action);
            }
            self.status.send_if_modified(|status| {
                let now = describe(&self.engine, &self.names);
                let changed = *status != now;
                *status = now;
                changed
            });
            if self.engine.is_drained() {
                return;
            }
            let engine_deadline = self.engine.poll_deadline().map(|deadline| self.began + deadline);
            let deadline = engine_deadline.into_iter().chain(drain_by).min();
            let timer = async {
                match deadline {
                    Some(deadline) => tokio::time::sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                input = self.inputs.recv() => {
                    // The driver holds a sender itself, so that there is always an input to come.
                    let Some(input) = input else { return };
                    self.take(input);
                }
                Some(ended) = self.tasks.join_next() => {
                    if let Err(error) = ended && error.is_panic() {
                        tracing::error!(feed = self.feed, %error, "a task of the feed has panicked");
                    }
                }
                () = timer => {
                    if drain_by.is_some_and(|by| Instant::now() >= by) {
                        tracing::warn!(feed = self.feed, "gave up waiting for deliveries; they are told again at the next start");
                        return;
                    }
                }
                _ = stop.wait_for(|stop| *stop), if drain_by.is_none() => {
                    drain_by = Some(Instant::now() + DRAIN);
                    self.engine.handle_drain();
                }
            }
        }
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn act(&mut self, action: Action) {
        let (requests, sender) = (self.requests.clone(), self.sender.clone());
        match action {
            Action::Probe => self.spawn(async move { Input::Probed(requests.probe().await) }),
            // Streaming lists are not read yet: pages serve every server.
            Action::List { .. } => {
                let stream = self.end_stream();
                self.stream_task = Some(self.tasks.spawn(list(requests, sender, stream)));
            }
            Action::Watch { from } => {
                let stream = self.end_stream();
                self.stream_task = Some(self.tasks.spawn(follow(requests, sender, stream, from, self.watch_duration)));
            }
            Action::Fetch { key } => self.spawn(async move {
                let fetched = requests.get(&key).await;
                Input::Fetched(key, fetched)
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
                Ok(Ok(())) => return Input::Saved(true),
                Ok(Err(error)) => anyhow::Error::new(error),
                Err(error) => anyhow::Error::new(error),
            };
            tracing::error!(error = format!("{error:#}"), "the state could not be saved; nothing is sent until it is");
            Input::Saved(false)
        });
    }

    fn publish(&mut self, publication: &Publication) {
        let route = &self.routes[publication.route];
        let delivery = publication.delivery;
        let occurrence = Occurrence {
            what: publication.what,
            key: &publication.key,
            uid: &publication.uid,
            resource_version: publication.resource_version,
            object: publication.object.as_ref(),
            inferred: publication.inferred,
            origin: publication.origin,
            coalesced: publication.coalesced,
            seen: Timestamp::now(),
            recorded: Timestamp::now(),
        };
        let delivered = route
            .encoder
            .encode(&occurrence)
            .map(|event| route.sink.deliver(Delivery { route: Arc::from(&*route.name), event: Arc::new(event) }));
        self.spawn(async move {
            let verdict = match delivered {
                Ok(delivered) => delivered.await,
                Err(error) => Verdict::Reject { reason: error.to_string() },
            };
            Input::Delivered(delivery, verdict)
        });
    }

    fn fingerprints(&self, object: &Object) -> Result<Vec<u64>, SpanError> {
        self.routes.iter().map(|route| route.encoder.change_fingerprint(object)).collect()
    }

    fn take(&mut self, input: Input) {
        let now = self.now();
        match input {
            Input::Probed(answer) => self.engine.handle_probed(now, answer.map_err(feed_failure)),
            Input::Stream(stream, input) if stream == self.stream => self.take_stream(now, input),
            Input::Stream(..) => {}
            Input::Fetched(key, fetched) => {
                let fetched = match fetched {
                    Ok(Some(object)) => match self.fingerprints(&object) {
                        Ok(fingerprints) => Fetched::Found(object, fingerprints),
                        Err(_) => Fetched::Failed,
                    },
                    Ok(None) => Fetched::NotFound,
                    Err(_) => Fetched::Failed,
                };
                self.engine.handle_fetched(now, &key, fetched);
            }
            Input::Delivered(delivery, verdict) => {
                if verdict != Verdict::Delivered {
                    tracing::warn!(feed = self.feed, ?verdict, "a delivery did not succeed");
                }
                self.engine.handle_delivered(now, delivery, verdict);
            }
            Input::Saved(succeeded) => self.engine.handle_saved(now, succeeded),
        }
    }

    fn take_stream(&mut self, now: Duration, input: StreamInput) {
        match input {
            StreamInput::Listed(objects) => {
                for object in &objects {
                    match self.fingerprints(object) {
                        Ok(fingerprints) => self.engine.handle_list_item(now, object, &fingerprints),
                        Err(error) => {
                            self.end_stream();
                            let failure = FeedFailure::Undecodable(error.to_string());
                            return self.engine.handle_list_failed(now, failure);
                        }
                    }
                }
            }
            StreamInput::ListEnded(Ok(at)) => self.engine.handle_list_finished(now, at),
            StreamInput::ListEnded(Err(failure)) => self.engine.handle_list_failed(now, feed_failure(failure)),
            StreamInput::Line(line) => self.take_line(now, line),
            StreamInput::WatchEnded(failure) => self.engine.handle_stream_ended(now, failure.map(feed_failure)),
        }
    }

    fn take_line(&mut self, now: Duration, line: WatchLine) {
        let (object, present) = match line {
            WatchLine::Added(object) | WatchLine::Modified(object) => (object, true),
            WatchLine::Deleted(object) => (object, false),
            WatchLine::Bookmark { resource_version, .. } => return self.engine.handle_bookmark(resource_version),
            // The edge has turned it into a failure.
            WatchLine::Error(_) => return,
        };
        match self.fingerprints(&object) {
            Ok(fingerprints) => {
                let change = Change { object, present, origin: Origin::Watch };
                self.engine.handle_change(now, change, &fingerprints);
            }
            Err(error) => {
                self.end_stream();
                let failure = FeedFailure::Undecodable(error.to_string());
                self.engine.handle_stream_ended(now, Some(failure));
            }
        }
    }
}

async fn list(requests: Requests, sender: mpsc::Sender<Input>, stream: u64) {
    let mut token: Option<String> = None;
    let ended = loop {
        let mut objects = Vec::new();
        let page = requests.list_page(token.as_deref(), |object| objects.push(object)).await;
        if sender.send(Input::Stream(stream, StreamInput::Listed(objects))).await.is_err() {
            return;
        }
        match page {
            // The list's version is that of its first page; all pages of one token have it.
            Ok(page) if page.next.is_none() => break Ok(page.resource_version),
            Ok(page) => token = page.next,
            Err(failure) => break Err(failure),
        }
    };
    let _ = sender.send(Input::Stream(stream, StreamInput::ListEnded(ended))).await;
}

async fn follow(
    requests: Requests,
    sender: mpsc::Sender<Input>,
    stream: u64,
    from: ResourceVersion,
    duration: Duration,
) {
    let mut failure = None;
    match requests.watch(from, duration).await {
        Ok(mut lines) => {
            while let Some(line) = lines.next().await {
                match line {
                    Ok(line) => {
                        if sender.send(Input::Stream(stream, StreamInput::Line(line))).await.is_err() {
                            return;
                        }
                    }
                    Err(error) => failure = Some(error),
                }
            }
        }
        Err(error) => failure = Some(error),
    }
    let _ = sender.send(Input::Stream(stream, StreamInput::WatchEnded(failure))).await;
}

fn feed_failure(failure: Failure) -> FeedFailure {
    match failure {
        Failure::Expired(_) => FeedFailure::Expired,
        Failure::Throttled { reason, after } => FeedFailure::Throttled { reason, after },
        Failure::NotFound(reason) => FeedFailure::NotServed(reason),
        Failure::Forbidden(reason) => FeedFailure::Forbidden(reason),
        Failure::Undecodable(reason) => FeedFailure::Undecodable(reason),
        Failure::Other(reason) => FeedFailure::Other(reason),
    }
}

fn describe(engine: &Engine, names: &[String]) -> Status {
    let routes = names.iter().enumerate().map(|(number, name)| (name.clone(), engine.route_status(number)));
    Status { feed: engine.feed_state(), position: engine.position(), routes: routes.collect() }
}
