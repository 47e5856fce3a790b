//! The databases that the dashboard shows, as the fleet opens and closes them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use postroom::fleet::{StoreId, Watcher};
use postroom_admin::Database;
use tokio::sync::mpsc;

use crate::store::OpenStore;

/// What the dashboard is to do. A database is made there, so that its connections belong to the
/// dashboard's runtime.
pub(super) enum Change {
    Show(Box<dyn FnOnce() -> Database + Send>),
    #[expect(dead_code, reason = "the dashboard takes its databases once, when it starts")]
    Hide(StoreId),
}

/// Tells the dashboard what to show.
#[derive(Clone)]
pub(super) struct Shown {
    now: Arc<Mutex<HashMap<StoreId, OpenStore>>>,
    changes: mpsc::UnboundedSender<Change>,
}

impl Shown {
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<Change>) {
        let (changes, receiver) = mpsc::unbounded_channel();
        (Self { now: Arc::default(), changes }, receiver)
    }
}

impl Watcher<OpenStore> for Shown {
    fn is_served(&self, store: &StoreId, opened: &OpenStore) {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        let before = now.insert(store.clone(), opened.clone());
        if before.is_none_or(|before| !before.is(opened)) {
            // Without a dashboard nobody listens.
            let _ = self.changes.send(Change::Show(opened.database()));
        }
    }

    fn is_gone(&self, store: &StoreId, opened: &OpenStore) {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        // One that moved is shown where it is now.
        if now.get(store).is_some_and(|shown| shown.is(opened)) {
            now.remove(store);
            let _ = self.changes.send(Change::Hide(store.clone()));
        }
    }
}
