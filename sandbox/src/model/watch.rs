//! Watches: where one begins, what it shows of each write through its selection, its bookmarks and its end. They are
//! read by polling; nothing is copied to a watch before it is read.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;

use super::kind::{Event, Kind};
use super::list::invalid_version;
use super::refusal::Refusal;
use super::request::Query;
use super::selector::Selection;
use super::server::ApiServer;
use super::state::{State, View};
use super::store::KindId;

/// A watch without timeoutSeconds; the real server takes this to twice as long.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(1_800);
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// So long before the end there is a last bookmark, and another each second.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);
/// How long the server waits for a revision that is not there yet.
const PATIENCE: Duration = Duration::from_secs(3);
/// A reader may be so many events behind before it is slow.
const UNREAD: usize = 20;

/// Names an open watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub(super) u64);

/// What a poll of a watch gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamPoll {
    /// One line, with its line feed.
    Line(Bytes),
    /// Nothing to read now.
    Pending,
    /// The end, as the server makes it; the stream is freed.
    Ended,
    /// The connection is cut; the stream is freed.
    Broken,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    /// After what was there to read.
    Clean,
    /// After so many lines more.
    Evicted,
    /// At once.
    Broken,
}

pub(super) struct Stream {
    pub(super) kind: KindId,
    version: String,
    view: View,
    selection: Selection,
    /// The state to begin with, not read yet.
    initial: VecDeque<Arc<State>>,
    /// The revision of that state, if its end is to be marked.
    initial_end: Option<u64>,
    /// A line that ends it, and when it is said.
    error: Option<(Duration, Bytes)>,
    /// The number of the first event that was not looked at.
    pub(super) next: u64,
    /// The number of the first event that it will not see.
    until: u64,
    /// It is told neither events nor bookmarks up to here.
    start: u64,
    next_bookmark: Option<Duration>,
    deadline: Duration,
    broken: bool,
}

impl ApiServer {
    pub(super) fn watch(
        &mut self,
        now: Duration,
        id: KindId,
        version: &str,
        selection: Selection,
        query: &Query,
        metadata_only: bool,
    ) -> Result<StreamId, Refusal> {
        check_options(query, self.streaming_lists)?;
        let current = self.store.revision;
        let kind = &mut self.store.kinds[id];
        kind.warm(current);
        let asked = match query.resource_version.as_str() {
            "" => None,
            text => Some(text.parse::<u64>().map_err(|_| Refusal::new(500, "", invalid_version(text)))?),
        };
        let timeout = query.timeout_seconds.filter(|seconds| *seconds > 0).map(Duration::from_secs);
        let deadline = now + timeout.unwrap_or(DEFAULT_TIMEOUT);
        let mut stream = Stream {
            kind: id,
            version: version.to_owned(),
            view: kind.view(version, metadata_only),
            selection,
            initial: VecDeque::new(),
            initial_end: None,
            error: None,
            next: kind.end(),
            until: u64::MAX,
            start: current,
            next_bookmark: query.bookmarks.then(|| bookmark_after(now, deadline)),
            deadline,
            broken: false,
        };
        let whole = query.send_initial_events.unwrap_or(matches!(asked, None | Some(0)));
        match asked {
            Some(asked) if whole && asked > current => {
                stream.fail(now + PATIENCE, &Refusal::too_large(asked, current));
            }
            Some(asked) if !whole && asked < kind.floor() => stream.fail(now, &Refusal::too_old(asked, kind.floor())),
            Some(asked) if !whole => (stream.next, stream.start) = (kind.after(asked), asked),
            None if !whole => {}
            _ => {
                let states = kind.at(current, stream.selection.prefix(), "");
                stream.initial = states.into_iter().filter(|state| stream.selection.matches(state)).collect();
                stream.initial_end = Some(current).filter(|_| query.bookmarks && self.streaming_lists);
                kind.warm(current).observed = current;
            }
        }
        self.last_stream += 1;
        self.streams.insert(self.last_stream, stream);
        Ok(StreamId(self.last_stream))
    }

    /// Reads a watch on. What has ended is freed, and ends again if it is polled again. A watch that is neither read to its
    /// end nor closed keeps the history that it has not read.
    pub fn poll_stream(&mut self, now: Duration, stream: StreamId) -> StreamPoll {
        let Some(open) = self.streams.get_mut(&stream.0) else { return StreamPoll::Ended };
        let poll = open.poll(now, &self.store.kinds[open.kind]);
        if matches!(poll, StreamPoll::Ended | StreamPoll::Broken) {
            self.streams.remove(&stream.0);
        }
        poll
    }

    /// The reader goes away.
    pub fn close_stream(&mut self, stream: StreamId) {
        self.streams.remove(&stream.0);
    }

    /// When a watch that is pending may have something to say although nothing is written; `None` if it is gone.
    pub fn stream_wakes_at(&self, stream: StreamId) -> Option<Duration> {
        let stream = self.streams.get(&stream.0)?;
        let error = stream.error.as_ref().map(|(at, _)| *at);
        Some([error, stream.next_bookmark].into_iter().flatten().fold(stream.deadline, Duration::min))
    }

    /// How many watches are open.
    pub fn open_streams(&self) -> usize {
        self.streams.len()
    }

    /// Ends all watches of a kind.
    pub(super) fn end_streams(&mut self, id: KindId, ending: Ending) {
        let kind = &self.store.kinds[id];
        for stream in self.streams.values_mut().filter(|stream| stream.kind == id) {
            stream.end(kind, ending);
        }
    }

