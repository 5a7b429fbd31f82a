//! What the store on disk keeps when the disk fails: power that is lost at any write, a full disk, a sync that fails. The
//! disk is simulated; files and processes are the contract's subject.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::disk::{fill, open_by};
use super::simulated_disk::SimulatedDisk;
use super::*;
use crate::model::{ResourceVersion, Sequence, Told, Uid};

const FEED: &str = "myapps";

fn seeds() -> u64 {
    std::env::var("CRIER_CRASH_SEEDS").map_or(60, |text| text.parse().expect("CRIER_CRASH_SEEDS is a number"))
}

fn routes() -> Vec<String> {
    vec!["events".into(), "bus".into()]
}

fn open(disk: &SimulatedDisk) -> Result<DiskStore, StoreError> {
    let disk = disk.clone();
    let opener =
        move || open_by(Path::new("simulated"), disk.size(), |builder| builder.create_with_backend(disk.clone()));
    DiskStore::over(PathBuf::from("simulated"), Box::new(opener))
}

/// A disk with a new store on it. Creation is not the subject here: on real disks it happens aside and is renamed.
fn new_disk(seed: u64) -> SimulatedDisk {
    let disk = SimulatedDisk::new(seed);
    let handle = redb::Builder::new().create_with_backend(disk.clone()).unwrap();
    fill(&handle, &OpenOptions { must_exist: false, now: 1, fingerprint_key: [0; 16] }).unwrap();
    drop(handle);
    disk
}

/// A save that no other is like: its number is in the position and in each record.
fn save(random: &mut StdRng, number: u128) -> Save {
    let version = ResourceVersion::new(number);
    let records = (0..random.random_range(1..20)).map(|_| {
        let key = Key::new("team-a", &format!("app-{}", random.random_range(0..40)));
        let told = random.random_bool(0.8).then(|| Told {
            uid: Uid::new("01234567-89ab-cdef-0123-456789abcdef"),
            sequence: Sequence::new(Epoch::new(1), version.unwrap()),
            fingerprint: random.random(),
            recipe: 0,
            deleting: false,
        });
        (random.random_range(0..2), key, KeyRecord { told, ..KeyRecord::default() })
    });
    let records = records.collect();
    Save {
        feed: FeedRecord { position: version, newest: version, ..FeedRecord::default() },
        records,
        ..Save::default()
    }
}

fn expected<'a>(saves: impl IntoIterator<Item = &'a Save>) -> FeedState {
    let mut store = MemoryStore::new(1, [0; 16]);
    for save in saves {
        store.commit(FEED, &routes(), save).unwrap();
    }
    store.load(FEED, &routes(), &|_, _| true).unwrap()
}

/// What is known to be on the disk, and what may be.
#[derive(Default)]
struct Ledger {
    acknowledged: Vec<Save>,
    unanswered: Option<Save>,
    kept_although_it_failed: u64,
}

impl Ledger {
    fn commit(&mut self, store: &mut DiskStore, save: Save) -> Result<(), StoreError> {
        let done = store.commit(FEED, &routes(), &save);
        match &done {
            Ok(()) => self.acknowledged.push(save),
            Err(_) => self.unanswered = Some(save),
        }
        done
    }

    /// All that was acknowledged must be there; what failed, in full or not at all.
    fn check(&mut self, store: &DiskStore) -> Result<(), String> {
        let found = store.load(FEED, &routes(), &|_, _| true).map_err(|error| format!("cannot be read: {error}"))?;
        if found == expected(&self.acknowledged) {
            self.unanswered = None;
            return Ok(());
        }
        if let Some(unanswered) = self.unanswered.take()
            && found == expected(self.acknowledged.iter().chain([&unanswered]))
        {
            self.acknowledged.push(unanswered);
            self.kept_although_it_failed += 1;
            return Ok(());
        }
        Err(format!("after {} acknowledged saves position {:?} is there", self.acknowledged.len(), found.feed.position))
    }
}

/// Opens after a crash; power may be lost again on the way, and is restored again then.
fn open_after_crash(disk: &SimulatedDisk, random: &mut StdRng) -> Result<DiskStore, String> {
    if random.random_bool(0.5) {
        disk.lose_power_after(random.random_range(0..12));
        // Power is lost after this attempt even if it went well: what it wrote is at stake too.
        drop(open(disk));
        disk.restore_power();
    }
    open(disk).map_err(|error| format!("does not open: {error}"))
}

