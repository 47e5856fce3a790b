//! The PostgreSQL store.

mod admin;
mod append;
mod bell;
mod claim;
mod classify;
mod control;
mod door;
mod functions;
mod home;
mod join;
mod listener;
mod look;
mod migrate;
#[cfg(test)]
mod plans;
mod row;
mod servers;
mod session;
mod settle;
mod statements;
mod tenants;
mod time;
mod transaction;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use postroom_core::lifecycle::Settlement;
use postroom_core::store::{
    AdminStore, Appended, Attach, AuditEntry, AuditRecord, BlockedKey, BoxFuture, Changed, Claim,
    Claimed, Detail, Entry, Failing, Heartbeat, JoinMember, JoinRecord, List, ListJoins, Local,
    Migrated, Node, Page, Pause, PauseRecord, Paused, Purge, Purged, Reaped, Settled, Stats, Store,
    TopicStats, TransactionalStore,
};
use postroom_core::{Clock, Join, JoinId, Lease, MessageId, OwnerToken, Result, Topic};
use sqlx::postgres::{PgArguments, PgConnection, PgPool, PgRow};
use sqlx::query::Query;
use sqlx::{Postgres, SqlStr};

pub use migrate::{migration_sql, roles_sql};
pub use servers::PgServers;
pub use transaction::PgTx;

use crate::StoreConfig;
use crate::floor::Floor;
use crate::names::{Names, Queue};
use crate::taking::Turn;
use bell::Bell;
use classify::classify;
use control::Pauses;
use door::Door;
use listener::{Listener, OneBox};
use session::{Purpose, Sessions};
use statements::Statements;
use time::PgTime;

/// A box in a PostgreSQL database. Cheap to clone.
#[derive(Clone)]
pub struct PgStore {
    sessions: Sessions,
    sql: Arc<Statements>,
    names: Arc<Names>,
    clock: Clock,
    keep_done: bool,
    halt: bool,
    fair_tenants: bool,
    floor: Arc<Floor>,
    turn: Arc<Turn>,
    pauses: Arc<Pauses>,
    local: Arc<Local>,
    bell: Arc<Bell>,
    way: Way,
    /// The other box, once somebody asked for it.
    inbox: Arc<OnceLock<Self>>,
}

/// How a store hears of commits in other processes.
#[derive(Clone, Debug)]
enum Way {
    /// On a connection of its own.
    Own(Arc<Listener>),
    /// At the door of its server.
    Door { door: Arc<Door>, database: String },
    /// Not at all.
    Poll,
}

impl Way {
    /// By what others know a box of this database.
    fn address(database: &str, names: &Names) -> String {
        format!("{database} {}", names.channel())
    }

    fn bell(&self, sessions: &Sessions, sql: &Statements, names: &Names) -> Bell {
        match self {
            Self::Door { door, database } => door.bell(&Self::address(database, names)),
            Self::Own(_) | Self::Poll => {
                Bell::new(sessions.plain().clone(), sql.notify.clone(), names.channel())
            }
        }
    }

    /// For another box on the same connections.
    fn sibling(&self) -> Self {
        match self {
            Self::Own(_) => Self::Own(Arc::default()),
            other => other.clone(),
        }
    }
}

impl PgStore {
    /// Connects with two pools: one for the engine, whose sessions have settings of their own, and
    /// one for [`begin`](TransactionalStore::begin), which connects when it is first used.
    ///
    /// # Errors
    /// `Invalid` for a connection string or a name that is not understood, `Unavailable` when the
    /// database does not answer. The schema is not looked at:
    /// [`check_schema`](AdminStore::check_schema) does that.
    pub async fn connect(url: &str, config: StoreConfig) -> Result<Self> {
        let names = config.names()?;
        let options = url.parse().map_err(|error| classify("connect", error))?;
        let sessions = Sessions::connect(options, None).await?;
        Ok(Self::with(sessions, Way::Own(Arc::default()), names, config))
    }

    /// Uses your pool for everything. Its sessions are left as they are; the engine's settings hold
    /// within the engine's transactions, which costs it two round trips per call.
    ///
    /// # Errors
    /// `Invalid` for a name that is not understood.
    pub fn new(pool: PgPool, config: StoreConfig) -> Result<Self> {
        let names = config.names()?;
        Ok(Self::with(Sessions::foreign(pool), Way::Own(Arc::default()), names, config))
    }

    /// The same box through other connections, for work that must not take the engine's, such as an
    /// admin API. It shares wake-ups and figures with this one: [close](Self::close) this one, and
    /// your pool.
    #[must_use]
    pub fn through(&self, pool: PgPool) -> Self {
        self.on(Sessions::foreign(pool))
    }

    fn on(&self, sessions: Sessions) -> Self {
        let inbox = Self { sessions: sessions.clone(), ..TransactionalStore::inbox(self) };
        Self { sessions, inbox: Arc::new(OnceLock::from(inbox)), ..self.clone() }
    }