    /// Ends the watches whose readers are more than some twenty events behind, after what was queued for them.
    pub fn evict_slow_readers(&mut self) {
        for stream in self.streams.values_mut() {
            stream.end(&self.store.kinds[stream.kind], Ending::Evicted);
        }
    }
}

impl Stream {
    fn poll(&mut self, now: Duration, kind: &Kind) -> StreamPoll {
        if self.broken {
            return StreamPoll::Broken;
        }
        if let Some((at, line)) = &self.error {
            if now < *at {
                return StreamPoll::Pending;
            }
            let line = StreamPoll::Line(line.clone());
            (self.error, self.until, self.next) = (None, 0, 0);
            return line;
        }
        if now >= self.deadline && self.until > 0 {
            return StreamPoll::Ended;
        }
        if let Some(state) = self.initial.pop_front() {
            return StreamPoll::Line(self.line("ADDED", &state, None));
        }
        if let Some(revision) = self.initial_end.take() {
            return StreamPoll::Line(self.bookmark(kind, revision, true));
        }
        let end = kind.end().min(self.until);
        while self.next < end {
            // A watch from the future is told nothing up to there.
            let event = kind.event(self.next).filter(|event| event.revision > self.start);
            self.next += 1;
            if let Some(line) = event.and_then(|event| self.show(event)) {
                return StreamPoll::Line(line);
            }
        }
        if self.until != u64::MAX {
            return StreamPoll::Ended;
        }
        match self.next_bookmark {
            Some(due) if due <= now => {
                self.next_bookmark = Some(bookmark_after(now, self.deadline));
                let observed = kind.cache.as_ref().map_or(0, |cache| cache.observed);
                if observed > self.start {
                    return StreamPoll::Line(self.bookmark(kind, observed, false));
                }
                StreamPoll::Pending
            }
            _ => StreamPoll::Pending,
        }
    }

    /// A write as it looks through the selection. Leaving it looks as a deletion of what was selected, at the version of
    /// the write.
    fn show(&self, event: &Event) -> Option<Bytes> {
        let selected = |state: &Option<Arc<State>>| state.clone().filter(|state| self.selection.matches(state));
        match (selected(&event.previous), selected(&event.state)) {
            (None, None) => None,
            (None, Some(state)) => Some(self.line("ADDED", &state, None)),
            (Some(_), Some(state)) => Some(self.line("MODIFIED", &state, None)),
            (Some(previous), None) => Some(self.line("DELETED", &previous, Some(event.revision))),
        }
    }

    fn line(&self, what: &str, state: &State, revision: Option<u64>) -> Bytes {
        let mut out = Vec::with_capacity(state.size() + self.view.opening.len() + 48);
        out.extend_from_slice(b"{\"type\":\"");
        out.extend_from_slice(what.as_bytes());
        out.extend_from_slice(b"\",\"object\":");
        state.write(&self.view, false, revision, &mut out);
        out.extend_from_slice(b"}\n");
        out.into()
    }

    fn bookmark(&self, kind: &Kind, revision: u64, initial_end: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let (api_version, name) = if self.view.metadata_only {
            ("meta.k8s.io/v1".to_owned(), "PartialObjectMetadata")
        } else {
            (kind.api_version(&self.version), kind.kind.as_str())
        };
        let object = json!({"apiVersion": api_version, "kind": name, "metadata": metadata});
        format!("{{\"type\":\"BOOKMARK\",\"object\":{object}}}\n").into()
    }

    fn fail(&mut self, at: Duration, refusal: &Refusal) {
        let line = format!("{{\"type\":\"ERROR\",\"object\":{}}}\n", refusal.body());
        // The refusal outlives a timeout that is shorter than the server's patience.
        self.deadline = self.deadline.max(at + PATIENCE);
        self.error = Some((at, line.into()));
    }

    pub(super) fn end(&mut self, kind: &Kind, ending: Ending) {
        match ending {
            Ending::Broken => self.broken = true,
            Ending::Clean => self.until = self.until.min(kind.end()),
            Ending::Evicted => {
                let numbers = self.next..kind.end();
                let mut shown =
                    numbers.filter(|number| kind.event(*number).is_some_and(|event| self.show(event).is_some()));
                // The first event for which there was no room is not seen.
                if let Some(number) = shown.nth(UNREAD) {
                    self.until = self.until.min(number);
                }
            }
        }
    }
}

fn bookmark_after(now: Duration, deadline: Duration) -> Duration {
    let last = deadline.saturating_sub(LAST_BOOKMARK);
    if now >= last { now + Duration::from_secs(1) } else { (now + BOOKMARK_EVERY).min(last) }
}

fn check_options(query: &Query, streaming_lists: bool) -> Result<(), Refusal> {
    let field = "resourceVersionMatch";
    let forbidden = |why: &str| Err(Refusal::options(&[Refusal::forbids(field, why)]));
    if !query.continue_token.is_empty() {
        return forbidden("resourceVersionMatch is forbidden when continue is provided");
    }
    if query.send_initial_events.is_none() {
        return match query.version_match.as_str() {
            "" => Ok(()),
            _ => forbidden("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"),
        };
    }
    let mut causes = Vec::new();
    if query.version_match != "NotOlderThan" {
        causes.push(Refusal::forbids(field, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"));
    }
    if !matches!(query.version_match.as_str(), "" | "NotOlderThan") {
        let message = format!("Unsupported value: {:?}: supported values: \"NotOlderThan\"", query.version_match);
        causes.push((field, "FieldValueNotSupported", message));
    }
    if !streaming_lists {
        let why = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled";
        causes.push(Refusal::forbids("sendInitialEvents", why));
    }
    if causes.is_empty() { Ok(()) } else { Err(Refusal::options(&causes)) }
}
