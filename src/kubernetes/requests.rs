//! One collection's requests: probe, pages, streaming list, watch, get. Each is carried out once; whether it is tried
//! again is not decided here.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout_at};

use super::connection::{Connection, JSON};
use super::discovery::{definition_path, read_served, read_versions, says_undefined};
use super::failure::Failure;
use super::lines::LineSplitter;
use super::list::{ListPage, read_page};
use super::metadata::{TypeMeta, read_object};
use super::watch_line::{WatchLine, read_watch_line};
use crate::model::{Key, Object, ResourceVersion, Served, Uid};

const PAGE: u32 = 500;
/// Objects without anything but their metadata, in a list and in a watch.
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
/// A watch is given up this long after the server should have ended it: the connection is half open.
const WATCH_MARGIN: Duration = Duration::from_secs(10);
/// A streaming list has come to its end mark by then, or has failed.
const STREAMING_LIST: Duration = Duration::from_secs(310);

/// Which objects a feed reads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Collection {
    /// The API group; empty for the core group.
    pub group: String,
    /// The API version, as `v1`; `None` for the one that the API server prefers.
    pub version: Option<String>,
    /// The plural, as in the API path.
    pub resource: String,
    /// One namespace, or all.
    pub namespace: Option<String>,
    /// A label selector for the server, or empty.
    pub label_selector: String,
    /// A field selector for the server, or empty.
    pub field_selector: String,
}

impl Collection {
    /// `plural.group`, as `kubectl api-resources` lists it.
    pub fn full_name(&self) -> String {
        if self.group.is_empty() { self.resource.clone() } else { format!("{}.{}", self.resource, self.group) }
    }

    fn api_version(&self, version: &str) -> String {
        if self.group.is_empty() { version.to_owned() } else { format!("{}/{version}", self.group) }
    }

    fn group_path(&self) -> String {
        if self.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", self.group) }
    }

    /// The path of its objects, as it is served.
    pub fn path(&self, served: &Served, namespace: Option<&str>) -> String {
        let scope = namespace.map(|namespace| format!("/namespaces/{namespace}")).unwrap_or_default();
        format!("{}/{}{scope}/{}", self.group_path(), served.version, self.resource)
    }

    /// Whether the API server selects among its objects.
    pub fn is_selective(&self) -> bool {
        !self.label_selector.is_empty() || !self.field_selector.is_empty()
    }

    /// Path and query of a request for the collection, with its selectors.
    pub fn query(&self, served: &Served, parameters: &[(&str, &str)]) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(parameters);
        for (name, value) in [("labelSelector", &self.label_selector), ("fieldSelector", &self.field_selector)] {
            if !value.is_empty() {
                query.append_pair(name, value);
            }
        }
        format!("{}?{}", self.path(served, self.namespace.as_deref()), query.finish())
    }

    /// A list of one object by its name, if it is in the selection; or whether it is or not.
    pub fn query_of(&self, served: &Served, key: &Key, selected: bool) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        let mut fields = format!("metadata.name={}", key.name());
        if selected && !self.field_selector.is_empty() {
            fields = format!("{fields},{}", self.field_selector);
        }
        query.append_pair("fieldSelector", &fields);
        if selected && !self.label_selector.is_empty() {
            query.append_pair("labelSelector", &self.label_selector);
        }
        format!("{}?{}", self.path(served, key.namespace()), query.finish())
    }
}

/// Carries out the requests of one collection.
#[derive(Clone)]
pub struct Requests {
    connection: Arc<Connection>,
    collection: Arc<Collection>,
    found: Arc<RwLock<Found>>,
    // Held while discovery is under way, so that it is asked for once, however many wait for it.
    discovering: Arc<tokio::sync::Mutex<()>>,
}

/// What discovery found, now or at the first start.
#[derive(Default)]
struct Found {
    served: Option<Arc<Served>>,
    // Whether the API server has said so since it last denied the collection.
    confirmed: bool,
}

impl Requests {
    /// Requests over this connection. Nothing is asked yet. `served` is as what the collection was found earlier: it
    /// stays pinned to that version, unless the collection names another.
    pub fn new(connection: Arc<Connection>, collection: Collection, served: Option<Served>) -> Self {
        let same = |served: &Served| collection.version.as_ref().is_none_or(|version| *version == served.version);
        let found = Found { served: served.filter(same).map(Arc::new), confirmed: false };
        let (found, discovering) = (Arc::new(RwLock::new(found)), Arc::default());
        Self { connection, collection: Arc::new(collection), found, discovering }
    }

    /// As what the collection was found, now or earlier.
    pub fn found(&self) -> Option<Arc<Served>> {
        self.found.read().unwrap_or_else(PoisonError::into_inner).served.clone()
    }

    /// `group/version` and kind of the collection's objects, once it was found.
    pub fn types(&self) -> Option<TypeMeta> {
        self.found().map(|served| self.type_meta(&served))
    }

