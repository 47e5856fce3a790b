//! The MySQL and MariaDB store.

mod admin;
mod append;
mod claim;
mod classify;
mod control;
mod home;
mod join;
mod look;
mod migrate;
mod procedures;
mod row;
mod servers;
mod session;
mod settle;
mod statements;
mod tenants;
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
use postroom_core::{
    Clock, Error, ErrorKind, Join, JoinId, Lease, MessageId, OwnerToken, Result, Timestamp, Topic,
};
use sqlx::mysql::{MySqlArguments, MySqlConnection, MySqlPool, MySqlRow};
use sqlx::query::Query;
use sqlx::{MySql, SqlStr};

pub use migrate::{migration_sql, roles_sql};
pub use servers::MySqlServers;
pub use transaction::MySqlTx;

use crate::StoreConfig;
use crate::floor::Floor;
use crate::names::{Names, Queue};
use crate::taking::Turn;
use classify::classify;
use session::{Purpose, Sessions};
use statements::Statements;

/// A box in a MySQL or MariaDB database. Cheap to clone.
#[derive(Clone)]
pub struct MySqlStore {
    sessions: Sessions,
    sql: Arc<Statements>,
    names: Arc<Names>,
    clock: Clock,
    keep_done: bool,
    halt: bool,
    fair_tenants: bool,
    floor: Arc<Floor>,
    turn: Arc<Turn>,
    local: Arc<Local>,
    /// That of the outbox, into which joins publish; in an outbox its own.
    outbox_local: Arc<Local>,
    /// The other box, once somebody asked for it.
    inbox: Arc<OnceLock<Self>>,
}

impl MySqlStore {
    /// Connects with pools of its own: the engine's, whose sessions have settings of their own, and
    /// one for [`begin`](TransactionalStore::begin), which connects when it is first used. The URL
    /// names the database in which the tables are: `mysql://user:password@host/shop`.
    ///
    /// # Errors
    /// `Invalid` for a connection string or a name that is not understood, `Unavailable` when the
    /// database does not answer, `Schema` for a server that is too old or whose binary log records
    /// statements. The schema itself is not looked at:
    /// [`check_schema`](AdminStore::check_schema) does that.
    pub async fn connect(url: &str, config: StoreConfig) -> Result<Self> {
        let names = short_names(&config)?;
        let options = url.parse().map_err(|error| classify("connect", error))?;
        Ok(Self::with(Sessions::connect(options, None).await?, names, config))
    }

    /// Uses your pool for everything. Its sessions are left as they are.
    ///
    /// # Errors
    /// `Invalid` for a name that is not understood.
    pub fn new(pool: MySqlPool, config: StoreConfig) -> Result<Self> {
        let names = short_names(&config)?;
        Ok(Self::with(Sessions::foreign(pool), names, config))
    }

    /// The same box through other connections, for work that must not take the engine's, such as an
    /// admin API. It shares wake-ups and figures with this one: [close](Self::close) this one, and
    /// your pool.
    #[must_use]
    pub fn through(&self, pool: MySqlPool) -> Self {
        self.on(Sessions::foreign(pool))
    }

    fn on(&self, sessions: Sessions) -> Self {
        let inbox = Self { sessions: sessions.clone(), ..TransactionalStore::inbox(self) };
        Self { sessions, inbox: Arc::new(OnceLock::from(inbox)), ..self.clone() }
    }

