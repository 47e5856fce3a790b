//! What both the API and the pages work with: the queues, and who may do what to them.

pub(crate) mod act;
pub(crate) mod audit;
pub(crate) mod failures;
pub(crate) mod fleet;
pub(crate) mod jobs;
pub(crate) mod purge;
pub(crate) mod queues;
pub(crate) mod words;

use std::sync::{Arc, Weak};

use axum::http::StatusCode;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use self::jobs::Jobs;
use self::queues::Shelf;
pub(crate) use self::queues::{Queue, Queues};
use crate::Settings;
use crate::access::Access;
use crate::access::rates::Rates;
use crate::access::session::Sessions;
use crate::databases::{Databases, List};
use crate::metrics::{Gone, Watch};
use crate::problem::Problem;

/// The state of the router.
pub(crate) struct Desk {
    shelf: Arc<Shelf>,
    /// Begins and ends samplers when the list changes and nobody asks.
    _keeper: AbortOnDropHandle<()>,
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
    /// # Panics
    /// Outside of a tokio runtime.
    pub(crate) fn open(databases: Databases, access: Access, settings: Settings) -> Arc<Self> {
        let shelf = Arc::new(Shelf::new(databases));
        let keeper = tokio::spawn(keep(Arc::downgrade(&shelf), shelf.changes()));
        Arc::new(Self {
            shelf,
            _keeper: AbortOnDropHandle::new(keeper),
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

    /// All boxes there are now. A request asks once, and works with what it got.
    pub(crate) fn queues(&self) -> Arc<Queues> {
        self.shelf.queues()
    }

    /// The list of databases, as it changes.
    pub(crate) fn changes(&self) -> watch::Receiver<Arc<List>> {
        self.shelf.changes()
    }

    /// What is not among the metrics any more.
    pub(crate) fn gone(&self) -> &Gone {
        self.shelf.gone()
    }
}

/// Looks at the list whenever it changes.
async fn keep(shelf: Weak<Shelf>, mut changes: watch::Receiver<Arc<List>>) {
    while changes.changed().await.is_ok() {
        let Some(shelf) = shelf.upgrade() else { return };
        shelf.queues();
    }
}