    /// As what the collection is served, or the version that it is pinned to while that is not confirmed.
    fn confirmed(&self) -> Result<Arc<Served>, Option<String>> {
        let found = self.found.read().unwrap_or_else(PoisonError::into_inner);
        match &found.served {
            Some(served) if found.confirmed => Ok(Arc::clone(served)),
            served => Err(served.as_ref().map(|served| served.version.clone())),
        }
    }

    /// What the collection is served as: known, or asked for.
    async fn served(&self) -> Result<Arc<Served>, Failure> {
        if let Ok(served) = self.confirmed() {
            return Ok(served);
        }
        let _alone = self.discovering.lock().await;
        let pinned = match self.confirmed() {
            Ok(served) => return Ok(served),
            Err(pinned) => pinned,
        };
        let collection = &*self.collection;
        let was_defined = self.found().is_some_and(|served| served.defined);
        let body = match self.connection.read(&collection.group_path()).await {
            Err(Failure::NotFound(_)) => return Err(self.not_served("its group is not known", was_defined).await),
            body => body?,
        };
        let versions = read_versions(collection, &body)?;
        let wanted = collection.version.as_ref().or(pinned.as_ref());
        for version in versions.iter().filter(|version| wanted.is_none_or(|wanted| wanted == *version)) {
            let body = match self.connection.read(&format!("{}/{version}", collection.group_path())).await {
                Err(Failure::NotFound(_)) => continue,
                body => body?,
            };
            if let Some(mut served) = read_served(collection, version, &body)? {
                served.defined = was_defined || self.is_defined().await;
                let served = Arc::new(served);
                let found = Found { served: Some(Arc::clone(&served)), confirmed: true };
                *self.found.write().unwrap_or_else(PoisonError::into_inner) = found;
                return Ok(served);
            }
        }
        let versions = versions.join(", ");
        let detail = match wanted {
            Some(wanted) => format!("it is not in version {wanted}; its group has {versions}"),
            None => format!("it is in none of its group's versions, {versions}"),
        };
        Err(self.not_served(&detail, was_defined).await)
    }

    /// Whether a CustomResourceDefinition defines the kind. Where that may not be read it is not known, and then the kind
    /// is never taken for gone.
    async fn is_defined(&self) -> bool {
        match definition_path(&self.collection) {
            Some(path) => self.connection.read(&path).await.is_ok(),
            None => false,
        }
    }

    /// The kind is not served: for want of a version, because something has not begun yet, or because its definition is
    /// gone, and with it all its objects.
    async fn not_served(&self, detail: &str, was_defined: bool) -> Failure {
        let reason = format!("the API server does not serve {}: {detail}", self.collection.full_name());
        if was_defined
            && let Some(path) = definition_path(&self.collection)
            && let Err(failure) = self.connection.read(&path).await
            && says_undefined(&self.collection, &failure)
        {
            return Failure::KindGone(reason);
        }
        Failure::NotFound(reason)
    }

    /// An answer that the collection is not there makes what discovery found doubtful.
    fn noting_absence<T>(&self, answer: Result<T, Failure>) -> Result<T, Failure> {
        if matches!(answer, Err(Failure::NotFound(_))) {
            self.found.write().unwrap_or_else(PoisonError::into_inner).confirmed = false;
        }
        answer
    }

    /// The collection's newest version, by a consistent list of one.
    ///
    /// # Errors
    /// As the API server answers.
    pub async fn probe(&self) -> Result<ResourceVersion, Failure> {
        let served = self.served().await?;
        let body =
            self.noting_absence(self.connection.read(&self.collection.query(&served, &[("limit", "1")])).await)?;
        self.page(&served, &body, |_| ()).map(|page| page.resource_version)
    }

    /// One page of a consistent list, and what follows it. Its items go to `take`, one at a time.
    ///
    /// # Errors
    /// As the API server answers; the list as a whole has failed then.
    pub async fn list_page(
        &self,
        token: Option<&str>,
        metadata_only: bool,
        take: impl FnMut(Object),
    ) -> Result<ListPage, Failure> {
        let limit = PAGE.to_string();
        let mut parameters = vec![("limit", &*limit)];
        parameters.extend(token.map(|token| ("continue", token)));
        let served = self.served().await?;
        let accept = if metadata_only { METADATA_LIST } else { JSON };
        let query = self.collection.query(&served, &parameters);
        let body = self.noting_absence(self.connection.read_as(&query, accept).await)?;
        self.page(&served, &body, take)
    }

