//! One feed's driver, begun again when it dies. What it had under way has ended before the next one begins.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::board::Board;
use super::build::PlannedFeed;
use crate::driver::{Driver, DriverRoute, SharedStore};
use crate::kubernetes::Connection;

const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

pub(super) struct Feed {
    pub(super) number: usize,
    pub(super) planned: PlannedFeed,
    pub(super) routes: Vec<DriverRoute>,
    pub(super) connection: Arc<Connection>,
    pub(super) store: SharedStore,
    pub(super) board: Arc<Board>,
}

impl Feed {
    /// Runs the feed until `stop` turns true and it is drained.
    pub(super) async fn run(self, mut stop: watch::Receiver<bool>) {
        let (mut wait, longest) = BACKOFF;
        loop {
            let Err(reason) = self.drive(stop.clone()).await else { return };
            tracing::error!(feed = self.planned.name, reason, "the feed's driver has died and is started again");
            self.board.driver_failed(self.number, reason);
            tokio::select! {
                () = tokio::time::sleep(wait) => wait = (wait * 2).min(longest),
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
    }

    async fn drive(&self, stop: watch::Receiver<bool>) -> Result<(), String> {
        let driver = Driver::new(
            self.planned.name.clone(),
            Arc::clone(&self.connection),
            self.planned.collection.clone(),
            self.routes.clone(),
            Arc::clone(&self.store),
            rand::random(),
        );
        let (driver, status, beat) = driver.map_err(|error| format!("{:#}", anyhow::Error::new(error)))?;
        self.board.driver_began(self.number, status, beat);
        let mut task = tokio::task::JoinSet::new();
        task.spawn(driver.run(stop));
        match task.join_next().await {
            Some(Err(error)) => Err(error.to_string()),
            _ => Ok(()),
        }
    }
}
