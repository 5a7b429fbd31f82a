//! Random schedules of faults against a naive model: in the end each consumer holds what the cluster holds, and no
//! key's sequence ever stepped back. Not the simulator; one feed, two routes, no rewinds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::model::{
    Change, ChangeKind, FeedRecord, KeyRecord, Metadata, Object, RouteRecord, Save, Uid, Verdict, What,
};

const ROUTES: usize = 2;
const KEYS: [&str; 3] = ["a", "b", "c"];
/// So little that bytes are let go all the time.
const BYTES: usize = 2;

fn version(number: u128) -> ResourceVersion {
    ResourceVersion::new(number).unwrap()
}

pub(super) fn object(name: &str, uid: u64, at: u128, value: u64) -> Object {
    let metadata = Metadata {
        api_version: "example.com/v1".into(),
        kind: "MyApp".into(),
        key: Key::new("default", name),
        uid: Uid::new(&format!("uid-{uid}")),
        resource_version: version(at),
        generation: None,
        creation_timestamp: None,
        deletion_timestamp: None,
        last_write: None,
        field_manager: None,
    };
    Object { metadata: Arc::new(metadata), bytes: Bytes::from(value.to_string()) }
}

fn fingerprint(object: &Object) -> u64 {
    std::str::from_utf8(&object.bytes).unwrap().parse().unwrap()
}

#[derive(Default)]
struct Cluster {
    version: u128,
    uids: u64,
    objects: BTreeMap<&'static str, Object>,
    history: Vec<Change>,
    floor: u128,
}

impl Cluster {
    fn write(&mut self, name: &'static str, value: u64) {
        self.version += 1;
        let uid = match self.objects.get(name) {
            Some(object) => object.metadata.uid.to_string()[4..].parse().unwrap(),
            None => {
                self.uids += 1;
                self.uids
            }
        };
        let object = object(name, uid, self.version, value);
        let known = self.objects.insert(name, object.clone()).is_some();
        self.history.push(Change { object, kind: if known { ChangeKind::Modified } else { ChangeKind::Added } });
    }

    fn delete(&mut self, name: &'static str) {
        let Some(last) = self.objects.remove(name) else { return };
        self.version += 1;
        let uid = last.metadata.uid.to_string()[4..].parse().unwrap();
        let object = object(name, uid, self.version, fingerprint(&last));
        self.history.push(Change { object, kind: ChangeKind::Deleted });
    }

    fn newest(&self) -> ResourceVersion {
        version(self.version)
    }
}

type Held = BTreeMap<Key, Option<(Uid, u64)>>;

/// Three ways to consume: by arrival, by highest sequence, by ids not seen before.
#[derive(Default)]
struct Consumers {
    last: Held,
    by_sequence: Held,
    by_id: Held,
    sequences: BTreeMap<Key, (u128, bool)>,
    ids: BTreeMap<String, Option<u64>>,
    told_as: BTreeMap<(Uid, ResourceVersion), What>,
    events: usize,
}

impl Consumers {
    fn receive(&mut self, publication: &Publication) {
        self.events += 1;
        let key = &publication.key;
        let value = publication.object.as_ref().map(fingerprint);
        let state = (publication.what != What::Deleted).then(|| (publication.uid.clone(), value.unwrap()));
        let sequence = (publication.sequence.resource_version().get(), publication.inferred);
        let newest = self.sequences.get(key).copied().unwrap_or((0, false));
        assert!(sequence >= newest, "the sequence of {key} steps back from {newest:?}: {publication:?}");
        self.sequences.insert(key.clone(), sequence);
        self.by_sequence.insert(key.clone(), state.clone());
        self.last.insert(key.clone(), state.clone());
        let id = match publication.what {
            What::Deleted => format!("{}-deleted", publication.uid),
            what => format!("{}-{:?}-{}-{value:?}", publication.uid, publication.sequence, what.as_str()),
        };
        if publication.what != What::Deleted {
            let state = (publication.uid.clone(), publication.sequence.resource_version());
            let before = *self.told_as.entry(state).or_insert(publication.what);
            assert_eq!(before, publication.what, "one state is told by two ids: {publication:?}");
        }
        let content = if publication.what == What::Deleted { None } else { value };
        match self.ids.get(&id) {
            Some(known) => assert_eq!(*known, content, "two events share the id {id}"),
            None => {
                self.ids.insert(id, content);
                self.by_id.insert(key.clone(), state);
            }
        }
    }
}

