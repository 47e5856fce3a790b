//! The boxes of all databases, as a request finds them: a list that changes only as a whole.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::StatusCode;
use postroom_core::store::AdminStore;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::databases::{Databases, Entry, List, Publish};
use crate::metrics::Gone;
use crate::problem::Problem;
use crate::sampler::{Sampler, Turns};

/// So many names are told to who asks for one that is not there.
const MOST_NAMES: usize = 10;

/// One box of one database.
pub(crate) struct Queue {
    pub(crate) database: String,
    /// `outbox` or `inbox`.
    pub(crate) kind: &'static str,
    /// The place of its database.
    pub(crate) number: u64,
    pub(crate) store: Arc<dyn AdminStore>,
    pub(crate) publish: Publish,
    pub(crate) sampler: Sampler,
    /// When its database is not on the list any more.
    pub(crate) gone: CancellationToken,
    /// What it was made of.
    entry: Arc<Entry>,
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.database, self.kind)
    }
}

/// All boxes at one moment, in the order of their databases.
pub(crate) struct Queues {
    all: Vec<Arc<Queue>>,
    list: Arc<List>,
}

impl Queues {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Queue> + Clone {
        self.all.iter().map(|queue| &**queue)
    }

    pub(crate) fn shared(&self) -> &[Arc<Queue>] {
        &self.all
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The boxes of one database.
    pub(crate) fn of<'a>(&'a self, database: &'a str) -> impl Iterator<Item = &'a Queue> {
        self.iter().filter(move |queue| queue.database == database)
    }

    /// The names of all databases.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.list.entries.iter().map(|entry| entry.database.name.as_str())
    }

    /// How many databases there are.
    pub(crate) fn databases(&self) -> usize {
        self.list.entries.len()
    }

    /// Whether links to this box may leave its name out: it is the first one, for ever.
    pub(crate) fn is_default(&self, queue: &Queue) -> bool {
        let first = self.all.first();
        let is_first =
            |first: &Arc<Queue>| first.database == queue.database && first.kind == queue.kind;
        self.list.is_fixed && first.is_some_and(is_first)
    }

    /// The box that somebody wants to see. Without a name it is the first one.
    pub(crate) fn find(
        &self,
        database: Option<&str>,
        kind: Option<&str>,
    ) -> Result<Arc<Queue>, Problem> {
        let wanted = |queue: &&Arc<Queue>| {
            database.is_none_or(|name| queue.database == name)
                && kind.is_none_or(|kind| queue.kind == kind)
        };
        self.all.iter().find(wanted).cloned().ok_or_else(|| self.no_such_box())
    }

    /// The box that somebody wants to change. Where databases come and go, the first one may be
    /// another one by now: then it has to have a name.
    pub(crate) fn find_to_change(
        &self,
        database: Option<&str>,
        kind: Option<&str>,
    ) -> Result<Arc<Queue>, Problem> {
        if database.is_none() && !self.list.is_fixed && self.databases() > 1 {
            let told = "store must be the name of a database: there are several, and they change";
            return Err(Problem::invalid(told));
        }
        self.find(database, kind)
    }

    fn no_such_box(&self) -> Problem {
        if self.all.is_empty() {
            let told = "there is no database yet; it is shown as soon as one is opened";
            return Problem::new(StatusCode::NOT_FOUND, "no_database", told);
        }
        let mut known: Vec<_> = self.iter().take(MOST_NAMES).map(Queue::to_string).collect();
        if let Some(more @ 1..) = self.all.len().checked_sub(MOST_NAMES) {
            known.push(format!("and {more} more"));
        }
        Problem::not_found(format!("no such box; there are: {}", known.join(", ")))
    }
}

/// Keeps the boxes as the list of databases wants them.
pub(crate) struct Shelf {
    databases: watch::Receiver<Arc<List>>,
    /// The list lives as long as somebody looks at it.
    _owner: Databases,
    /// Where samplers run: who changes the list may be elsewhere.
    runtime: Handle,
    turns: Arc<Turns>,
    gone: Arc<Gone>,
    queues: Mutex<Arc<Queues>>,
}

impl Shelf {
    /// # Panics
    /// Outside of a tokio runtime.
    pub(crate) fn new(databases: Databases) -> Self {
        let empty = Arc::new(List::default());
        let shelf = Self {
            databases: databases.watch(),
            _owner: databases,
            runtime: Handle::current(),
            turns: Arc::default(),
            gone: Arc::default(),
            queues: Mutex::new(Arc::new(Queues { all: Vec::new(), list: empty })),
        };
        shelf.queues();
        shelf
    }

    /// The list, as it changes.
    pub(crate) fn changes(&self) -> watch::Receiver<Arc<List>> {
        self.databases.clone()
    }

    /// What is not among the metrics any more.
    pub(crate) fn gone(&self) -> &Gone {
        &self.gone
    }

    /// All boxes there are now.
    pub(crate) fn queues(&self) -> Arc<Queues> {
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        // Within the lock, so that nobody goes back to an older list.
        let list = Arc::clone(&self.databases.borrow());
        if !Arc::ptr_eq(&queues.list, &list) {
            *queues = Arc::new(self.arrange(&queues, list));
        }
        Arc::clone(&queues)
    }

    /// Keeps what is on the list, begins what is new there, and ends what is not.
    fn arrange(&self, before: &Queues, list: Arc<List>) -> Queues {
        let mut old: HashMap<*const Entry, Vec<Arc<Queue>>> = HashMap::new();
        for queue in &before.all {
            old.entry(Arc::as_ptr(&queue.entry)).or_default().push(Arc::clone(queue));
        }
        let mut all = Vec::with_capacity(before.all.len());
        for entry in &list.entries {
            let kept = old.remove(&Arc::as_ptr(entry));
            all.extend(kept.unwrap_or_else(|| self.begin(entry)));
        }
        let ended: Vec<_> = old.into_values().flatten().collect();
        self.turns.share(all.len());
        // First, so that who ends knows whether somebody else has its name.
        self.gone.update(ended.iter().map(|queue| &*queue.store), all.iter().map(|q| &*q.store));
        ended.iter().for_each(|queue| queue.gone.cancel());
        Queues { all, list }
    }

    fn begin(&self, entry: &Arc<Entry>) -> Vec<Arc<Queue>> {
        let begin = |store: &Arc<dyn AdminStore>| {
            let (store, gone) = (Arc::clone(store), CancellationToken::new());
            let sampler = Sampler::start(
                Arc::clone(&store),
                &self.turns,
                &self.runtime,
                gone.clone(),
                Arc::clone(&self.gone),
            );
            Arc::new(Queue {
                database: entry.database.name.clone(),
                kind: store.local().snapshot().queue,
                number: entry.number,
                store,
                publish: Arc::clone(&entry.database.publish),
                sampler,
                gone,
                entry: Arc::clone(entry),
            })
        };
        entry.database.boxes.iter().map(begin).collect()
    }
}
