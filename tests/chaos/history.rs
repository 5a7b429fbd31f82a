//! Everything that ever happened to the objects, as etcd tells it: the oracle of the checks. It reads etcd directly, since
//! the API server forgets its history with every restart, and the writer does not learn what became of a write that was
//! not answered.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::event::{Event, content_of, is_selected};

const PREFIX: &str = "/registry/example.com/";

/// One state of a key: an object, or its deletion.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) uid: String,
    /// `None` for a deletion.
    pub(crate) content: Option<String>,
}

impl State {
    /// Whether it is an object that the route `chosen` does not select.
    pub(crate) fn is_outside(&self) -> bool {
        self.content.as_ref().is_some_and(|content| !is_selected(content))
    }
}

/// The states of one incarnation.
fn states_of<'a>(life: &'a Life, key: &str, uid: &'a str) -> impl Iterator<Item = (u128, &'a State)> + use<'a> {
    let states = life.get(key).into_iter().flatten();
    states.map(|(at, state)| (*at, state)).filter(move |(_, state)| state.uid == uid)
}

/// The states of every key by resourceVersion.
pub(crate) type Life = BTreeMap<String, BTreeMap<u128, State>>;

/// One life of the cluster's counter for each time that etcd was put back, and the first one.
#[derive(Clone)]
pub(crate) struct History {
    pub(crate) lives: Vec<Life>,
    read_to: u64,
    // What went wrong with the reading itself.
    fault: Option<String>,
}

impl History {
    pub(crate) fn of(lives: Vec<Life>) -> Self {
        Self { lives, read_to: 0, fault: None }
    }

    /// The states that this key had at this version: one, unless etcd was put back.
    pub(crate) fn at<'a>(&'a self, key: &'a str, version: u128) -> impl Iterator<Item = &'a State> {
        self.lives.iter().filter_map(move |life| life.get(key)?.get(&version))
    }

    /// Whether the object of this deletion was as it says when it was deleted.
    pub(crate) fn was(&self, deletion: &Event) -> bool {
        let last = |life: &Life| {
            let (_, state) = life.get(&deletion.key)?.range(..deletion.version).next_back()?;
            (state.uid == deletion.uid).then(|| state.content.as_ref() == Some(&deletion.content))
        };
        self.lives.iter().filter_map(last).any(|same| same)
    }

    /// How often etcd was put back.
    pub(crate) fn rewinds(&self) -> usize {
        self.lives.len() - 1
    }

    /// Whether this incarnation was deleted, or did not exist any more when etcd had been put back.
    pub(crate) fn was_gone(&self, key: &str, uid: &str) -> bool {
        let ends = self.lives.iter().map(|life| states_of(life, key, uid).last());
        ends.skip_while(Option::is_none).any(|end| end.is_none_or(|(_, state)| state.content.is_none()))
    }

    /// Whether etcd was put back to where this incarnation, which was deleted, still existed.
    pub(crate) fn was_revived(&self, key: &str, uid: &str) -> bool {
        let deleted = |life| states_of(life, key, uid).find(|(_, state)| state.content.is_none()).map(|(at, _)| at);
        let known = self.lives.iter().filter(|life| states_of(life, key, uid).next().is_some());
        let deletions: Vec<_> = known.map(deleted).collect();
        deletions.windows(2).any(|pair| pair[0].is_some() && pair[0] != pair[1])
    }

    /// Whether a version of this incarnation stands for two states: it came again after etcd was put back.
    pub(crate) fn is_ambiguous(&self, event: &Event) -> bool {
        let mut states = self.at(&event.key, event.version).filter(|state| state.uid == event.uid);
        let first = states.next();
        states.any(|state| first.is_some_and(|first| first.content != state.content))
    }

    /// Whether the object was outside of the selection at this version or later, or once etcd had been put back.
    pub(crate) fn had_left_since(&self, event: &Event) -> bool {
        let states = |life| states_of(life, &event.key, &event.uid);
        let from = self.lives.iter().position(|life| states(life).any(|(at, _)| at == event.version));
        let Some(from) = from else { return false };
        self.lives[from..].iter().enumerate().any(|(number, life)| {
            states(life).any(|(at, state)| (number > 0 || at >= event.version) && state.is_outside())
        })
    }

