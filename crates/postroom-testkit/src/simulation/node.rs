//! A process: its way to the database and to the outside world, both of which can fail.

use std::fmt;
use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use postroom_core::lifecycle::Settlement;
use postroom_core::store::{
    Appended, Attach, BoxFuture, Claim, Claimed, Entry, Heartbeat, Local, Paused, Purge, Purged,
    Reaped, Settled, Store, StoreTransaction, TransactionalStore,
};
use postroom_core::{Error, ErrorKind, Join, Lease, OwnerToken, Result};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, sleep_until};

use super::ledger::Ledger;
use super::plan::Weather;
use super::random::Random;
use crate::sim::{Bug, Call, Fault, SimConn, SimSavepoint, SimStore, SimTx};

/// One process. Whatever it does to the world goes through its gate.
pub(super) struct Node {
    pub(super) number: usize,
    dead: AtomicBool,
    stalled_until: Mutex<Instant>,
    outage_until: Mutex<Instant>,
    no_settles_until: Mutex<Instant>,
    /// Whether faults are over.
    healed: AtomicBool,
    weather: Weather,
    random: Mutex<Random>,
    pub(super) ledger: Arc<Ledger>,
    /// What dies with it at once, because it may hold a transaction open.
    producers: Mutex<Vec<AbortHandle>>,
}

impl Node {
    pub(super) fn new(
        number: usize,
        weather: Weather,
        random: Random,
        ledger: Arc<Ledger>,
    ) -> Arc<Self> {
        Arc::new(Self {
            number,
            dead: AtomicBool::new(false),
            stalled_until: Mutex::new(Instant::now()),
            outage_until: Mutex::new(Instant::now()),
            no_settles_until: Mutex::new(Instant::now()),
            healed: AtomicBool::new(false),
            weather,
            random: Mutex::new(random),
            ledger,
            producers: Mutex::default(),
        })
    }

    pub(super) fn own(&self, producer: AbortHandle) {
        lock(&self.producers).push(producer);
    }

    pub(super) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Relaxed)
    }

    /// From here on nobody hears of it again, which is as good as dead.
    pub(super) fn crash(&self) {
        if !self.dead.swap(true, Ordering::Relaxed) {
            lock(&self.producers).drain(..).for_each(|producer| producer.abort());
            self.ledger.crash(self.number);
        }
    }

    pub(super) fn stall(&self, duration: Duration) {
        *lock(&self.stalled_until) = Instant::now() + duration;
        self.ledger.stall(self.number, duration);
    }

    pub(super) fn cut_from_database(&self, duration: Duration) {
        *lock(&self.outage_until) = Instant::now() + duration;
        self.ledger.fault(self.number, &format!("has no database for {duration:?}"));
    }

    pub(super) fn refuse_settles(&self, duration: Duration) {
        *lock(&self.no_settles_until) = Instant::now() + duration;
        self.ledger.note(&format!("p{} can not settle for {duration:?}", self.number));
    }

    pub(super) fn is_stalled(&self) -> bool {
        *lock(&self.stalled_until) > Instant::now()
    }

    pub(super) fn heal(&self) {
        self.healed.store(true, Ordering::Relaxed);
    }

    /// Lets only the living and moving through.
    pub(super) async fn gate(&self) {
        while !self.is_dead() {
            let until = *lock(&self.stalled_until);
            if until <= Instant::now() {
                return;
            }
            sleep_until(until).await;
        }
        pending().await
    }

    /// The way to the database or back, on which a process may die or stop.
    async fn travel(&self, call: Call) {
        let time = {
            let mut random = lock(&self.random);
            // A lease is renewed while its settle is under way, so a slow one costs nothing.
            let harmless = call == Call::Settle;
            let Weather { slow, slow_settles, latency, .. } = self.weather;
            let slow = random.per_mille(if harmless { slow_settles } else { slow });
            let slow = slow && !self.healed.load(Ordering::Relaxed);
            if slow && harmless {
                self.ledger.note(&format!("p{} has a slow settle", self.number));
            } else if slow {
                self.ledger.fault(self.number, &format!("has a slow {call:?}"));
            }
            random.millis(if slow { 300..=3_000 } else { 0..=latency })
        };
        pause(time).await;
        self.gate().await;
    }

    /// A step inside a transaction: it holds up everybody, so it is quick, and it is not stopped.
    async fn step(&self) {
        let time = lock(&self.random).millis(0..=self.weather.latency);
        pause(time).await;
    }

    fn fault(&self, call: Call) -> Option<Fault> {
        let now = Instant::now();
        let no_settles = call == Call::Settle && *lock(&self.no_settles_until) > now;
        if no_settles || *lock(&self.outage_until) > now {
            return Some(Fault::Unavailable);
        }
        let mut random = lock(&self.random);
        if self.healed.load(Ordering::Relaxed) || !random.per_mille(self.weather.faults) {
            return None;
        }
        let fault = match random.within(0..=19) {
            0..=6 => Fault::Unavailable,
            7..=10 => Fault::Contention,
            11 if call == Call::Settle => Fault::Refused,
            _ => Fault::ReplyLost,
        };
        let what = format!("suffers {call:?} {fault:?}");
        // What did not happen costs no lease, and a settle is tried until it is heard.
        let costly = match call {
            Call::Claim | Call::Commit => fault == Fault::ReplyLost,
            Call::Settle => fault == Fault::Refused,
            Call::Renew => true,
            Call::Begin | Call::Append => false,
        };
        match costly {
            true => self.ledger.fault(self.number, &what),
            false => self.ledger.note(&format!("p{} {what}", self.number)),
        }
        Some(fault)
    }
}

