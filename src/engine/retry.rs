//! How long to wait after a failure: exponential, capped, with full jitter. Not whether to retry; the verdict says so.

use std::time::Duration;

/// Deterministic jitter from a seed that was handed in (SplitMix64), so that a run can be replayed.
pub(super) struct Jitter(u64);

impl Jitter {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A duration between half and the whole of `ceiling`.
    ///
    /// Half is kept as a floor: a retry that comes at once is a storm when every key of a route does it.
    pub(super) fn spread(&mut self, ceiling: Duration) -> Duration {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        let half = ceiling / 2;
        half + half.mul_f64((mixed >> 11) as f64 / (1_u64 << 53) as f64)
    }
}

/// The failures in a row of one thing, and the wait that they have earned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Counts one more failure and gives the wait before the next try; the other side's own word wins if longer.
    pub(super) fn fail(
        &mut self,
        jitter: &mut Jitter,
        base: Duration,
        cap: Duration,
        after: Option<Duration>,
    ) -> Duration {
        let ceiling = base.saturating_mul(1 << self.failures.min(20)).min(cap);
        self.failures = self.failures.saturating_add(1);
        let wait = jitter.spread(ceiling);
        after.map_or(wait, |after| after.max(wait))
    }

    /// Forgets the failures.
    pub(super) fn succeed(&mut self) {
        self.failures = 0;
    }

    /// Whether the last try failed.
    pub(super) fn is_failing(self) -> bool {
        self.failures > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_the_cap_and_never_vanish() {
        let (base, cap) = (Duration::from_secs(1), Duration::from_secs(60));
        let mut jitter = Jitter::new(7);
        let mut backoff = Backoff::default();
        let waits: Vec<_> = (0..40).map(|_| backoff.fail(&mut jitter, base, cap, None)).collect();
        assert!(waits[0] >= base / 2 && waits[0] <= base);
        assert!(waits[10..].iter().all(|wait| *wait >= cap / 2 && *wait <= cap));
    }

    #[test]
    fn waits_are_spread_over_the_whole_of_their_half() {
        let second = Duration::from_secs(1);
        for seed in [0, 7, u64::MAX] {
            let mut jitter = Jitter::new(seed);
            let mut tenths = [0; 10];
            for _ in 0..10_000 {
                let wait = jitter.spread(second).as_secs_f64();
                tenths[(((wait - 0.5) * 20.0) as usize).min(9)] += 1;
            }
            assert!(tenths.iter().all(|count| (900..1_100).contains(count)), "{tenths:?}");
        }
        // Feeds that begin in one moment have seeds of their own, and do not come back in one.
        let first: Vec<Duration> = (0..100).map(|seed| Jitter::new(seed).spread(second)).collect();
        let (least, most) = (first.iter().min().unwrap(), first.iter().max().unwrap());
        assert!(*most - *least > Duration::from_millis(450), "{least:?} to {most:?}");
    }

    #[test]
    fn the_other_sides_word_is_obeyed() {
        let mut backoff = Backoff::default();
        let hour = Duration::from_secs(3600);
        let wait = backoff.fail(&mut Jitter::new(1), Duration::from_secs(1), Duration::from_secs(60), Some(hour));
        assert_eq!(wait, hour);
    }
}
