//! Which version and kind a resource is served with. It asks the two discovery documents of one API group, nothing else,
//! so that a resource of a broken group stops no other.

use serde::Deserialize;

use super::failure::Failure;
use super::requests::Collection;
use crate::model::Served;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    versions: Vec<GroupVersion>,
    preferred_version: Option<GroupVersion>,
}

#[derive(Clone, Deserialize)]
struct GroupVersion {
    version: String,
}

#[derive(Deserialize)]
struct CoreVersions {
    versions: Vec<String>,
}

#[derive(Deserialize)]
struct Resources {
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
struct Resource {
    name: String,
    kind: String,
    namespaced: bool,
}

/// The versions of a group in the API server's order of preference.
pub(super) fn read_versions(collection: &Collection, body: &[u8]) -> Result<Vec<String>, Failure> {
    let unreadable = |error: serde_json::Error| Failure::Undecodable(format!("the API server's discovery: {error}"));
    if collection.group.is_empty() {
        return Ok(serde_json::from_slice::<CoreVersions>(body).map_err(unreadable)?.versions);
    }
    let group: Group = serde_json::from_slice(body).map_err(unreadable)?;
    let preferred = group.preferred_version.into_iter().map(|version| version.version);
    let mut versions: Vec<String> = preferred.collect();
    for version in group.versions {
        if !versions.contains(&version.version) {
            versions.push(version.version);
        }
    }
    Ok(versions)
}

/// What a version's document says of the resource; `None` when it is not among its resources.
pub(super) fn read_served(collection: &Collection, version: &str, body: &[u8]) -> Result<Option<Served>, Failure> {
    let resources: Resources = serde_json::from_slice(body)
        .map_err(|error| Failure::Undecodable(format!("the API server's discovery: {error}")))?;
    let Some(found) = resources.resources.into_iter().find(|resource| resource.name == collection.resource) else {
        return Ok(None);
    };
    if !found.namespaced && collection.namespace.is_some() {
        let message = format!("{} belongs to no namespace: remove `namespaces` from the route", collection.full_name());
        return Err(Failure::NotFound(message));
    }
    Ok(Some(Served { version: version.to_owned(), kind: found.kind, defined: false }))
}

/// The path of the CustomResourceDefinition that would define this collection's kind; built-in kinds of the core group
/// have none.
pub(super) fn definition_path(collection: &Collection) -> Option<String> {
    let name = (!collection.group.is_empty()).then(|| collection.full_name())?;
    Some(format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"))
}

/// Whether a failure to read that definition says that there is none: a 404 of the definition, in so many words, not of
/// the path or of an API server that is still beginning.
pub(super) fn says_undefined(collection: &Collection, failure: &Failure) -> bool {
    let text = format!("customresourcedefinitions.apiextensions.k8s.io \"{}\" not found", collection.full_name());
    matches!(failure, Failure::NotFound(reason) if *reason == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collection(namespace: Option<&str>) -> Collection {
        Collection {
            group: "example.com".into(),
            version: None,
            resource: "myapps".into(),
            namespace: namespace.map(str::to_owned),
            label_selector: String::new(),
            field_selector: String::new(),
        }
    }

    #[test]
    fn the_preferred_version_comes_first_and_each_once() {
        let body = br#"{"kind":"APIGroup","name":"example.com","versions":[{"groupVersion":"example.com/v2","version":"v2"},
            {"groupVersion":"example.com/v1","version":"v1"}],"preferredVersion":{"groupVersion":"example.com/v1","version":"v1"}}"#;
        assert_eq!(read_versions(&collection(None), body).unwrap(), ["v1", "v2"]);
        let core = Collection { group: String::new(), ..collection(None) };
        assert_eq!(read_versions(&core, br#"{"kind":"APIVersions","versions":["v1"]}"#).unwrap(), ["v1"]);
        assert!(read_versions(&core, b"<html>").is_err());
    }

    #[test]
    fn a_resource_is_found_by_its_plural_and_a_namespace_must_fit() {
        let body = br#"{"resources":[{"name":"myapps/status","kind":"MyApp","namespaced":false},
            {"name":"myapps","kind":"MyApp","namespaced":true},{"name":"zones","kind":"Zone","namespaced":false}]}"#;
        let served = Served { version: "v1".into(), kind: "MyApp".into(), defined: false };
        assert_eq!(read_served(&collection(Some("a")), "v1", body).unwrap(), Some(served));
        let zones = |namespace| Collection { resource: "zones".into(), ..collection(namespace) };
        assert_eq!(read_served(&zones(None), "v1", body).unwrap().unwrap().kind, "Zone");
        let Err(Failure::NotFound(text)) = read_served(&zones(Some("a")), "v1", body) else { panic!("accepted") };
        assert_eq!(text, "zones.example.com belongs to no namespace: remove `namespaces` from the route");
        let gone = |text: &str| says_undefined(&collection(None), &Failure::NotFound(text.to_owned()));
        assert!(gone("customresourcedefinitions.apiextensions.k8s.io \"myapps.example.com\" not found"));
        assert!(!gone("404 page not found") && !gone("the server could not find the requested resource"));
        let absent = Collection { resource: "others".into(), ..collection(None) };
        assert_eq!(read_served(&absent, "v1", body).unwrap(), None);
    }
}
