//! What comes back from the API server, and how the engine is told of it: answers, lines of watches, failures.

use std::time::Duration;

use bytes::Bytes;
use crier::driver::feed_failure;
use crier::engine::{FeedFailure, Fetched, Looked};
use crier::event::Encoder;
use crier::kubernetes::{Failure, LineSplitter, TypeMeta, WatchLine, read_page, read_watch_line};
use crier::model::{Change, ChangeKind, Object, ResourceVersion, Uid};
use crier_sandbox::{ApiServer, StreamPoll};

use crate::client::{Answered, Crier, JSON, OpenStream, Question, RoutePlan};

impl Crier {
    pub(crate) fn take(
        &mut self,
        server: &mut ApiServer,
        now: Duration,
        question: Question,
        stream: u64,
        answer: Answered,
    ) {
        let time = self.engine_time(now);
        let current = stream == self.number;
        match (question, answer) {
            // A kind that is not served any more: is it gone for good?
            (Question::Definition { reason, of }, answer) => {
                let gone = matches!(&answer, Answered::Whole(Err(Failure::NotFound(text))) if text.contains("customresourcedefinitions"));
                let failure = if gone { Failure::KindGone(reason) } else { Failure::NotFound(reason) };
                self.take_failure(time, *of, current, failure);
            }
            (question, Answered::Whole(Err(Failure::NotFound(reason)))) if !matches!(question, Question::Fetch(_)) => {
                let target = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.com".to_owned();
                self.send("definition", Question::Definition { reason, of: Box::new(question) }, target, JSON);
                if let Some(pending) = self.pending.last_mut() {
                    pending.stream = stream;
                }
            }
            (question, Answered::Whole(Err(failure))) => self.take_failure(time, question, current, failure),
            (Question::Stream { list }, Answered::Stream(id)) if current => {
                self.open = Some(OpenStream {
                    id,
                    number: stream,
                    list,
                    splitter: LineSplitter::new(LineSplitter::DEFAULT_LIMIT),
                });
                if !list {
                    self.engine.handle_watch_begun();
                }
            }
            (_, Answered::Stream(id)) => server.close_stream(id),
            (question, Answered::Whole(Ok(body))) => self.take_body(time, question, current, &body),
        }
    }

    fn take_failure(&mut self, time: Duration, question: Question, current: bool, failure: Failure) {
        self.note(|| format!("   {question:?} fails: {failure:?}"));
        match question {
            Question::Probe => self.engine.handle_probed(time, Err(feed_failure(failure))),
            Question::Page if current => self.engine.handle_list_failed(time, feed_failure(failure)),
            Question::Stream { list: true } if current => {
                let failure = match failure {
                    Failure::Invalid(_) => FeedFailure::StreamingUnsupported,
                    failure => feed_failure(failure),
                };
                self.engine.handle_list_failed(time, failure);
            }
            Question::Stream { list: false } if current => {
                self.engine.handle_stream_ended(time, Some(feed_failure(failure)));
            }
            Question::Page | Question::Stream { .. } | Question::Definition { .. } => {}
            Question::Fetch(key) => {
                let fetched = match failure {
                    Failure::NotFound(_) => Fetched::NotFound,
                    Failure::Forbidden(reason) => Fetched::Forbidden(reason),
                    failure => Fetched::Failed(failure.to_string()),
                };
                self.engine.handle_fetched(time, &key, fetched);
            }
            Question::Look(key) => {
                self.engine.handle_looked(time, &key, &Looked::Failed(failure.to_string()));
            }
        }
    }

    fn take_body(&mut self, time: Duration, question: Question, current: bool, body: &Bytes) {
        let types = TypeMeta { api_version: "example.com/v1".into(), kind: "Thing".into() };
        let mut objects: Vec<Object> = Vec::new();
        let page = |objects: &mut Vec<Object>| read_page(body, &types, |object| objects.push(object)).expect("a page");
        match question {
            Question::Probe => {
                let page = page(&mut objects);
                self.engine.handle_served(self.served.clone());
                self.engine.handle_probed(time, Ok(page.resource_version));
            }
            Question::Page if current => {
                let page = page(&mut objects);
                for object in &objects {
                    let selected = self.judge(object, self.metadata_only);
                    self.note(|| format!("   lists {} {:?}", object.metadata.key, object.metadata.resource_version));
                    self.engine.handle_list_item(time, object, &selected);
                }
                match page.next {
                    Some(token) => self.ask_page(Some(token)),
                    None => self.list_finished(time, page.resource_version),
                }
            }
            Question::Fetch(key) => {
                let object = if self.plan.collection.is_selective() {
                    page(&mut objects);
                    objects.pop()
                } else {
                    Some(crier::kubernetes::read_object(body.clone(), Some(&types)).expect("an object"))
                };
                self.note(|| {
                    format!("   fetched {:?}", object.as_ref().map(|object| object.metadata.resource_version))
                });
                let fetched = match object {
                    Some(object) => {
                        let selected = self.judge(&object, false);
                        Fetched::Found(object, selected)
                    }
                    None => Fetched::NotFound,
                };
                self.engine.handle_fetched(time, &key, fetched);
            }
            Question::Look(key) => {
                let at = page(&mut objects).resource_version;
                let uid: Option<Uid> = objects.pop().map(|object| object.metadata.uid.clone());
                let looked = uid.map_or(Looked::NotFound(at), |uid| Looked::Found(uid, at));
                self.engine.handle_looked(time, &key, &looked);
            }
            Question::Page | Question::Stream { .. } | Question::Definition { .. } => {}
        }
    }

