//! Connections: the engine's own, and the application's.
//!
//! Engine sessions read committed data, whatever the server's default: a claim at a higher level
//! would fail where it should skip. Their plans are pinned to indexes and made once, because a plan
//! that was made when the queue was empty would otherwise read it from end to end when it is not.

use postroom_core::{Error, ErrorKind, Result};
use sqlx::pool::PoolConnectionMetadata;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use sqlx::{ConnectOptions, Connection, Executor, Postgres, Transaction};

use super::classify::classify;
use super::transaction::PgTx;
use crate::budget::{Budget, Lent, PATIENCE, Place, Source, UNUSED, Use};

/// A stopped client must not keep locks: longer than any statement of ours waits for its next.
macro_rules! own_session {
    ($also:literal) => {
        concat!(
            "set session characteristics as transaction isolation level read committed; ",
            "set enable_seqscan = off; ",
            "set enable_bitmapscan = off; ",
            "set max_parallel_workers_per_gather = 0; ",
            "set jit = off; ",
            "set plan_cache_mode = force_generic_plan; ",
            "set idle_in_transaction_session_timeout = '10s'",
            $also
        )
    };
}

const OWN_SESSION: &str = own_session!("");

/// A claim that a crash of the server undoes has not happened: its token settles nothing, and the
/// rows are ready again. So it need not wait for the disk, which is most of its time.
const CLAIMING_SESSION: &str = own_session!("; set synchronous_commit = off");

const FOREIGN_BEGIN: &str = "\
    begin isolation level read committed; \
    set local enable_seqscan = off; \
    set local enable_bitmapscan = off; \
    set local max_parallel_workers_per_gather = 0; \
    set local jit = off; \
    set local plan_cache_mode = force_generic_plan";

/// What the engine wants a connection for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    /// And all else that a crash of the server may undo, so that an idle store needs only one
    /// connection.
    Claim,
    /// Has a connection of its own: whatever else keeps the others busy, no lease is lost by it.
    Renew,
    Other,
}

/// The ways to a connection.
#[derive(Clone, Debug)]
pub(crate) struct Sessions {
    engine: Engine,
    application: Source<Postgres>,
}

#[derive(Clone, Debug)]
enum Engine {
    /// Sessions that we set up; each statement is a transaction.
    Own { claims: Source<Postgres>, renewals: Source<Postgres>, others: Source<Postgres> },
    /// Somebody else's sessions, whose settings we change within our own transactions only.
    Foreign(Source<Postgres>),
}

impl Sessions {
    /// As [`lazy`](Self::lazy), on a database that answers.
    pub(crate) async fn connect(
        options: PgConnectOptions,
        budget: Option<&Budget<Postgres>>,
    ) -> Result<Self> {
        let sessions = Self::lazy(options, budget);
        drop(sessions.engine(Purpose::Claim, "connect").await?);
        Ok(sessions)
    }

    /// Several pools on one database: engine settings must not leak into the application's
    /// statements. They are on their own, or share the budget of their server.
    pub(crate) fn lazy(options: PgConnectOptions, budget: Option<&Budget<Postgres>>) -> Self {
        let options = options.application_name("postroom");
        let source = |pool: PgPoolOptions, options: &PgConnectOptions, purpose| {
            let pool = pool.connect_lazy_with(options.clone());
            match budget {
                Some(budget) => budget.pool(pool, purpose),
                None => pool.into(),
            }
        };
        let application = source(pool(), &options, Use::Application);
        let options = options.disable_statement_logging();
        let claims = source(engine_pool(CLAIMING_SESSION), &options, Use::Engine);
        let one = engine_pool(OWN_SESSION).max_connections(1);
        let renewals = source(one, &options, Use::Renewal);
        let others = source(engine_pool(OWN_SESSION), &options, Use::Engine);
        Self { engine: Engine::Own { claims, renewals, others }, application }
    }

    pub(crate) fn foreign(pool: PgPool) -> Self {
        let source = Source::from(pool);
        Self { engine: Engine::Foreign(source.clone()), application: source }
    }

    /// How to connect to the same database.
    pub(crate) fn options(&self) -> PgConnectOptions {
        (*self.application.pool().connect_options()).clone()
    }

