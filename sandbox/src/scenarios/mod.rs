//! Questions that a real kube-apiserver and the model have to answer alike. Each scenario writes down what it saw; the
//! transcripts are compared as text, after everything that may differ between two runs was replaced.
//!
//! Where the real server answers otherwise than the model, the real server is right.

mod cluster;
mod definitions;
mod lists;
mod model_server;
mod normal;
mod scene;
mod selectors;
mod streaming;
mod watches;
mod writes;

use std::time::Duration;

pub use model_server::ModelServer;
pub use scene::Scene;

/// An API server as a scenario sees it: the model, or a real one behind HTTP.
pub trait Server {
    /// Sends a request with all rights, or as a user without any. Answers of 429 are not shown: the real server gives
    /// one when it happens to be early, so whoever implements this asks again.
    fn request(&mut self, asked: &Asked<'_>) -> Reply;
    /// The next line of a watch, without its line feed, waiting for it so long at most.
    fn next_line(&mut self, stream: u64, wait: Duration) -> NextLine;
    /// Stops reading a watch.
    fn close(&mut self, stream: u64);
    /// Compacts etcd up to now.
    fn compact(&mut self);
    /// Kills the API server and starts it again on the same data.
    fn restart(&mut self);
    /// Keeps what etcd holds now. A real one is stopped for that, and the API server is begun again.
    fn back_up(&mut self);
    /// Stops all, puts the newest backup back, and starts all again.
    fn put_back(&mut self);
    /// Lets time pass. Only where a second between two writes matters.
    fn pass(&mut self, time: Duration);
}

/// One request of a scenario.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// As in HTTP; PATCH is a JSON merge patch.
    pub method: &'a str,
    /// Path and query.
    pub target: &'a str,
    /// The Accept header.
    pub accept: &'a str,
    /// JSON, or nothing.
    pub body: &'a str,
    /// Whether the user without rights asks.
    pub limited: bool,
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// Seconds of a Retry-After header.
    pub retry_after: Option<u64>,
    /// The whole body, or a watch to be read.
    pub body: ReplyBody,
}

/// The body of a [`Reply`].
#[derive(Clone, Debug)]
pub enum ReplyBody {
    /// All of it.
    Whole(String),
    /// A watch by a number of the server's choice.
    Stream(u64),
}

/// What reading on in a watch gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextLine {
    /// A line.
    Line(String),
    /// Nothing came.
    Silence,
    /// The server ended it.
    Ended,
    /// The connection is gone.
    Broken,
}

/// A scenario: its name, and what it does.
pub type Scenario = (&'static str, fn(&mut Scene<'_>));

/// The scenarios that can run beside others on one server: each has a kind of its own, and no more.
pub fn side_by_side() -> Vec<Scenario> {
    let groups = [
        watches::SCENARIOS,
        lists::SCENARIOS,
        streaming::SCENARIOS,
        selectors::SCENARIOS,
        writes::SCENARIOS,
        definitions::SCENARIOS,
    ];
    groups.concat()
}

/// The scenarios that need a server of their own: they restart it, or listen for what others' writes would stir.
pub fn alone() -> Vec<Scenario> {
    cluster::SCENARIOS.to_vec()
}

/// The scenarios for a server without streaming lists.
pub fn without_streaming_lists() -> Vec<Scenario> {
    streaming::WITHOUT.to_vec()
}

/// Runs one scenario and returns its transcript.
pub fn run(scenario: Scenario, server: &mut dyn Server) -> Vec<String> {
    let mut scene = Scene::new(scenario.0, server);
    scenario.1(&mut scene);
    scene.finish()
}
