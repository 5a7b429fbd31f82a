//! A disk in memory that fails as real ones do: it loses power, is full, fails a sync, or lies about one. Only a disk;
//! what the store makes of its failures is judged in `failures`.
//!
//! Writes are seen at once and stored by a sync. When power is lost, each unsynced sector may or may not be stored. After
//! a failed sync its writes stay seen, as in the page cache of Linux, but no later sync stores them any more.

use std::io::{Error, ErrorKind, Result};
use std::sync::{Arc, Mutex, MutexGuard};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use redb::StorageBackend;

const SECTOR: usize = 512;

/// The disk; clones are handles on the same one.
#[derive(Clone, Debug)]
pub(super) struct SimulatedDisk(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    stored: Vec<u8>,
    seen: Vec<u8>,
    unsynced: Vec<Change>,
    operations_until_power_loss: Option<u64>,
    syncs_until_failure: Option<u64>,
    refuses: Option<ErrorKind>,
    lies: bool,
    random: StdRng,
}

#[derive(Debug)]
enum Change {
    Length(usize),
    Bytes(usize, Vec<u8>),
}

impl SimulatedDisk {
    pub(super) fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(State {
            stored: Vec::new(),
            seen: Vec::new(),
            unsynced: Vec::new(),
            operations_until_power_loss: None,
            syncs_until_failure: None,
            refuses: None,
            lies: false,
            random: StdRng::seed_from_u64(seed),
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// After this many more writes and syncs nothing works any more, until power is restored.
    pub(super) fn lose_power_after(&self, operations: u64) {
        self.state().operations_until_power_loss = Some(operations);
    }

    /// Power was lost and is back: the unsynced is stored in part, and that is all that is seen now.
    pub(super) fn restore_power(&self) {
        let mut state = self.state();
        let survival = [0.0, 0.25, 0.5, 0.75, 1.0][state.random.random_range(0..5)];
        state.store_in_part(survival);
        state.seen = state.stored.clone();
        state.operations_until_power_loss = None;
    }

    /// The sync after this many more fails, once.
    pub(super) fn fail_sync_after(&self, syncs: u64) {
        self.state().syncs_until_failure = Some(syncs);
    }

    pub(super) fn has_failed_its_sync(&self) -> bool {
        self.state().syncs_until_failure.is_none()
    }

    pub(super) fn refuse_writes(&self, refuses: Option<ErrorKind>) {
        self.state().refuses = refuses;
    }

    /// From now on one sync in three stores nothing and says that it did.
    pub(super) fn begin_to_lie(&self) {
        self.state().lies = true;
    }

    pub(super) fn size(&self) -> u64 {
        self.state().seen.len() as u64
    }
}

impl State {
    fn power(&mut self) -> Result<()> {
        match &mut self.operations_until_power_loss {
            Some(0) => Err(Error::other("power is lost")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn change(&mut self, change: Change) -> Result<()> {
        self.power()?;
        if let Some(kind) = self.refuses {
            return Err(Error::from(kind));
        }
        apply(&mut self.seen, &change);
        self.unsynced.push(change);
        Ok(())
    }

    /// Stores each unsynced sector with this probability and forgets the rest.
    fn store_in_part(&mut self, survival: f64) {
        for change in std::mem::take(&mut self.unsynced) {
            match change {
                Change::Length(_) => {
                    if self.random.random_bool(survival) {
                        apply(&mut self.stored, &change);
                    }
                }
                Change::Bytes(at, bytes) => {
                    // Cut where the sectors of the disk end, not where the write began.
                    let mut from = 0;
                    while from < bytes.len() {
                        let to = bytes.len().min(from + SECTOR - (at + from) % SECTOR);
                        if self.random.random_bool(survival) {
                            apply(&mut self.stored, &Change::Bytes(at + from, bytes[from..to].to_vec()));
                        }
                        from = to;
                    }
                }
            }
        }
    }
}

fn apply(image: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Length(length) => image.resize(*length, 0),
        Change::Bytes(at, bytes) => {
            let end = at + bytes.len();
            if image.len() < end {
                image.resize(end, 0);
            }
            image[*at..end].copy_from_slice(bytes);
        }
    }
}

impl StorageBackend for SimulatedDisk {
    fn len(&self) -> Result<u64> {
        Ok(self.size())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let state = self.state();
        if state.operations_until_power_loss == Some(0) {
            return Err(Error::other("power is lost"));
        }
        let from = usize::try_from(offset).unwrap();
        let found = state.seen.get(from..from + out.len()).ok_or(ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(found);
        Ok(())
    }

    fn set_len(&self, length: u64) -> Result<()> {
        self.state().change(Change::Length(usize::try_from(length).unwrap()))
    }

    fn sync_data(&self) -> Result<()> {
        let mut state = self.state();
        state.power()?;
        match &mut state.syncs_until_failure {
            Some(0) => {
                state.syncs_until_failure = None;
                let survival = [0.0, 0.5, 1.0][state.random.random_range(0..3)];
                state.store_in_part(survival);
                return Err(Error::other("the sync failed"));
            }
            Some(left) => *left -= 1,
            None => {}
        }
        if state.lies && state.random.random_range(0..3) == 0 {
            return Ok(());
        }
        for change in std::mem::take(&mut state.unsynced) {
            apply(&mut state.stored, &change);
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.state().change(Change::Bytes(usize::try_from(offset).unwrap(), data.to_vec()))
    }
}
