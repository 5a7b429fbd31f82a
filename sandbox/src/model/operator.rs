//! What people and accidents do to a cluster: compaction, restarts, a backup put back, rights taken away, an API server
//! that answers with errors. Not what clients ask for.

use super::refusal::Refusal;
use super::request::Answer;
use super::server::ApiServer;
use super::store::{KindId, Store};

/// etcd at one moment, as a backup holds it.
#[derive(Clone)]
pub struct Snapshot(Store);

/// How an API server fails that answers at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// 429 "storage is (re)initializing", with these seconds to wait.
    Initializing(u64),
    /// 503 with Retry-After, as just after a start.
    Starting,
    /// 500 without a reason: the conversion webhook is not there.
    Conversion,
    /// 401: the token is not taken.
    Unauthorized,
}

/// A verb on a resource that is not permitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    verb: String,
    resource: String,
}

/// Counts of what the server holds, to see that nothing grows without bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Present objects.
    pub objects: usize,
    /// Past writes that somebody can still ask for.
    pub events: usize,
}

impl ApiServer {
    /// Compacts etcd up to now. Watches are served from the caches, and so go on; lists of the past too, as far as the
    /// caches go.
    pub fn compact(&mut self) {
        self.store.compacted = self.store.revision;
        for id in 0..self.store.kinds.len() {
            self.trim(id);
        }
    }

    /// Kills the API server and starts it again: connections are cut, and caches know nothing of what was before.
    pub fn restart_server(&mut self) {
        self.break_streams();
        self.store.forget_caches();
    }

    /// Makes a kind's watch cache hold so many events, from now on; what is more is forgotten.
    pub fn set_window(&mut self, group: &str, resource: &str, events: usize) {
        let Some(id) = self.store.find(group, resource) else { return };
        let revision = self.store.revision;
        self.store.kinds[id].warm(revision);
        self.store.kinds[id].shrink(events);
    }

    /// A backup of etcd.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.store.clone())
    }

    /// Puts a backup back under a running cluster: the counter steps back, caches begin anew, connections are cut.
    pub fn restore(&mut self, snapshot: &Snapshot) {
        // Streams name kinds of the store that goes away.
        self.break_streams();
        let kinds = snapshot.0.kinds.len();
        let mut gone = std::mem::replace(&mut self.store, snapshot.0.clone()).kinds;
        // Their places must not be given to others while they are polled for the last time.
        for mut kind in gone.drain(..).skip(kinds) {
            kind.removed = true;
            kind.objects.clear();
            self.store.kinds.push(kind);
        }
        self.store.forget_caches();
    }

    /// Has no streaming lists any more, or has them again: what the feature gate WatchList does.
    pub fn set_streaming_lists(&mut self, enabled: bool) {
        self.streaming_lists = enabled;
    }

    /// Takes a right away: a verb on a resource, which is named as `things.test.io`; `*` stands for all.
    pub fn deny(&mut self, verb: &str, resource: &str) {
        self.denied.push(Rule { verb: verb.to_owned(), resource: resource.to_owned() });
    }

    /// Gives a right back that was taken away by the same words.
    pub fn allow(&mut self, verb: &str, resource: &str) {
        self.denied.retain(|rule| rule.verb != verb || rule.resource != resource);
    }

    /// Fails the next requests, so many.
    pub fn unavailable(&mut self, failure: Failure, requests: u32) {
        self.trouble = Some((failure, requests)).filter(|_| requests > 0);
    }

    /// The revision of the last write.
    pub fn resource_version(&self) -> u64 {
        self.store.revision
    }

    /// What the server holds of a kind.
    pub fn held(&self, group: &str, resource: &str) -> Held {
        let Some(id) = self.store.find(group, resource) else { return Held::default() };
        let kind = &self.store.kinds[id];
        Held { objects: kind.objects.len(), events: kind.kept() }
    }

    pub(super) fn take_trouble(&mut self) -> Option<Answer> {
        let (failure, left) = self.trouble.take()?;
        if left > 1 {
            self.trouble = Some((failure, left - 1));
        }
        Some(failure.answer())
    }

    pub(super) fn check_allowed(
        &self,
        verb: &str,
        (group, resource): (&str, &str),
        namespace: &str,
        name: &str,
    ) -> Result<(), Refusal> {
        if self.denied.is_empty() {
            return Ok(());
        }
        let is = |wanted: &str, given: &str| wanted == "*" || wanted == given;
        let full = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
        if !self.denied.iter().any(|rule| is(&rule.verb, verb) && is(&rule.resource, &full)) {
            return Ok(());
        }
        Err(Refusal::forbidden(verb, group, resource, namespace, name))
    }

    pub(super) fn kind_id(&self, group: &str, resource: &str) -> Option<KindId> {
        self.store.find(group, resource)
    }
}

impl Failure {
    fn answer(self) -> Answer {
        let mut refusal = match self {
            Self::Initializing(seconds) => return Refusal::throttled(seconds).into(),
            Self::Starting => {
                let message =
                    "the request has been made before all known HTTP paths have been installed, please try again";
                Refusal::new(503, "ServiceUnavailable", message)
            }
            Self::Conversion => {
                let message = "conversion webhook for test.io/v1, Kind=Thing failed: Post \"https://webhook/convert\": dial \
                               tcp: connect: connection refused";
                Refusal::new(500, "", message)
            }
            Self::Unauthorized => Refusal::new(401, "Unauthorized", "Unauthorized"),
        };
        refusal.retry_after = Some(5).filter(|_| self == Self::Starting);
        refusal.into()
    }
}
