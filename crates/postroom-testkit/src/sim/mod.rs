//! A store in memory with exactly the semantics of the databases, for tests.
//!
//! Like SQLite it has one writer at a time: a transaction holds the whole store until it ends.

mod admin;
mod bug;
mod control;
mod order;
mod queue;
pub(crate) mod state;

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;

use postroom_core::lifecycle::Settlement;
use postroom_core::store::{
    Appended, BoxFuture, Claim, Claimed, Entry, Local, Paused, Purge, Purged, Reaped, Settled,
    Store, StoreTransaction, TransactionalStore,
};
use postroom_core::{
    Error, ErrorKind, Lease, ManualClock, MessageId, OwnerToken, Result, Timestamp,
};
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::Instant;

pub use bug::Bug;
pub(crate) use queue::Rules;
use state::{Held, State, Undo};

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
#[derive(Clone)]
pub struct SimStore {
    state: Arc<Mutex<State>>,
    clock: ManualClock,
    /// Since when tokio's time is added to the clock's, if it is.
    ticking_since: Option<Instant>,
    rules: Rules,
    local: Arc<Local>,
    faults: Arc<StdMutex<VecDeque<(Call, Fault)>>>,
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
    /// [`TransactionalStore::append`]
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
        Self {
            state: Arc::default(),
            clock,
            ticking_since: None,
            rules: Rules { keep_done: true, halt: false },
            local: Arc::new(Local::new("sim", "outbox")),
            faults: Arc::default(),
        }
    }

    /// The same database as another process sees it: it wakes nobody here, and finds no dispatcher.
    #[must_use]
    pub fn as_another_process(&self) -> Self {
        Self { local: Arc::new(Local::new("sim", "outbox")), ..self.clone() }
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
        self.state.try_lock().expect("no transaction is open").bug = Some(bug);
        self
    }

    /// Runs `change` as one transaction; nothing happens between it and what it sees.
    pub(crate) async fn locked<T>(&self, change: impl FnOnce(&mut State, Rules) -> T) -> T {
        change(&mut *self.state.lock().await, self.rules)
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

    /// A connection outside any transaction.
    #[must_use]
    pub fn connection(&self) -> SimConn {
        SimConn { store: self.clone(), open: None, undo: Vec::new() }
    }

    /// Damages a stored message so that it can not be decoded any more.
    pub async fn make_undecodable(&self, id: MessageId) {
        let mut state = self.state.lock().await;
        if let Some(seq) = state.by_id.get(&id).copied() {
            state.undecodable.insert(seq);
        }
    }

    /// The application's rows.
    pub async fn business_rows(&self) -> Vec<i64> {
        self.state.lock().await.business.clone()
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
                drop(change(&mut *self.state.lock().await));
                Err(unavailable())
            }
            None => Ok(change(&mut *self.state.lock().await)),
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
            Ok(self.state.lock().await.reap(limit, max_attempts, rules, now))
        })
    }

    fn purge<'a>(&'a self, purge: &'a Purge) -> BoxFuture<'a, Result<Purged>> {
        Box::pin(async move { Ok(self.state.lock().await.purge(purge, self.now())) })
    }

    fn leave(&self, owner: OwnerToken) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            self.state.lock().await.leave(owner);
            Ok(())
        })
    }

    fn paused(&self) -> BoxFuture<'_, Result<Paused>> {
        Box::pin(async { Ok(self.state.lock().await.paused()) })
    }

    fn next_due(&self) -> BoxFuture<'_, Result<Option<Duration>>> {
        Box::pin(async {
            let (now, state) = (self.now(), self.state.lock().await);
            let times = state.parked.values().filter_map(|row| row.wake_at);
            Ok(times.filter(|at| *at > now).min().map(|at| at.since(now)))
        })
    }

    fn halts(&self) -> bool {
        self.rules.halt
    }

    fn local(&self) -> &Local {
        &self.local
    }
}

impl TransactionalStore for SimStore {
    type Conn = SimConn;
    type Tx = SimTx;

    async fn begin(&self) -> Result<SimTx> {
        let mut conn = self.connection();
        conn.begin().await;
        Ok(SimTx { conn })
    }

    async fn require_transaction(&self, conn: &mut SimConn) -> Result<()> {
        conn.open_state().map(drop)
    }

    async fn append(&self, conn: &mut SimConn, entries: &[Entry]) -> Result<Vec<Appended>> {
        let fault = self.fault(Call::Append);
        match fault {
            Some(Fault::Unavailable) => return Err(unavailable()),
            Some(Fault::Contention) => return Err(contention()),
            Some(Fault::Refused) => return Err(refused()),
            Some(Fault::ReplyLost) | None => {}
        }
        let now = self.now();
        let (state, undo) = conn.open_state()?;
        let appended = state.append(entries, now, undo)?;
        match fault {
            Some(_) => Err(unavailable()),
            None => Ok(appended),
        }
    }
}

/// A connection to a [`SimStore`], perhaps inside a transaction.
pub struct SimConn {
    store: SimStore,
    open: Option<OwnedMutexGuard<State>>,
    undo: Vec<Undo>,
}

impl SimConn {
    /// Begins a transaction; waits for the one that is open elsewhere.
    pub async fn begin(&mut self) {
        self.open = Some(Arc::clone(&self.store.state).lock_owned().await);
    }