    fn with(sessions: Sessions, way: Way, names: Names, config: StoreConfig) -> Self {
        let local = Arc::new(config.local(sessions.database().as_deref()));
        let sql = Statements::new(&names);
        let bell = way.bell(&sessions, &sql, &names);
        Self {
            sessions,
            sql: Arc::new(sql),
            names: Arc::new(names),
            // Moving a clock by hand makes leases run out that real time would not.
            floor: Arc::new(Floor::new(matches!(config.clock, Clock::Database))),
            clock: config.clock,
            keep_done: config.keep_done,
            halt: config.halt,
            fair_tenants: config.fair_tenants,
            turn: Arc::default(),
            pauses: Arc::default(),
            local,
            bell: Arc::new(bell),
            way,
            inbox: Arc::default(),
        }
    }

    /// The inbox on the same connections.
    fn sibling(&self) -> Self {
        let names = self.names.for_queue(Queue::Inbox);
        let config = StoreConfig {
            name: Some(self.local.name().to_owned()),
            queue: Queue::Inbox,
            keep_done: self.keep_done,
            halt: self.halt,
            fair_tenants: self.fair_tenants,
            clock: self.clock.clone(),
            ..StoreConfig::default()
        };
        Self::with(self.sessions.clone(), self.way.sibling(), names, config)
    }

    /// The channel on which processes wake each other. Whoever writes messages without this crate
    /// may `NOTIFY` it after a commit, with any payload.
    #[must_use]
    pub fn channel(&self) -> &str {
        self.bell.channel()
    }

    /// Ends what runs in the background: other processes are told of what was committed, and
    /// nothing is listened to any more. Closes the connections, waiting for the calls that use
    /// them; a pool that you gave stays open.
    pub async fn close(&self) {
        for side in std::iter::once(self).chain(self.inbox.get()) {
            side.stop_listening();
            side.bell.finish().await;
        }
        self.sessions.close().await;
    }

    /// Listens from now on, if it does not yet.
    fn listen(&self) {
        let (local, bell) = (&self.local, &self.bell);
        match &self.way {
            Way::Own(listener) => listener.start(bell, || {
                Arc::new(OneBox { local: Arc::clone(local), bell: Arc::clone(bell) })
            }),
            Way::Door { door, database } => {
                door.listen_for(&Way::address(database, &self.names), bell, local);
            }
            Way::Poll => {}
        }
    }

    fn stop_listening(&self) {
        match &self.way {
            Way::Own(listener) => listener.stop(),
            Way::Door { door, database } => {
                door.forget(&Way::address(database, &self.names), &self.bell);
            }
            Way::Poll => {}
        }
    }

    /// The time that replaces the database's, if any.
    fn now(&self) -> Option<PgTime> {
        self.clock.overridden().map(PgTime)
    }

    fn query(&self, sql: &SqlStr) -> Query<'static, Postgres, PgArguments> {
        sqlx::query(sql.clone())
    }

    /// Runs one statement of the engine in a transaction of its own.
    async fn engine_rows(
        &self,
        what: &str,
        query: Query<'static, Postgres, PgArguments>,
    ) -> Result<Vec<PgRow>> {
        self.rows_for(Purpose::Other, what, query).await
    }

    async fn rows_for(
        &self,
        purpose: Purpose,
        what: &str,
        query: Query<'static, Postgres, PgArguments>,
    ) -> Result<Vec<PgRow>> {
        let mut engine = self.sessions.engine(purpose, what).await?;
        let rows = query.fetch_all(engine.conn()).await;
        let rows = rows.map_err(|error| classify(what, error))?;
        engine.finish(what).await?;
        Ok(rows)
    }
}

impl Store for PgStore {
    fn claim<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Claimed>> {
        Box::pin(self.claim_batch(claim))
    }

    fn settle<'a>(
        &'a self,
        owner: OwnerToken,
        items: &'a [(Lease, Settlement)],
    ) -> BoxFuture<'a, Result<Settled>> {
        Box::pin(self.settle_items(owner, items))
    }

    fn renew<'a>(
        &'a self,
        owner: OwnerToken,
        leases: &'a [Lease],
        lease: Duration,
    ) -> BoxFuture<'a, Result<Settled>> {
        Box::pin(self.renew_leases(owner, leases, lease))
    }

    fn reap(&self, limit: u32, max_attempts: u32) -> BoxFuture<'_, Result<Reaped>> {
        Box::pin(self.reap_chunk(limit, max_attempts))
    }

    fn purge<'a>(&'a self, purge: &'a Purge) -> BoxFuture<'a, Result<Purged>> {
        Box::pin(self.purge_chunk(purge))
    }

    fn leave(&self, owner: OwnerToken) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.give_back_slots(owner))
    }

    fn report<'a>(&'a self, heartbeat: &'a Heartbeat) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.take_note(heartbeat))
    }

    fn paused(&self) -> BoxFuture<'_, Result<Paused>> {
        Box::pin(self.look_for_pauses())
    }

    fn next_due(&self) -> BoxFuture<'_, Result<Option<Duration>>> {
        Box::pin(self.look_for_due())
    }

    fn identity(&self) -> BoxFuture<'_, Result<String>> {
        Box::pin(self.find_identity())
    }

    fn halts(&self) -> bool {
        self.halt
    }

    fn woken(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.listen();
            self.local.woken().await;
        })
    }

    fn wake(&self) {
        self.local.wake();
        self.bell.ring();
    }

    fn local(&self) -> &Local {
        &self.local
    }
}

