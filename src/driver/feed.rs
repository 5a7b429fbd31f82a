//! A feed and its routes as the driver needs them: data that the composition root makes of the configuration.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::engine::{Lives, RouteSettings};
use crate::event::Encoder;
use crate::kubernetes::Collection;
use crate::model::Key;
use crate::select::Namespaces;
use crate::sink::Sink;

/// One route as the driver needs it.
#[derive(Clone)]
pub struct DriverRoute {
    /// The route's name, under which its state is kept.
    pub name: Arc<str>,
    /// How it debounces and retries.
    pub settings: RouteSettings,
    /// Which of the feed's objects it selects.
    pub selects: Namespaces,
    /// The namespaces that it selects by their labels, as they are now.
    pub labelled: Option<watch::Receiver<Option<BTreeSet<String>>>>,
    /// How its events are made.
    pub encoder: Arc<Encoder>,
    /// Where they go.
    pub sink: Arc<dyn Sink>,
}

/// Whether a key that the route of this number has told is a feed's business.
pub type Belongs = Arc<dyn Fn(usize, &Key) -> bool + Send + Sync>;

/// A feed as the driver needs it.
#[derive(Clone)]
pub struct DriverFeed {
    /// Its name, under which its position is kept.
    pub name: String,
    /// What it reads.
    pub collection: Collection,
    /// Its routes.
    pub routes: Vec<DriverRoute>,
    /// Of the keys that the route of this number has told, those that are this feed's business.
    pub belongs: Belongs,
    /// Bytes of objects that may wait to be told.
    pub bytes_at_most: usize,
    /// How often everything is compared; zero for never.
    pub audit_every: Duration,
    /// Rises when an audit is asked for.
    pub audits: watch::Receiver<u64>,
    /// The epochs that it shares with the other feeds of the store.
    pub lives: Lives,
}

impl DriverRoute {
    /// Takes the namespaces that are selected by label as they are now.
    pub(super) fn note_namespaces(&mut self) {
        if let Some(labelled) = &mut self.labelled {
            self.selects.only = Some(labelled.borrow_and_update().clone().unwrap_or_default());
        }
    }

    /// The engine's settings, with the whole selection as text.
    pub(super) fn engine_settings(&self) -> RouteSettings {
        let selection = format!("{}{}", self.settings.selection, self.selects);
        RouteSettings { selection, recipe: self.encoder.recipe().to_owned(), ..self.settings.clone() }
    }
}