#[derive(Default)]
struct Disk {
    feed: FeedRecord,
    routes: Vec<RouteRecord>,
    followed: Vec<usize>,
    records: BTreeMap<(usize, Key), KeyRecord>,
}

enum Stream {
    Idle,
    Probing,
    Listing { at: ResourceVersion, items: Vec<Object> },
    Watching { next: u128 },
}

struct World {
    now: Now,
    cluster: Cluster,
    consumers: [Consumers; ROUTES],
    disk: Disk,
    engine: Engine,
    stream: Stream,
    saving: Option<Save>,
    fetches: Vec<Key>,
    deliveries: Vec<(DeliveryId, Verdict)>,
    faults: bool,
    choices: Vec<u8>,
    chosen: usize,
}

impl World {
    fn new(choices: Vec<u8>) -> Self {
        let disk = Disk::default();
        Self {
            now: Duration::ZERO,
            // A real cluster's counter is past 1 before anyone looks.
            cluster: Cluster { version: 1, ..Cluster::default() },
            consumers: Default::default(),
            engine: Self::boot(&disk, Duration::ZERO),
            disk,
            stream: Stream::Idle,
            saving: None,
            fetches: Vec::new(),
            deliveries: Vec::new(),
            faults: true,
            choices,
            chosen: 0,
        }
    }

    fn boot(disk: &Disk, now: Now) -> Engine {
        let routes = (0..ROUTES).map(|route| {
            let (quiet, max_wait) = if route == 0 { (0, 0) } else { (100, 1_000) };
            let settings = RouteSettings { max_in_flight: 4, ..super::script::Script::settings(quiet, max_wait) };
            let records = disk.records.iter().filter(|((of, _), _)| *of == route);
            let records = records.map(|((_, key), record)| (key.clone(), record.clone())).collect();
            (
                settings,
                RouteState {
                    record: disk.routes.get(route).cloned(),
                    elsewhere: None,
                    newest_elsewhere: None,
                    followed: disk.followed.contains(&route),
                    records,
                },
            )
        });
        let settings = EngineSettings { seed: 1, fetch_at_most: 2, bytes_at_most: BYTES, ..EngineSettings::default() };
        Engine::new(settings, disk.feed.clone(), routes.collect(), now)
    }

    fn choose(&mut self) -> u8 {
        let choice = self.choices[self.chosen % self.choices.len()];
        self.chosen += 1;
        // The same bytes come round again with another meaning, so that short inputs do not loop.
        choice.wrapping_add((self.chosen / self.choices.len()) as u8).wrapping_mul(167)
    }

    fn crash(&mut self) {
        self.stream = Stream::Idle;
        // A commit that was under way when the process died may have become durable or not.
        if let Some(save) = self.saving.take()
            && self.choose().is_multiple_of(2)
        {
            self.commit(save);
        }
        self.fetches.clear();
        self.deliveries.clear();
        self.engine = Self::boot(&self.disk, self.now);
    }

    fn commit(&mut self, save: Save) {
        self.disk.feed = save.feed;
        self.disk.routes = save.routes;
        self.disk.followed = save.followed;
        for (route, key, record) in save.records {
            if record.is_empty() {
                self.disk.records.remove(&(route, key));
            } else {
                self.disk.records.insert((route, key), record);
            }
        }
    }

