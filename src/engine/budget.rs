//! The bytes of objects that wait to be told: counted once, however many routes share them, and let go above a budget.
//! What was let go is fetched when it is its key's turn; when that is, is not decided here.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

use crate::model::Object;

/// What a feed's debts hold.
#[derive(Debug)]
pub(super) struct Account {
    held: Arc<AtomicUsize>,
    at_most: usize,
}

/// An object that debts hold; it is taken off the account when the last of them lets it go.
#[derive(Debug)]
pub(super) struct Held {
    object: Object,
    account: Arc<AtomicUsize>,
}

impl Account {
    pub(super) fn new(at_most: usize) -> Self {
        Self { held: Arc::default(), at_most }
    }

    pub(super) fn bytes(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Whether more is held than the budget allows.
    pub(super) fn is_exceeded(&self) -> bool {
        self.bytes() > self.at_most
    }

    /// Holds an object if the budget allows it.
    pub(super) fn hold(&self, object: &Object) -> Option<Arc<Held>> {
        (self.bytes() + object.bytes.len() <= self.at_most).then(|| self.hold_anyway(object))
    }

    /// Holds an object that was fetched because it is its turn.
    pub(super) fn hold_anyway(&self, object: &Object) -> Arc<Held> {
        self.held.fetch_add(object.bytes.len(), Ordering::Relaxed);
        // One copy, so that an object that waits does not keep the whole buffer that it was received in.
        let bytes = Bytes::copy_from_slice(&object.bytes);
        let object = Object { metadata: Arc::clone(&object.metadata), bytes };
        Arc::new(Held { object, account: Arc::clone(&self.held) })
    }
}

impl Held {
    pub(super) fn object(&self) -> &Object {
        &self.object
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.account.fetch_sub(self.object.bytes.len(), Ordering::Relaxed);
    }
}
