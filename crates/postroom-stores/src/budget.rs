//! The connections of many stores on one server: never more than its budget.
//!
//! A connection belongs to one database. If each of hundreds of stores kept a pool, a server would
//! have hundreds of idle connections from every process. Here a store has pools all the same, but
//! one of them opens a connection only when the budget has room for it; when it has none, the
//! connection goes that was not used for longest, whichever store's it is. Nobody waits for an
//! *idle* connection of somebody else, and who waits for a busy one waits in line.

use std::collections::HashMap;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use postroom_core::{Error, ErrorKind, Result};
use sqlx::pool::PoolConnection;
use sqlx::{Connection, Database, Pool, SqlSafeStr as _, Transaction};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep, timeout};

/// How long a call waits for a connection. The driver's default of 30 s is a whole lease.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// A connection that was not used for so long may be gone.
pub(crate) const UNUSED: Duration = Duration::from_secs(1);

/// A connection that was not used for so long is closed. Idle stores are asked every half a minute:
/// as long as the budget is not needed elsewhere, that is not a new connection each time.
const IDLE: Duration = Duration::from_mins(1);

const LOOK_EVERY: Duration = Duration::from_secs(5);

/// A connection that is given back is on its way for a moment.
const MOMENT: Duration = Duration::from_millis(1);

/// A server that hangs does not keep a connection that we are done with.
const CLOSING_LIMIT: Duration = Duration::from_secs(1);

/// Fewer are not enough for a renewal, a claim and a settle at the same time.
pub(crate) const LEAST: usize = 3;
pub(crate) const MOST: usize = 10_000;

/// What a server's connections may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Short calls of the engine.
    Engine,
    /// Transactions of the application, which take as long as they take: they never have more than
    /// half, so that the engine goes on.
    Application,
    /// Has connections of its own: whatever else keeps the others busy, no lease is lost by it.
    Renewal,
}

/// The budget of each server that somebody connects to.
pub(crate) struct Budgets<DB: Database> {
    each: usize,
    servers: Mutex<HashMap<String, Budget<DB>>>,
}

impl<DB: Database> Budgets<DB> {
    pub(crate) fn new(each: usize) -> Result<Self> {
        if !(LEAST..=MOST).contains(&each) {
            let what = format!("connections must be {LEAST} to {MOST} per server, got {each}");
            return Err(Error::new(ErrorKind::Invalid, what));
        }
        Ok(Self { each, servers: Mutex::default() })
    }

    /// The budget of the server that is reached like this.
    pub(crate) fn of(&self, server: String) -> Budget<DB> {
        let new = || Budget::new(self.each);
        lock(&self.servers).entry(server).or_insert_with(new).clone()
    }
}

/// The connections of one server. Clones share them.
pub(crate) struct Budget<DB: Database> {
    work: Arc<Lane<DB>>,
    renewals: Arc<Lane<DB>>,
    application: Arc<Semaphore>,
}

impl<DB: Database> Budget<DB> {
    fn new(most: usize) -> Self {
        let renewals = (most / 10).max(1);
        let work = most - renewals;
        Self {
            work: Arc::new(Lane::new(work)),
            renewals: Arc::new(Lane::new(renewals)),
            application: Arc::new(Semaphore::new((work / 2).max(1))),
        }
    }

    /// A pool that opens connections only within this budget. By itself it must neither open nor
    /// close any.
    pub(crate) fn pool(&self, pool: Pool<DB>, purpose: Use) -> Source<DB> {
        let lane = if purpose == Use::Renewal { &self.renewals } else { &self.work };
        let cap = (purpose == Use::Application).then(|| Arc::clone(&self.application));
        let member = Arc::new(Member { pool: pool.clone(), used: Mutex::new(Instant::now()) });
        Source { pool, part: Some(Part { lane: Arc::clone(lane), member, cap }) }
    }
}

impl<DB: Database> Clone for Budget<DB> {
    fn clone(&self) -> Self {
        Self {
            work: Arc::clone(&self.work),
            renewals: Arc::clone(&self.renewals),
            application: Arc::clone(&self.application),
        }
    }
}

/// Where connections come from: a pool that is on its own, or one that shares a budget.
pub(crate) struct Source<DB: Database> {
    pool: Pool<DB>,
    part: Option<Part<DB>>,
}

