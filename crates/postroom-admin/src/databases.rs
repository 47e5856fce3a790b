//! Which databases there are: a list that may change while a router shows it.

use std::fmt;
use std::sync::Arc;

use postroom_core::store::{AdminStore, BoxFuture, TransactionalStore};
use postroom_core::{Message, Outbox, Published, Result};
use tokio::sync::watch;

pub(crate) type Publish =
    Arc<dyn Fn(Message) -> BoxFuture<'static, Result<Published>> + Send + Sync>;

/// A database under a name that people know it by.
pub struct Database {
    pub(crate) name: String,
    pub(crate) boxes: Vec<Arc<dyn AdminStore>>,
    pub(crate) publish: Publish,
}

impl Database {
    /// The boxes of a store: the outbox and the inbox beside it, or the inbox alone when that is
    /// what the store is.
    pub fn new<S>(name: impl Into<String>, store: S) -> Self
    where
        S: AdminStore + TransactionalStore,
    {
        let is_outbox = store.local().snapshot().queue == "outbox";
        let inbox: Arc<dyn AdminStore> = Arc::new(store.inbox());
        let store = Arc::new(store);
        let mut boxes: Vec<Arc<dyn AdminStore>> = Vec::new();
        if is_outbox {
            boxes.push(Arc::clone(&store) as Arc<dyn AdminStore>);
        }
        boxes.push(inbox);
        let outbox = Outbox::<S>::new(store);
        let publish: Publish = Arc::new(move |message| {
            let outbox = outbox.clone();
            Box::pin(async move { outbox.publish(message).await })
        });
        Self { name: name.into(), boxes, publish }
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The databases that a router shows. Clones share the list, and it may change at any time, from
/// any thread: what comes is looked at from then on, what goes is forgotten.
///
/// ```
/// use postroom_admin::{Access, Admin, Database, Databases};
/// use postroom_testkit::SimStore;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let databases = Databases::default();
/// let router = Admin::new(databases.clone(), Access::local()).router();
///
/// databases.add(Database::new("acme", SimStore::default()));
/// assert!(databases.remove("acme"));
/// # drop(router);
/// # }
/// ```
#[derive(Clone)]
pub struct Databases {
    list: Arc<watch::Sender<Arc<List>>>,
}

impl Databases {
    /// Adds one at the end of the list, or in the place of the one that had its name: that one is
    /// gone then, as by [`remove`](Self::remove).
    pub fn add(&self, database: Database) {
        self.list.send_modify(|list| *list = Arc::new(list.with(database)));
    }

    /// Takes one off the list. It is not counted any more, its jobs end, and its figures are no
    /// longer among the metrics. Requests that are under way with it may finish. Answers whether it
    /// was there.
    pub fn remove(&self, name: &str) -> bool {
        self.list.send_if_modified(|list| {
            let is_there = list.entries.iter().any(|entry| entry.database.name == name);
            if is_there {
                *list = Arc::new(list.without(name));
            }
            is_there
        })
    }

    /// The list, as it changes.
    pub(crate) fn watch(&self) -> watch::Receiver<Arc<List>> {
        self.list.subscribe()
    }
}

impl Default for Databases {
    fn default() -> Self {
        Self { list: Arc::new(watch::Sender::new(Arc::default())) }
    }
}

impl From<Vec<Database>> for Databases {
    fn from(databases: Vec<Database>) -> Self {
        let mut list = List::default();
        for database in databases {
            list = list.with(database);
        }
        list.is_fixed = true;
        Self { list: Arc::new(watch::Sender::new(Arc::new(list))) }
    }
}

impl fmt::Debug for Databases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = Arc::clone(&self.list.borrow());
        f.debug_list().entries(list.entries.iter().map(|entry| &entry.database.name)).finish()
    }
}

/// The list at one moment.
#[derive(Default)]
pub(crate) struct List {
    /// In the order in which they were added.
    pub(crate) entries: Vec<Arc<Entry>>,
    /// Whether it is what somebody gave as a whole, and was never changed.
    pub(crate) is_fixed: bool,
    /// The number of the next entry.
    next: u64,
}

/// A database on the list.
pub(crate) struct Entry {
    /// Its place, which it keeps: pages of lists go by it.
    pub(crate) number: u64,
    pub(crate) database: Database,
}

impl List {
    fn with(&self, database: Database) -> Self {
        let mut entries = self.entries.clone();
        let same = |entry: &Arc<Entry>| entry.database.name == database.name;
        match entries.iter().position(same) {
            Some(at) => entries[at] = Arc::new(Entry { number: entries[at].number, database }),
            None => entries.push(Arc::new(Entry { number: self.next, database })),
        }
        Self { entries, is_fixed: false, next: self.next + 1 }
    }

    fn without(&self, name: &str) -> Self {
        let others = self.entries.iter().filter(|entry| entry.database.name != name);
        Self { entries: others.cloned().collect(), is_fixed: false, next: self.next }
    }
}
