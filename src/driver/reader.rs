//! The tasks that read a feed's list or watch and hand what they read to the loop. They decide nothing, and end when
//! the loop has ended.

use std::time::Duration;

use futures::StreamExt;
use tokio::sync::mpsc;

use super::{Input, StreamInput};
use crate::engine::FeedFailure;
use crate::kubernetes::{Failure, Requests, WatchLine};
use crate::model::ResourceVersion;

/// What an earlier list or watch still had under way is nobody's any more: each has a number.
pub(super) struct Reader {
    pub(super) requests: Requests,
    pub(super) sender: mpsc::Sender<Input>,
    pub(super) stream: u64,
}

/// The loop has ended; nobody reads on.
struct Ended;

impl Reader {
    async fn send(&self, input: StreamInput) -> Result<(), Ended> {
        self.sender.send(Input::Stream(self.stream, input)).await.map_err(|_| Ended)
    }

    pub(super) async fn list(self, streaming: bool, metadata_only: bool) {
        let listed =
            if streaming { self.stream_list(metadata_only).await } else { self.list_pages(metadata_only).await };
        if let Ok(ended) = listed {
            let _ = self.send(StreamInput::ListEnded(ended)).await;
        }
    }

    async fn list_pages(&self, metadata_only: bool) -> Result<Result<ResourceVersion, FeedFailure>, Ended> {
        let mut token: Option<String> = None;
        loop {
            let mut objects = Vec::new();
            let page = self.requests.list_page(token.as_deref(), metadata_only, |object| objects.push(object)).await;
            self.send(StreamInput::Listed(objects)).await?;
            match page {
                // The list's version is that of its first page; all pages of one token have it.
                Ok(page) if page.next.is_none() => return Ok(Ok(page.resource_version)),
                Ok(page) => token = page.next,
                Err(failure) => return Ok(Err(feed_failure(failure))),
            }
        }
    }

    async fn stream_list(&self, metadata_only: bool) -> Result<Result<ResourceVersion, FeedFailure>, Ended> {
        let mut lines = match self.requests.stream_list(metadata_only).await {
            Ok(lines) => lines,
            Err(Failure::Invalid(_)) => return Ok(Err(FeedFailure::StreamingUnsupported)),
            Err(failure) => return Ok(Err(feed_failure(failure))),
        };
        while let Some(line) = lines.next().await {
            match line {
                Ok(WatchLine::Added(object) | WatchLine::Modified(object)) => {
                    self.send(StreamInput::Listed(vec![object])).await?;
                }
                Ok(WatchLine::Deleted(object)) => self.send(StreamInput::ListRemoved(object)).await?,
                Ok(WatchLine::Bookmark { resource_version, initial_events_end: true }) => {
                    return Ok(Ok(resource_version));
                }
                Ok(WatchLine::Bookmark { .. } | WatchLine::Error(_)) => {}
                Err(failure) => return Ok(Err(feed_failure(failure))),
            }
        }
        // Nothing may be inferred from a list that was not read to its mark.
        Ok(Err(FeedFailure::Other("the streaming list ended before its end mark".to_owned())))
    }

    pub(super) async fn follow(self, from: ResourceVersion, duration: Duration) {
        let mut failure = None;
        match self.requests.watch(from, duration).await {
            Ok(mut lines) => {
                if self.send(StreamInput::WatchBegun).await.is_err() {
                    return;
                }
                while let Some(line) = lines.next().await {
                    match line {
                        Ok(line) => {
                            if self.send(StreamInput::Line(line)).await.is_err() {
                                return;
                            }
                        }
                        Err(error) => failure = Some(error),
                    }
                }
            }
            Err(error) => failure = Some(error),
        }
        let _ = self.send(StreamInput::WatchEnded(failure.map(feed_failure))).await;
    }
}

/// What a failed request means to the feed.
pub fn feed_failure(failure: Failure) -> FeedFailure {
    match failure {
        Failure::Expired(_) => FeedFailure::Expired,
        Failure::Throttled { reason, after } => FeedFailure::Throttled { reason, after },
        Failure::NotFound(reason) => FeedFailure::NotServed(reason),
        Failure::KindGone(reason) => FeedFailure::KindGone(reason),
        Failure::Forbidden(reason) => FeedFailure::Forbidden(reason),
        Failure::Undecodable(reason) => FeedFailure::Undecodable(reason),
        Failure::Invalid(reason) => FeedFailure::Other(format!("the API server refuses the request: {reason}")),
        Failure::Other(reason) => FeedFailure::Other(reason),
    }
}