    fn with(sessions: Sessions, names: Names, config: StoreConfig) -> Self {
        let local = Arc::new(config.local(sessions.database().as_deref()));
        Self {
            sessions,
            sql: Arc::new(Statements::new(&names)),
            names: Arc::new(names),
            // Moving a clock by hand makes leases run out that real time would not.
            floor: Arc::new(Floor::new(matches!(config.clock, Clock::Database))),
            clock: config.clock,
            keep_done: config.keep_done,
            halt: config.halt,
            fair_tenants: config.fair_tenants,
            turn: Arc::default(),
            outbox_local: Arc::clone(&local),
            local,
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
        let mut sibling = Self::with(self.sessions.clone(), names, config);
        sibling.outbox_local = Arc::clone(&self.outbox_local);
        sibling
    }

    /// Closes the connections, waiting for the calls that use them; a pool that you gave stays
    /// open.
    pub async fn close(&self) {
        self.sessions.close().await;
    }

    /// The time that replaces the database's, if any.
    fn now(&self) -> Option<i64> {
        self.clock.overridden().map(Timestamp::as_micros)
    }

    fn query(&self, sql: &SqlStr) -> Query<'static, MySql, MySqlArguments> {
        sqlx::query(sql.clone())
    }

    /// Runs one statement of the engine in a transaction of its own.
    async fn engine_rows(
        &self,
        what: &str,
        query: Query<'static, MySql, MySqlArguments>,
    ) -> Result<Vec<MySqlRow>> {
        self.rows_for(Purpose::Other, what, query).await
    }

    async fn rows_for(
        &self,
        purpose: Purpose,
        what: &str,
        query: Query<'static, MySql, MySqlArguments>,
    ) -> Result<Vec<MySqlRow>> {
        let mut conn = self.sessions.engine(purpose, what).await?;
        query.fetch_all(&mut *conn).await.map_err(|error| classify(what, error))
    }

    /// How many rows one statement of the engine changed.
    async fn engine_changes(
        &self,
        what: &str,
        query: Query<'static, MySql, MySqlArguments>,
    ) -> Result<u64> {
        let mut conn = self.sessions.engine(Purpose::Other, what).await?;
        let done = query.execute(&mut *conn).await.map_err(|error| classify(what, error))?;
        Ok(done.rows_affected())
    }
}

/// The names have to leave room for the names of tables and procedures.
fn short_names(config: &StoreConfig) -> Result<Names> {
    let names = config.names()?;
    let used = config.schema.len() + config.prefix.len();
    if used > LONGEST_NAME {
        let problem = format!(
            "schema and prefix must have at most {LONGEST_NAME} characters together on MySQL, got \
             {used}"
        );
        return Err(Error::new(ErrorKind::Invalid, problem));
    }
    Ok(names)
}

/// Identifiers have 64 characters.
const LONGEST_NAME: usize = 36;

impl Store for MySqlStore {
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

    fn local(&self) -> &Local {
        &self.local
    }
}

impl TransactionalStore for MySqlStore {
    type Conn = MySqlConnection;
    type Tx = MySqlTx<'static>;

    async fn begin(&self) -> Result<MySqlTx<'static>> {
        self.sessions.begin().await
    }

    async fn require_transaction(&self, conn: &mut MySqlConnection) -> Result<()> {
        transaction::require_transaction(conn).await
    }

    async fn append(&self, conn: &mut MySqlConnection, entries: &[Entry]) -> Result<Vec<Appended>> {
        self.append_entries(conn, entries).await
    }

    fn inbox(&self) -> Self {
        match self.names.queue() {
            Queue::Inbox => self.clone(),
            Queue::Outbox => self.inbox.get_or_init(|| self.sibling()).clone(),
        }
    }

    async fn admit(&self, conn: &mut MySqlConnection, key: [u8; 32]) -> Result<bool> {
        self.admit_key(conn, key).await
    }

    async fn settle_in(
        &self,
        conn: &mut MySqlConnection,
        owner: OwnerToken,
        lease: Lease,
    ) -> Result<bool> {
        self.settle_on(conn, owner, lease).await
    }

    async fn start_join(&self, conn: &mut MySqlConnection, join: &Join) -> Result<bool> {
        self.begin_join(conn, join).await
    }

    async fn attach(&self, conn: &mut MySqlConnection, attaches: &[Attach]) -> Result<()> {
        self.attach_members(conn, attaches).await
    }
}

impl AdminStore for MySqlStore {
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

impl fmt::Debug for MySqlStore {
    /// The connection string stays out of it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MySqlStore").field("names", &self.names).finish_non_exhaustive()
    }
}
