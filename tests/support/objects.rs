//! MyApps and their kind: made, changed and deleted through the API server.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Cluster, eventually};

pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A client with all rights, and what tests do with it in one namespace.
#[derive(Clone)]
pub(crate) struct Objects {
    client: kube::Client,
    namespace: String,
}

impl Objects {
    /// Those of the namespace `default`.
    pub(crate) fn of(cluster: &Cluster) -> Self {
        Self { client: cluster.client(), namespace: "default".to_owned() }
    }

    /// Those of another namespace.
    pub(crate) fn in_namespace(&self, namespace: &str) -> Self {
        Self { client: self.client.clone(), namespace: namespace.to_owned() }
    }

    /// The path of the namespace's objects, or of one.
    pub(crate) fn path(&self, name: Option<&str>) -> String {
        let name = name.map(|name| format!("/{name}")).unwrap_or_default();
        format!("/apis/example.com/v1/namespaces/{}/myapps{name}", self.namespace)
    }

    /// Makes a namespace with these labels, and gives its objects.
    pub(crate) async fn make_namespace(&self, name: &str, labels: Value) -> Self {
        let body = json!({"metadata": {"name": name, "labels": labels}});
        self.call("POST", "/api/v1/namespaces", Some(body)).await.unwrap();
        self.in_namespace(name)
    }

    /// Gives this namespace a label, or takes it away by `null`.
    pub(crate) async fn label_namespace(&self, label: &str, value: Value) {
        let path = format!("/api/v1/namespaces/{}", self.namespace);
        self.call("PATCH", &path, Some(json!({"metadata": {"labels": {label: value}}}))).await.unwrap();
    }

    /// Sends a request; a body makes it a PATCH if the method says so.
    pub(crate) async fn call(&self, method: &str, path: &str, body: Option<Value>) -> kube::Result<Value> {
        let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request = http::Request::builder().method(method).uri(path).header("content-type", media);
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        self.client.request(request.body(body).unwrap()).await
    }

    /// Installs the sample kind, and waits until it is served.
    pub(crate) async fn install(&self) {
        self.install_only().await;
        self.until_served().await;
    }

    /// Waits until the sample kind is served in its version v1.
    pub(crate) async fn until_served(&self) {
        let served = async || self.call("GET", &self.path(None), None).await.ok();
        eventually("the kind is served", Duration::from_secs(30), served).await;
    }

    /// Installs the sample kind, which is served some moments later.
    pub(crate) async fn install_only(&self) {
        self.define(Self::sample_definition()).await;
    }

    /// The sample kind's definition.
    pub(crate) fn sample_definition() -> Value {
        json_of(include_str!("../../config/samples/myapp-crd.yaml"))
    }

    /// Installs a kind.
    pub(crate) async fn define(&self, definition: Value) {
        self.call("POST", DEFINITIONS, Some(definition)).await.unwrap();
    }

    pub(crate) async fn create(&self, name: &str) {
        self.create_padded(name, 0).await;
    }

    /// An object that is larger by so many bytes.
    pub(crate) async fn create_padded(&self, name: &str, bytes: usize) {
        let config = if bytes > 0 { json!({"padding": "x".repeat(bytes)}) } else { json!({}) };
        let spec = json!({"image": "app:1", "replicas": 0, "config": config});
        let body = json!({"apiVersion": "example.com/v1", "kind": "MyApp", "metadata": {"name": name}, "spec": spec});
        self.call("POST", &self.path(None), Some(body)).await.unwrap();
    }

    pub(crate) async fn scale(&self, name: &str, replicas: u32) {
        let body = json!({"spec": {"replicas": replicas}});
        self.patch(name, body).await;
    }

    /// Gives an object a label, or takes it away by `null`.
    pub(crate) async fn label(&self, name: &str, label: &str, value: Value) {
        self.patch(name, json!({"metadata": {"labels": {label: value}}})).await;
    }

    /// Changes an object by a merge patch, and gives it as it is then.
    pub(crate) async fn patch(&self, name: &str, patch: Value) -> Value {
        self.call("PATCH", &self.path(Some(name)), Some(patch)).await.unwrap()
    }

    /// A write that changes nothing: the API server takes it, and gives no new version.
    pub(crate) async fn touch(&self, name: &str) {
        self.patch(name, json!({})).await;
    }

    pub(crate) async fn delete(&self, name: &str) {
        self.call("DELETE", &self.path(Some(name)), None).await.unwrap();
    }

    /// Changes an object that is there for this alone: whoever has read up to the version it returns has read all that
    /// happened before.
    pub(crate) async fn mark(&self) -> u128 {
        if self.call("GET", &self.path(Some("mark")), None).await.is_err() {
            self.create("mark").await;
        }
        let annotation = json!({"metadata": {"annotations": {"mark": format!("{:?}", std::time::SystemTime::now())}}});
        let marked = self.patch("mark", annotation).await;
        marked["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
    }

    /// Every object as the cluster holds it now, by name.
    pub(crate) async fn all(&self) -> BTreeMap<String, Value> {
        let list = self.call("GET", &self.path(None), None).await.unwrap();
        let items = list["items"].as_array().unwrap().iter();
        items.map(|item| (item["metadata"]["name"].as_str().unwrap().to_owned(), item.clone())).collect()
    }

    /// Lets the user `limited` use these verbs on MyApps, in all namespaces.
    pub(crate) async fn grant(&self, verbs: &[&str]) {
        let rules = json!([{"apiGroups": ["example.com"], "resources": ["myapps"], "verbs": verbs}]);
        self.grant_by("ClusterRole", "/apis/rbac.authorization.k8s.io/v1/cluster", rules).await;
    }

    /// The same in this namespace alone, for the object of this name alone if there is one.
    pub(crate) async fn grant_here(&self, verbs: &[&str], name: Option<&str>) {
        let mut rules = json!([{"apiGroups": ["example.com"], "resources": ["myapps"], "verbs": verbs}]);
        if let Some(name) = name {
            rules[0]["resourceNames"] = json!([name]);
        }
        let namespace = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{}/", self.namespace);
        self.grant_by("Role", &namespace, rules).await;
    }

    async fn grant_by(&self, kind: &str, prefix: &str, rules: Value) {
        let role = json!({"metadata": {"name": "limited"}, "rules": rules});
        if self.call("PATCH", &format!("{prefix}roles/limited"), Some(role.clone())).await.is_ok() {
            return;
        }
        self.call("POST", &format!("{prefix}roles"), Some(role)).await.unwrap();
        let binding = json!({
            "metadata": {"name": "limited"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "limited"},
            "subjects": [{"kind": "User", "name": "limited", "apiGroup": "rbac.authorization.k8s.io"}],
        });
        self.call("POST", &format!("{prefix}rolebindings"), Some(binding)).await.unwrap();
    }
}

/// The sample's YAML as JSON.
fn json_of(yaml: &str) -> Value {
    use saphyr::{LoadableYamlNode, Scalar, Yaml};
    fn convert(node: &Yaml<'_>) -> Value {
        match node {
            Yaml::Value(Scalar::Boolean(value)) => (*value).into(),
            Yaml::Value(Scalar::Integer(value)) => (*value).into(),
            Yaml::Value(Scalar::String(value)) => value.to_string().into(),
            Yaml::Sequence(items) => items.iter().map(convert).collect(),
            Yaml::Mapping(members) => {
                members.iter().map(|(key, value)| (key.as_str().unwrap().to_owned(), convert(value))).collect()
            }
            other => panic!("the sample has something that the test does not know: {other:?}"),
        }
    }
    convert(&Yaml::load_from_str(yaml).unwrap()[0])
}