/// Ten crashes of one disk. The number of failed saves that were kept all the same, or what was lost.
fn crash_repeatedly(seed: u64, lies: bool) -> Result<u64, String> {
    let mut random = StdRng::seed_from_u64(seed);
    let disk = new_disk(seed);
    if lies {
        disk.begin_to_lie();
    }
    let (mut ledger, mut number) = (Ledger::default(), 0);
    for _ in 0..10 {
        let mut store = open_after_crash(&disk, &mut random)?;
        ledger.check(&store)?;
        disk.lose_power_after(random.random_range(0..150));
        // Each commit writes something, so that the power is lost within as many commits as there are operations left.
        let lost = (0..=150).any(|_| {
            number += 1;
            ledger.commit(&mut store, save(&mut random, number)).is_err()
        });
        if !lost {
            return Err("commits are acknowledged without a write".to_owned());
        }
        drop(store);
        disk.restore_power();
    }
    ledger.check(&open_after_crash(&disk, &mut random)?)?;
    Ok(ledger.kept_although_it_failed)
}

#[test]
fn no_acknowledged_commit_is_lost_when_power_is_lost_at_any_write() {
    let mut kept = 0;
    for seed in 0..seeds() {
        kept += crash_repeatedly(seed, false).unwrap_or_else(|loss| panic!("seed {seed}: {loss}"));
    }
    assert!(kept > 0, "power was never lost late enough in a commit to leave it stored and unanswered");
}

#[test]
fn a_disk_that_lies_about_syncs_is_caught_by_the_same_check() {
    assert!((0..seeds()).any(|seed| crash_repeatedly(seed, true).is_err()), "the check above cannot fail");
}

#[test]
fn a_full_or_read_only_disk_is_named_and_when_it_takes_writes_again_the_store_goes_on() {
    for kind in [ErrorKind::StorageFull, ErrorKind::ReadOnlyFilesystem] {
        let mut random = StdRng::seed_from_u64(1);
        let disk = new_disk(1);
        let mut store = open(&disk).unwrap();
        let mut ledger = Ledger::default();
        ledger.commit(&mut store, save(&mut random, 1)).unwrap();
        disk.refuse_writes(Some(kind));
        let refused = save(&mut random, 2);
        for attempt in 0..3 {
            let error = store.commit(FEED, &routes(), &refused).unwrap_err();
            let named = matches!(&error, StoreError::Io { source, .. } if source.kind() == kind);
            assert!(named && error.hint().is_some(), "attempt {attempt}: {error:?}");
        }
        disk.refuse_writes(None);
        ledger.commit(&mut store, refused).unwrap();
        ledger.check(&store).unwrap();
        drop(store);
        ledger.check(&open(&disk).unwrap()).unwrap();
    }
}

/// A sync fails, the same save is made again as the engine does, and power is lost later.
fn fail_a_sync(seed: u64) -> Result<(), String> {
    let mut random = StdRng::seed_from_u64(seed);
    let disk = new_disk(seed);
    let mut store = open(&disk).map_err(|error| error.to_string())?;
    let mut ledger = Ledger::default();
    disk.fail_sync_after(random.random_range(0..12));
    let mut failed = 0;
    for number in 1..20 {
        let save = save(&mut random, number);
        while ledger.commit(&mut store, save.clone()).is_err() {
            failed += 1;
            if failed > 2 {
                return Err("one failed sync makes commits fail for good".to_owned());
            }
        }
        ledger.unanswered = None;
        if disk.has_failed_its_sync() && random.random_bool(0.5) {
            break;
        }
    }
    if failed == 0 {
        return Err("no commit noticed the failed sync".to_owned());
    }
    disk.lose_power_after(0);
    drop(store);
    disk.restore_power();
    ledger.check(&open(&disk).map_err(|error| format!("does not open: {error}"))?)
}

#[test]
fn what_is_acknowledged_after_a_failed_sync_survives_a_later_loss_of_power() {
    for seed in 0..seeds() {
        fail_a_sync(seed).unwrap_or_else(|loss| panic!("seed {seed}: {loss}"));
    }
}
