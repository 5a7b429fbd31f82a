//! What the engine's scripts share: an engine of one route in virtual time, and the words to drive it.

use std::time::Duration;

use super::properties::object;
use super::*;
use crate::model::{Cause, Change, ChangeKind, Epoch, KeyRecord, Origin, Owed, OwedState, Save, Uid, Verdict, What};

pub(super) const MS: fn(u64) -> Duration = Duration::from_millis;

pub(super) fn version(number: u128) -> ResourceVersion {
    ResourceVersion::new(number).unwrap()
}

pub(super) fn place(number: u128) -> Sequence {
    Sequence::new(Epoch::default(), version(number))
}

/// A present state that is owed.
pub(super) fn owed(uid: Uid, at: u128) -> Owed {
    Owed {
        uid,
        sequence: place(at),
        state: OwedState::Present,
        inferred: false,
        existed: false,
        origin: Origin::Watch,
        cause: Cause::Change,
        coalesced: 0,
    }
}

/// A route that has completed its first comparison.
pub(super) fn resumed(followed: bool, records: Vec<(Key, KeyRecord)>) -> RouteState {
    let record = RouteRecord { synced: true, ..RouteRecord::default() };
    RouteState { record: Some(record), elsewhere: None, newest_elsewhere: None, followed, records }
}

/// An engine of one route whose saves are confirmed at once, unless a script holds them back.
pub(super) struct Script {
    pub(super) engine: Engine,
    pub(super) now: Now,
    pub(super) saves: Vec<Save>,
    pub(super) hold_saves: bool,
}

impl Script {
    pub(super) fn settings(quiet: u64, max_wait: u64) -> RouteSettings {
        RouteSettings {
            quiet: MS(quiet),
            max_wait: MS(max_wait),
            initial: Initial::Observed,
            max_in_flight: 8,
            selection: String::new(),
            recipe: String::new(),
        }
    }

    pub(super) fn with(settings: RouteSettings, feed: FeedRecord, state: RouteState) -> Self {
        let engine = Engine::new(EngineSettings::default(), feed, vec![(settings, state)], Duration::ZERO);
        Self { engine, now: Duration::ZERO, saves: Vec::new(), hold_saves: false }
    }

    /// A route that has listed an empty collection at version 10 and watches.
    pub(super) fn watching(quiet: u64, max_wait: u64) -> Self {
        Self::watching_with(Self::settings(quiet, max_wait))
    }

    pub(super) fn watching_with(settings: RouteSettings) -> Self {
        Self::watching_by(EngineSettings::default(), settings)
    }

    pub(super) fn watching_by(engine: EngineSettings, settings: RouteSettings) -> Self {
        let routes = vec![(settings, RouteState::default())];
        let engine = Engine::new(engine, FeedRecord::default(), routes, Duration::ZERO);
        let mut script = Self { engine, now: Duration::ZERO, saves: Vec::new(), hold_saves: false };
        assert_eq!(script.run(), [Action::List { streaming: true, metadata_only: false }]);
        script.engine.handle_list_finished(script.now, version(10));
        assert_eq!(script.run(), [Action::Probe]);
        script.engine.handle_probed(script.now, Ok(version(10)));
        assert_eq!(script.run(), [Action::Watch { from: version(10) }]);
        script
    }

    /// A route that resumes at version 20 with these records.
    pub(super) fn resuming(records: Vec<(Key, KeyRecord)>) -> Self {
        let feed = FeedRecord { position: Some(version(20)), newest: Some(version(20)), ..FeedRecord::default() };
        Self::with(Self::settings(0, 0), feed, resumed(true, records))
    }

    /// All actions but saves, which are confirmed (or held) and kept.
    pub(super) fn run(&mut self) -> Vec<Action> {
        let mut actions = Vec::new();
        while let Some(action) = self.engine.poll_action(self.now) {
            match action {
                Action::Save(save) => {
                    self.saves.push(save);
                    if !self.hold_saves {
                        self.engine.handle_saved(self.now, true);
                    }
                }
                other => actions.push(other),
            }
        }
        actions
    }

    pub(super) fn publications(&mut self) -> Vec<Publication> {
        let publication = |action| match action {
            Action::Publish(publication) => publication,
            other => panic!("only publications were expected: {other:?}"),
        };
        self.run().into_iter().map(publication).collect()
    }

    pub(super) fn told(&mut self) -> Vec<(What, u128)> {
        let publications = self.publications();
        for publication in &publications {
            self.engine.handle_delivered(self.now, publication.delivery, Verdict::Delivered);
        }
        publications
            .iter()
            .map(|publication| (publication.what, publication.sequence.resource_version().get()))
            .collect()
    }

    /// Lets time pass until there is something to do.
    pub(super) fn run_later(&mut self) -> Vec<Action> {
        for _ in 0..10 {
            self.now = self.engine.poll_deadline().expect("something is due");
            let actions = self.run();
            if !actions.is_empty() {
                return actions;
            }
        }
        panic!("nothing is done at its time");
    }

    /// The cluster's newest version is asked for before a list: what follows when it is this one.
    pub(super) fn probed(&mut self, newest: u128) -> Vec<Action> {
        assert_eq!(self.run(), [Action::Probe]);
        self.engine.handle_probed(self.now, Ok(version(newest)));
        self.run()
    }

    /// As [`Self::probed`], once something is due.
    pub(super) fn probed_later(&mut self, newest: u128) -> Vec<Action> {
        assert_eq!(self.run_later(), [Action::Probe]);
        self.engine.handle_probed(self.now, Ok(version(newest)));
        self.run()
    }

    /// What is published now, acknowledged, whatever else is to be done.
    pub(super) fn told_among_others(&mut self) -> Vec<(What, u128)> {
        let mut told = Vec::new();
        for action in self.run() {
            if let Action::Publish(publication) = action {
                self.engine.handle_delivered(self.now, publication.delivery, Verdict::Delivered);
                told.push((publication.what, publication.sequence.resource_version().get()));
            }
        }
        told
    }

    pub(super) fn change(&mut self, uid: u64, at: u128, value: u64) {
        self.change_of("a", uid, at, value);
    }

    pub(super) fn change_of(&mut self, name: &str, uid: u64, at: u128, value: u64) {
        let change = Change { object: object(name, uid, at, value), kind: ChangeKind::Added };
        self.engine.handle_change(self.now, &change, &[Some(value)]);
    }

    pub(super) fn deletion(&mut self, uid: u64, at: u128) {
        let change = Change { object: object("a", uid, at, 0), kind: ChangeKind::Deleted };
        self.engine.handle_change(self.now, &change, &[Some(0)]);
    }

    pub(super) fn pass(&mut self, milliseconds: u64) {
        self.now += MS(milliseconds);
    }
}

pub(super) fn key() -> Key {
    Key::new("default", "a")
}

pub(super) fn told(uid: u64, at: u128, fingerprint: u64) -> crate::model::Told {
    let uid = Uid::new(&format!("uid-{uid}"));
    crate::model::Told { uid, sequence: place(at), fingerprint, recipe: 0, deleting: false }
}