struct Part<DB: Database> {
    lane: Arc<Lane<DB>>,
    member: Arc<Member<DB>>,
    cap: Option<Arc<Semaphore>>,
}

impl<DB: Database> From<Pool<DB>> for Source<DB> {
    fn from(pool: Pool<DB>) -> Self {
        Self { pool, part: None }
    }
}

impl<DB: Database> Source<DB> {
    pub(crate) fn pool(&self) -> &Pool<DB> {
        &self.pool
    }

    /// A connection, for as long as its owner keeps it.
    pub(crate) async fn acquire(&self) -> sqlx::Result<Lent<DB>> {
        let Some(part) = &self.part else {
            let conn = self.pool.acquire().await?;
            return Ok(Lent { conn, place: Place::default() });
        };
        let taken = timeout(PATIENCE, part.take()).await;
        let (conn, place) = taken.unwrap_or(Err(sqlx::Error::PoolTimedOut))?;
        Ok(Lent { conn, place })
    }

    /// A transaction, begun in a task so that a caller who goes away can not cut it: a cut BEGIN
    /// leaves its transaction open in the pool (B08). Nor does our patience: that ends with having
    /// a connection.
    pub(crate) async fn begin(
        &self,
        sql: &'static str,
    ) -> sqlx::Result<(Transaction<'static, DB>, Place)> {
        let source = self.clone();
        let beginning = tokio::spawn(async move {
            let Lent { conn, place } = source.acquire().await?;
            let tx = Transaction::begin(conn, Some(sql.into_sql_str())).await?;
            Ok((tx, place))
        });
        beginning.await.unwrap_or(Err(sqlx::Error::WorkerCrashed))
    }
}

impl<DB: Database> Part<DB> {
    async fn take(&self) -> sqlx::Result<(PoolConnection<DB>, Place)> {
        let place = self.lane.place(self.cap.as_ref()).await?;
        let conn = match self.member.reuse().await {
            Some(conn) => conn,
            None => self.lane.open(&self.member).await?,
        };
        Ok((conn, place))
    }
}

impl<DB: Database> Clone for Source<DB> {
    fn clone(&self) -> Self {
        let part = self.part.as_ref().map(|part| Part {
            lane: Arc::clone(&part.lane),
            member: Arc::clone(&part.member),
            cap: part.cap.clone(),
        });
        Self { pool: self.pool.clone(), part }
    }
}

impl<DB: Database> fmt::Debug for Source<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shared = self.part.is_some();
        f.debug_struct("Source").field("shared", &shared).finish_non_exhaustive()
    }
}