    fn act(&mut self) {
        while let Some(action) = self.engine.poll_action(self.now) {
            match action {
                Action::Probe => self.stream = Stream::Probing,
                Action::List { .. } => {
                    let items = self.cluster.objects.values().cloned().collect();
                    self.stream = Stream::Listing { at: self.cluster.newest(), items };
                }
                Action::Watch { from } => {
                    self.stream = Stream::Watching { next: from.get() };
                    self.engine.handle_watch_begun();
                }
                Action::Fetch { key } => self.fetches.push(key),
                Action::Save(save) => self.saving = Some(save),
                Action::Publish(publication) => self.publish(publication),
                Action::Look { key } => panic!("{key} may not have left: nothing is selected here"),
            }
        }
    }

    fn publish(&mut self, publication: Publication) {
        let owed = self.disk.records.get(&(publication.route, publication.key.clone()));
        let owed = owed.expect("nothing is attempted before the store knows that it is owed");
        let known = owed.owed.iter().chain(&owed.predecessor).any(|owed| owed.uid == publication.uid);
        assert!(known, "the store does not know this debt: {publication:?} {owed:?}");
        let choice = if self.faults { self.choose() % 8 } else { 0 };
        let applied = choice < 6;
        let verdict = match choice {
            0..=3 => Verdict::Delivered,
            4 | 6 => Verdict::Retry { reason: "lost".into(), after: None },
            _ => Verdict::Unavailable { reason: "down".into(), after: None },
        };
        if applied {
            self.consumers[publication.route].receive(&publication);
        }
        self.deliveries.push((publication.delivery, verdict));
    }

    /// Lets one outstanding answer of the stream arrive.
    fn stream_step(&mut self) {
        let cluster = &self.cluster;
        match &mut self.stream {
            Stream::Idle => {}
            Stream::Probing => {
                let newest = cluster.newest();
                self.stream = Stream::Idle;
                self.engine.handle_probed(self.now, Ok(newest));
            }
            Stream::Listing { at, items } => match items.pop() {
                Some(item) => self.engine.handle_list_item(self.now, &item, &[Some(fingerprint(&item)); ROUTES]),
                None => {
                    let at = *at;
                    self.stream = Stream::Idle;
                    self.engine.handle_list_finished(self.now, at);
                }
            },
            Stream::Watching { next } => {
                if *next < cluster.floor {
                    self.stream = Stream::Idle;
                    return self.engine.handle_stream_ended(self.now, Some(FeedFailure::Expired));
                }
                let change =
                    cluster.history.iter().find(|change| change.object.metadata.resource_version.get() > *next);
                if let Some(change) = change.cloned() {
                    *next = change.object.metadata.resource_version.get();
                    let fingerprints = [Some(fingerprint(&change.object)); ROUTES];
                    self.engine.handle_change(self.now, &change, &fingerprints);
                } else if *next < cluster.version {
                    self.engine.handle_bookmark(cluster.newest());
                }
            }
        }
    }

    fn cut_stream(&mut self) {
        let failure = FeedFailure::Other("cut".into());
        match std::mem::replace(&mut self.stream, Stream::Idle) {
            Stream::Idle => {}
            Stream::Probing => self.engine.handle_probed(self.now, Err(failure)),
            Stream::Listing { .. } => self.engine.handle_list_failed(self.now, failure),
            Stream::Watching { .. } => self.engine.handle_stream_ended(self.now, Some(failure)),
        }
    }

    fn fetch_step(&mut self) {
        let Some(key) = self.fetches.pop() else { return };
        let fails = self.faults && self.choose().is_multiple_of(4);
        let fetched = match self.cluster.objects.get(key.name()) {
            _ if fails => Fetched::Failed("no answer".into()),
            Some(object) => Fetched::Found(object.clone(), vec![Some(fingerprint(object)); ROUTES]),
            None => Fetched::NotFound,
        };
        self.engine.handle_fetched(self.now, &key, fetched);
    }