impl TransactionalStore for PgStore {
    type Conn = PgConnection;
    type Tx = PgTx<'static>;

    async fn begin(&self) -> Result<PgTx<'static>> {
        self.sessions.begin().await
    }

    async fn require_transaction(&self, conn: &mut PgConnection) -> Result<()> {
        transaction::require_transaction(conn).await
    }

    async fn append(&self, conn: &mut PgConnection, entries: &[Entry]) -> Result<Vec<Appended>> {
        self.append_entries(conn, entries).await
    }

    fn inbox(&self) -> Self {
        match self.names.queue() {
            Queue::Inbox => self.clone(),
            Queue::Outbox => self.inbox.get_or_init(|| self.sibling()).clone(),
        }
    }

    async fn admit(&self, conn: &mut PgConnection, key: [u8; 32]) -> Result<bool> {
        self.admit_key(conn, key).await
    }

    async fn settle_in(
        &self,
        conn: &mut PgConnection,
        owner: OwnerToken,
        lease: Lease,
    ) -> Result<bool> {
        self.settle_on(conn, owner, lease).await
    }

    async fn start_join(&self, conn: &mut PgConnection, join: &Join) -> Result<bool> {
        self.begin_join(conn, join).await
    }

    async fn attach(&self, conn: &mut PgConnection, attaches: &[Attach]) -> Result<()> {
        self.attach_members(conn, attaches).await
    }
}

impl AdminStore for PgStore {
    fn list<'a>(&'a self, list: &'a List) -> BoxFuture<'a, Result<Page>> {
        Box::pin(self.list_page(list))
    }

    fn get(&self, id: MessageId) -> BoxFuture<'_, Result<Option<Detail>>> {
        Box::pin(self.get_detail(id))
    }

    fn stats(&self) -> BoxFuture<'_, Result<Stats>> {
        Box::pin(self.count_states())
    }

    fn replay<'a>(&'a self, ids: &'a [MessageId]) -> BoxFuture<'a, Result<Changed>> {
        Box::pin(self.replay_dead(ids))
    }

    fn discard<'a>(&'a self, ids: &'a [MessageId]) -> BoxFuture<'a, Result<Changed>> {
        Box::pin(self.discard_free(ids))
    }

    fn pause<'a>(&'a self, pause: &'a Pause) -> BoxFuture<'a, Result<bool>> {
        Box::pin(self.add_pause(pause))
    }

    fn resume<'a>(&'a self, topic: Option<&'a Topic>) -> BoxFuture<'a, Result<bool>> {
        Box::pin(self.end_pause(topic))
    }

    fn pauses(&self) -> BoxFuture<'_, Result<Vec<PauseRecord>>> {
        Box::pin(self.list_pauses())
    }

    fn join(&self, id: JoinId) -> BoxFuture<'_, Result<Option<JoinRecord>>> {
        Box::pin(self.get_join(id))
    }

    fn joins<'a>(&'a self, list: &'a ListJoins) -> BoxFuture<'a, Result<Vec<JoinRecord>>> {
        Box::pin(self.list_joins(list))
    }

    fn join_members(
        &self,
        id: JoinId,
        after: Option<MessageId>,
        limit: u32,
    ) -> BoxFuture<'_, Result<Vec<JoinMember>>> {
        Box::pin(self.list_members(id, after, limit))
    }

    fn cancel_join(&self, id: JoinId) -> BoxFuture<'_, Result<bool>> {
        Box::pin(self.end_join(id))
    }

    fn nodes(&self) -> BoxFuture<'_, Result<Vec<Node>>> {
        Box::pin(self.list_nodes())
    }

    fn topics(&self, limit: u32) -> BoxFuture<'_, Result<Vec<TopicStats>>> {
        Box::pin(self.count_topics(limit))
    }

    fn failing(&self, limit: u32) -> BoxFuture<'_, Result<Vec<Failing>>> {
        Box::pin(self.list_failing(limit))
    }

    fn blocked_keys(&self, limit: u32) -> BoxFuture<'_, Result<Vec<BlockedKey>>> {
        Box::pin(self.list_blocked(limit))
    }

    fn write_audit<'a>(&'a self, entry: &'a AuditEntry) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.add_audit(entry))
    }

    fn audit(&self, before: Option<i64>, limit: u32) -> BoxFuture<'_, Result<Vec<AuditRecord>>> {
        Box::pin(self.list_audit(before, limit))
    }

    fn migrate(&self) -> BoxFuture<'_, Result<Migrated>> {
        Box::pin(self.migrate_schema())
    }

    fn check_schema(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.check_version())
    }
}

impl fmt::Debug for PgStore {
    /// The connection string stays out of it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PgStore").field("names", &self.names).finish_non_exhaustive()
    }
}
