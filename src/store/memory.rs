//! A store that lives and dies with the process: for `state: memory` and for tests. It survives no crash.

use std::collections::{BTreeMap, BTreeSet};

use super::{FeedState, Identity, Store, StoreError};
use crate::model::{Epoch, FeedRecord, Key, KeyRecord, RouteRecord, Save};

/// Keeps everything in memory.
#[derive(Clone, Debug)]
pub struct MemoryStore {
    identity: Identity,
    feeds: BTreeMap<String, (FeedRecord, BTreeSet<String>)>,
    // By route, then by feed.
    routes: BTreeMap<String, BTreeMap<String, RouteRecord>>,
    records: BTreeMap<String, BTreeMap<Key, KeyRecord>>,
}

impl MemoryStore {
    /// An empty store; `epoch` is the time of its creation in seconds since 1970.
    pub fn new(epoch: u64, fingerprint_key: [u8; 16]) -> Self {
        Self {
            identity: Identity { epoch: Epoch::new(epoch), rewinds: 0, fingerprint_key, cluster: None },
            feeds: BTreeMap::new(),
            routes: BTreeMap::new(),
            records: BTreeMap::new(),
        }
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

    fn load(
        &self,
        feed: &str,
        routes: &[String],
        belongs: &dyn Fn(usize, &Key) -> bool,
    ) -> Result<FeedState, StoreError> {
        let (record, followed) = self.feeds.get(feed).cloned().unwrap_or_default();
        let routes = routes.iter().enumerate().map(|(number, route)| {
            let records = self.routes.get(route).into_iter().flatten();
            let records = records.map(|(feed, record)| {
                let feed_record = self.feeds.get(feed).map(|(feed, _)| feed.clone()).unwrap_or_default();
                (&**feed, record.clone(), feed_record)
            });
            let mut state = super::record_here_and_elsewhere(feed, records);
            state.followed = followed.contains(route);
            let keys = self.records.get(route).into_iter().flatten().filter(|(key, _)| belongs(number, key));
            state.records = keys.map(|(key, record)| (key.clone(), record.clone())).collect();
            state
        });
        Ok(FeedState { feed: record, routes: routes.collect() })
    }

    fn commit(&mut self, feed: &str, routes: &[String], save: &Save) -> Result<(), StoreError> {
        if save.feed.epoch > self.identity.epoch {
            (self.identity.epoch, self.identity.rewinds) = (save.feed.epoch, save.feed.rewinds);
        }
        let followed = save.followed.iter().map(|route| routes[*route].clone()).collect();
        self.feeds.insert(feed.to_owned(), (save.feed.clone(), followed));
        for (route, record) in routes.iter().zip(&save.routes) {
            self.routes.entry(route.clone()).or_default().insert(feed.to_owned(), record.clone());
        }
        for (route, key, record) in &save.records {
            let records = self.records.entry(routes[*route].clone()).or_default();
            if record.is_empty() {
                records.remove(key);
            } else {
                records.insert(key.clone(), record.clone());
            }
        }
        Ok(())
    }
}
