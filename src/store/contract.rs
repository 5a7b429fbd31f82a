//! What every store promises, held against both; and what the one on disk promises beyond: to survive and to notice.

use crate::model::Served;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use proptest::prelude::*;

use super::encoding_promises::key_record;
use super::*;
use crate::model::{ResourceVersion, RouteRecord, Sequence};

fn options() -> OpenOptions {
    OpenOptions { must_exist: false, now: 1_700_000_000, fingerprint_key: *b"0123456789abcdef" }
}

fn open(directory: &Path) -> Result<DiskStore, StoreError> {
    DiskStore::open(directory, &options())
}

fn routes() -> Vec<String> {
    vec!["apps/myapps/events".into(), "apps/myapps/bus".into()]
}

fn save() -> impl Strategy<Value = Save> {
    let version = proptest::option::of((1..1_000_u128).prop_map(|n| ResourceVersion::new(n).unwrap()));
    let record = prop_oneof![2 => key_record(), 1 => Just(KeyRecord::default())];
    let key = (0..4_usize).prop_map(|n| Key::new(["team-a", "team-a", "team-b", ""][n], ["x", "y", "x", "z"][n]));
    let records = proptest::collection::btree_map((0..2_usize, key), record, 0..6);
    let route = ("[a-z]{0,3}", 0..3_u32, any::<bool>()).prop_map(|(selection, revision, synced)| RouteRecord {
        synced,
        recipe: selection.to_uppercase(),
        selection,
        revision,
        resyncs: revision * 7,
        recipe_number: revision as u8,
    });
    let routes = proptest::collection::vec(route, 2);
    (version.clone(), version, 0..3_u64, routes, proptest::collection::vec(0..2_usize, 0..2), records).prop_map(
        |(position, newest, epoch, routes, followed, records)| Save {
            feed: FeedRecord {
                epoch: Epoch::new(1_700_000_000 + epoch),
                rewinds: epoch as u32,
                position,
                newest,
                served: newest.map(|at| Served {
                    version: format!("v{at}"),
                    kind: "MyApp".into(),
                    defined: position.is_some(),
                }),
            },
            routes,
            followed,
            records: records.into_iter().map(|((route, key), record)| (route, key, record)).collect(),
        },
    )
}

/// All that there is of a feed.
fn whole(store: &dyn Store, feed: &str) -> Result<FeedState, StoreError> {
    store.load(feed, &routes(), &|_, _| true)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_was_committed_is_there_after_every_reopening(
        saves in proptest::collection::vec((0..2_usize, save()), 1..6),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let feeds = ["a", "ab"];
        let mut expected = MemoryStore::new(1_700_000_000, [0; 16]);
        for (feed, save) in saves {
            let mut store = open(directory.path()).unwrap();
            store.commit(feeds[feed], &routes(), &save).unwrap();
            expected.commit(feeds[feed], &routes(), &save).unwrap();
            for feed in feeds {
                prop_assert_eq!(whole(&store, feed).unwrap(), whole(&expected, feed).unwrap());
                prop_assert_eq!((store.identity().epoch, store.identity().rewinds), (expected.identity().epoch, expected.identity().rewinds));
            }
        }
        let store = open(directory.path()).unwrap();
        for feed in feeds {
            prop_assert_eq!(whole(&store, feed).unwrap(), whole(&expected, feed).unwrap());
                prop_assert_eq!((store.identity().epoch, store.identity().rewinds), (expected.identity().epoch, expected.identity().rewinds));
        }
    }
}

fn both(directory: &Path) -> Vec<Box<dyn Store>> {
    vec![Box::new(MemoryStore::new(1, [0; 16])), Box::new(open(directory).unwrap())]
}

#[test]
fn a_feed_that_was_never_saved_is_empty() {
    let directory = tempfile::tempdir().unwrap();
    for store in both(directory.path()) {
        let nothing = vec![RouteState::default(); 2];
        assert_eq!(whole(&*store, "myapps").unwrap(), FeedState { routes: nothing, ..FeedState::default() });
    }
}

#[test]
fn the_state_of_another_cluster_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    for mut store in both(directory.path()) {
        store.bind_cluster("one").unwrap();
        store.bind_cluster("one").unwrap();
        let refused = store.bind_cluster("two").unwrap_err();
        assert!(matches!(refused, StoreError::OtherCluster { .. }), "{refused}");
        assert!(refused.hint().is_some());
    }
    let refused = open(directory.path()).unwrap().bind_cluster("two").unwrap_err();
    assert!(matches!(refused, StoreError::OtherCluster { .. }), "after a restart too");
}

