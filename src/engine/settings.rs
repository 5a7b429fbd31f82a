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

#[cfg(test)]
mod tests {
    use super::*;

    fn record(selection: &str, revision: u32) -> RouteRecord {
        RouteRecord { synced: true, selection: selection.into(), revision, ..RouteRecord::default() }
    }

    fn begun(here: Option<RouteRecord>, elsewhere: Option<RouteRecord>, selection: &str) -> (RouteRecord, bool) {
        let settings = RouteSettings {
            quiet: Duration::ZERO,
            max_wait: Duration::ZERO,
            initial: Initial::Observed,
            max_in_flight: 1,
            selection: selection.into(),
            recipe: String::new(),
        };
        begin_route(&RouteState { record: here, elsewhere, followed: true, ..RouteState::default() }, &settings)
    }

    #[test]
    fn a_route_goes_on_where_it_was_and_only_under_the_same_selection() {
        let first = RouteRecord { synced: false, ..record("x", 0) };
        assert_eq!(begun(None, None, "x"), (first, false), "nothing was ever saved of it");
        assert_eq!(begun(Some(record("x", 3)), None, "x"), (record("x", 3), true));
        assert_eq!(begun(Some(record("x", 3)), None, "y"), (record("y", 4), false), "an edit is another revision");
    }

    #[test]
    fn what_a_route_has_read_elsewhere_since_counts() {
        let begun = |here: Option<RouteRecord>, elsewhere| begun(here, Some(elsewhere), "x");
        let here = || Some(record("x", 3));
        assert_eq!(begun(here(), record("y", 4)), (record("x", 5), false), "it has come back by another edit");
        assert_eq!(begun(here(), record("x", 4)), (record("x", 4), false), "another feed began with this edit already");
        assert_eq!(begun(here(), record("x", 3)), (record("x", 3), true), "both have followed");
        let first = RouteRecord { synced: false, ..record("x", 0) };
        assert_eq!(begun(None, record("x", 0)), (first, false), "its first start: feeds begin one after the other");
        assert_eq!(begun(None, record("y", 0)), (record("x", 1), false), "it came here by an edit");
        assert_eq!(begun(None, record("x", 1)), (record("x", 1), false), "which another feed has noticed first");
    }

    #[test]
    fn another_way_to_make_fingerprints_is_another_recipe() {
        let here = RouteRecord { recipe: "old".into(), recipe_number: u8::MAX, ..record("x", 0) };
        let (record, followed) = begun(Some(here), None, "x");
        assert_eq!((&*record.recipe, record.recipe_number, followed), ("", 0, true));
    }
}
