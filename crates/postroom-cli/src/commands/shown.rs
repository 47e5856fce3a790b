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

#[cfg(test)]
mod tests {
    use postroom::StoreConfig;

    use super::*;
    use crate::store::{Access, Target};

    async fn opened() -> OpenStore {
        let target = Target::of("sqlite::memory:", StoreConfig::default());
        let target = target.unwrap_or_else(|failure| panic!("{failure:?}"));
        target.open(Access::Write).await.unwrap_or_else(|failure| panic!("{failure:?}"))
    }

    /// What the dashboard was told since.
    fn told(changes: &mut mpsc::UnboundedReceiver<Change>) -> Vec<String> {
        let told = std::iter::from_fn(|| changes.try_recv().ok()).map(|change| match change {
            Change::Show(_) => "show".to_owned(),
            Change::Hide(id) => format!("hide {id}"),
        });
        told.collect()
    }

    #[tokio::test]
    async fn fleet_1_the_dashboard_shows_each_store_once_and_where_it_is() {
        let (shown, mut changes) = Shown::new();
        let id = StoreId::new("acme").expect("legal");
        let (before, after) = (opened().await, opened().await);
        shown.is_served(&id, &before);
        shown.is_served(&id, &before);
        assert_eq!(told(&mut changes), ["show"], "the same handle is no news");
        // It moved: the old place is closed after the new one is served.
        shown.is_served(&id, &after);
        shown.is_gone(&id, &before);
        assert_eq!(told(&mut changes), ["show"]);
        shown.is_gone(&id, &after);
        assert_eq!(told(&mut changes), ["hide acme"]);
    }
}
