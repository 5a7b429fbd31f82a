//! The namespaces that have certain labels, followed as they change; and whether a collection may be read in all
//! namespaces. Here kube's own watcher serves: nothing is told of namespaces themselves, and it lists at each start.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, PartialObjectMeta, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use tokio::sync::watch;

use super::{Collection, Connection, Failure};

/// One list of namespaces at a time is enough; what waits longer has failed.
const PATIENCE: Duration = Duration::from_secs(10);

impl Connection {
    /// Whether the collection may be listed and watched in all namespaces.
    ///
    /// # Errors
    /// When the API server cannot be asked.
    pub async fn may_read_everywhere(self: &Arc<Self>, collection: &Collection) -> Result<bool, Failure> {
        for verb in ["list", "watch"] {
            let attributes = ResourceAttributes {
                group: Some(collection.group.clone()),
                resource: Some(collection.resource.clone()),
                verb: Some(verb.to_owned()),
                ..ResourceAttributes::default()
            };
            let spec = SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..Default::default() };
            let review = SelfSubjectAccessReview { spec, ..Default::default() };
            let reviews: Api<SelfSubjectAccessReview> = Api::all(self.client());
            let parameters = PostParams::default();
            let asked = tokio::time::timeout(PATIENCE, reviews.create(&parameters, &review)).await;
            let answered = match asked {
                Ok(Ok(answered)) => answered,
                // Whoever may not even ask has few rights.
                Ok(Err(kube::Error::Api(status))) if status.code == 403 => return Ok(false),
                Ok(Err(error)) => return Err(Failure::Other(format!("rights cannot be asked for: {error}"))),
                Err(_) => {
                    return Err(Failure::Other("the API server did not say what is permitted in time".to_owned()));
                }
            };
            if !answered.status.is_some_and(|status| status.allowed) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Follows the names of the namespaces that this selector takes, for as long as somebody listens. The first set is
    /// sent when it is complete; what goes wrong is retried, told by `trouble`, and changes nothing meanwhile.
    pub async fn follow_namespaces(
        self: Arc<Self>,
        selector: String,
        sender: watch::Sender<Option<BTreeSet<String>>>,
        trouble: impl Fn(Option<String>) + Send,
    ) {
        let namespaces: Api<PartialObjectMeta<Namespace>> = Api::all(self.client());
        let config = watcher::Config::default().labels(&selector);
        let mut events = watcher(namespaces, config).default_backoff().boxed();
        let mut listed = BTreeSet::new();
        let name = |namespace: PartialObjectMeta<Namespace>| namespace.metadata.name.unwrap_or_default();
        loop {
            let event = tokio::select! {
                event = events.next() => event,
                () = sender.closed() => return,
            };
            match event {
                Some(Ok(watcher::Event::Init)) => listed.clear(),
                Some(Ok(watcher::Event::InitApply(namespace))) => {
                    listed.insert(name(namespace));
                }
                Some(Ok(watcher::Event::InitDone)) => {
                    trouble(None);
                    publish(&sender, listed.clone());
                }
                Some(Ok(watcher::Event::Apply(namespace))) => {
                    let mut names = sender.borrow().clone().unwrap_or_default();
                    names.insert(name(namespace));
                    publish(&sender, names);
                }
                // Gone, or without the labels: under a selector the two look the same, and mean the same here.
                Some(Ok(watcher::Event::Delete(namespace))) => {
                    let mut names = sender.borrow().clone().unwrap_or_default();
                    names.remove(&name(namespace));
                    publish(&sender, names);
                }
                Some(Err(error)) => trouble(Some(format!("the namespaces with {selector} cannot be read: {error}"))),
                None => return,
            }
        }
    }
}

fn publish(sender: &watch::Sender<Option<BTreeSet<String>>>, names: BTreeSet<String>) {
    sender.send_if_modified(|known| {
        let changed = known.as_ref() != Some(&names);
        *known = Some(names);
        changed
    });
}
