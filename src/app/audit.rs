//! The command `audit`, on the side of the process that runs: it asks the drivers, and waits for what they find.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::board::Board;
use crate::engine::AuditReport;
use crate::model::{AuditResult, Difference, FeedAudit, OwedState};

/// A collection that takes longer to read is still audited, but nobody waits for it.
const PATIENCE: Duration = Duration::from_secs(300);
const LOOK: Duration = Duration::from_millis(50);

/// Audits all feeds, and waits for those that serve this route (by its name or its full name), or for all.
pub(super) async fn audit(
    board: Arc<Board>,
    wanted: Arc<watch::Sender<u64>>,
    route: Option<String>,
) -> Result<AuditResult, String> {
    let concerns =
        |name: &str| route.as_ref().is_none_or(|route| name == route || name.split('/').next() == Some(route));
    let before: Vec<Option<u64>> = board.audits().into_iter().map(|audit| audit.number()).collect();
    let names = board.routes();
    if names.iter().all(Vec::is_empty) {
        return Err("crier has not begun to read the cluster yet; ask again when its status says so".to_owned());
    }
    // A feed that has not begun has no routes yet, and a hindrance to tell.
    let concerned = |names: &[String]| route.is_none() || names.iter().any(|name| concerns(name));
    if !names.iter().any(|names| concerned(names)) {
        let mut known: Vec<&str> = names.iter().flatten().filter_map(|name| name.split('/').next()).collect();
        known.sort_unstable();
        known.dedup();
        return Err(format!("there is no such route; there are {}", known.join(", ")));
    }
    wanted.send_modify(|number| *number += 1);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let audits = board.audits();
        let mut asked = audits.iter().zip(&before).zip(&names);
        let waits = asked
            .any(|((audit, before), names)| concerned(names) && audit.number() <= *before && audit.hindrance.is_none());
        if !waits || Instant::now() >= deadline {
            let feeds = audits.into_iter().zip(&before).zip(&names);
            let feeds = feeds.filter(|(_, names)| concerned(names));
            let found = feeds.map(|((audit, before), names)| {
                let done = audit.report.as_ref().filter(|report| Some(report.number) > *before);
                match done {
                    Some(report) => describe(&audit.feed, report, names, &concerns),
                    None => {
                        let error = audit.hindrance.unwrap_or_else(|| "it takes long; ask again later".to_owned());
                        FeedAudit { feed: audit.feed, error: Some(error), ..FeedAudit::default() }
                    }
                }
            });
            return Ok(AuditResult { feeds: found.collect() });
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Where a feed's audits stand.
pub(super) struct Standing {
    pub(super) feed: String,
    pub(super) report: Option<Arc<AuditReport>>,
    /// Why there will be none soon.
    pub(super) hindrance: Option<String>,
}

impl Standing {
    fn number(&self) -> Option<u64> {
        self.report.as_ref().map(|report| report.number)
    }
}

fn describe(feed: &str, report: &AuditReport, names: &[String], concerns: &dyn Fn(&str) -> bool) -> FeedAudit {
    let of_route = report.differences.iter().filter(|difference| concerns(&names[difference.route]));
    let differences: Vec<Difference> = of_route
        .map(|difference| Difference {
            route: names[difference.route].clone(),
            object: difference.key.to_string(),
            owes: owes(difference.owes).to_owned(),
        })
        .collect();
    // Those that are not named are not known by route.
    let unnamed = report.drift - report.differences.len() as u64;
    FeedAudit {
        feed: feed.to_owned(),
        error: None,
        objects: report.objects,
        drift: differences.len() as u64 + unnamed,
        differences,
    }
}

fn owes(state: OwedState) -> &'static str {
    match state {
        OwedState::Present => "state",
        OwedState::Gone => "deleted",
        OwedState::Left => "left",
        OwedState::Missing => "missing",
    }
}