    /// The object of this key, or `None` where it is not in the collection's selection.
    ///
    /// # Errors
    /// As the API server answers.
    pub async fn get(&self, key: &Key) -> Result<Option<Object>, Failure> {
        let served = self.served().await?;
        if self.collection.is_selective() {
            // What is read by name alone may be outside of the selection.
            let body = self.connection.read(&self.collection.query_of(&served, key, true)).await?;
            let mut found = None;
            self.page(&served, &body, |object| found = Some(object))?;
            return Ok(found);
        }
        match self.connection.read(&format!("{}/{}", self.collection.path(&served, key.namespace()), key.name())).await
        {
            Ok(body) => read_object(body, Some(&self.type_meta(&served)))
                .map(Some)
                .map_err(|error| Failure::Undecodable(error.to_string())),
            Err(Failure::NotFound(_)) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// The incarnation that is there under this key, in the selection or not, and up to which version that is so. It asks for a list of one, for which no
    /// other permission is needed than the feed has.
    ///
    /// # Errors
    /// As the API server answers.
    pub async fn look(&self, key: &Key) -> Result<(Option<Uid>, ResourceVersion), Failure> {
        let served = self.served().await?;
        let query = self.collection.query_of(&served, key, false);
        let body = self.connection.read_as(&query, METADATA_LIST).await?;
        let mut found = None;
        let page = self.page(&served, &body, |object| found = Some(object.metadata.uid.clone()))?;
        Ok((found, page.resource_version))
    }

    /// The changes after `from`, for about `duration`. The stream ends after its first failure, or cleanly.
    ///
    /// # Errors
    /// As the API server answers; an `ERROR` event is a failure of the stream.
    pub async fn watch(
        &self,
        from: ResourceVersion,
        duration: Duration,
    ) -> Result<BoxStream<'static, Result<WatchLine, Failure>>, Failure> {
        let (from, seconds) = (from.to_string(), duration.as_secs().to_string());
        let parameters = [
            ("watch", "1"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", &*from),
            ("timeoutSeconds", &*seconds),
        ];
        self.stream(&parameters, JSON, duration + WATCH_MARGIN).await
    }

    /// The collection as it is now, object by object, up to a bookmark that marks its end (KEP-3157). Not all servers
    /// have it: those answer 422.
    ///
    /// # Errors
    /// As the API server answers.
    pub async fn stream_list(
        &self,
        metadata_only: bool,
    ) -> Result<BoxStream<'static, Result<WatchLine, Failure>>, Failure> {
        let parameters = [
            ("watch", "1"),
            ("sendInitialEvents", "true"),
            ("resourceVersionMatch", "NotOlderThan"),
            ("allowWatchBookmarks", "true"),
            ("timeoutSeconds", "300"),
        ];
        self.stream(&parameters, if metadata_only { METADATA } else { JSON }, STREAMING_LIST).await
    }

    async fn stream(
        &self,
        parameters: &[(&str, &str)],
        accept: &'static str,
        at_most: Duration,
    ) -> Result<BoxStream<'static, Result<WatchLine, Failure>>, Failure> {
        let served = self.served().await?;
        let body =
            self.noting_absence(self.connection.get(&self.collection.query(&served, parameters), accept).await)?;
        // From the answer on: what came before it is no part of the watch.
        let deadline = Instant::now() + at_most;
        let state = Watch {
            body: body.into_data_stream().map_err(|error| error.to_string()).boxed(),
            deadline,
            splitter: LineSplitter::new(LineSplitter::DEFAULT_LIMIT),
            ended: false,
        };
        Ok(futures::stream::unfold(state, |mut state| async move {
            let item = state.next().await?;
            state.ended = item.is_err();
            Some((item, state))
        })
        .boxed())
    }

    fn type_meta(&self, served: &Served) -> TypeMeta {
        TypeMeta { api_version: self.collection.api_version(&served.version), kind: served.kind.clone() }
    }

    fn page(&self, served: &Served, body: &Bytes, take: impl FnMut(Object)) -> Result<ListPage, Failure> {
        read_page(body, &self.type_meta(served), take).map_err(|error| Failure::Undecodable(error.to_string()))
    }
}

struct Watch {
    body: BoxStream<'static, Result<Bytes, String>>,
    deadline: Instant,
    splitter: LineSplitter,
    ended: bool,
}

impl Watch {
    async fn next(&mut self) -> Option<Result<WatchLine, Failure>> {
        if self.ended {
            return None;
        }
        loop {
            if let Some(line) = self.splitter.next_line() {
                return Some(match read_watch_line(&line) {
                    Ok(WatchLine::Error(status)) => Err(Failure::of_status(&status)),
                    Ok(line) => Ok(line),
                    Err(error) => Err(Failure::Undecodable(error.to_string())),
                });
            }
            let failure = match timeout_at(self.deadline, self.body.next()).await {
                Ok(Some(Ok(chunk))) => match self.splitter.push(chunk) {
                    Ok(()) => continue,
                    Err(error) => Failure::Undecodable(error.to_string()),
                },
                Ok(Some(Err(error))) => Failure::Other(format!("the watch broke off: {error}")),
                // A cut line is a connection that was cut: nothing of it was taken, so that the watch can be resumed.
                Ok(None) => Failure::Other(self.splitter.finish().err()?.to_string()),
                Err(_) => Failure::Other("the watch did not end in time: the connection is half open".to_owned()),
            };
            return Some(Err(failure));
        }
    }
}