/// The right to use a connection of a budget; of one that is on its own there is nothing to hold.
#[derive(Debug, Default)]
pub(crate) struct Place(#[expect(dead_code, reason = "held, not read")] Vec<OwnedSemaphorePermit>);

/// A connection that goes back to its pool.
pub(crate) struct Lent<DB: Database> {
    conn: PoolConnection<DB>,
    /// After the connection: whoever gets this place may have to close it.
    place: Place,
}

impl<DB: Database> Lent<DB> {
    /// Whatever happens, nobody gets it after this.
    #[cfg(feature = "mysql")]
    pub(crate) fn close_on_drop(&mut self) {
        self.conn.close_on_drop();
    }
}

impl<DB: Database> Deref for Lent<DB> {
    type Target = DB::Connection;

    fn deref(&self) -> &DB::Connection {
        &self.conn
    }
}

impl<DB: Database> DerefMut for Lent<DB> {
    fn deref_mut(&mut self) -> &mut DB::Connection {
        &mut self.conn
    }
}

/// A pool of a lane.
struct Member<DB: Database> {
    pool: Pool<DB>,
    used: Mutex<Instant>,
}

impl<DB: Database> Member<DB> {
    /// The pool, which is used now.
    fn used(&self) -> &Pool<DB> {
        *lock(&self.used) = Instant::now();
        &self.pool
    }

    fn unused_for(&self) -> Duration {
        lock(&self.used).elapsed()
    }

    /// A connection that is open and lives. Opens none.
    async fn reuse(&self) -> Option<PoolConnection<DB>> {
        let mut conn = self.pool.try_acquire()?;
        let unused = self.unused_for() >= UNUSED;
        self.used();
        if unused && conn.ping().await.is_err() {
            let _ = timeout(CLOSING_LIMIT, conn.close()).await;
            return None;
        }
        Some(conn)
    }

    /// Closes one that nobody uses; whether there was one.
    async fn close_one(&self) -> bool {
        let Some(conn) = self.pool.try_acquire() else { return false };
        let _ = timeout(CLOSING_LIMIT, conn.close()).await;
        true
    }
}

/// Connections of one server that are counted together.
struct Lane<DB: Database> {
    most: usize,
    in_use: Arc<Semaphore>,
    /// Held by whoever opens a connection, so that the count holds until it is open.
    opening: tokio::sync::Mutex<()>,
    /// Those that may have connections: never more than there are connections.
    pools: Mutex<Vec<Arc<Member<DB>>>>,
    tended: Arc<AtomicBool>,
}

impl<DB: Database> Lane<DB> {
    fn new(most: usize) -> Self {
        Self {
            most,
            in_use: Arc::new(Semaphore::new(most)),
            opening: tokio::sync::Mutex::default(),
            pools: Mutex::default(),
            tended: Arc::default(),
        }
    }

    /// The right to use a connection, in the order in which it was asked for.
    async fn place(&self, cap: Option<&Arc<Semaphore>>) -> sqlx::Result<Place> {
        let mut permits = Vec::with_capacity(2);
        for semaphore in cap.into_iter().chain([&self.in_use]) {
            let permit = Arc::clone(semaphore).acquire_owned().await;
            permits.push(permit.map_err(|_| sqlx::Error::PoolClosed)?);
        }
        Ok(Place(permits))
    }

    /// Opens a connection when there is room, and makes room.
    async fn open(self: &Arc<Self>, member: &Arc<Member<DB>>) -> sqlx::Result<PoolConnection<DB>> {
        let _only_one = self.opening.lock().await;
        // Its own may be on the way back: that is quicker than another one.
        if member.pool.size() > 0 {
            sleep(MOMENT).await;
            if let Some(conn) = member.reuse().await {
                return Ok(conn);
            }
        }
        while self.count() >= self.most {
            if let Some(conn) = member.reuse().await {
                return Ok(conn);
            }
            // Whoever has a place and no connection is the proof that one is idle, or about to be.
            if !self.close_oldest().await {
                sleep(MOMENT).await;
            }
        }
        {
            let mut pools = lock(&self.pools);
            if !pools.iter().any(|other| Arc::ptr_eq(other, member)) {
                pools.push(Arc::clone(member));
            }
        }
        self.tend();
        member.used().acquire().await
    }

    /// How many connections are open, and forgets the pools that have none.
    fn count(&self) -> usize {
        let mut pools = lock(&self.pools);
        pools.retain(|member| member.pool.size() > 0);
        pools.iter().map(|member| member.pool.size() as usize).sum()
    }

    async fn close_oldest(&self) -> bool {
        let mut pools = lock(&self.pools).clone();
        pools.sort_by_key(|member| std::cmp::Reverse(member.unused_for()));
        for member in pools {
            if member.close_one().await {
                return true;
            }
        }
        false
    }

    /// Has somebody close what is not used, as long as there is something.
    fn tend(self: &Arc<Self>) {
        if !self.tended.swap(true, Ordering::SeqCst) {
            let tended = Tended(Arc::clone(&self.tended));
            tokio::spawn(close_unused(Arc::downgrade(self), tended));
        }
    }
}

/// Ends with whoever has it, also when its runtime goes away.
struct Tended(Arc<AtomicBool>);

impl Drop for Tended {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

async fn close_unused<DB: Database>(lane: Weak<Lane<DB>>, tended: Tended) {
    loop {
        sleep(LOOK_EVERY).await;
        let Some(lane) = lane.upgrade() else { return };
        // Nobody opens one meanwhile: after this there is none to look after, or somebody looks.
        let _only_one = lane.opening.lock().await;
        let unused = |member: &Arc<Member<DB>>| member.unused_for() >= IDLE;
        let pools: Vec<_> = lock(&lane.pools).iter().filter(|one| unused(one)).cloned().collect();
        for member in pools {
            while member.close_one().await {}
        }
        if lane.count() == 0 {
            drop(tended);
            return;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
