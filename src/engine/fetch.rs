//! What has to be asked for about a key before it can be told: the bytes of an object, or whether it is gone or has only
//! left. No more is asked for at once than a little, and than the sinks take.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::compare::Absence;
use super::intake::Sighting;
use super::keys::KeyNumber;
use super::mutant::{Mutant, planted};
use super::view::Entry;
use super::{Action, Engine, Fetched, Looked, Now, Route};
use crate::model::{Cause, Key, Origin, Over, OwedState};

const BASE: Duration = Duration::from_millis(500);
const CAP: Duration = Duration::from_secs(60);
/// Objects of one feed that are asked for at once.
const FETCHES: usize = 16;
/// What lacks its bytes is counted at most this often: it takes time in proportion to the view.
const COUNT: Duration = Duration::from_secs(5);

/// What is asked for, and what will be.
#[derive(Default)]
pub(super) struct Fetches {
    // With the number of the last change before it was asked: an answer says nothing of later ones.
    asked: BTreeMap<Question, u64>,
    // Asked for in an earlier epoch: the answer is not believed.
    void: BTreeSet<Question>,
    // To be asked for when others have come: the API server is not asked for everything at once.
    wanted: BTreeSet<Question>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Question {
    key: Key,
    // Whether it is there at all, not what it is.
    look: bool,
}

impl Fetches {
    /// The cluster has begun another life: what it said in the earlier one is not believed.
    pub(super) fn forget_asked(&mut self) {
        self.void_asked();
        self.wanted.clear();
    }

    /// What is under way was asked about what is over.
    pub(super) fn void_asked(&mut self) {
        self.void.extend(self.asked.keys().cloned());
    }

    /// Whether something is asked about this key. One question at a time: of two answers nobody could say which is the
    /// older.
    fn is_asked(&self, key: &Key) -> bool {
        [false, true].iter().any(|look| self.asked.contains_key(&Question { key: key.clone(), look: *look }))
    }

    /// Takes an answer in: up to which change it is to be believed, if it is.
    fn answered(&mut self, question: &Question) -> Option<u64> {
        let asked = self.asked.remove(question)?;
        let void = self.void.remove(question) && !planted(Mutant::FetchFromEarlierEpoch);
        (!void).then_some(asked)
    }
}

impl Engine {
    /// The answer to a fetch. What is found enters as a change, by the same rules; since it may be ahead of the
    /// position, its place stays on the key until the position has passed it.
    pub fn handle_fetched(&mut self, now: Now, key: &Key, fetched: Fetched) {
        let asked = self.fetches.answered(&Question { key: key.clone(), look: false });
        let fetched = if asked.is_some() { fetched } else { Fetched::Failed("the answer is out of date".to_owned()) };
        if let Some(number) = self.keys.find(key) {
            self.give_places_back(number);
            match fetched {
                Fetched::Found(object, selected) => {
                    let metadata = &object.metadata;
                    // It was asked for because it is its turn: the budget has no say.
                    let held = self.bytes.hold_anyway(&object);
                    let sequence = self.sequence(metadata.resource_version);
                    let ahead = self.feed.place() < Some(sequence);
                    self.feed.note_given(metadata.resource_version);
                    for (route, fingerprint) in selected.iter().enumerate() {
                        if !self.entry(route, number).owes() {
                            continue;
                        }
                        if self.ends_after(route, number, asked) && !planted(Mutant::FetchBeforeEnd) {
                            self.hold_back(route, number, now);
                            continue;
                        }
                        let sighting = Sighting {
                            uid: &metadata.uid,
                            sequence,
                            held: Some(&held),
                            deleting: metadata.deletion_timestamp.is_some(),
                            fingerprint: *fingerprint,
                            origin: Origin::Watch,
                            existed: false,
                            cause: Cause::Change,
                            listed: false,
                        };
                        match fingerprint {
                            // What the position has passed is known, and may be overtaken by now. It brings its bytes.
                            _ if !ahead && self.routes[route].followed && !planted(Mutant::FetchBehindPosition) => {
                                self.note_repeat(route, now, number, &sighting);
                            }
                            Some(_) => {
                                self.observe(route, now, number, &sighting);
                            }
                            None => {
                                self.observe_unselected(route, now, number, &sighting);
                            }
                        }
                        self.hold_back(route, number, now);
                        if ahead && !planted(Mutant::AnswerLeavesNoMark) {
                            self.save.touch(route, number);
                            let lane = self.entry_mut(route, number).open_lane();
                            lane.fetched = lane.fetched.max(Some(sequence));
                        }
                    }
                }
                Fetched::NotFound => self.hold_back_everywhere(number, now, None),
                Fetched::Failed(reason) => self.hold_back_everywhere(number, now, Some(&reason)),
                Fetched::Forbidden(reason) => {
                    self.hold_back_everywhere(number, now, Some(&reason));
                    self.list_instead();
                }
            }
            self.forget_if_empty(number);
        }
        self.ask_next();
    }

    /// Whether the key was found to be gone, or out of the selection, after this question was asked: what the answer shows
    /// may be from before that.
    fn ends_after(&self, route: usize, number: KeyNumber, asked: Option<u64>) -> bool {
        let owed = self.entry(route, number).lane().and_then(|lane| lane.owed.as_ref());
        owed.is_some_and(|debt| !debt.is_present() && Some(debt.number) > asked)
    }

