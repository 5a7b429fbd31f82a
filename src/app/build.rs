//! What the configuration amounts to: one feed for each collection that routes read, and its routes as the driver needs
//! them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};

use tokio::sync::watch;

use super::sinks::Sinks;
use crate::config::{Config, SingleRoute};
use crate::driver::{DriverFeed, DriverRoute, SharedStore};
use crate::engine::{Lives, RouteSettings};
use crate::event::{Encoder, Path, PathError, RouteAttributes};
use crate::kubernetes::Collection;
use crate::model::Key;
use crate::select::Namespaces;

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

/// Whether a collection may be read in all namespaces.
pub type Rights<'a> = &'a dyn Fn(&Collection) -> bool;

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
pub fn plan(config: &Config, rights: Rights<'_>) -> Result<Vec<PlannedFeed>, BuildError> {
    let mut feeds: BTreeMap<String, PlannedFeed> = BTreeMap::new();
    for single in config.expand() {
        omitted(&single)?;
        for collection in collections(&single, rights) {
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

/// The collections for whose planning it matters whether they may be read in all namespaces.
pub(super) fn doubtful(config: &Config) -> BTreeSet<Collection> {
    let several = config.expand().into_iter().filter(|single| single.route.watch.namespaces.len() > 1);
    several.map(|single| everywhere(&single)).collect()
}

fn everywhere(single: &SingleRoute<'_>) -> Collection {
    let watch = &single.route.watch;
    Collection {
        group: single.resource.group.clone(),
        version: watch.version.clone(),
        resource: single.resource.plural.clone(),
        namespace: None,
        label_selector: watch.label_selector.clone().unwrap_or_default(),
        field_selector: watch.field_selector.clone().unwrap_or_default(),
    }
}

/// One collection for all namespaces, of which the route selects some; or one for each, where it is but one or no more is
/// permitted.
fn collections(single: &SingleRoute<'_>, rights: Rights<'_>) -> Vec<Collection> {
    let (everywhere, namespaces) = (everywhere(single), &single.route.watch.namespaces);
    match namespaces.len() {
        0 => vec![everywhere],
        2.. if rights(&everywhere) => vec![everywhere],
        _ => {
            let of = |namespace: &String| Collection { namespace: Some(namespace.clone()), ..everywhere.clone() };
            namespaces.iter().map(of).collect()
        }
    }
}

/// Which of the feed's objects the route selects.
fn selects(single: &SingleRoute<'_>, collection: &Collection) -> Namespaces {
    let watch = &single.route.watch;
    let only = (collection.namespace.is_none() && !watch.namespaces.is_empty())
        .then(|| watch.namespaces.iter().cloned().collect());
    Namespaces { only, except: watch.excluded_namespaces.iter().cloned().collect() }
}

/// The route's selection, as text, as far as it is not [`Namespaces`]. That its feeds read one namespace each is a part
/// of it: what one feed has compared, another has not.
fn selection(single: &SingleRoute<'_>, collection: &Collection) -> String {
    let mut text = String::new();
    for (what, selector) in [("labels", &collection.label_selector), ("fields", &collection.field_selector)] {
        if !selector.is_empty() {
            text.push_str(&format!(" with {what} {selector}"));
        }
    }
    if collection.namespace.is_some() {
        text.push_str(&format!(" in each of {}", single.route.watch.namespaces.join(",")));
    }
    text
}

/// Of what a route has told, a feed of one namespace cares for that namespace; the first of the route's feeds also for
/// what no feed of it reads any more.
fn belongs(planned: &PlannedFeed, namespaces: &[Vec<String>], route: usize, key: &Key) -> bool {
    let Some(own) = planned.collection.namespace.as_deref() else { return true };
    let of_route = &namespaces[route];
    let first = of_route.first().is_some_and(|first| first == own);
    let namespace = key.namespace().unwrap_or_default();
    namespace == own || (first && !of_route.iter().any(|other| other == namespace))
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

/// The sets of namespaces that are selected by label, by selector.
pub(super) type Labelled = BTreeMap<String, watch::Receiver<Option<BTreeSet<String>>>>;

/// What a planned feed needs beside its plan.
pub(super) struct Surroundings<'a> {
    pub(super) config: &'a Config,
    pub(super) cluster: &'a str,
    pub(super) sinks: &'a Sinks,
    pub(super) store: &'a SharedStore,
    pub(super) lives: &'a Lives,
    pub(super) labelled: &'a Labelled,
    pub(super) audits: &'a watch::Receiver<u64>,
}

/// A planned feed as its driver needs it.
pub(super) fn feed(planned: &PlannedFeed, surroundings: &Surroundings<'_>) -> DriverFeed {
    let config = surroundings.config;
    let routes = config.expand().into_iter().filter(|single| planned.routes.contains(&single.name));
    let (routes, namespaces): (Vec<_>, Vec<_>) = routes
        .filter_map(|single| Some((route(planned, &single, surroundings)?, single.route.watch.namespaces.clone())))
        .unzip();
    let plan = planned.clone();
    DriverFeed {
        name: planned.name.clone(),
        collection: planned.collection.clone(),
        routes,
        belongs: Arc::new(move |route, key| belongs(&plan, &namespaces, route, key)),
        bytes_at_most: config.limits.buffer_per_feed,
        audit_every: config.audit.every,
        audits: surroundings.audits.clone(),
        lives: surroundings.lives.clone(),
    }
}

fn route(planned: &PlannedFeed, single: &SingleRoute<'_>, surroundings: &Surroundings<'_>) -> Option<DriverRoute> {
    let sink = surroundings.sinks.get(single.sink)?;
    let attributes = RouteAttributes {
        cluster: surroundings.cluster.to_owned(),
        group: single.resource.group.clone(),
        resource: single.resource.plural.clone(),
        type_prefix: surroundings.config.events.type_prefix.clone(),
    };
    // The plan has read the same paths.
    let omitted = omitted(single).ok()?;
    let fingerprint_key = surroundings.store.lock().unwrap_or_else(PoisonError::into_inner).identity().fingerprint_key;
    let encoder = Encoder::new(attributes, single.route.payload.mode, omitted, fingerprint_key);
    let labelled = single.route.watch.namespace_selector.as_ref();
    Some(DriverRoute {
        settings: RouteSettings {
            quiet: single.route.debounce.quiet,
            max_wait: single.route.debounce.max_wait,
            initial: single.route.initial,
            max_in_flight: sink.max_in_flight,
            selection: selection(single, &planned.collection),
            recipe: encoder.recipe().to_owned(),
        },
        selects: selects(single, &planned.collection),
        labelled: labelled.and_then(|selector| surroundings.labelled.get(selector).cloned()),
        encoder: Arc::new(encoder),
        sink: Arc::clone(&sink.sink),
        name: single.name.clone().into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    fn planned(routes: &str) -> Result<Vec<PlannedFeed>, BuildError> {
        let text =
            format!("state: memory\nsinks: {{ a: {{ stdout: {{}} }}, b: {{ stdout: {{}} }} }}\nroutes:\n{routes}");
        plan(&parse(&text, "f").unwrap(), &|collection| collection.resource != "others")
    }

    #[test]
    fn routes_share_a_feed_for_each_collection_and_selector() {
        let feeds = planned(
            "  - { name: all, watch: { resources: [myapps.example.com, configmaps] }, sinks: [a, b] }
  - { name: same, watch: { resources: [myapps.example.com], version: v1 }, sinks: [a] }
  - { name: some, watch: { resources: [myapps.example.com], namespaces: [x, y], labelSelector: tier=a }, sinks: [a] }
  - { name: few, watch: { resources: [others.example.com], namespaces: [x, y] }, sinks: [a] }
",
        )
        .unwrap();
        let names: Vec<(&str, usize)> = feeds.iter().map(|feed| (&*feed.name, feed.routes.len())).collect();
        assert_eq!(
            names,
            [
                ("configmaps", 2),
                ("myapps.example.com", 3),
                ("myapps.example.com with labels tier=a", 1),
                ("others.example.com in x", 1),
                ("others.example.com in y", 1),
            ],
            "several namespaces are one feed where that is permitted"
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

    #[test]
    fn each_key_that_a_route_has_told_is_the_business_of_one_feed() {
        let feeds =
            planned("  - { name: few, watch: { resources: [others.example.com], namespaces: [y, x] }, sinks: [a] }\n")
                .unwrap();
        let namespaces = [vec!["y".to_owned(), "x".to_owned()]];
        for (namespace, feed) in [
            ("x", "others.example.com in x"),
            ("y", "others.example.com in y"),
            ("z", "others.example.com in y"),
            ("", "others.example.com in y"),
        ] {
            let key = Key::new(namespace, "shop");
            let cares = feeds.iter().filter(|feed| belongs(feed, &namespaces, 0, &key));
            assert_eq!(cares.map(|feed| &*feed.name).collect::<Vec<_>>(), [feed], "{namespace}");
        }
    }
}
