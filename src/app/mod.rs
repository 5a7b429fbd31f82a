//! The composition root: configuration, store, sinks, cluster, feeds, the HTTP port; and how they end. It decides nothing
//! about events.

mod audit;
mod board;
mod build;
mod sinks;
mod supervise;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::admin;
use crate::admin::control::{self, ControlAnswer, ControlRequest};
use crate::config::{Config, State};
use crate::driver::SharedStore;
use crate::engine::Lives;
use crate::kubernetes::{Connection, ConnectionError, ConnectionSettings, Failure};
use crate::store::{DiskStore, MemoryStore, OpenOptions, StoreError};
use board::Board;

pub use build::{BuildError, PlannedFeed, Rights, plan};
pub use sinks::SinkError;

/// Between two questions for the cluster's identity while nobody answers.
const PATIENCE: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(10));

/// Why the process cannot run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The routes cannot be made of the configuration.
    #[error("the routes cannot be set up")]
    Build(#[from] BuildError),
    /// A sink cannot be made of its settings.
    #[error("the sink {name} cannot be set up")]
    Sink {
        /// Which.
        name: String,
        /// Why.
        source: SinkError,
    },
    /// The state cannot be used.
    #[error("the state cannot be used")]
    Store(#[from] StoreError),
    /// There is no cluster to connect to.
    #[error("there is no connection to a cluster")]
    Connection(#[from] ConnectionError),
    /// The HTTP port is taken.
    #[error("cannot listen on {address}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
}

impl RunError {
    /// What to do about it, if something can be said.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Build(error) => Some(error.hint().to_owned()),
            Self::Sink { source, .. } => source.hint().map(str::to_owned),
            Self::Store(error) => error.hint().map(str::to_owned),
            Self::Connection(error) => Some(error.hint().to_owned()),
            Self::Listen { .. } => Some("set admin.address to a free address, such as 127.0.0.1:8081".to_owned()),
        }
    }
}

/// What the command line says beside the configuration; it wins.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// The kubeconfig's context.
    pub context: Option<String>,
    /// The kubeconfig's path.
    pub kubeconfig: Option<PathBuf>,
    /// Set the state aside and begin anew.
    pub fresh_state: bool,
}

/// Runs until `stop` turns true, then drains: reading stops, what is in flight finishes or is given up, all is saved.
///
/// # Errors
/// When it cannot begin. What goes wrong later is retried and shown.
pub async fn run(config: &Config, overrides: Overrides, mut stop: watch::Receiver<bool>) -> Result<(), RunError> {
    // What contradicts itself is said at once, whatever will be permitted.
    plan(config, &|_| true)?;
    let sinks = sinks::make_all(&config.sinks).await?;
    let store = open_store(&config.state, overrides.fresh_state)?;
    let board = Arc::new(Board::new());
    let listener = TcpListener::bind(config.admin.address)
        .await
        .map_err(|source| RunError::Listen { address: config.admin.address, source })?;
    let address = listener.local_addr().unwrap_or(config.admin.address).to_string();
    tracing::info!(address, version = env!("CARGO_PKG_VERSION"), "crier begins");
    let mut servants = JoinSet::new();
    let audits = watch::channel(0);
    let audits = (Arc::new(audits.0), audits.1);
    let source = Arc::clone(&board);
    let sources = admin::Sources { status: Arc::new(move || source.status()), metrics: crate::telemetry::render };
    servants.spawn(async move {
        if let Err(error) = admin::serve(listener, sources).await {
            tracing::error!(%error, "the HTTP port has failed");
        }
    });
    let connection = Connection::open(ConnectionSettings {
        context: overrides.context.or_else(|| config.kubernetes.context.clone()),
        kubeconfig: overrides.kubeconfig.or_else(|| config.kubernetes.kubeconfig.clone()),
        queries_per_second: config.kubernetes.queries_per_second,
        burst: config.kubernetes.burst,
    })
    .await?;
    let Some(cluster) = identify(config, &connection, &store, &board, &mut stop).await? else { return Ok(()) };
    if let State::Directory { path, .. } = &config.state {
        listen_to_commands(path, &board, &audits.0, &mut servants);
    }
    let Some(planned) = plan_as_permitted(config, &connection, &board, &mut stop).await? else { return Ok(()) };
    let Some(labelled) = follow_labels(config, &connection, &board, &mut servants, &mut stop).await else {
        return Ok(());
    };
    board.begin(planned.iter().map(|feed| feed.name.clone()));
    let surroundings = build::Surroundings {
        config,
        cluster: &cluster,
        sinks: &sinks,
        store: &store,
        lives: &Lives::default(),
        labelled: &labelled,
        audits: &audits.1,
    };
    let mut feeds = JoinSet::new();
    for (number, planned) in planned.iter().enumerate() {
        let feed = supervise::Feed {
            number,
            feed: build::feed(planned, &surroundings),
            connection: Arc::clone(&connection),
            store: Arc::clone(&store),
            board: Arc::clone(&board),
        };
        feeds.spawn(feed.run(stop.clone()));
    }
    board.started();
    while feeds.join_next().await.is_some() {}
    tracing::info!("crier has ended");
    Ok(())
}