#[test]
fn the_identity_is_that_of_the_creation_and_its_key_is_not_shown() {
    let directory = tempfile::tempdir().unwrap();
    let created = open(directory.path()).unwrap().identity().clone();
    let later = OpenOptions { now: 1_800_000_000, fingerprint_key: [7; 16], ..options() };
    let store = DiskStore::open(directory.path(), &later).unwrap();
    assert_eq!(*store.identity(), created);
    assert_eq!(created.epoch, Epoch::new(1_700_000_000));
    assert!(!format!("{created:?}").contains("fingerprint"));
}

#[test]
fn a_second_process_is_told_that_the_state_is_in_use() {
    let directory = tempfile::tempdir().unwrap();
    let _first = open(directory.path()).unwrap();
    assert!(matches!(open(directory.path()).err(), Some(StoreError::Locked(_))));
}

#[test]
fn a_state_that_must_exist_is_not_created() {
    let directory = tempfile::tempdir().unwrap();
    let strict = OpenOptions { must_exist: true, ..options() };
    assert!(matches!(DiskStore::open(directory.path(), &strict).err(), Some(StoreError::Missing(_))));
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    drop(open(directory.path()).unwrap());
    assert!(DiskStore::open(directory.path(), &strict).is_ok());
}

#[test]
fn a_state_that_is_set_aside_is_kept_and_says_which_epoch_it_had_if_it_can() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("state.redb");
    let set_aside = |now| DiskStore::set_aside(directory.path(), now);
    assert_eq!(set_aside(1).unwrap(), None, "there is none");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);

    let store = open(directory.path()).unwrap();
    assert!(matches!(set_aside(2), Err(StoreError::Locked(_))), "another process has it");
    assert!(file.exists());
    drop(store);
    let before = fs::read(&file).unwrap();
    let whole = set_aside(3).unwrap().unwrap();
    assert_eq!(whole.epoch, Some(Epoch::new(1_700_000_000)));
    assert_eq!(whole.path, directory.path().join("state.redb.set-aside-3"));
    assert_eq!((file.exists(), fs::read(&whole.path).unwrap().len()), (false, before.len()));

    fs::write(&file, b"what is this").unwrap();
    let broken = set_aside(4).unwrap().unwrap();
    assert_eq!((broken.epoch, fs::read(&broken.path).unwrap()), (None, b"what is this".to_vec()));
    assert!(whole.path.exists(), "the earlier one stays, too");
}

#[test]
fn the_file_is_for_its_owner_alone() {
    let directory = tempfile::tempdir().unwrap();
    drop(open(directory.path()).unwrap());
    let mode = fs::metadata(directory.path().join("state.redb")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_creation_that_was_cut_short_is_begun_anew() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("state.redb.new"), b"half").unwrap();
    assert!(open(directory.path()).is_ok());
}

fn told(version: u128) -> crate::model::Told {
    crate::model::Told {
        uid: crate::model::Uid::new("01234567-89ab-cdef-0123-456789abcdef"),
        sequence: Sequence::new(Epoch::new(1_700_000_000), ResourceVersion::new(version).unwrap()),
        fingerprint: 1,
        recipe: 0,
        deleting: false,
    }
}

fn filled(directory: &Path) -> FeedState {
    let mut store = open(directory).unwrap();
    let record = KeyRecord { told: Some(told(7)), ..KeyRecord::default() };
    let records = (0..500).map(|n| (0, Key::new("team-a", &format!("app-{n}")), record.clone())).collect();
    let save = Save { records, ..Save::default() };
    store.commit("myapps", &routes(), &save).unwrap();
    whole(&store, "myapps").unwrap()
}