    /// Whether the object existed before it was as this event tells, and was outside of the selection. Until a rewind is
    /// noticed, it may also be new to crier because the counter had passed its creation.
    pub(crate) fn had_existed(&self, event: &Event, selected: bool) -> bool {
        self.lives.iter().enumerate().any(|(number, life)| {
            let states = |until| states_of(life, &event.key, &event.uid).take_while(move |(at, _)| *at < until);
            let is_of = states(event.version + 1).any(|(at, _)| at == event.version);
            is_of && states(event.version).any(|(_, state)| number > 0 || selected && state.is_outside())
        })
    }

    /// How many states and deletions there were.
    pub(crate) fn size(&self) -> usize {
        self.lives.iter().flat_map(BTreeMap::values).map(BTreeMap::len).sum()
    }

    fn note(&mut self, event: &Value) {
        let text = |name: &str| event["kv"][name].as_str().unwrap_or_default();
        let decode = |name: &str| STANDARD.decode(text(name)).expect("etcd sends base64");
        let key = String::from_utf8(decode("key")).unwrap()[PREFIX.len()..].to_owned();
        let version: u128 = text("mod_revision").parse().unwrap();
        let states = self.lives.last_mut().expect("there is a first life").entry(key).or_default();
        let state = if event["type"] == "DELETE" {
            let uid = states.last_key_value().map(|(_, state)| state.uid.clone()).unwrap_or_default();
            State { uid, content: None }
        } else {
            let object: Value = serde_json::from_slice(&decode("value")).expect("custom resources are stored as JSON");
            let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
            State { uid, content: Some(content_of(&object)) }
        };
        states.insert(version, state);
        self.read_to = self.read_to.max(version.try_into().unwrap());
    }
}

/// Follows etcd.
pub(crate) struct Recorder {
    history: Arc<Mutex<History>>,
    life: watch::Sender<()>,
    task: JoinHandle<()>,
}

impl Recorder {
    pub(crate) fn start(etcd: String) -> Self {
        let history = History::of(vec![Life::new()]);
        let (history, (life, lives)) = (Arc::new(Mutex::new(history)), watch::channel(()));
        let task = tokio::spawn(follow(etcd, Arc::clone(&history), lives));
        Self { history, life, task }
    }

    fn history(&self) -> MutexGuard<'_, History> {
        lock(&self.history)
    }

    /// etcd was put back to this revision: what came after it has never happened.
    pub(crate) fn begin_life(&self, revision: u64) {
        let mut history = self.history();
        let mut life = history.lives.last().cloned().expect("there is a first life");
        life.values_mut().for_each(|states| states.retain(|version, _| *version <= u128::from(revision)));
        history.lives.push(life);
        history.read_to = revision;
        self.life.send_replace(());
    }

    /// All that has happened, if it was read up to this version; an error when it can no longer be.
    pub(crate) fn up_to(&self, version: u128) -> Result<Option<History>, String> {
        let history = self.history();
        match &history.fault {
            Some(fault) => Err(fault.clone()),
            None => Ok((u128::from(history.read_to) >= version).then(|| history.clone())),
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock(history: &Mutex<History>) -> MutexGuard<'_, History> {
    history.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn follow(etcd: String, history: Arc<Mutex<History>>, mut lives: watch::Receiver<()>) {
    let client = reqwest::Client::new();
    loop {
        lives.borrow_and_update();
        tokio::select! {
            _ = read(&client, &etcd, &history) => {}
            _ = lives.changed() => {}
        }
        // etcd is down, or was put back; it is asked again until it answers.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// One watch, until it ends.
async fn read(client: &reqwest::Client, etcd: &str, history: &Mutex<History>) -> Option<()> {
    let from = lock(history).read_to + 1;
    let end = format!("{}0", PREFIX.trim_end_matches('/'));
    let wanted = json!({"key": STANDARD.encode(PREFIX), "range_end": STANDARD.encode(end), "start_revision": from});
    let body = json!({"create_request": wanted}).to_string();
    let mut response = client.post(format!("{etcd}/v3/watch")).body(body).send().await.ok()?;
    let mut line = Vec::new();
    while let Some(chunk) = response.chunk().await.ok()? {
        for part in chunk.split_inclusive(|byte| *byte == b'\n') {
            line.extend_from_slice(part);
            if !part.ends_with(b"\n") {
                continue;
            }
            let answer: Value = serde_json::from_slice(&line).expect("etcd sends a JSON text a line");
            line.clear();
            let mut history = lock(history);
            if answer["result"]["canceled"] == true {
                history.fault = Some(format!("etcd's history can no longer be read: {answer}"));
                return None;
            }
            for event in answer["result"]["events"].as_array().into_iter().flatten() {
                history.note(event);
            }
        }
    }
    Some(())
}