/// Commands come through a socket in the state directory. Without one all else works.
fn listen_to_commands(state: &Path, board: &Arc<Board>, audits: &Arc<watch::Sender<u64>>, servants: &mut JoinSet<()>) {
    let listener = match control::open(state) {
        Ok(listener) => listener,
        Err(error) => {
            let path = control::socket_path(state).display().to_string();
            return tracing::warn!(path, %error, "commands cannot reach this process: its socket cannot be opened");
        }
    };
    let (board, audits) = (Arc::clone(board), Arc::clone(audits));
    let handler: control::Handler = Arc::new(move |request| {
        let (board, audits) = (Arc::clone(&board), Arc::clone(&audits));
        async move {
            let ControlRequest::Audit { route } = request;
            match audit::audit(board, audits, route).await {
                Ok(result) => ControlAnswer::Audit(result),
                Err(reason) => ControlAnswer::Refused { reason },
            }
        }
        .boxed()
    });
    servants.spawn(control::serve(listener, handler));
}

fn open_store(state: &State, fresh: bool) -> Result<SharedStore, StoreError> {
    let now = jiff::Timestamp::now().as_second().try_into().unwrap_or_default();
    let fingerprint_key = rand::random();
    Ok(match state {
        State::Memory => Arc::new(Mutex::new(MemoryStore::new(now, fingerprint_key))),
        State::Directory { path, must_exist } => {
            let aside = if fresh { DiskStore::set_aside(path, now)? } else { None };
            // Whatever the clock says: what is told from now on sorts after what was told before.
            let epoch = aside.as_ref().and_then(|aside| aside.epoch).map_or(now, |last| last.next(now).get());
            if let Some(aside) = aside {
                let (state, aside) = (path.display().to_string(), aside.path.display().to_string());
                tracing::warn!(
                    state,
                    aside,
                    "the state is set aside and begun anew: what exists is told again, and deletions from before are not known"
                );
            }
            let options = OpenOptions { must_exist: *must_exist && !fresh, now: epoch, fingerprint_key };
            Arc::new(Mutex::new(DiskStore::open(path, &options)?))
        }
    })
}

/// Plans the feeds by what may be read in all namespaces; `None` when the process is asked to stop meanwhile.
async fn plan_as_permitted(
    config: &Config,
    connection: &Arc<Connection>,
    board: &Board,
    stop: &mut watch::Receiver<bool>,
) -> Result<Option<Vec<PlannedFeed>>, BuildError> {
    let (mut wait, longest) = PATIENCE;
    let mut permitted = Vec::new();
    for collection in build::doubtful(config) {
        loop {
            let failure = match connection.may_read_everywhere(&collection).await {
                Ok(true) => {
                    permitted.push(collection);
                    break;
                }
                Ok(false) => break,
                Err(failure) => failure.to_string(),
            };
            board.waiting_for_cluster(&failure);
            tokio::select! {
                () = tokio::time::sleep(wait) => wait = (wait * 2).min(longest),
                _ = stop.wait_for(|stop| *stop) => return Ok(None),
            }
        }
    }
    plan(config, &|collection| permitted.contains(collection)).map(Some)
}

/// Follows the namespaces that routes select by label. A feed begins only with the whole set: what is not in it counts as
/// left. `None` when the process is asked to stop meanwhile.
async fn follow_labels(
    config: &Config,
    connection: &Arc<Connection>,
    board: &Arc<Board>,
    servants: &mut JoinSet<()>,
    stop: &mut watch::Receiver<bool>,
) -> Option<build::Labelled> {
    let selectors: std::collections::BTreeSet<String> =
        config.routes.iter().filter_map(|route| route.watch.namespace_selector.clone()).collect();
    let mut labelled = build::Labelled::new();
    for selector in selectors {
        let (sender, mut names) = watch::channel(None);
        let board = Arc::clone(board);
        let trouble = move |trouble: Option<String>| {
            if let Some(reason) = trouble {
                tracing::warn!(reason, "the namespaces stay as they were");
                board.waiting_for_namespaces(&reason);
            }
        };
        servants.spawn(Arc::clone(connection).follow_namespaces(selector.clone(), sender, trouble));
        tokio::select! {
            complete = names.wait_for(Option::is_some) => drop(complete.ok()?),
            _ = stop.wait_for(|stop| *stop) => return None,
        }
        labelled.insert(selector, names);
    }
    Some(labelled)
}

/// Asks the cluster who it is, for as long as it takes, and ties the state to it: its name in events, or `None` when the
/// process is asked to stop meanwhile.
async fn identify(
    config: &Config,
    connection: &Arc<Connection>,
    store: &SharedStore,
    board: &Board,
    stop: &mut watch::Receiver<bool>,
) -> Result<Option<String>, RunError> {
    let (mut wait, longest) = PATIENCE;
    loop {
        let failure = match connection.cluster_uid().await {
            Ok(uid) => {
                store.lock().unwrap_or_else(std::sync::PoisonError::into_inner).bind_cluster(&uid.to_string())?;
                return Ok(Some(config.cluster.clone().unwrap_or_else(|| uid.to_string())));
            }
            // With a name of its own the cluster can do without; a mixed-up state would not be noticed then.
            Err(Failure::Forbidden(reason)) if config.cluster.is_some() => {
                tracing::warn!(
                    reason,
                    "the cluster's uid cannot be read, so that the state is not tied to the cluster"
                );
                return Ok(config.cluster.clone());
            }
            Err(Failure::Forbidden(reason)) => {
                format!("{reason}; grant it, or name the cluster by `cluster` in the configuration")
            }
            Err(failure) => failure.to_string(),
        };
        tracing::warn!(reason = failure, "waits for the cluster");
        board.waiting_for_cluster(&failure);
        tokio::select! {
            () = tokio::time::sleep(wait) => wait = (wait * 2).min(longest),
            _ = stop.wait_for(|stop| *stop) => return Ok(None),
        }
    }
}