    /// The name of the database, if it was given.
    pub(crate) fn database(&self) -> Option<String> {
        self.application.pool().connect_options().get_database().map(ToOwned::to_owned)
    }

    /// A connection for one statement of the engine; call [`finish`](EngineConn::finish) after it.
    pub(crate) async fn engine(&self, purpose: Purpose, what: &str) -> Result<EngineConn> {
        let conn = match &self.engine {
            Engine::Own { claims, renewals, others } => {
                let source = match purpose {
                    Purpose::Claim => claims,
                    Purpose::Renew => renewals,
                    Purpose::Other => others,
                };
                source.acquire().await.map(EngineConn::Own)
            }
            Engine::Foreign(source) => {
                let begun = source.begin(FOREIGN_BEGIN).await;
                begun.map(|(tx, place)| EngineConn::Transaction(tx, place))
            }
        };
        conn.map_err(|error| classify(what, error))
    }

    /// A transaction of the engine, where one statement is not enough.
    pub(crate) async fn engine_transaction(&self, what: &str) -> Result<EngineConn> {
        let begun = match &self.engine {
            Engine::Own { others, .. } => others.begin("begin").await,
            Engine::Foreign(source) => source.begin(FOREIGN_BEGIN).await,
        };
        begun
            .map(|(tx, place)| EngineConn::Transaction(tx, place))
            .map_err(|error| classify(what, error))
    }

    /// Connections for what needs no settings and is not kept on disk.
    pub(crate) fn plain(&self) -> &Source<Postgres> {
        match &self.engine {
            Engine::Own { claims: source, .. } | Engine::Foreign(source) => source,
        }
    }

    /// Closes the pools, but not somebody else's.
    pub(crate) async fn close(&self) {
        if let Engine::Own { claims, renewals, others } = &self.engine {
            for source in [&self.application, claims, renewals, others] {
                source.pool().close().await;
            }
        }
    }

    /// A transaction for the application.
    pub(crate) async fn begin(&self) -> Result<PgTx<'static>> {
        let begun = self.application.begin("begin").await;
        let (tx, place) = begun.map_err(|error| classify("begin", error))?;
        Ok(PgTx::within(tx, place))
    }

    /// A session of the application, outside any transaction.
    pub(crate) async fn session(&self, what: &str) -> Result<Lent<Postgres>> {
        self.application.acquire().await.map_err(|error| classify(what, error))
    }

    /// A transaction for a migration.
    pub(crate) async fn begin_migration(&self) -> Result<(Transaction<'static, Postgres>, Place)> {
        let begun = self.application.begin("begin isolation level read committed").await;
        begun.map_err(|error| classify("migrate", error))
    }
}

fn pool() -> PgPoolOptions {
    let tested = PgPoolOptions::new().test_before_acquire(false);
    tested.before_acquire(|conn, about| Box::pin(is_alive(conn, about))).acquire_timeout(PATIENCE)
}

fn engine_pool(settings: &'static str) -> PgPoolOptions {
    pool().after_connect(move |conn, _| {
        Box::pin(async move { conn.execute(settings).await.map(drop) })
    })
}

/// A round trip that asks whether the connection is there is worth it only after a while: it would
/// be a good part of a claim.
async fn is_alive(conn: &mut PgConnection, about: PoolConnectionMetadata) -> sqlx::Result<bool> {
    if about.idle_for >= UNUSED {
        conn.ping().await?;
    }
    Ok(true)
}

/// A connection of the engine.
pub(crate) enum EngineConn {
    Own(Lent<Postgres>),
    Transaction(Transaction<'static, Postgres>, Place),
}

impl EngineConn {
    pub(crate) fn conn(&mut self) -> &mut PgConnection {
        match self {
            Self::Own(conn) => conn,
            Self::Transaction(tx, _) => tx,
        }
    }

    /// Makes the statement's effect durable.
    pub(crate) async fn finish(self, what: &str) -> Result<()> {
        match self {
            Self::Own(_) => Ok(()),
            Self::Transaction(tx, _place) => {
                tx.commit().await.map_err(|error| classify(what, error))
            }
        }
    }
}

/// For what can not happen.
pub(crate) fn broken(what: &str) -> Error {
    Error::new(ErrorKind::Database, format!("the database answered without {what}"))
}
