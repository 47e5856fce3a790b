//! The same database listed twice is served once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use super::StoreId;
use super::stores::lock;

/// Which databases are served, and under which name.
#[derive(Clone, Debug, Default)]
pub(super) struct Identities(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    taken: Mutex<HashMap<String, StoreId>>,
    freed: Notify,
}

/// The right to serve a database.
#[derive(Debug)]
pub(super) struct Alone {
    identities: Identities,
    identity: String,
}

impl Identities {
    /// Waits until nobody else serves this database; `busy` is told who does meanwhile.
    pub(super) async fn take(
        &self,
        identity: &str,
        id: &StoreId,
        busy: impl Fn(&StoreId),
    ) -> Alone {
        loop {
            let freed = self.0.freed.notified();
            tokio::pin!(freed);
            // Before the look, or an end in between would be missed.
            freed.as_mut().enable();
            let other = {
                let mut taken = lock(&self.0.taken);
                let other = taken.get(identity).cloned();
                if other.is_none() {
                    taken.insert(identity.to_owned(), id.clone());
                }
                other
            };
            let Some(other) = other else {
                return Alone { identities: self.clone(), identity: identity.to_owned() };
            };
            busy(&other);
            freed.await;
        }
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        lock(&self.identities.0.taken).remove(&self.identity);
        self.identities.0.freed.notify_waiters();
    }
}