    fn save_step(&mut self) {
        let Some(save) = self.saving.take() else { return };
        let succeeded = !self.faults || !self.choose().is_multiple_of(8);
        if succeeded {
            self.commit(save);
        }
        self.engine.handle_saved(self.now, succeeded);
    }

    fn verdict_step(&mut self) {
        if self.deliveries.is_empty() {
            return;
        }
        let index = usize::from(self.choose()) % self.deliveries.len();
        let (delivery, verdict) = self.deliveries.remove(index);
        self.engine.handle_delivered(self.now, delivery, verdict);
    }

    fn step(&mut self, choice: u8) {
        let name = KEYS[usize::from(choice / 32) % KEYS.len()];
        match choice % 32 {
            0..=4 => {
                let value = u64::from(self.choose() % 3);
                self.cluster.write(name, value);
            }
            5..=7 => self.cluster.delete(name),
            8 => self.crash(),
            9 => self.cluster.floor = self.cluster.version,
            10 => self.cut_stream(),
            11..=18 => self.stream_step(),
            19..=23 => self.save_step(),
            24..=26 => self.verdict_step(),
            27 | 28 => self.fetch_step(),
            _ => self.now += Duration::from_millis(u64::from(choice) * 10),
        }
        self.act();
    }

    fn heal(&mut self) {
        self.faults = false;
        for _ in 0..3_000 {
            self.act();
            self.stream_step();
            self.save_step();
            self.fetch_step();
            self.verdict_step();
            self.act();
            self.now += Duration::from_millis(100);
            let caught_up = self.engine.position() == Some(self.cluster.newest())
                && self.engine.feed_state() == FeedState::Watching;
            if caught_up && (0..ROUTES).all(|route| self.engine.route_status(route).owed == 0) {
                return;
            }
        }
        let statuses: Vec<_> = (0..ROUTES).map(|route| self.engine.route_status(route)).collect();
        panic!("did not drain: {:?} {statuses:?}", self.engine.feed_state());
    }

    fn check(&self) {
        for (route, consumers) in self.consumers.iter().enumerate() {
            for name in KEYS {
                let key = Key::new("default", name);
                let holds =
                    self.cluster.objects.get(name).map(|object| (object.metadata.uid.clone(), fingerprint(object)));
                for (how, held) in
                    [("last", &consumers.last), ("sequence", &consumers.by_sequence), ("id", &consumers.by_id)]
                {
                    let told = held.get(&key).cloned().flatten();
                    assert_eq!(told, holds, "route {route}: the consumer by {how} of {name} is not as the cluster");
                }
            }
        }
    }
}

/// How many schedules each property tries; `make sim` tries more.
fn cases() -> u32 {
    std::env::var("CRIER_PROPERTY_CASES").ok().map_or(3_000, |cases| cases.parse().expect("a number of cases"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_and_no_key_steps_back_whatever_the_schedule(
        choices in proptest::collection::vec(any::<u8>(), 40..400),
    ) {
        let mut world = World::new(choices.clone());
        world.act();
        for choice in choices {
            world.step(choice);
        }
        world.heal();
        world.check();
    }

    #[test]
    fn a_restart_with_nothing_changed_tells_nothing(choices in proptest::collection::vec(any::<u8>(), 40..200)) {
        let mut world = World::new(choices.clone());
        world.act();
        for choice in choices {
            world.step(choice);
        }
        world.heal();
        // Let the last save become durable, so that nothing is in doubt.
        for _ in 0..10 {
            world.now += Duration::from_millis(100);
            world.act();
            world.save_step();
        }
        let before: Vec<usize> = world.consumers.iter().map(|consumers| consumers.events).collect();
        for compacted in [false, true] {
            if compacted {
                world.cluster.floor = world.cluster.version + 1;
            }
            world.crash();
            world.heal();
        }
        let after: Vec<usize> = world.consumers.iter().map(|consumers| consumers.events).collect();
        prop_assert_eq!(before, after);
    }
}
