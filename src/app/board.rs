//! Where the process's status is put together from its parts, whenever somebody asks.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::audit::Standing;
use crate::driver::{Heartbeat, Status, describe_cause};
use crate::engine::FeedState;
use crate::model::{FeedPhase, FeedStatus, ProcessStatus, RouteReport};

/// What is known of all feeds.
pub(super) struct Board {
    starting: Mutex<Option<String>>,
    feeds: Mutex<Vec<Entry>>,
}

struct Entry {
    name: String,
    driver: Option<(watch::Receiver<Status>, Arc<Heartbeat>)>,
    trouble: Option<String>,
    restarts: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Board {
    pub(super) fn new() -> Self {
        Self { starting: Mutex::new(Some("looks for the cluster".to_owned())), feeds: Mutex::new(Vec::new()) }
    }

    /// These feeds are to be run; which they are may depend on what is permitted.
    pub(super) fn begin(&self, names: impl Iterator<Item = String>) {
        let feeds = names.map(|name| Entry { name, driver: None, trouble: None, restarts: 0 });
        *lock(&self.feeds) = feeds.collect();
    }

    pub(super) fn waiting_for_cluster(&self, reason: &str) {
        *lock(&self.starting) = Some(format!("waits for the cluster: {reason}"));
    }

    /// What keeps the process from beginning, as long as it has not begun.
    pub(super) fn waiting_for_namespaces(&self, reason: &str) {
        if let Some(starting) = &mut *lock(&self.starting) {
            *starting = reason.to_owned();
        }
    }

    pub(super) fn started(&self) {
        *lock(&self.starting) = None;
    }

    pub(super) fn driver_began(&self, feed: usize, status: watch::Receiver<Status>, beat: Arc<Heartbeat>) {
        let entry = &mut lock(&self.feeds)[feed];
        entry.driver = Some((status, beat));
        entry.trouble = None;
    }

    pub(super) fn driver_failed(&self, feed: usize, reason: String) {
        let entry = &mut lock(&self.feeds)[feed];
        entry.driver = None;
        entry.trouble = Some(reason);
        entry.restarts += 1;
    }

    /// The full names of each feed's routes.
    pub(super) fn routes(&self) -> Vec<Vec<String>> {
        lock(&self.feeds).iter().map(Entry::routes).collect()
    }

    /// Where each feed's audits stand.
    pub(super) fn audits(&self) -> Vec<Standing> {
        lock(&self.feeds).iter().map(Entry::audit).collect()
    }

    pub(super) fn status(&self) -> ProcessStatus {
        let starting = lock(&self.starting).clone();
        let feeds = lock(&self.feeds).iter().map(Entry::describe).collect();
        ProcessStatus { version: env!("CARGO_PKG_VERSION"), starting, feeds }
    }
}

impl Entry {
    fn routes(&self) -> Vec<String> {
        self.driver.iter().flat_map(|(status, _)| status.borrow().names.to_vec()).collect()
    }

    fn audit(&self) -> Standing {
        let Some((status, _)) = &self.driver else {
            let hindrance = self.trouble.clone().unwrap_or_else(|| "it has not begun".to_owned());
            return Standing { feed: self.name.clone(), report: None, hindrance: Some(hindrance) };
        };
        let status = status.borrow();
        let hindrance = match &status.feed {
            FeedState::Waiting { reason } => Some(reason.clone()),
            FeedState::Parked(cause) => Some(describe_cause(cause)),
            FeedState::Probing | FeedState::Listing | FeedState::Watching => None,
        };
        Standing { feed: self.name.clone(), report: status.audit.clone(), hindrance }
    }

    fn describe(&self) -> FeedStatus {
        let mut described = FeedStatus {
            feed: self.name.clone(),
            state: FeedPhase::Starting,
            reason: self.trouble.clone(),
            resource_version: None,
            held_bytes: 0,
            caught_up: false,
            state_error: None,
            silent_for_seconds: 0,
            restarts: self.restarts,
            unreadable: 0,
            routes: Vec::new(),
        };
        let Some((status, beat)) = &self.driver else { return described };
        let status = status.borrow();
        (described.state, described.reason) = match &status.feed {
            FeedState::Probing => (FeedPhase::Probing, None),
            FeedState::Listing => (FeedPhase::Listing, None),
            FeedState::Watching => (FeedPhase::Watching, None),
            FeedState::Waiting { reason } => (FeedPhase::Waiting, Some(reason.clone())),
            FeedState::Parked(cause) => (FeedPhase::Parked, Some(describe_cause(cause))),
        };
        described.resource_version = status.position.map(|position| position.to_string());
        described.held_bytes = status.bytes_held;
        described.unreadable = status.unreadable;
        described.caught_up = status.caught_up;
        described.state_error.clone_from(&status.state_error);
        described.silent_for_seconds = beat.silent_for().as_secs();
        described.routes = status
            .routes
            .iter()
            .map(|(route, status)| RouteReport {
                route: route.clone(),
                told: status.told,
                owed: status.owed,
                in_flight: status.in_flight,
                synced: status.synced,
                gone: status.gone,
                last_error: status.last_error.clone(),
                counters: status.counters,
            })
            .collect();
        described
    }
}
