//! One collection's requests: probe, pages, watch, get. Each is carried out once; whether it is tried again is not
//! decided here.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use http::header::{ACCEPT, ACCEPT_ENCODING, RETRY_AFTER};
use http::{HeaderValue, Request};
use http_body_util::BodyExt;
use kube::client::Body;
use tokio::time::{Instant, timeout_at};

use super::failure::Failure;
use super::lines::LineSplitter;
use super::list::{ListPage, read_page};
use super::metadata::{TypeMeta, read_object};
use super::watch_line::{WatchLine, read_watch_line};
use crate::model::{Key, Object, ResourceVersion};

const PAGE: u32 = 500;
/// A list or a get that takes longer than this has failed.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// A watch is given up this long after the server should have ended it: the connection is half open.
const WATCH_MARGIN: Duration = Duration::from_secs(10);
const ERROR_BYTES: usize = 64 << 10;

/// Which objects a feed reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collection {
    /// The API group; empty for the core group.
    pub group: String,
    /// The API version, as `v1`.
    pub version: String,
    /// The plural, as in the API path.
    pub resource: String,
    /// The kind.
    pub kind: String,
    /// One namespace, or all.
    pub namespace: Option<String>,
    /// A label selector for the server, or empty.
    pub label_selector: String,
    /// A field selector for the server, or empty.
    pub field_selector: String,
}

impl Collection {
    /// `group/version`, as in the objects.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    fn path(&self, namespace: Option<&str>) -> String {
        let root = if self.group.is_empty() { "/api" } else { "/apis" };
        let scope = namespace.map(|namespace| format!("/namespaces/{namespace}")).unwrap_or_default();
        format!("{root}/{}{scope}/{}", self.api_version(), self.resource)
    }

    fn query(&self, parameters: &[(&str, &str)]) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(parameters);
        for (name, value) in [("labelSelector", &self.label_selector), ("fieldSelector", &self.field_selector)] {
            if !value.is_empty() {
                query.append_pair(name, value);
            }
        }
        format!("{}?{}", self.path(self.namespace.as_deref()), query.finish())
    }
}

/// Carries out the requests of one collection.
#[derive(Clone)]
pub struct Requests {
    client: kube::Client,
    collection: Collection,
    types: TypeMeta,
}

impl Requests {
    /// Requests over this client, which must not retry by itself.
    pub fn new(client: kube::Client, collection: Collection) -> Self {
        let types = TypeMeta { api_version: collection.api_version(), kind: collection.kind.clone() };
        Self { client, collection, types }
    }

    /// The collection's newest version, by a consistent list of one.
    ///
    /// # Errors
    /// As the API server answers.
    pub async fn probe(&self) -> Result<ResourceVersion, Failure> {
        let body = self.read(&self.collection.query(&[("limit", "1")])).await?;
        self.page(&body, |_| ()).map(|page| page.resource_version)
    }

    /// One page of a consistent list, and what follows it. Its items go to `take`, one at a time.
    ///
    /// # Errors
    /// As the API server answers; the list as a whole has failed then.
    pub async fn list_page(&self, token: Option<&str>, take: impl FnMut(Object)) -> Result<ListPage, Failure> {
        let limit = PAGE.to_string();
        let mut parameters = vec![("limit", &*limit)];
        parameters.extend(token.map(|token| ("continue", token)));
        let body = self.read(&self.collection.query(&parameters)).await?;
        self.page(&body, take)
    }

    /// The object of this key, or `None`.
    ///
    /// # Errors
    /// As the API server answers.
    pub async fn get(&self, key: &Key) -> Result<Option<Object>, Failure> {
        match self.read(&format!("{}/{}", self.collection.path(key.namespace()), key.name())).await {
            Ok(body) => {
                read_object(body, Some(&self.types)).map(Some).map_err(|error| Failure::Undecodable(error.to_string()))
            }
            Err(Failure::NotFound(_)) => Ok(None),
            Err(failure) => Err(failure),
        }
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
        let query = self.collection.query(&[
            ("watch", "1"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", &from),
            ("timeoutSeconds", &seconds),
        ]);
        let deadline = Instant::now() + duration + WATCH_MARGIN;
        let body = self.send(&query).await?;
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

    fn page(&self, body: &Bytes, take: impl FnMut(Object)) -> Result<ListPage, Failure> {
        read_page(body, &self.types, take).map_err(|error| Failure::Undecodable(error.to_string()))
    }

    async fn send(&self, path: &str) -> Result<Body, Failure> {
        let request = Request::get(path)
            .header(ACCEPT, HeaderValue::from_static("application/json"))
            // A compressed watch comes in members of which decoders read the first only.
            .header(ACCEPT_ENCODING, HeaderValue::from_static("identity"))
            .body(Body::empty())
            .map_err(|error| Failure::Other(format!("the request cannot be made: {error}")))?;
        let answer = tokio::time::timeout(REQUEST_TIMEOUT, self.client.send(request)).await;
        let response = answer
            .map_err(|_| Failure::Other("the API server did not answer in time".to_owned()))?
            .map_err(|error| Failure::Other(format!("the API server cannot be reached: {error}")))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response.into_body());
        }
        let seconds = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let mut body = BytesMut::new();
        let mut chunks = response.into_body().into_data_stream();
        // What an error says may come over several lines, but not without end.
        while let Ok(Some(Ok(chunk))) = tokio::time::timeout(WATCH_MARGIN, chunks.next()).await {
            body.extend_from_slice(&chunk);
            if body.len() > ERROR_BYTES {
                break;
            }
        }
        Err(Failure::of_response(status, seconds.map(Duration::from_secs), &body))
    }

    async fn read(&self, path: &str) -> Result<Bytes, Failure> {
        let body = self.send(path).await?;
        let collected = tokio::time::timeout(REQUEST_TIMEOUT, body.collect()).await;
        let collected = collected.map_err(|_| Failure::Other("the answer did not end in time".to_owned()))?;
        collected.map(|body| body.to_bytes()).map_err(|error| Failure::Other(format!("the answer broke off: {error}")))
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
