//! MyApps and their kind: made, changed and deleted through the API server.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Cluster, eventually};

const PATH: &str = "/apis/example.com/v1/namespaces/default/myapps";
pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A client with all rights, and what tests do with it.
#[derive(Clone)]
pub(crate) struct Objects {
    client: kube::Client,
}

impl Objects {
    pub(crate) fn of(cluster: &Cluster) -> Self {
        Self { client: cluster.client() }
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
        eventually("the kind is served", Duration::from_secs(30), async || self.call("GET", PATH, None).await.ok())
            .await;
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
        self.call("POST", PATH, Some(body)).await.unwrap();
    }

    pub(crate) async fn scale(&self, name: &str, replicas: u32) {
        let body = json!({"spec": {"replicas": replicas}});
        self.call("PATCH", &format!("{PATH}/{name}"), Some(body)).await.unwrap();
    }

    /// A write that changes nothing: the API server takes it, and gives no new version.
    pub(crate) async fn touch(&self, name: &str) {
        self.call("PATCH", &format!("{PATH}/{name}"), Some(json!({}))).await.unwrap();
    }

    pub(crate) async fn delete(&self, name: &str) {
        self.call("DELETE", &format!("{PATH}/{name}"), None).await.unwrap();
    }

    /// Changes an object that is there for this alone: whoever has read up to the version it returns has read all that
    /// happened before.
    pub(crate) async fn mark(&self) -> u128 {
        let mark = format!("{PATH}/mark");
        let present = self.call("GET", &mark, None).await.is_ok();
        if !present {
            self.create("mark").await;
        }
        let annotation = json!({"metadata": {"annotations": {"mark": format!("{:?}", std::time::SystemTime::now())}}});
        let marked = self.call("PATCH", &mark, Some(annotation)).await.unwrap();
        marked["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
    }

    /// Every object as the cluster holds it now, by name.
    pub(crate) async fn all(&self) -> BTreeMap<String, Value> {
        let list = self.call("GET", PATH, None).await.unwrap();
        let items = list["items"].as_array().unwrap().iter();
        items.map(|item| (item["metadata"]["name"].as_str().unwrap().to_owned(), item.clone())).collect()
    }

    /// Lets the user `limited` use these verbs on MyApps, in all namespaces.
    pub(crate) async fn grant(&self, verbs: &[&str]) {
        const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1";
        let rules = json!([{"apiGroups": ["example.com"], "resources": ["myapps"], "verbs": verbs}]);
        let role = json!({"metadata": {"name": "limited"}, "rules": rules});
        if self.call("PATCH", &format!("{ROLES}/clusterroles/limited"), Some(role.clone())).await.is_ok() {
            return;
        }
        self.call("POST", &format!("{ROLES}/clusterroles"), Some(role)).await.unwrap();
        let binding = json!({
            "metadata": {"name": "limited"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "limited"},
            "subjects": [{"kind": "User", "name": "limited", "apiGroup": "rbac.authorization.k8s.io"}],
        });
        self.call("POST", &format!("{ROLES}/clusterrolebindings"), Some(binding)).await.unwrap();
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
