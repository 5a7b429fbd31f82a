//! Reading `routes`: what is watched, how it is merged, what is sent, and where to. Whether the kinds exist is not asked
//! here.

use std::time::Duration;

use super::data::{Debounce, Payload, Resource, Route, Watch};
use super::mistakes::{Report, closest};
use super::reader::{Field, Keys, Section};
use super::values;
use crate::model::{Initial, PayloadMode};

pub(super) const ROUTES_HINT: &str = "write at least one route with `name`, `watch` and `sinks`";
pub(super) const ROUTE: Keys = Keys {
    known: &["name", "watch", "sinks", "debounce", "payload", "initial"],
    later: &["where", "changes", "events", "attributes", "order", "history", "audit", "secretData", "retry"],
};
pub(super) const WATCH: Keys = Keys {
    known: &[
        "resources",
        "version",
        "namespaces",
        "excludedNamespaces",
        "namespaceSelector",
        "labelSelector",
        "fieldSelector",
    ],
    later: &[],
};
pub(super) const DEBOUNCE: Keys = Keys { known: &["quiet", "maxWait"], later: &[] };
pub(super) const PAYLOAD: Keys = Keys { known: &["mode", "omit"], later: &["redact", "fields"] };
/// Left out by default: who wrote what is long and of no use to others, the annotation repeats the object.
const OMITTED: [&str; 2] =
    ["metadata.managedFields", "metadata.annotations[\"kubectl.kubernetes.io/last-applied-configuration\"]"];
/// The core group's resources: only these are written without a group, so that a forgotten one is found.
const CORE: &[&str] = &[
    "configmaps",
    "endpoints",
    "events",
    "limitranges",
    "namespaces",
    "nodes",
    "persistentvolumeclaims",
    "persistentvolumes",
    "pods",
    "podtemplates",
    "replicationcontrollers",
    "resourcequotas",
    "serviceaccounts",
    "services",
];

/// All routes; `sinks` are the names that they may use.
pub(super) fn read(field: &Field<'_>, sinks: &[&str], report: &mut Report) -> Vec<Route> {
    let mut names: Vec<(String, String)> = Vec::new();
    let mut routes = Vec::new();
    for field in field.items(ROUTES_HINT, report).unwrap_or_default() {
        let Some(section) = field.section(&ROUTE, ROUTES_HINT, report) else { continue };
        let name = read_name(&section, &mut names, report);
        routes.extend(read_route(&section, name, sinks, report));
    }
    routes
}

fn read_name(section: &Section<'_>, names: &mut Vec<(String, String)>, report: &mut Report) -> Option<String> {
    let field = section.required("name", "name the route: its state is kept under this name", report)?;
    let name = values::label(&field, report)?;
    if let Some((_, other)) = names.iter().find(|(other, _)| *other == name) {
        field.mistake(format!("`{name}` is already the name of {other}"), "give each route a name of its own", report);
    }
    names.push((name.clone(), section.path.clone()));
    Some(name)
}

fn read_route(section: &Section<'_>, name: Option<String>, known: &[&str], report: &mut Report) -> Option<Route> {
    let watch_hint = "say what to watch, such as { resources: [myapps.example.com] }";
    let watch = section.required("watch", watch_hint, report).and_then(|field| {
        let section = field.section(&WATCH, watch_hint, report)?;
        read_watch(&section, report)
    });
    let sinks_hint = "name at least one of the sinks above";
    let sinks = section
        .required("sinks", sinks_hint, report)
        .and_then(|field| field.distinct(sinks_hint, report, |field, report| sink(field, known, report)));
    let debounce = read_debounce(section.optional("debounce").as_ref(), report);
    let payload = read_payload(section.optional("payload").as_ref(), report);
    let words = [("observed", Initial::Observed), ("none", Initial::None)];
    let initial = section.optional("initial").and_then(|field| field.choice(&words, &[], report));
    let initial = initial.unwrap_or(Initial::Observed);
    Some(Route { name: name?, watch: watch?, sinks: sinks?, debounce: debounce?, payload: payload?, initial })
}

fn sink(field: &Field<'_>, known: &[&str], report: &mut Report) -> Option<String> {
    let name = field.text(report)?;
    if !known.contains(&name) {
        let hint = match closest(name, known.iter().copied()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None if known.is_empty() => "there is no sink yet: name it under `sinks`".to_owned(),
            None => format!("the sinks are {}", known.join(", ")),
        };
        field.mistake(format!("unknown sink `{name}`"), hint, report);
        return None;
    }
    Some(name.to_owned())
}