    fn list_finished(&mut self, time: Duration, at: ResourceVersion) {
        self.note(|| format!("   has listed {at:?}"));
        self.engine.handle_served(self.served.clone());
        self.engine.handle_list_finished(time, at);
    }

    /// Lets one line of the open stream arrive. Whether there was one.
    pub(crate) fn step_stream(&mut self, server: &mut ApiServer, now: Duration) -> bool {
        if self.step_late(server, now) {
            return true;
        }
        let Some(open) = &mut self.open else { return false };
        let (number, list) = (open.number, open.list);
        match server.poll_stream(now, open.id) {
            StreamPoll::Pending => return false,
            StreamPoll::Ended => {
                self.open = None;
                self.stream_failed(now, number, list, None);
            }
            StreamPoll::Broken => {
                self.open = None;
                self.stream_failed(now, number, list, Some(Failure::Other("the watch broke off".to_owned())));
            }
            StreamPoll::Line(bytes) => {
                open.splitter.push(bytes).expect("a short line");
                while let Some(line) = self.open.as_mut().and_then(|open| open.splitter.next_line()) {
                    let line = read_watch_line(&line).expect("a line of a watch");
                    self.take_line(server, now, number, list, line);
                }
            }
        }
        true
    }

    /// A line of a watch that was ended for a list: the engine is told more than it asked for.
    fn step_late(&mut self, server: &mut ApiServer, now: Duration) -> bool {
        let Some((mut late, lines)) = self.late.take() else { return false };
        let bytes = match server.poll_stream(now, late.id) {
            StreamPoll::Line(bytes) => bytes,
            StreamPoll::Pending => {
                // It may have more to tell when the list has been read.
                self.late = Some((late, lines));
                return false;
            }
            StreamPoll::Ended | StreamPoll::Broken => {
                server.close_stream(late.id);
                return false;
            }
        };
        late.splitter.push(bytes).expect("a short line");
        while let Some(line) = late.splitter.next_line() {
            let line = read_watch_line(&line).expect("a line of a watch");
            if !matches!(line, WatchLine::Error(_)) {
                self.note(|| "   hears of an ended watch".to_owned());
                self.take_line(server, now, late.number, false, line);
            }
        }
        if lines > 1 {
            self.late = Some((late, lines - 1));
        } else {
            server.close_stream(late.id);
        }
        true
    }

    pub(crate) fn stream_failed(&mut self, now: Duration, number: u64, list: bool, failure: Option<Failure>) {
        if number != self.number {
            return;
        }
        let time = self.engine_time(now);
        self.note(|| format!("   its stream ends: {failure:?}"));
        if list {
            let failure = failure.unwrap_or_else(|| Failure::Other("it ended before its end mark".to_owned()));
            self.engine.handle_list_failed(time, feed_failure(failure));
        } else {
            self.engine.handle_stream_ended(time, failure.map(feed_failure));
        }
    }

    fn take_line(&mut self, server: &mut ApiServer, now: Duration, number: u64, list: bool, line: WatchLine) {
        let time = self.engine_time(now);
        match line {
            WatchLine::Error(status) => {
                if let Some(open) = self.open.take() {
                    server.close_stream(open.id);
                }
                self.stream_failed(now, number, list, Some(Failure::of_status(&status)));
            }
            WatchLine::Bookmark { resource_version, initial_events_end } if list => {
                if initial_events_end {
                    if let Some(open) = self.open.take() {
                        server.close_stream(open.id);
                    }
                    self.list_finished(time, resource_version);
                }
            }
            WatchLine::Bookmark { resource_version, .. } => {
                self.note(|| format!("   sees a bookmark {resource_version:?}"));
                self.engine.handle_bookmark(resource_version);
            }
            WatchLine::Added(object) | WatchLine::Modified(object) if list => {
                let selected = self.judge(&object, self.metadata_only);
                self.note(|| format!("   lists {} {:?}", object.metadata.key, object.metadata.resource_version));
                self.engine.handle_list_item(time, &object, &selected);
            }
            WatchLine::Deleted(object) if list => self.engine.handle_list_removed(&object),
            WatchLine::Added(object) => self.change(time, object, ChangeKind::Added),
            WatchLine::Modified(object) => self.change(time, object, ChangeKind::Modified),
            WatchLine::Deleted(object) => self.change(time, object, ChangeKind::Deleted),
        }
    }

    fn change(&mut self, time: Duration, object: Object, kind: ChangeKind) {
        let selected = self.judge(&object, false);
        self.note(|| format!("   sees {kind:?} {} {:?}", object.metadata.key, object.metadata.resource_version));
        self.engine.handle_change(time, &Change { object, kind }, &selected);
    }

    fn judge(&self, object: &Object, metadata_only: bool) -> Vec<Option<u64>> {
        let routes = self.plan.routes.iter().zip(&self.encoders);
        let judge = |(route, encoder): (&RoutePlan, &Encoder)| {
            let selected = route.namespaces.selects(&object.metadata.key);
            selected.then(|| if metadata_only { 0 } else { encoder.change_fingerprint(object).expect("an object") })
        };
        routes.map(judge).collect()
    }
}
