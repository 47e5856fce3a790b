//! A store in memory with exactly the semantics of the databases, for tests.
//!
//! Like SQLite it has one writer at a time: a transaction holds the whole store until it ends.

mod admin;
mod bug;
mod control;
mod join;
mod looks;
mod order;
mod queue;
pub(crate) mod state;
mod tenants;
mod tx;
mod watch;

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;

use postroom_core::lifecycle::Settlement;
use postroom_core::store::{
    BoxFuture, Claim, Claimed, Heartbeat, Local, Paused, Purge, Purged, Reaped, Settled, Store,
};
use postroom_core::{
    Error, ErrorKind, Lease, ManualClock, MessageId, OwnerToken, Result, Timestamp,
};
use tokio::sync::{MappedMutexGuard, Mutex, MutexGuard};
use tokio::time::Instant;

pub use bug::Bug;
pub use looks::Answering;
use looks::Looks;
pub(crate) use queue::Rules;
use state::{Database, Side, State};
pub(crate) use tx::Written;
pub use tx::{SimConn, SimSavepoint, SimTx};

/// The in-memory store. Clones share it.
///
/// ```
/// use postroom_core::{Message, Outbox};
/// use postroom_testkit::SimStore;
/// use std::sync::Arc;
///
/// # tokio::runtime::Builder::new_current_thread().build().expect("runtime").block_on(async {
/// let outbox = Outbox::new(Arc::new(SimStore::default()));
/// let mut tx = outbox.begin().await?;
/// tx.publish(Message::builder("order.placed").payload("{}"))?;
/// let committed = tx.commit().await?;
/// assert!(!committed.published[0].already_existed);
/// # Ok::<(), postroom_core::Error>(())
/// # }).expect("runs");
/// ```
///
/// A [join](postroom_core::Join), from its start to its follow-up:
///
/// ```
/// use postroom_core::lifecycle::Outcome;
/// use postroom_core::store::{AdminStore, JoinState};
/// use postroom_core::{Join, Message, Outbox};
/// use postroom_testkit::{SimStore, drain};
/// use std::sync::Arc;
///
/// # tokio::runtime::Builder::new_current_thread().build().expect("runtime").block_on(async {
/// let store = Arc::new(SimStore::default());
/// let mut tx = Outbox::new(Arc::clone(&store)).begin().await?;
/// let join = tx.start_join(
///     Join::expecting(2)
///         .on_success(Message::builder("report.ready"))
///         .on_failure(Message::builder("report.failed")),
/// )?;
/// for part in ["first", "second"] {
///     let id = tx.publish(Message::builder("report.part").payload(part))?;
///     tx.attach(join, id);
/// }
/// tx.commit().await?;
///
/// let mut topics = Vec::new();
/// drain(store.clone(), |item| {
///     topics.push(item.message.topic().to_string());
///     async { Outcome::Done }
/// })
/// .await?;
/// assert_eq!(topics, ["report.part", "report.part", "report.ready"]);
/// assert_eq!(store.join(join).await?.expect("it is there").state, JoinState::Succeeded);
/// # Ok::<(), postroom_core::Error>(())
/// # }).expect("runs");
/// ```
#[derive(Clone)]
pub struct SimStore {
    database: Arc<Mutex<Database>>,
    /// Which of its boxes this is.
    side: Side,
    clock: ManualClock,
    /// Since when tokio's time is added to the clock's, if it is.
    ticking_since: Option<Instant>,
    rules: Rules,
    local: Arc<Local>,
    /// That of the inbox; in an inbox its own.
    inbox_local: Arc<Local>,
    /// That of the outbox, into which joins publish; in an outbox its own.
    outbox_local: Arc<Local>,
    faults: Arc<StdMutex<VecDeque<(Call, Fault)>>>,
    looks: Arc<Looks>,
}

/// A call that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// [`Store::claim`]
    Claim,
    /// [`Store::settle`]
    Settle,
    /// [`Store::renew`]
    Renew,
    /// [`TransactionalStore::begin`](postroom_core::store::TransactionalStore::begin)
    Begin,
    /// [`TransactionalStore::append`](postroom_core::store::TransactionalStore::append)
    Append,
    /// The end of a transaction.
    Commit,
}

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The database is away: nothing happened.
    Unavailable,
    /// The database chose this call as the victim of a deadlock: nothing happened.
    Contention,
    /// It happened, and the answer was lost.
    ReplyLost,
    /// The database refuses this call for good: nothing happened, and trying again will not help.
    Refused,
}