fn read_watch(section: &Section<'_>, report: &mut Report) -> Option<Watch> {
    let resources_hint = "name at least one, such as [myapps.example.com]";
    let resources = section
        .required("resources", resources_hint, report)
        .and_then(|field| field.distinct(resources_hint, report, resource));
    let version = section.optional("version").map(|field| values::label(&field, report));
    let namespaces_hint = "name at least one namespace, or remove the key to watch all";
    let namespaces = section.optional("namespaces").map(|field| field.distinct(namespaces_hint, report, values::label));
    let excluded_hint = "name at least one namespace, or remove the key to exclude none";
    let excluded = section.optional("excludedNamespaces");
    let namespace_selector = section.optional("namespaceSelector");
    for (field, name) in [(&excluded, "excludedNamespaces"), (&namespace_selector, "namespaceSelector")] {
        if namespaces.is_some()
            && let Some(field) = field
        {
            let hint = "remove one of the two";
            field.mistake(
                format!("`{name}` says nothing beside `namespaces`, which names all that are watched"),
                hint,
                report,
            );
        }
    }
    let excluded = excluded.map(|field| field.distinct(excluded_hint, report, values::label));
    let namespace_selector = namespace_selector.and_then(|field| values::text(&field, report));
    let label_selector = section.optional("labelSelector").and_then(|field| values::text(&field, report));
    let field_selector = section.optional("fieldSelector").and_then(|field| values::text(&field, report));
    Some(Watch {
        resources: resources?,
        version: version.flatten(),
        namespaces: namespaces.flatten().unwrap_or_default(),
        excluded_namespaces: excluded.flatten().unwrap_or_default(),
        namespace_selector,
        label_selector,
        field_selector,
    })
}

fn resource(field: &Field<'_>, report: &mut Report) -> Option<Resource> {
    let text = field.text(report)?;
    let (plural, group) = text.split_once('.').unwrap_or((text, ""));
    let hint = "write plural.group, such as myapps.example.com; `kubectl api-resources` lists them";
    if text == "secrets" {
        let hint = "leaving out their data is planned (`secretData`); this version would publish it";
        field.mistake("Secrets are not published", hint, report);
        return None;
    }
    if group == "core" {
        field.mistake("the core group is not written", format!("write `{plural}`"), report);
        return None;
    }
    let group_is_right = if group.is_empty() { !text.contains('.') } else { group.split('.').all(values::is_label) };
    if !values::is_label(plural) || !group_is_right {
        field.mistake(format!("`{text}` is not a resource"), hint, report);
        return None;
    }
    if group.is_empty() && !CORE.contains(&plural) {
        field.mistake(format!("`{text}` has no group"), hint, report);
        return None;
    }
    Some(Resource { plural: plural.to_owned(), group: group.to_owned() })
}

fn read_debounce(field: Option<&Field<'_>>, report: &mut Report) -> Option<Debounce> {
    let default = Debounce { quiet: Duration::from_millis(100), max_wait: Duration::from_secs(1) };
    let Some(field) = field else { return Some(default) };
    let section = field.section(&DEBOUNCE, "write { quiet: 100ms, maxWait: 1s }", report)?;
    let (quiet_field, wait_field) = (section.optional("quiet"), section.optional("maxWait"));
    let quiet = quiet_field.as_ref().map_or(Some(default.quiet), |field| values::duration(field, report))?;
    let max_wait = wait_field.as_ref().map_or(Some(default.max_wait), |field| values::duration(field, report))?;
    if max_wait < quiet {
        let (quiet, max_wait) = (values::show(quiet), values::show(max_wait));
        match (quiet_field, wait_field) {
            (_, Some(field)) => field.mistake(
                format!("{max_wait} is less than `quiet`, which is {quiet}"),
                format!("set it to {quiet} or more, or `quiet` to 0s to switch debouncing off"),
                report,
            ),
            (Some(field), None) => field.mistake(
                format!("{quiet} is more than `maxWait`, which is {max_wait} by default"),
                format!("set `maxWait` to {quiet} or more"),
                report,
            ),
            (None, None) => unreachable!("the defaults agree"),
        }
        return None;
    }
    Some(Debounce { quiet, max_wait })
}

fn read_payload(field: Option<&Field<'_>>, report: &mut Report) -> Option<Payload> {
    let default = Payload { mode: PayloadMode::Object, omit: OMITTED.map(str::to_owned).to_vec() };
    let Some(field) = field else { return Some(default) };
    let section = field.section(&PAYLOAD, "write { mode: object }", report)?;
    let modes =
        [("object", PayloadMode::Object), ("metadata", PayloadMode::Metadata), ("reference", PayloadMode::Reference)];
    let mode = section.optional("mode").and_then(|field| field.choice(&modes, &["change", "fields"], report));
    let omit = match section.optional("omit") {
        Some(field) if field.is_empty_list() => Some(Vec::new()),
        Some(field) => field.distinct("list paths such as spec.internal", report, values::object_path),
        None => Some(default.omit),
    };
    Some(Payload { mode: mode.unwrap_or(default.mode), omit: omit? })
}