#[test]
fn a_key_that_was_told_costs_at_most_500_bytes_of_the_file() {
    const KEYS: u64 = 20_000;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("state.redb");
    let mut store = open(directory.path()).unwrap();
    let empty = fs::metadata(&path).unwrap().len();
    let numbers: Vec<u64> = (0..KEYS).collect();
    for chunk in numbers.chunks(1_000) {
        // Names as a Deployment's replicas have them, in no order, as a watch brings them.
        let key = |n: u64| Key::new("team-payments", &format!("app-{:016x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        let record = |n: u64| KeyRecord { told: Some(told(u128::from(n) + 1_000_000_000)), ..KeyRecord::default() };
        let records = chunk.iter().map(|n| (0, key(*n), record(*n))).collect();
        store.commit("myapps", &routes(), &Save { records, ..Save::default() }).unwrap();
    }
    let grown = fs::metadata(&path).unwrap().len() - empty;
    assert!(grown / KEYS <= 500, "{} bytes a key, {empty} when empty", grown / KEYS);
}

#[test]
fn what_was_committed_is_there_when_the_process_is_killed_before_it_closes_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let mut store = open(directory.path()).unwrap();
    for number in 1..20 {
        let newest = ResourceVersion::new(number);
        let feed = FeedRecord { position: newest, newest, ..FeedRecord::default() };
        let save = Save { feed, ..Save::default() };
        store.commit("myapps", &routes(), &save).unwrap();
        // The file as a killed process leaves it: all that was written, without what closing would add.
        let killed = tempfile::tempdir().unwrap();
        fs::copy(directory.path().join("state.redb"), killed.path().join("state.redb")).unwrap();
        let there = whole(&open(killed.path()).unwrap(), "myapps").unwrap();
        assert_eq!(there, whole(&store, "myapps").unwrap());
        assert_eq!(there.feed, save.feed);
    }
}

#[test]
fn a_truncated_or_overwritten_file_is_corrupt_and_stays_where_it_is() {
    let directory = tempfile::tempdir().unwrap();
    filled(directory.path());
    let path = directory.path().join("state.redb");
    let whole = fs::read(&path).unwrap();
    for damaged in [&whole[..0], &whole[..100], &whole[..whole.len() / 2], &b"not a database at all"[..]] {
        fs::write(&path, damaged).unwrap();
        let refused = open(directory.path()).err();
        assert!(matches!(refused, Some(StoreError::Corrupt { .. })), "{} bytes: {refused:?}", damaged.len());
        assert_eq!(fs::read(&path).unwrap().len(), damaged.len(), "nothing is removed or made anew");
    }
}

#[test]
fn a_flipped_bit_is_never_read_as_another_value() {
    let directory = tempfile::tempdir().unwrap();
    let expected = filled(directory.path());
    let path = directory.path().join("state.redb");
    let bytes = fs::read(&path).unwrap();
    let mut noticed = 0;
    for step in 0..60 {
        let mut damaged = bytes.clone();
        let at = (step * 7_919 + 13) % bytes.len();
        damaged[at] ^= 1 << (step % 8);
        fs::write(&path, &damaged).unwrap();
        match open(directory.path()).and_then(|store| whole(&store, "myapps")) {
            Ok(read) => assert_eq!(read, expected, "a flip at {at} changed what is read"),
            Err(_) => noticed += 1,
        }
    }
    assert!(noticed > 0, "no flip hit anything that is used");
}

#[test]
fn what_a_route_has_told_comes_along_when_it_reads_another_feed() {
    let directory = tempfile::tempdir().unwrap();
    for mut store in both(directory.path()) {
        let record = KeyRecord { told: Some(told(7)), ..KeyRecord::default() };
        let records = ["team-a", "team-b"].map(|namespace| (0, Key::new(namespace, "shop"), record.clone()));
        let old = RouteRecord { synced: true, selection: "all".into(), ..RouteRecord::default() };
        let routes_then = vec![old.clone(), RouteRecord::default()];
        let save = Save { routes: routes_then, followed: vec![0], records: records.into(), ..Save::default() };
        store.commit("myapps", &routes(), &save).unwrap();
        let here = |_: usize, key: &Key| key.namespace() == Some("team-b");
        let state = store.load("myapps in team-b", &routes(), &here).unwrap().routes.remove(0);
        assert_eq!((state.record, state.elsewhere, state.followed), (None, Some(old), false));
        assert_eq!(state.records, [(Key::new("team-b", "shop"), record)]);
    }
}

#[test]
fn a_state_of_an_older_or_newer_format_is_refused_with_both_formats_and_a_way_out() {
    for (format, message) in
        [(1_u64, "has format 1; this version reads 2"), (9, "has format 9; this version reads up to 2")]
    {
        let directory = tempfile::tempdir().unwrap();
        drop(open(directory.path()).unwrap());
        let path = directory.path().join("state.redb");
        let handle = redb::Database::create(&path).unwrap();
        let transaction = handle.begin_write().unwrap();
        let meta: redb::TableDefinition<'_, &str, &[u8]> = redb::TableDefinition::new("meta");
        transaction.open_table(meta).unwrap().insert("format", &format.to_le_bytes()[..]).unwrap();
        transaction.commit().unwrap();
        drop(handle);
        let refused = open(directory.path()).err().unwrap();
        assert!(refused.to_string().ends_with(message), "{refused}");
        assert!(refused.hint().unwrap().contains("--fresh-state"));
    }
}
