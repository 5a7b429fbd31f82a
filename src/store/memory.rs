//! A store that lives and dies with the process: for `state: memory` and for tests. It survives no crash.

use std::collections::BTreeMap;

use super::{FeedState, Identity, Store, StoreError};
use crate::model::Save;

/// Keeps everything in memory.
#[derive(Debug)]
pub struct MemoryStore {
    identity: Identity,
    feeds: BTreeMap<String, FeedState>,
}

impl MemoryStore {
    /// An empty store; `epoch` is the time of its creation in seconds since 1970.
    pub fn new(epoch: u64, fingerprint_key: [u8; 16]) -> Self {
        Self { identity: Identity { epoch, fingerprint_key, cluster: None }, feeds: BTreeMap::new() }
    }
}

impl Store for MemoryStore {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn bind_cluster(&mut self, uid: &str) -> Result<(), StoreError> {
        match &self.identity.cluster {
            Some(bound) if bound != uid => {
                Err(StoreError::OtherCluster { bound: bound.clone(), cluster: uid.to_owned() })
            }
            _ => {
                self.identity.cluster = Some(uid.to_owned());
                Ok(())
            }
        }
    }

    fn load(&self, feed: &str) -> Result<FeedState, StoreError> {
        Ok(self.feeds.get(feed).cloned().unwrap_or_default())
    }

    fn commit(&mut self, feed: &str, routes: &[String], save: &Save) -> Result<(), StoreError> {
        let state = self.feeds.entry(feed.to_owned()).or_default();
        state.feed = save.feed.clone();
        state.synced.extend(save.synced.iter().map(|route| routes[*route].clone()));
        state.followed = save.followed.iter().map(|route| routes[*route].clone()).collect();
        for (route, key, record) in &save.records {
            let records = state.records.entry(routes[*route].clone()).or_default();
            let place = records.binary_search_by(|(known, _)| known.cmp(key));
            match (place, record.is_empty()) {
                (Ok(place), true) => drop(records.remove(place)),
                (Ok(place), false) => records[place].1 = record.clone(),
                (Err(_), true) => {}
                (Err(place), false) => records.insert(place, (key.clone(), record.clone())),
            }
        }
        state.records.retain(|_, records| !records.is_empty());
        Ok(())
    }
}
