//! Connections: the engine's own, and the application's.
//!
//! Engine sessions read committed data, whatever the server's default: a claim at a higher level
//! would fail where it should skip. Their plans are pinned to indexes and made once, because a plan
//! that was made when the queue was empty would otherwise read it from end to end when it is not.

use std::time::Duration;

use postroom_core::{Error, ErrorKind, Result};
use sqlx::pool::{PoolConnection, PoolConnectionMetadata};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use sqlx::{ConnectOptions, Connection, Executor, Postgres, Transaction};

use super::classify::classify;
use crate::cancel::begin_uncut;

/// A stopped client must not keep locks: longer than any statement of ours waits for its next.
const OWN_SESSION: &str = "\
    set session characteristics as transaction isolation level read committed; \
    set enable_seqscan = off; \
    set enable_bitmapscan = off; \
    set max_parallel_workers_per_gather = 0; \
    set jit = off; \
    set plan_cache_mode = force_generic_plan; \
    set idle_in_transaction_session_timeout = '10s'";

/// A claim that a crash of the server undoes has not happened: its token settles nothing, and the
/// rows are ready again. So it need not wait for the disk, which is most of its time.
const CLAIMING_SESSION: &str = "set synchronous_commit = off";

const FOREIGN_BEGIN: &str = "\
    begin isolation level read committed; \
    set local enable_seqscan = off; \
    set local enable_bitmapscan = off; \
    set local max_parallel_workers_per_gather = 0; \
    set local jit = off; \
    set local plan_cache_mode = force_generic_plan";

/// How long a call waits for a connection. The driver's default of 30 s is a whole lease.
const PATIENCE: Duration = Duration::from_secs(5);

/// A connection that was not used for so long may be gone.
const UNUSED: Duration = Duration::from_secs(1);

/// What the engine wants a connection for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    Claim,
    /// Has a connection of its own: whatever else keeps the others busy, no lease is lost by it.
    Renew,
    Other,
}

/// The ways to a connection.
#[derive(Clone, Debug)]
pub(crate) struct Sessions {
    engine: Engine,
    application: PgPool,
}

#[derive(Clone, Debug)]
enum Engine {
    /// Sessions that we set up; each statement is a transaction.
    Own { claims: PgPool, renewals: PgPool, others: PgPool },
    /// Somebody else's sessions, whose settings we change within our own transactions only.
    Foreign(PgPool),
}

impl Sessions {
    /// Several pools on one database: engine settings must not leak into the application's
    /// statements.
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        let options: PgConnectOptions = url.parse().map_err(|error| classify("connect", error))?;
        let options = options.application_name("postroom");
        let pool = || {
            let tested = PgPoolOptions::new().test_before_acquire(false);
            tested
                .before_acquire(|conn, about| Box::pin(is_alive(conn, about)))
                .acquire_timeout(PATIENCE)
        };
        let application = pool().connect_lazy_with(options.clone());
        let options = options.disable_statement_logging();
        let engine = |also: &'static str| {
            pool().after_connect(move |conn, _| {
                Box::pin(async move {
                    conn.execute(OWN_SESSION).await?;
                    conn.execute(also).await.map(drop)
                })
            })
        };
        let claims = engine(CLAIMING_SESSION).connect_lazy_with(options.clone());
        let renewals = engine("").max_connections(1).connect_lazy_with(options.clone());
        let others = engine("").connect_with(options).await;
        let others = others.map_err(|error| classify("connect", error))?;
        Ok(Self { engine: Engine::Own { claims, renewals, others }, application })
    }

    pub(crate) fn foreign(pool: PgPool) -> Self {
        Self { engine: Engine::Foreign(pool.clone()), application: pool }
    }

    /// The name of the database, if it was given.
    pub(crate) fn database(&self) -> Option<String> {
        self.application.connect_options().get_database().map(ToOwned::to_owned)
    }

    /// A connection for one statement of the engine; call [`finish`](EngineConn::finish) after it.
    pub(crate) async fn engine(&self, purpose: Purpose, what: &str) -> Result<EngineConn> {
        let conn = match &self.engine {
            Engine::Own { claims, renewals, others } => {
                let pool = match purpose {
                    Purpose::Claim => claims,
                    Purpose::Renew => renewals,
                    Purpose::Other => others,
                };
                pool.acquire().await.map(EngineConn::Own)
            }
            Engine::Foreign(pool) => {
                begin_uncut(pool, FOREIGN_BEGIN).await.map(EngineConn::Foreign)
            }
        };
        conn.map_err(|error| classify(what, error))
    }

    /// A pool for what needs no settings and is not kept on disk.
    pub(crate) fn pool(&self) -> &PgPool {
        match &self.engine {
            Engine::Own { claims: pool, .. } | Engine::Foreign(pool) => pool,
        }
    }

    /// Closes the pools, but not somebody else's.
    pub(crate) async fn close(&self) {
        if let Engine::Own { claims, renewals, others } = &self.engine {
            for pool in [&self.application, claims, renewals, others] {
                pool.close().await;
            }
        }
    }

    /// A transaction for the application.
    pub(crate) async fn begin(&self) -> Result<Transaction<'static, Postgres>> {
        begin_uncut(&self.application, "begin").await.map_err(|error| classify("begin", error))
    }

    /// A session of the application, outside any transaction.
    pub(crate) async fn session(&self, what: &str) -> Result<PoolConnection<Postgres>> {
        self.application.acquire().await.map_err(|error| classify(what, error))
    }

    /// A transaction for a migration.
    pub(crate) async fn begin_migration(&self) -> Result<Transaction<'static, Postgres>> {
        let sql = "begin isolation level read committed";
        let tx = begin_uncut(&self.application, sql).await;
        tx.map_err(|error| classify("migrate", error))
    }
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
    Own(PoolConnection<Postgres>),
    Foreign(Transaction<'static, Postgres>),
}

impl EngineConn {
    pub(crate) fn conn(&mut self) -> &mut PgConnection {
        match self {
            Self::Own(conn) => conn,
            Self::Foreign(tx) => tx,
        }
    }

    /// Makes the statement's effect durable.
    pub(crate) async fn finish(self, what: &str) -> Result<()> {
        match self {
            Self::Own(_) => Ok(()),
            Self::Foreign(tx) => tx.commit().await.map_err(|error| classify(what, error)),
        }
    }
}

/// For what can not happen.
pub(crate) fn broken(what: &str) -> Error {
    Error::new(ErrorKind::Database, format!("the database answered without {what}"))
}
