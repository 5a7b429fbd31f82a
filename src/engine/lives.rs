//! One epoch for one rewind, whichever feed notices it: feeds of one cluster notice at different moments, and would name it
//! by different seconds. Not how a rewind is noticed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::model::Epoch;

/// The epochs that feeds of one store have begun since the process was, by the number of rewinds that they had noticed.
/// Clones are one.
#[derive(Clone, Debug, Default)]
pub struct Lives(Arc<Mutex<BTreeMap<u32, Epoch>>>);

impl Lives {
    /// The epoch after so many rewinds, later than this one: the first feed that asks decides.
    pub(super) fn epoch_after(&self, rewinds: u32, last: Epoch, now: u64) -> Epoch {
        let mut lives = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let earlier = lives.range(..rewinds).next_back().map_or(last, |(_, epoch)| last.max(*epoch));
        let epoch = *lives.entry(rewinds).or_insert_with(|| earlier.next(now));
        // Nobody's sequences step back, whatever others have noticed.
        if epoch > last { epoch } else { last.next(now) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn feeds_that_notice_one_rewind_at_different_times_begin_one_epoch() {
        let lives = Lives::default();
        let (one, other) = (lives.clone(), lives);
        assert_eq!(one.epoch_after(4, Epoch::new(100), 500), Epoch::new(500));
        assert_eq!(other.epoch_after(4, Epoch::new(100), 501), Epoch::new(500));
        assert_eq!(other.epoch_after(5, Epoch::new(500), 300), Epoch::new(501), "whatever the clock says");
        assert_eq!(one.epoch_after(5, Epoch::new(500), 900), Epoch::new(501));
        assert_eq!(one.epoch_after(5, Epoch::new(501), 300), Epoch::new(502), "the next life is not the last one");
        assert_eq!(one.epoch_after(4, Epoch::new(600), 700), Epoch::new(700), "nobody steps back");
    }
}
