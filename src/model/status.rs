//! Where the process stands, as it is shown to people and machines: plain data for `/routes`, metrics and readiness. No
//! data of objects is in it.

use serde::Serialize;

/// The whole process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessStatus {
    /// crier's version.
    pub version: &'static str,
    /// What keeps the process from beginning; empty once it has begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub starting: Option<String>,
    /// Every feed.
    pub feeds: Vec<FeedStatus>,
}

/// A feed and its routes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FeedStatus {
    /// `plural.group`, with its namespace and selectors if it has some.
    pub feed: String,
    /// What it is doing.
    pub state: FeedPhase,
    /// Why it waits or is parked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The newest resourceVersion that was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
    /// Bytes of objects that wait to be told.
    pub held_bytes: usize,
    /// Whether it has followed the changes at least once since the start.
    pub caught_up: bool,
    /// Why its state could not be saved, until it is; nothing is sent meanwhile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_error: Option<String>,
    /// Seconds since its loop last turned.
    pub silent_for_seconds: u64,
    /// How often its driver has died and was started again.
    pub restarts: u64,
    /// Answers of the API server that could not be read, since the driver began. While there is such an object its
    /// collection stands still.
    pub unreadable: u64,
    /// The routes that read it.
    pub routes: Vec<RouteReport>,
}

/// What a feed is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum FeedPhase {
    /// Its driver has not begun, or begins anew.
    Starting,
    /// Asks for the newest version before it resumes.
    Probing,
    /// Reads the whole collection.
    Listing,
    /// Follows the changes.
    Watching,
    /// Waits to try again.
    Waiting,
    /// Cannot go on until somebody acts; looks again by itself.
    Parked,
}

impl FeedPhase {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Starting, Self::Probing, Self::Listing, Self::Watching, Self::Waiting, Self::Parked];

    /// The value of the metrics' label `state`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Probing => "probing",
            Self::Listing => "listing",
            Self::Watching => "watching",
            Self::Waiting => "waiting",
            Self::Parked => "parked",
        }
    }
}

/// A route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteReport {
    /// `name/resource/sink`.
    pub route: String,
    /// Objects whose state the sink has acknowledged.
    pub told: usize,
    /// Objects that owe something.
    pub owed: usize,
    /// Deliveries without a verdict yet.
    pub in_flight: usize,
    /// Whether the route has completed its first comparison.
    pub synced: bool,
    /// Whether the endpoint has asked not to be called again.
    pub gone: bool,
    /// The last error that the sink gave, until a delivery succeeds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// What has happened since the start.
    pub counters: RouteCounters,
}

/// What has happened to a route since the start, in numbers that only rise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteCounters {
    /// Deliveries that the sink acknowledged.
    pub delivered: u64,
    /// Deliveries to be tried again.
    pub retried: u64,
    /// Deliveries that were refused for good.
    pub rejected: u64,
    /// Deliveries that found the whole sink unavailable.
    pub unavailable: u64,
    /// Changes that were not newer than what is known.
    pub repeats: u64,
    /// Changes that left the chosen part as it was told: no event.
    pub suppressed: u64,
    /// Changes that were merged into a later one.
    pub coalesced: u64,
    /// Complete lists that were compared with what is told.
    pub comparisons: u64,
    /// Differences that an audit found and no watch had told of.
    pub drift: u64,
}

/// A driver whose loop has not turned for this long hangs.
const SILENCE_SECONDS: u64 = 60;

impl ProcessStatus {
    /// What keeps the process from being ready; empty when it is. A kind that is missing or not permitted is a known
    /// cause: restarting would not heal it, and the other routes work.
    pub fn unready(&self) -> Vec<String> {
        let states = self.feeds.iter().filter_map(|feed| {
            let error = feed.state_error.as_ref()?;
            Some(format!("the state of {} cannot be saved: {error}", feed.feed))
        });
        let feeds = self.feeds.iter().filter(|feed| match feed.state {
            FeedPhase::Parked => false,
            FeedPhase::Starting | FeedPhase::Waiting => true,
            FeedPhase::Probing | FeedPhase::Listing | FeedPhase::Watching => !feed.caught_up,
        });
        let feeds = feeds.map(|feed| {
            let reason = feed.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            format!("{} is {}{reason}", feed.feed, feed.state.as_str())
        });
        self.starting.iter().cloned().chain(states).chain(feeds).collect()
    }

    /// The feeds whose loops hang; the process is alive while there is none.
    pub fn hanging(&self) -> Vec<String> {
        let hangs = self.feeds.iter().filter(|feed| feed.silent_for_seconds > SILENCE_SECONDS);
        hangs
            .map(|feed| format!("the driver of {} has not turned for {} s", feed.feed, feed.silent_for_seconds))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(state: FeedPhase, caught_up: bool) -> FeedStatus {
        FeedStatus {
            feed: "myapps.example.com".into(),
            state,
            reason: Some("refused".into()),
            resource_version: None,
            held_bytes: 0,
            caught_up,
            state_error: None,
            silent_for_seconds: 0,
            restarts: 0,
            unreadable: 0,
            routes: Vec::new(),
        }
    }

    fn unready(state: FeedPhase, caught_up: bool) -> Vec<String> {
        ProcessStatus { feeds: vec![feed(state, caught_up)], ..ProcessStatus::default() }.unready()
    }

    #[test]
    fn ready_is_who_has_caught_up_and_follows_or_is_parked_by_a_known_cause() {
        assert_eq!(unready(FeedPhase::Watching, true), [""; 0]);
        assert_eq!(unready(FeedPhase::Probing, true), [""; 0], "a watch that ends is followed by the next one");
        assert_eq!(unready(FeedPhase::Parked, false), [""; 0]);
        assert_eq!(unready(FeedPhase::Listing, false), ["myapps.example.com is listing: refused"]);
        assert_eq!(unready(FeedPhase::Waiting, true).len(), 1, "the API server cannot be reached");
        let broken = FeedStatus { state_error: Some("full".into()), ..feed(FeedPhase::Watching, true) };
        let status = ProcessStatus { feeds: vec![broken], ..ProcessStatus::default() };
        assert_eq!(status.unready(), ["the state of myapps.example.com cannot be saved: full"]);
        let starting = ProcessStatus { starting: Some("no cluster".into()), ..ProcessStatus::default() };
        assert_eq!(starting.unready(), ["no cluster"]);
    }

    #[test]
    fn a_loop_that_does_not_turn_is_named() {
        let mut status = ProcessStatus { feeds: vec![feed(FeedPhase::Watching, true)], ..ProcessStatus::default() };
        assert_eq!(status.hanging(), [""; 0]);
        status.feeds[0].silent_for_seconds = 61;
        assert_eq!(status.hanging(), ["the driver of myapps.example.com has not turned for 61 s"]);
    }
}