async fn pause(time: Duration) {
    if !time.is_zero() {
        sleep(time).await;
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The one database as one process sees it.
pub(super) struct NodeStore {
    pub(super) node: Arc<Node>,
    pub(super) inner: SimStore,
    local: Local,
    bug: Option<Bug>,
}

impl NodeStore {
    pub(super) fn new(node: Arc<Node>, inner: SimStore, bug: Option<Bug>) -> Arc<Self> {
        Arc::new(Self { node, inner, local: Local::default(), bug })
    }

    /// One round trip: there, the effect, and back; with a fault perhaps.
    async fn call<T>(&self, call: Call, effect: impl Future<Output = T>) -> Result<T> {
        let fault = self.node.fault(call);
        self.node.travel(call).await;
        let error = |kind| Error::new(kind, "simulated");
        match fault {
            Some(Fault::Unavailable) => return Err(error(ErrorKind::Unavailable)),
            Some(Fault::Contention) => return Err(error(ErrorKind::Contention)),
            Some(Fault::Refused) => return Err(error(ErrorKind::Database)),
            Some(Fault::ReplyLost) | None => {}
        }
        let answer = effect.await;
        self.node.travel(call).await;
        match fault {
            Some(_) => Err(error(ErrorKind::Unavailable)),
            None => Ok(answer),
        }
    }

    async fn claim_now(&self, claim: &Claim) -> Claimed {
        let (ledger, number) = (&self.node.ledger, self.node.number);
        self.inner
            .locked(|state, rules| {
                let now = self.inner.now();
                let claimed = state.claim(claim, rules, now);
                ledger.claimed(number, &claimed, state, now);
                claimed
            })
            .await
    }

    async fn settle_now(&self, owner: OwnerToken, items: &[(Lease, Settlement)]) -> Settled {
        let (ledger, number) = (&self.node.ledger, self.node.number);
        self.inner
            .locked(|state, rules| {
                let settled = state.settle(owner, items, rules, self.inner.now());
                ledger.settled(number, items, &settled);
                settled
            })
            .await
    }
}

impl fmt::Debug for NodeStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeStore({})", self.node.number)
    }
}

impl Store for NodeStore {
    fn claim<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Claimed>> {
        Box::pin(async move {
            let before = Instant::now();
            let mut claimed = self.call(Call::Claim, self.claim_now(claim)).await?;
            if self.bug == Some(Bug::LateDeadline) {
                for item in &mut claimed.items {
                    item.locked_until = item.locked_until.saturating_add(before.elapsed());
                }
            }
            Ok(claimed)
        })
    }

    fn settle<'a>(
        &'a self,
        owner: OwnerToken,
        items: &'a [(Lease, Settlement)],
    ) -> BoxFuture<'a, Result<Settled>> {
        Box::pin(async move {
            if self.bug == Some(Bug::AnswersBeforeSettle) {
                let (node, inner, items) =
                    (Arc::clone(&self.node), self.inner.clone(), items.to_vec());
                tokio::spawn(async move {
                    sleep(Duration::from_millis(50)).await;
                    node.gate().await;
                    let store = Self { node, inner, local: Local::default(), bug: None };
                    let _ = store.settle_now(owner, &items).await;
                });
                return Ok(Settled { applied: 0, ..Settled::default() });
            }
            self.call(Call::Settle, self.settle_now(owner, items)).await
        })
    }

    fn renew<'a>(
        &'a self,
        owner: OwnerToken,
        leases: &'a [Lease],
        lease: Duration,
    ) -> BoxFuture<'a, Result<Settled>> {
        let (ledger, number) = (&self.node.ledger, self.node.number);
        let renewal = self.inner.locked(move |state, _| {
            let now = self.inner.now();
            let renewed = state.renew(owner, leases, lease, now);
            ledger.renewed(number, leases, &renewed, lease, now);
            renewed
        });
        Box::pin(self.call(Call::Renew, renewal))
    }

    /// The world reaps when the seed says so: a dispatcher that always does would hide a claim that
    /// takes nothing over.
    fn reap(&self, _limit: u32, _max_attempts: u32) -> BoxFuture<'_, Result<Reaped>> {
        Box::pin(async { Ok(Reaped::default()) })
    }

    fn purge<'a>(&'a self, purge: &'a Purge) -> BoxFuture<'a, Result<Purged>> {
        self.inner.purge(purge)
    }

    fn leave(&self, owner: OwnerToken) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            self.node.travel(Call::Settle).await;
            self.inner.leave(owner).await
        })
    }

    fn report<'a>(&'a self, heartbeat: &'a Heartbeat) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            self.node.gate().await;
            self.inner.report(heartbeat).await
        })
    }

    fn paused(&self) -> BoxFuture<'_, Result<Paused>> {
        self.inner.paused()
    }

    fn next_due(&self) -> BoxFuture<'_, Result<Option<Duration>>> {
        Box::pin(self.call(Call::Renew, async { self.inner.next_due().await.unwrap_or_default() }))
    }

    fn identity(&self) -> BoxFuture<'_, Result<String>> {
        self.inner.identity()
    }

    fn halts(&self) -> bool {
        self.inner.halts()
    }

    fn local(&self) -> &Local {
        &self.local
    }
}

