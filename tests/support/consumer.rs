//! What somebody who reads a sink's events believes, and what has to be true of any sequence of them.

use std::collections::BTreeMap;

use serde_json::Value;

/// `created`, `updated`, ...
pub(crate) fn what(event: &Value) -> &str {
    event["type"].as_str().unwrap().rsplit('.').next().unwrap()
}

/// What each event says of which object, but for the mark's.
pub(crate) fn outline(events: &[Value]) -> Vec<(&str, &str)> {
    let of = |event| (what(event), event["name"].as_str().unwrap());
    events.iter().filter(|event| event["name"] != "mark").map(of).collect()
}

/// Lines of structured events; a line that a kill has torn is nobody's.
pub(crate) fn parse_lines(text: &str) -> Vec<Value> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Reads events in the order in which a sink has them, per key.
#[derive(Default)]
pub(crate) struct Consumer {
    /// The newest event of each key, by name; deletions too.
    pub(crate) newest: BTreeMap<String, Value>,
    by_id: BTreeMap<String, Value>,
    by_sequence: BTreeMap<(String, String), String>,
    /// Events that were there before, with the same id.
    pub(crate) repeats: usize,
}

impl Consumer {
    /// Reads on. The sequence of a key never steps back, and an id stands for one change alone.
    pub(crate) fn read(&mut self, events: &[Value]) {
        for event in events {
            let (name, id) = (event["name"].as_str().unwrap(), event["id"].as_str().unwrap());
            if let Some(before) = self.newest.get(name) {
                let (before, now) = (before["sequence"].as_str().unwrap(), event["sequence"].as_str().unwrap());
                assert!(before <= now, "the sequence of {name} steps back from {before} to {now}: {event}");
            }
            let place = (name.to_owned(), event["sequence"].as_str().unwrap().to_owned());
            if let Some(before) = self.by_sequence.insert(place, id.to_owned()) {
                assert_eq!(before, id, "one state of {name} is told by two ids: {event}");
            }
            if let Some(before) = self.by_id.insert(id.to_owned(), event.clone()) {
                self.repeats += 1;
                // A deletion that was seen and one that was inferred are one event.
                let inferred = event["inferred"] == "true" || before["inferred"] == "true";
                for attribute in ["type", "subject", "uid", "resourceversion"] {
                    assert!(inferred || before[attribute] == event[attribute], "{id}: {before}\n{event}");
                }
            }
            self.newest.insert(name.to_owned(), event.clone());
        }
    }
}

/// The newest event of each key.
pub(crate) fn newest(events: &[Value]) -> BTreeMap<String, Value> {
    let mut consumer = Consumer::default();
    consumer.read(events);
    consumer.newest
}

/// Whether these events, read to their end, give exactly the objects of the cluster; if not, what differs first.
pub(crate) fn agrees(events: &[Value], cluster: &BTreeMap<String, Value>) -> Result<(), String> {
    let newest = newest(events);
    for (name, object) in cluster {
        let Some(event) = newest.get(name) else { return Err(format!("{name} was never told")) };
        let (told, held) = (&event["resourceversion"], &object["metadata"]["resourceVersion"]);
        if told != held || what(event) == "deleted" {
            return Err(format!("{name} is told as {} at {told}, the cluster has {held}", what(event)));
        }
        let mut sent = object.clone();
        sent["metadata"].as_object_mut().unwrap().remove("managedFields");
        if !event["data"].is_null() && event["data"] != sent {
            return Err(format!("{name} is told as {}, the cluster has {sent}", event["data"]));
        }
    }
    match newest.iter().find(|(name, event)| !cluster.contains_key(*name) && what(event) != "deleted") {
        Some((name, event)) => Err(format!("{name} is gone, and is told as {}", what(event))),
        None => Ok(()),
    }
}