    /// The answer to a look: what is missing has left if the same incarnation is still there, and is gone otherwise.
    pub fn handle_looked(&mut self, now: Now, key: &Key, looked: &Looked) {
        let believed = self.fetches.answered(&Question { key: key.clone(), look: true });
        if let Some(number) = self.keys.find(key) {
            self.give_places_back(number);
            match looked {
                Looked::Failed(reason) => self.hold_back_everywhere(number, now, Some(reason)),
                Looked::Found(..) | Looked::NotFound(_) => match believed {
                    None => self.hold_back_everywhere(number, now, None),
                    Some(asked) => {
                        for route in 0..self.routes.len() {
                            self.resolve(route, now, number, looked, asked);
                            self.enqueue(route, number);
                        }
                    }
                },
            }
        }
        self.ask_next();
    }

    /// What is missing is one of the two from now on: the store knows which before it is told, since a deletion that was
    /// attempted must not be followed by anything else about that state. What has come to be missing only after the question
    /// was asked is asked for again.
    fn resolve(&mut self, route: usize, now: Now, number: KeyNumber, looked: &Looked, asked: u64) {
        let lane = self.routes[route].entries[number.index()].lane_mut();
        let Some(debt) = lane.and_then(|lane| lane.head_mut()) else { return };
        if debt.owed.state == OwedState::Missing && (debt.number <= asked || planted(Mutant::AnswerBeforeQuestion)) {
            let there = matches!(looked, Looked::Found(uid, _) if *uid == debt.owed.uid);
            let uid = debt.owed.uid.clone();
            if there {
                debt.owed.state = OwedState::Left;
            } else {
                (debt.owed.state, debt.owed.cause) = (OwedState::Gone, Cause::Change);
            }
            debt.number = self.save.touch(route, number);
            // The watch may have something to show still of the one that is gone: that is over, and what it shows of the
            // next one is not.
            if let Looked::Found(_, at) = looked
                && !there
                && !planted(Mutant::AnswerLeavesNoMark)
            {
                let until = self.sequence(*at);
                self.feed.note_given(*at);
                self.entry_mut(route, number).open_lane().over = Some(Over { uid, until });
            }
        }
        if let Looked::NotFound(at) = looked {
            // What was seen of the next one of its name, up to here, is gone as well; and what the watch has still to show
            // of them is over.
            let at = self.sequence(*at);
            self.feed.note_given(at.resource_version());
            let (state, origin, cause) = (OwedState::Gone, Origin::Watch, Cause::Change);
            self.observe_absent(route, now, number, Absence { at, state, origin, cause });
            if self.feed.place() < Some(at) && !planted(Mutant::AnswerLeavesNoMark) {
                let lane = self.entry_mut(route, number).open_lane();
                lane.fetched = lane.fetched.max(Some(at));
            }
        }
    }

    /// The answer did not come: whoever waits for it waits on, and says why if there is something to say.
    fn hold_back_everywhere(&mut self, number: KeyNumber, now: Now, reason: Option<&str>) {
        for route in 0..self.routes.len() {
            if let Some(reason) = reason
                && self.entry(route, number).lacks_answer()
            {
                let key = self.keys.key(number);
                self.routes[route].last_error = Some(format!("{key} cannot be read: {reason}"));
            }
            self.hold_back(route, number, now);
        }
    }

    /// Nothing was found or heard: the key waits for the change that is on its way, and asks again later.
    fn hold_back(&mut self, route: usize, number: KeyNumber, now: Now) {
        let entry = &mut self.routes[route].entries[number.index()];
        if entry.lacks_answer() {
            let lane = entry.open_lane();
            lane.not_before = now + lane.backoff.fail(&mut self.jitter, BASE, CAP, None);
            self.enqueue(route, number);
        }
    }

    /// Asks about the head of this key; it has a place among the route's deliveries meanwhile.
    pub(super) fn ask(&mut self, route: usize, number: KeyNumber, look: bool) {
        self.routes[route].fetched_ahead.insert(number);
        let question = Question { key: self.keys.key(number).clone(), look };
        // The answer that is on its way looks at the key again.
        if !self.fetches.is_asked(&question.key) {
            self.fetches.wanted.insert(question);
            self.ask_next();
        }
    }

    fn ask_next(&mut self) {
        while self.fetches.asked.len() < FETCHES
            && let Some(question) = self.fetches.wanted.pop_first()
        {
            let Some(number) = self.keys.find(&question.key) else { continue };
            if self.fetches.is_asked(&question.key) {
                continue;
            }
            if !self.routes.iter().any(|route| route.entries[number.index()].lacks_answer()) {
                // It has come by another way.
                self.give_places_back(number);
                continue;
            }
            let key = question.key.clone();
            self.actions.push_back(if question.look { Action::Look { key } } else { Action::Fetch { key } });
            self.fetches.asked.insert(question, self.save.last());
        }
    }

    /// Nothing is asked for about this key any more: its places among the deliveries are free.
    fn give_places_back(&mut self, number: KeyNumber) {
        for route in &mut self.routes {
            route.fetched_ahead.remove(&number);
        }
    }

    /// Much that was let go comes back by a list, as much of it as the budget takes, sooner than object by object.
    pub(super) fn list_instead_of_fetching(&mut self, route: usize, now: Now) {
        let state = &self.routes[route];
        let room = self.bytes.bytes() <= self.settings.bytes_at_most / 2;
        if state.fetched_ahead.is_empty() || state.is_failing() || !room || now < self.next_count {
            return;
        }
        self.next_count = now + COUNT;
        if state.entries.iter().filter(|entry| entry.lacks_answer()).count() > self.settings.fetch_at_most {
            self.list_instead();
        }
    }
}

impl Route {
    /// Whether the sink was unavailable last.
    pub(super) fn is_failing(&self) -> bool {
        self.breaker.is_failing()
    }
}

impl Entry {
    /// Whether the head is a state of an object, whose bytes are needed, rather than a question.
    pub(super) fn owes_present(&self) -> bool {
        self.lane().and_then(|lane| lane.head()).is_some_and(super::view::Debt::is_present)
    }
}