impl TransactionalStore for NodeStore {
    type Conn = SimConn;
    type Tx = NodeTx;

    async fn begin(&self) -> Result<NodeTx> {
        self.node.travel(Call::Append).await;
        let tx = self.inner.begin().await?;
        Ok(NodeTx { tx, node: Arc::clone(&self.node), bug: self.bug })
    }

    async fn require_transaction(&self, conn: &mut SimConn) -> Result<()> {
        self.inner.require_transaction(conn).await
    }

    /// Worlds have an outbox only.
    fn inbox(&self) -> Self {
        let (node, inner) = (Arc::clone(&self.node), self.inner.inbox());
        Self { node, inner, local: Local::default(), bug: self.bug }
    }

    async fn admit(&self, conn: &mut SimConn, key: [u8; 32]) -> Result<bool> {
        self.inner.admit(conn, key).await
    }

    async fn settle_in(&self, conn: &mut SimConn, owner: OwnerToken, lease: Lease) -> Result<bool> {
        self.inner.settle_in(conn, owner, lease).await
    }

    async fn start_join(&self, conn: &mut SimConn, join: &Join) -> Result<bool> {
        self.inner.start_join(conn, join).await
    }

    async fn attach(&self, conn: &mut SimConn, attaches: &[Attach]) -> Result<()> {
        self.inner.attach(conn, attaches).await
    }

    async fn append(&self, conn: &mut SimConn, entries: &[Entry]) -> Result<Vec<Appended>> {
        self.node.step().await;
        let fault = self.node.fault(Call::Append);
        let error = |kind| Err(Error::new(kind, "simulated"));
        match fault {
            Some(Fault::Unavailable | Fault::Refused) => return error(ErrorKind::Unavailable),
            Some(Fault::Contention) => return error(ErrorKind::Contention),
            Some(Fault::ReplyLost) | None => {}
        }
        let appended = self.inner.append(conn, entries).await?;
        match fault {
            Some(_) => error(ErrorKind::Unavailable),
            None => Ok(appended),
        }
    }
}

/// A transaction of a process.
pub(super) struct NodeTx {
    tx: SimTx,
    node: Arc<Node>,
    bug: Option<Bug>,
}

impl NodeTx {
    /// The moment of truth.
    async fn commit_now(mut self) -> Result<()> {
        let written = self.tx.conn().written();
        self.tx.commit().await?;
        self.node.ledger.committed(self.node.number, &written);
        Ok(())
    }
}

impl StoreTransaction for NodeTx {
    type Conn = SimConn;
    type Nested<'a> = SimSavepoint<'a>;

    fn conn(&mut self) -> &mut SimConn {
        self.tx.conn()
    }

    async fn check_open(&mut self, writes_follow: bool) -> Result<()> {
        self.tx.check_open(writes_follow).await
    }

    async fn savepoint(&mut self) -> Result<SimSavepoint<'_>> {
        self.tx.savepoint().await
    }

    async fn commit(self) -> Result<()> {
        self.node.step().await;
        let node = Arc::clone(&self.node);
        let fault = node.fault(Call::Commit);
        let unknown = Err(Error::new(ErrorKind::CommitUnknown, "simulated"));
        match (fault, self.bug) {
            (Some(Fault::Contention | Fault::Refused), Some(Bug::CommitHidesRollback)) => {}
            (Some(Fault::Contention | Fault::Refused), _) => {
                return Err(Error::new(ErrorKind::RolledBack, "simulated").transient(true));
            }
            (Some(Fault::Unavailable), _) => return unknown,
            (_, Some(Bug::AnswersBeforeCommit)) => {
                tokio::spawn(async move {
                    sleep(Duration::from_millis(20)).await;
                    self.commit_now().await
                });
            }
            (Some(Fault::ReplyLost) | None, _) => self.commit_now().await?,
        }
        node.travel(Call::Commit).await;
        if fault == Some(Fault::ReplyLost) { unknown } else { Ok(()) }
    }

    async fn rollback(self) -> Result<()> {
        self.tx.rollback().await
    }
}
