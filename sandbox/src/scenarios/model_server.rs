//! The model as a scenario's server: its time passes only where somebody waits.

use std::time::Duration;

use super::{Asked, NextLine, Reply, ReplyBody, Server};
use crate::{ApiServer, Body, Request, Snapshot, StreamId, StreamPoll};

/// The model with a clock that scenarios turn.
pub struct ModelServer {
    /// The model itself.
    pub api: ApiServer,
    /// What time it is.
    pub now: Duration,
    // A number of a scenario is a place here.
    streams: Vec<StreamId>,
    backup: Option<Snapshot>,
}

impl Default for ModelServer {
    fn default() -> Self {
        // Some day in 2026: the dates of objects have the digits that those of real ones have.
        Self { api: ApiServer::new(), now: Duration::from_secs(1_790_000_000), streams: Vec::new(), backup: None }
    }
}

impl Server for ModelServer {
    fn request(&mut self, asked: &Asked<'_>) -> Reply {
        if asked.limited {
            self.api.deny("*", "*");
        }
        let Asked { method, target, accept, body, .. } = *asked;
        let answer = self.api.request(self.now, &Request { method, target, accept, body: body.as_bytes() });
        self.api.allow("*", "*");
        let body = match answer.body {
            Body::Whole(body) => ReplyBody::Whole(String::from_utf8_lossy(&body).into_owned()),
            Body::Stream(stream) => {
                self.streams.push(stream);
                ReplyBody::Stream(self.streams.len() as u64 - 1)
            }
        };
        Reply { status: answer.status, retry_after: answer.retry_after, body }
    }

    fn next_line(&mut self, stream: u64, wait: Duration) -> NextLine {
        let Some(stream) = usize::try_from(stream).ok().and_then(|at| self.streams.get(at)).copied() else {
            return NextLine::Broken;
        };
        let until = self.now + wait;
        loop {
            match self.api.poll_stream(self.now, stream) {
                StreamPoll::Line(line) => {
                    return NextLine::Line(String::from_utf8_lossy(&line).trim_end_matches('\n').to_owned());
                }
                StreamPoll::Ended => return NextLine::Ended,
                StreamPoll::Broken => return NextLine::Broken,
                StreamPoll::Pending if self.now >= until => return NextLine::Silence,
                StreamPoll::Pending => {
                    self.now = self.api.stream_wakes_at(stream).map_or(until, |at| at.min(until)).max(self.now);
                }
            }
        }
    }

    fn close(&mut self, stream: u64) {
        if let Some(stream) = usize::try_from(stream).ok().and_then(|at| self.streams.get(at)) {
            self.api.close_stream(*stream);
        }
    }

    fn compact(&mut self) {
        self.api.compact();
    }

    fn restart(&mut self) {
        self.api.restart_server();
    }

    fn back_up(&mut self) {
        self.api.restart_server();
        self.backup = Some(self.api.snapshot());
    }

    fn put_back(&mut self) {
        if let Some(backup) = &self.backup {
            self.api.restore(backup);
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
    }
}