impl SimStore {
    /// An empty store whose time is this clock's.
    #[must_use]
    pub fn new(clock: ManualClock) -> Self {
        let local = Arc::new(Local::new("sim", "outbox"));
        Self {
            database: Arc::default(),
            side: Side::Outbox,
            clock,
            ticking_since: None,
            rules: Rules { keep_done: true, halt: false, fair_tenants: false },
            outbox_local: Arc::clone(&local),
            local,
            inbox_local: Arc::new(Local::new("sim", "inbox")),
            faults: Arc::default(),
            looks: Arc::default(),
        }
    }

    /// The same store under a name of its own, as in log lines and figures. Do it first.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        let local = Arc::new(Local::new(name, "outbox"));
        let outbox_local = Arc::clone(&local);
        let inbox_local = Arc::new(Local::new(name, "inbox"));
        Self { local, outbox_local, inbox_local, ..self }
    }

    /// The same database as another process sees it: it wakes nobody here, and finds no dispatcher.
    #[must_use]
    pub fn as_another_process(&self) -> Self {
        let Self { local: outbox_local, inbox_local, .. } = Self::default();
        let own = if self.side == Side::Inbox { &inbox_local } else { &outbox_local };
        Self { local: Arc::clone(own), inbox_local, outbox_local, ..self.clone() }
    }

    /// The same store, deleting messages when they are acknowledged.
    #[must_use]
    pub fn keep_done(mut self, keep: bool) -> Self {
        self.rules.keep_done = keep;
        self
    }

    /// The same store, in which a dead ordered message stops its key.
    #[must_use]
    pub fn halt(mut self, halt: bool) -> Self {
        self.rules.halt = halt;
        self
    }

    /// The same store, in which tenants take turns.
    #[must_use]
    pub fn fair_tenants(mut self, fair: bool) -> Self {
        self.rules.fair_tenants = fair;
        self
    }

    /// The same store, whose time also passes with tokio's: for tests under paused time.
    #[must_use]
    pub fn ticking(mut self) -> Self {
        self.ticking_since = Some(Instant::now());
        self
    }

    /// The same store with a bug: for tests of tests.
    ///
    /// # Panics
    /// When a transaction is open.
    #[doc(hidden)]
    #[must_use]
    pub fn with_bug(self, bug: Bug) -> Self {
        let mut database = self.database.try_lock().expect("no transaction is open");
        database.outbox.bug = Some(bug);
        database.inbox.bug = Some(bug);
        drop(database);
        self
    }

    /// Runs `change` as one transaction; nothing happens between it and what it sees.
    pub(crate) async fn locked<T>(&self, change: impl FnOnce(&mut State, Rules) -> T) -> T {
        self.change(|state| change(state, self.rules)).await
    }

    /// Runs `change` on the tables of this box, and counts what it settled for joins.
    async fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut database = self.database.lock().await;
        let answer = change(database.side(self.side));
        if database.count_joins(self.side) {
            self.outbox_local.wake();
        }
        answer
    }

    pub(crate) fn now(&self) -> Timestamp {
        let passed = self.ticking_since.map(|since| since.elapsed()).unwrap_or_default();
        self.clock.now().saturating_add(passed)
    }

    /// The clock, for moving it.
    #[must_use]
    pub fn clock(&self) -> &ManualClock {
        &self.clock
    }

    /// Makes the next such call fail. Faults of one kind of call happen in the order they were set.
    pub fn fail_next(&self, call: Call, fault: Fault) {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).push_back((call, fault));
    }

    /// Damages a stored message so that it can not be decoded any more.
    pub async fn make_undecodable(&self, id: MessageId) {
        let mut state = self.state().await;
        if let Some(seq) = state.by_id.get(&id).copied() {
            state.undecodable.insert(seq);
        }
    }

    /// The application's rows.
    pub async fn business_rows(&self) -> Vec<i64> {
        self.database.lock().await.business.clone()
    }

    /// The tables of this box, for as long as nobody else has a transaction open.
    async fn state(&self) -> MappedMutexGuard<'_, State> {
        let side = self.side;
        MutexGuard::map(self.database.lock().await, |database| database.side(side))
    }

    fn fault(&self, call: Call) -> Option<Fault> {
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        let next = faults.iter().position(|(which, _)| *which == call)?;
        faults.remove(next).map(|(_, fault)| fault)
    }

    /// Runs `change` as one transaction, with the fault that was set for this call.
    async fn run<T>(&self, call: Call, change: impl FnOnce(&mut State) -> T) -> Result<T> {
        match self.fault(call) {
            Some(Fault::Unavailable) => Err(unavailable()),
            Some(Fault::Contention) => Err(contention()),
            Some(Fault::Refused) => Err(refused()),
            Some(Fault::ReplyLost) => {
                drop(self.change(change).await);
                Err(unavailable())
            }
            None => Ok(self.change(change).await),
        }
    }
}

