//! What the engine is told at its beginning, and how a route stands: data, and the one question which of a route's saved
//! state still speaks for it.

use std::time::Duration;

use super::{Initial, Lives, Now, RouteCounters};
use crate::model::{Epoch, RouteRecord, RouteState};

/// How one route selects, debounces and retries.
#[derive(Clone, Debug)]
pub struct RouteSettings {
    /// A key is released when nothing has changed for this long; zero switches debouncing off.
    pub quiet: Duration,
    /// A key is released at the latest this long after its first owed change.
    pub max_wait: Duration,
    /// What to do with objects that exist at the first start.
    pub initial: Initial,
    /// Deliveries in flight at most, over all keys.
    pub max_in_flight: usize,
    /// What the route selects, as text: another text is an edited selection, after which all is compared.
    pub selection: String,
    /// How its fingerprints are made, as text: fingerprints of another recipe say nothing.
    pub recipe: String,
}

/// The route's record as it begins with these settings, and whether the position speaks for it. An edited selection is
/// another revision, which is saved before anything that it causes.
pub(super) fn begin_route(state: &RouteState, settings: &RouteSettings) -> (RouteRecord, bool) {
    let first = RouteRecord {
        selection: settings.selection.clone(),
        recipe: settings.recipe.clone(),
        ..RouteRecord::default()
    };
    let (mut record, mut followed) = match (&state.record, &state.elsewhere) {
        // The route has read another feed since, or that feed has begun with the edit already.
        (Some(here), Some(elsewhere)) if elsewhere.revision > here.revision => (elsewhere.clone(), false),
        (Some(here), _) => (here.clone(), state.followed),
        // It came here by an edit. Under the same, never edited selection it is the route's first start, in which
        // its feeds begin one after the other.
        (None, Some(elsewhere)) if elsewhere.revision > 0 || elsewhere.selection != settings.selection => {
            (elsewhere.clone(), false)
        }
        (None, _) => (first, false),
    };
    if record.selection != settings.selection {
        record.selection.clone_from(&settings.selection);
        record.revision += 1;
        followed = followed && super::mutant::planted(super::Mutant::SelectionEditResumes);
    }
    if record.recipe != settings.recipe {
        record.recipe.clone_from(&settings.recipe);
        record.recipe_number = record.recipe_number.wrapping_add(1);
    }
    (record, followed)
}

/// What is common to a feed's decisions.
#[derive(Clone, Debug)]
pub struct EngineSettings {
    /// Seed of the jitter in waits.
    pub seed: u64,
    /// Seconds since 1970 when the engine begins: where its epochs come from.
    pub began: u64,
    /// The newest epoch that any feed has begun; one that ended in an earlier one begins anew in this.
    pub epoch: Epoch,
    /// How many rewinds came before it.
    pub rewinds: u32,
    /// Whether the feed has a selector for the server: then what a watch shows as deleted, or a list does not show, may
    /// have left the selection.
    pub selective: bool,
    /// The one namespace that the feed reads; what a route has told of others has left its selection.
    pub scope: Option<String>,
    /// With more debts than this to fetch at a start, one list replaces the fetches.
    pub fetch_at_most: usize,
    /// Bytes of objects that wait to be told, at most; what is above is let go and fetched when it is its turn. What is
    /// in flight comes on top.
    pub bytes_at_most: usize,
    /// The epochs that this feed shares with others of the same store.
    pub lives: Lives,
    /// How soon after a start, or after a watch that broke off, the whole collection is compared.
    pub audit_after: Duration,
    /// How often it is compared beside that; zero switches it off.
    pub audit_every: Duration,
}

impl Default for EngineSettings {
    fn default() -> Self {
        Self {
            seed: 0,
            began: 0,
            epoch: Epoch::default(),
            rewinds: 0,
            selective: false,
            scope: None,
            fetch_at_most: 500,
            bytes_at_most: 32 << 20,
            lives: Lives::default(),
            audit_after: Duration::from_secs(20),
            audit_every: Duration::from_secs(3_600),
        }
    }
}

/// A route as `status` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteStatus {
    /// Keys whose state the sink has acknowledged.
    pub told: usize,
    /// Keys that owe something.
    pub owed: usize,
    /// Deliveries without a verdict yet.
    pub in_flight: usize,
    /// When the oldest of them began.
    pub in_flight_since: Option<Now>,
    /// Whether the route has completed its first comparison.
    pub synced: bool,
    /// The last error that the sink gave, until a delivery succeeds.
    pub last_error: Option<String>,
    /// Whether the endpoint has asked not to be called again.
    pub gone: bool,
    /// What has happened so far.
    pub counters: RouteCounters,
}