    /// Ends the transaction and keeps its writes.
    pub fn commit(&mut self) {
        self.undo.clear();
        self.open = None;
    }

    /// Ends the transaction and takes its writes back.
    pub fn rollback(&mut self) {
        self.rollback_to(0);
        self.open = None;
    }

    /// Writes a row of the application.
    ///
    /// # Errors
    /// `NotInTransaction` outside a transaction.
    pub fn write_business_row(&mut self, row: i64) -> Result<()> {
        let (state, undo) = self.open_state()?;
        state.business.push(row);
        undo.push(Undo::Business);
        Ok(())
    }

    fn open_state(&mut self) -> Result<(&mut State, &mut Vec<Undo>)> {
        match &mut self.open {
            Some(state) => Ok((state, &mut self.undo)),
            None => Err(Error::new(
                ErrorKind::NotInTransaction,
                "the connection has no open transaction; begin one before publishing",
            )),
        }
    }

    /// What the transaction has written and not taken back.
    pub(crate) fn written(&self) -> Vec<Written> {
        let Some(state) = &self.open else { return Vec::new() };
        let rows = self.undo.iter().filter_map(|write| match write {
            Undo::Message(seq) => Some(*seq),
            Undo::Key(_) | Undo::Business => None,
        });
        rows.map(|seq| {
            let row = state.queue.get(&seq).or_else(|| state.parked.get(&seq));
            let (held, expires) =
                (row.and_then(|row| row.held), row.and_then(|row| row.expires_at));
            Written { seq, id: state.messages[&seq].message.id(), held, expires }
        })
        .collect()
    }

    fn rollback_to(&mut self, mark: usize) {
        if let Some(state) = &mut self.open {
            if state.has(Bug::RollbackKeepsRows) {
                self.undo.clear();
                return;
            }
            state.undo(&mut self.undo, mark);
        }
    }
}

impl Drop for SimConn {
    fn drop(&mut self) {
        self.rollback();
    }
}

impl fmt::Debug for SimConn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimConn").field("in_transaction", &self.open.is_some()).finish()
    }
}

/// A row that a transaction wrote.
pub(crate) struct Written {
    pub(crate) seq: i64,
    pub(crate) id: MessageId,
    pub(crate) held: Option<Held>,
    pub(crate) expires: Option<Timestamp>,
}

/// A transaction on a [`SimStore`].
#[derive(Debug)]
pub struct SimTx {
    conn: SimConn,
}

impl StoreTransaction for SimTx {
    type Conn = SimConn;
    type Nested<'a> = SimSavepoint<'a>;

    fn conn(&mut self) -> &mut SimConn {
        &mut self.conn
    }

    async fn check_open(&mut self, _writes_follow: bool) -> Result<()> {
        match &self.conn.open {
            Some(_) => Ok(()),
            None => Err(Error::new(ErrorKind::RolledBack, "the transaction has already ended")),
        }
    }

    async fn savepoint(&mut self) -> Result<SimSavepoint<'_>> {
        Ok(SimSavepoint::new(&mut self.conn))
    }

    async fn commit(mut self) -> Result<()> {
        match self.conn.store.fault(Call::Commit) {
            None => {
                self.conn.commit();
                Ok(())
            }
            Some(Fault::ReplyLost) => {
                self.conn.commit();
                Err(Error::new(ErrorKind::CommitUnknown, "the answer to COMMIT was lost"))
            }
            Some(Fault::Unavailable) => {
                Err(Error::new(ErrorKind::CommitUnknown, "the answer to COMMIT was lost"))
            }
            Some(Fault::Contention) => {
                Err(Error::new(ErrorKind::RolledBack, "COMMIT was refused").transient(true))
            }
            Some(Fault::Refused) => Err(Error::new(ErrorKind::RolledBack, "COMMIT was refused")),
        }
    }

    async fn rollback(mut self) -> Result<()> {
        self.conn.rollback();
        Ok(())
    }
}

/// A savepoint on a [`SimStore`].
#[derive(Debug)]
pub struct SimSavepoint<'a> {
    conn: &'a mut SimConn,
    mark: usize,
    released: bool,
}

impl<'a> SimSavepoint<'a> {
    fn new(conn: &'a mut SimConn) -> Self {
        Self { mark: conn.undo.len(), conn, released: false }
    }
}

impl StoreTransaction for SimSavepoint<'_> {
    type Conn = SimConn;
    type Nested<'b>
        = SimSavepoint<'b>
    where
        Self: 'b;

    fn conn(&mut self) -> &mut SimConn {
        self.conn
    }

    async fn check_open(&mut self, _writes_follow: bool) -> Result<()> {
        self.conn.open_state().map(drop)
    }

    async fn savepoint(&mut self) -> Result<SimSavepoint<'_>> {
        Ok(SimSavepoint::new(self.conn))
    }

    async fn commit(mut self) -> Result<()> {
        self.released = true;
        Ok(())
    }

    async fn rollback(self) -> Result<()> {
        Ok(())
    }
}

impl Drop for SimSavepoint<'_> {
    fn drop(&mut self) {
        if !self.released {
            self.conn.rollback_to(self.mark);
        }
    }
}
