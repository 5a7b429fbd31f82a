//! How often the API server is asked: so many requests at once, and so many a second over time. It refuses nothing, it
//! makes wait.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// A bucket that holds `burst` requests and fills up again at a rate.
pub(super) struct Rate {
    interval: Duration,
    burst: u32,
    // When the bucket will be full again, if nothing more is taken.
    full_at: Mutex<Instant>,
}

impl Rate {
    pub(super) fn new(queries_per_second: u32, burst: u32) -> Self {
        let interval = Duration::from_secs(1) / queries_per_second.max(1);
        Self { interval, burst: burst.max(1), full_at: Mutex::new(Instant::now()) }
    }

    /// Returns when the next request may be sent; whoever asked first goes first.
    pub(super) async fn wait(&self) {
        let at = {
            let mut full_at = self.full_at.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            *full_at = (*full_at).max(now) + self.interval;
            // A request may go when the bucket, with it taken out, is not emptier than empty.
            *full_at - self.interval * self.burst
        };
        tokio::time::sleep_until(at).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_goes_at_once_and_then_the_rate_holds() {
        let rate = Rate::new(10, 5);
        let began = Instant::now();
        let mut at = Vec::new();
        for _ in 0..8 {
            rate.wait().await;
            at.push(began.elapsed().as_millis());
        }
        assert_eq!(at, [0, 0, 0, 0, 0, 100, 200, 300]);
        tokio::time::sleep(Duration::from_secs(60)).await;
        let later = Instant::now();
        for _ in 0..5 {
            rate.wait().await;
        }
        assert_eq!(later.elapsed(), Duration::ZERO, "a rest fills the bucket, and no more than that");
        rate.wait().await;
        assert_eq!(later.elapsed().as_millis(), 100);
    }
}
