//! What both the API and the pages work with: the queues, and who may do what to them.

pub(crate) mod act;
pub(crate) mod audit;
pub(crate) mod failures;
pub(crate) mod jobs;
pub(crate) mod purge;
pub(crate) mod words;

use std::fmt;
use std::sync::Arc;

use axum::http::StatusCode;
use postroom_core::store::{AdminStore, BoxFuture, TransactionalStore};
use postroom_core::{Message, Outbox, Published, Result};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use self::jobs::Jobs;
use crate::Settings;
use crate::access::Access;
use crate::access::rates::Rates;
use crate::access::session::Sessions;
use crate::metrics::Watch;
use crate::problem::Problem;
use crate::sampler::Sampler;

type Publish = Arc<dyn Fn(Message) -> BoxFuture<'static, Result<Published>> + Send + Sync>;

/// A database under a name that people know it by.
pub struct Database {
    name: String,
    boxes: Vec<Arc<dyn AdminStore>>,
    publish: Publish,
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

/// One box of one database.
pub(crate) struct Queue {
    pub(crate) database: String,
    /// `outbox` or `inbox`.
    pub(crate) kind: &'static str,
    pub(crate) store: Arc<dyn AdminStore>,
    pub(crate) publish: Publish,
    pub(crate) sampler: Sampler,
}

/// The state of the router.
pub(crate) struct Desk {
    pub(crate) queues: Vec<Queue>,
    pub(crate) access: Access,
    pub(crate) sessions: Sessions,
    pub(crate) rates: Rates,
    jobs: Jobs,
    /// Places for live streams and exports.
    pub(crate) streams: Arc<Semaphore>,
    /// Ends streams and jobs when the server stops.
    pub(crate) shutdown: CancellationToken,
    pub(crate) read_only: bool,
    pub(crate) guarded_elsewhere: bool,
    pub(crate) base_path: String,
    pub(crate) trusts_forwarded_prefix: bool,
    pub(crate) trusts_forwarded_for: bool,
    pub(crate) watch: Watch,
}

impl Desk {
    pub(crate) fn open(databases: Vec<Database>, access: Access, settings: Settings) -> Arc<Self> {
        let mut queues = Vec::new();
        for Database { name, boxes, publish } in databases {
            for store in boxes {
                queues.push(Queue {
                    database: name.clone(),
                    kind: store.local().snapshot().queue,
                    sampler: Sampler::start(Arc::clone(&store)),
                    store,
                    publish: Arc::clone(&publish),
                });
            }
        }
        Arc::new(Self {
            queues,
            access,
            sessions: Sessions::default(),
            rates: Rates::new(settings.limits),
            jobs: Jobs::new(&settings.shutdown),
            streams: Arc::new(Semaphore::new(settings.limits.streams)),
            shutdown: settings.shutdown,
            read_only: settings.read_only,
            guarded_elsewhere: settings.guarded_elsewhere,
            base_path: settings.base_path,
            trusts_forwarded_prefix: settings.trusts_forwarded_prefix,
            trusts_forwarded_for: settings.trusts_forwarded_for,
            watch: settings.watch,
        })
    }

    /// Whether anything may be changed, whoever asks.
    pub(crate) fn may_change(&self) -> Result<(), Problem> {
        match self.read_only {
            false => Ok(()),
            true => Err(Problem::new(
                StatusCode::FORBIDDEN,
                "read_only",
                "this shows everything and changes nothing: it was started read-only",
            )),
        }
    }

    /// The box that a request means. Without a name it is the first one.
    pub(crate) fn queue(
        &self,
        database: Option<&str>,
        kind: Option<&str>,
    ) -> Result<&Queue, Problem> {
        let wanted = |queue: &&Queue| {
            database.is_none_or(|name| queue.database == name)
                && kind.is_none_or(|kind| queue.kind == kind)
        };
        self.queues.iter().find(wanted).ok_or_else(|| {
            let known: Vec<_> = self.queues.iter().map(Queue::to_string).collect();
            Problem::not_found(format!("no such box; there are: {}", known.join(", ")))
        })
    }
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.database, self.kind)
    }
}