fn contention() -> Error {
    Error::new(ErrorKind::Contention, "simulated deadlock")
}

fn refused() -> Error {
    Error::new(ErrorKind::Database, "simulated refusal")
}

fn unavailable() -> Error {
    Error::new(ErrorKind::Unavailable, "simulated outage")
}

impl Default for SimStore {
    fn default() -> Self {
        Self::new(ManualClock::default())
    }
}

impl fmt::Debug for SimStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SimStore")
    }
}

impl Store for SimStore {
    fn claim<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Claimed>> {
        Box::pin(self.run(Call::Claim, |state| state.claim(claim, self.rules, self.now())))
    }

    fn settle<'a>(
        &'a self,
        owner: OwnerToken,
        items: &'a [(Lease, Settlement)],
    ) -> BoxFuture<'a, Result<Settled>> {
        Box::pin(
            self.run(Call::Settle, move |state| state.settle(owner, items, self.rules, self.now())),
        )
    }

    fn renew<'a>(
        &'a self,
        owner: OwnerToken,
        leases: &'a [Lease],
        lease: Duration,
    ) -> BoxFuture<'a, Result<Settled>> {
        Box::pin(self.run(Call::Renew, move |state| state.renew(owner, leases, lease, self.now())))
    }

    fn reap(&self, limit: u32, max_attempts: u32) -> BoxFuture<'_, Result<Reaped>> {
        Box::pin(async move {
            let (rules, now) = (self.rules, self.now());
            Ok(self.change(|state| state.reap(limit, max_attempts, rules, now)).await)
        })
    }

    fn purge<'a>(&'a self, purge: &'a Purge) -> BoxFuture<'a, Result<Purged>> {
        Box::pin(async move {
            let (mut database, now) = (self.database.lock().await, self.now());
            let mut purged = database.side(self.side).purge(purge, now);
            if let Some(age) = purge.done {
                let horizon = now.saturating_sub(age);
                let (members, joins) = database.purge_joins(horizon, purge.limit);
                purged.joins = joins;
                purged.more |= [members, joins].contains(&purge.limit);
            }
            Ok(purged)
        })
    }

    fn leave(&self, owner: OwnerToken) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            self.state().await.leave(owner);
            Ok(())
        })
    }

    fn report<'a>(&'a self, heartbeat: &'a Heartbeat) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            self.state().await.report(heartbeat, self.now());
            Ok(())
        })
    }

    fn paused(&self) -> BoxFuture<'_, Result<Paused>> {
        Box::pin(async { Ok(self.state().await.paused()) })
    }

    fn next_due(&self) -> BoxFuture<'_, Result<Option<Duration>>> {
        Box::pin(async {
            let (now, state) = (self.now(), self.state().await);
            let times = state.parked.values().filter_map(|row| row.wake_at);
            Ok(times.filter(|at| *at > now).min().map(|at| at.since(now)))
        })
    }

    fn identity(&self) -> BoxFuture<'_, Result<String>> {
        let identity = format!("{:p} {:?}", Arc::as_ptr(&self.database), self.side);
        Box::pin(std::future::ready(Ok(identity)))
    }

    fn halts(&self) -> bool {
        self.rules.halt
    }

    fn local(&self) -> &Local {
        &self.local
    }
}
