//! What the configuration amounts to: one feed for each collection that routes read, and its routes as the driver needs
//! them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};

use super::sinks::Sinks;
use crate::config::{Config, SingleRoute};
use crate::driver::{DriverRoute, SharedStore};
use crate::engine::RouteSettings;
use crate::event::{Encoder, Path, PathError, RouteAttributes};
use crate::kubernetes::Collection;

/// A feed that is to be run.
#[derive(Clone, Debug)]
pub struct PlannedFeed {
    /// Under this name its state is kept. The version is not in it: naming one must not begin anew.
    pub name: String,
    /// What it reads.
    pub collection: Collection,
    /// The names of its routes.
    pub routes: BTreeSet<String>,
}

/// Why the routes cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Two routes ask for one collection in two versions.
    #[error("{feed} is asked for in the versions {one} and {other}")]
    Versions {
        /// The feed.
        feed: String,
        /// One version.
        one: String,
        /// The other.
        other: String,
    },
    /// A path that the configuration let pass.
    #[error("the route {route} omits what is not a path: {path}")]
    Path {
        /// The route.
        route: String,
        /// What was written.
        path: String,
        /// Why it is none.
        source: PathError,
    },
}

impl BuildError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Versions { .. } => "give all routes of one resource the same `watch.version`, or run two processes",
            Self::Path { .. } => "write it like metadata.annotations[\"a.b/c\"]",
        }
    }
}

/// The feeds that this configuration asks for.
///
/// # Errors
/// When the routes contradict each other.
pub fn plan(config: &Config) -> Result<Vec<PlannedFeed>, BuildError> {
    let mut feeds: BTreeMap<String, PlannedFeed> = BTreeMap::new();
    for single in config.expand() {
        omitted(&single)?;
        for collection in collections(&single) {
            let name = feed_name(&collection);
            let feed = feeds.entry(name.clone()).or_insert_with(|| PlannedFeed {
                name: name.clone(),
                collection: collection.clone(),
                routes: BTreeSet::new(),
            });
            feed.routes.insert(single.name.clone());
            match (&mut feed.collection.version, collection.version) {
                (Some(one), Some(other)) if *one != other => {
                    return Err(BuildError::Versions { feed: name, one: one.clone(), other });
                }
                // One that names no version takes what another names.
                (version @ None, wanted) => *version = wanted,
                _ => {}
            }
        }
    }
    Ok(feeds.into_values().collect())
}

/// One collection for each namespace, or one for all.
fn collections(single: &SingleRoute<'_>) -> Vec<Collection> {
    let watch = &single.route.watch;
    let collection = |namespace: Option<String>| Collection {
        group: single.resource.group.clone(),
        version: watch.version.clone(),
        resource: single.resource.plural.clone(),
        namespace,
        label_selector: watch.label_selector.clone().unwrap_or_default(),
        field_selector: watch.field_selector.clone().unwrap_or_default(),
    };
    if watch.namespaces.is_empty() {
        return vec![collection(None)];
    }
    watch.namespaces.iter().map(|namespace| collection(Some(namespace.clone()))).collect()
}

fn feed_name(collection: &Collection) -> String {
    let mut name = collection.full_name();
    if let Some(namespace) = &collection.namespace {
        name.push_str(&format!(" in {namespace}"));
    }
    for (what, selector) in [("labels", &collection.label_selector), ("fields", &collection.field_selector)] {
        if !selector.is_empty() {
            name.push_str(&format!(" with {what} {selector}"));
        }
    }
    name
}

fn omitted(single: &SingleRoute<'_>) -> Result<Vec<Path>, BuildError> {
    let paths = single.route.payload.omit.iter().map(|path| {
        path.parse().map_err(|source| BuildError::Path { route: single.name.clone(), path: path.clone(), source })
    });
    paths.collect()
}

/// The routes of a planned feed.
pub(super) fn routes(
    config: &Config,
    planned: &PlannedFeed,
    cluster: &str,
    sinks: &Sinks,
    store: &SharedStore,
) -> Vec<DriverRoute> {
    let identity = store.lock().unwrap_or_else(PoisonError::into_inner).identity().clone();
    let routes = config.expand().into_iter().filter(|single| planned.routes.contains(&single.name));
    routes
        .filter_map(|single| {
            let sink = sinks.get(single.sink)?;
            let attributes = RouteAttributes {
                cluster: cluster.to_owned(),
                group: single.resource.group.clone(),
                resource: single.resource.plural.clone(),
                selected: single.route.watch.label_selector.is_some() || single.route.watch.field_selector.is_some(),
                type_prefix: config.events.type_prefix.clone(),
                epoch: identity.epoch,
            };
            // The plan has read the same paths.
            let omitted = omitted(&single).ok()?;
            Some(DriverRoute {
                settings: RouteSettings {
                    quiet: single.route.debounce.quiet,
                    max_wait: single.route.debounce.max_wait,
                    initial: single.route.initial,
                    max_in_flight: sink.max_in_flight,
                },
                encoder: Arc::new(Encoder::new(
                    attributes,
                    single.route.payload.mode,
                    omitted,
                    identity.fingerprint_key,
                )),
                sink: Arc::clone(&sink.sink),
                name: single.name.into(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    fn planned(routes: &str) -> Result<Vec<PlannedFeed>, BuildError> {
        let text =
            format!("state: memory\nsinks: {{ a: {{ stdout: {{}} }}, b: {{ stdout: {{}} }} }}\nroutes:\n{routes}");
        plan(&parse(&text, "f").unwrap())
    }

    #[test]
    fn routes_share_a_feed_for_each_collection_and_selector() {
        let feeds = planned(
            "  - { name: all, watch: { resources: [myapps.example.com, configmaps] }, sinks: [a, b] }
  - { name: same, watch: { resources: [myapps.example.com], version: v1 }, sinks: [a] }
  - { name: some, watch: { resources: [myapps.example.com], namespaces: [x, y], labelSelector: tier=a }, sinks: [a] }
",
        )
        .unwrap();
        let names: Vec<(&str, usize)> = feeds.iter().map(|feed| (&*feed.name, feed.routes.len())).collect();
        assert_eq!(
            names,
            [
                ("configmaps", 2),
                ("myapps.example.com", 3),
                ("myapps.example.com in x with labels tier=a", 1),
                ("myapps.example.com in y with labels tier=a", 1),
            ]
        );
        assert_eq!(feeds[1].collection.version.as_deref(), Some("v1"), "a named version is everybody's");
    }

    #[test]
    fn one_collection_in_two_versions_is_refused_by_name() {
        let error = planned(
            "  - { name: one, watch: { resources: [myapps.example.com], version: v1 }, sinks: [a] }
  - { name: two, watch: { resources: [myapps.example.com], version: v2 }, sinks: [a] }
",
        )
        .unwrap_err();
        assert_eq!(error.to_string(), "myapps.example.com is asked for in the versions v1 and v2");
    }
}
