//! Connections: the engine's own, and the application's.
//!
//! Engine sessions read committed data, whatever the server's default: at REPEATABLE READ a claim
//! would block every producer's insert. A foreign pool is left as it is: the procedures begin their
//! own transactions at READ COMMITTED.

use postroom_core::{Error, ErrorKind, Result};
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlPool, MySqlPoolOptions};
use sqlx::pool::PoolConnectionMetadata;
use sqlx::{ConnectOptions, Connection, Executor, MySql, Row, Transaction};

use super::classify::classify;
use super::row::{flag, text};
use super::transaction::{BEGIN, MySqlTx};
use crate::budget::{Budget, Lent, PATIENCE, Place, Source, UNUSED, Use};

/// A stopped client must not keep locks; only MariaDB has a limit for that. The other length is
/// that of the JSON lists that MariaDB makes.
const OWN_SESSION: &str = "\
    set session transaction isolation level read committed; \
    set session autocommit = 1, group_concat_max_len = 1048576, \
        innodb_lock_wait_timeout = 5 /*M!, idle_transaction_timeout = 10 */";

/// What the engine wants a connection for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose {
    /// Has a connection of its own: whatever else keeps the others busy, no lease is lost by it.
    Renew,
    Other,
}

/// The ways to a connection.
#[derive(Clone, Debug)]
pub(super) struct Sessions {
    renewals: Source<MySql>,
    others: Source<MySql>,
    application: Source<MySql>,
    /// Not ours to close.
    foreign: bool,
}

impl Sessions {
    /// As [`lazy`](Self::lazy), on a server that answers.
    pub(super) async fn connect(
        options: MySqlConnectOptions,
        budget: Option<&Budget<MySql>>,
    ) -> Result<Self> {
        if options.get_database().is_none() {
            let problem = "the URL must name a database, as in mysql://user@host/shop";
            return Err(Error::new(ErrorKind::Invalid, problem));
        }
        let sessions = Self::lazy(options, budget);
        sessions.check_server().await?;
        Ok(sessions)
    }

    /// Several pools on one database: engine settings must not leak into the application's
    /// statements. They are on their own, or share the budget of their server.
    pub(super) fn lazy(options: MySqlConnectOptions, budget: Option<&Budget<MySql>>) -> Self {
        let source = |pool: MySqlPoolOptions, options: &MySqlConnectOptions, purpose| {
            let pool = pool.connect_lazy_with(options.clone());
            match budget {
                Some(budget) => budget.pool(pool, purpose),
                None => pool.into(),
            }
        };
        let application = source(pool(), &options, Use::Application);
        let options = options.disable_statement_logging();
        let renewals = source(engine_pool().max_connections(1), &options, Use::Renewal);
        let others = source(engine_pool(), &options, Use::Engine);
        Self { renewals, others, application, foreign: false }
    }

    pub(super) fn foreign(pool: MySqlPool) -> Self {
        let source = Source::from(pool);
        let (renewals, others) = (source.clone(), source.clone());
        Self { renewals, others, application: source, foreign: true }
    }

    /// Whether this server can do what the store needs.
    pub(super) async fn check_server(&self) -> Result<()> {
        let what = |error| classify("connect", error);
        let sql = "select @@version as version, @@log_bin as is_logged, \
            @@session.binlog_format as format";
        let mut conn = self.engine(Purpose::Other, "connect").await?;
        let row = sqlx::query(sql).fetch_one(&mut *conn).await.map_err(what)?;
        let version: String = row.try_get("version").map_err(what)?;
        if !is_recent(&version) {
            let problem = format!(
                "Postroom needs MariaDB 10.6 or MySQL 8.0 or later; this server is {version}"
            );
            return Err(Error::new(ErrorKind::Schema, problem));
        }
        let format = text(&row, "format").map_err(what)?;
        if flag(&row, "is_logged").map_err(what)? && format == "STATEMENT" {
            let problem = "the server's binary log records statements, with which nothing can be \
                written at READ COMMITTED; set binlog_format to ROW or MIXED";
            return Err(Error::new(ErrorKind::Schema, problem));
        }
        Ok(())
    }

    /// How to connect to the same database.
    pub(super) fn options(&self) -> MySqlConnectOptions {
        (*self.application.pool().connect_options()).clone()
    }

    /// The name of the database, if it was given.
    pub(super) fn database(&self) -> Option<String> {
        self.application.pool().connect_options().get_database().map(ToOwned::to_owned)
    }

    /// A connection for one statement of the engine.
    pub(super) async fn engine(&self, purpose: Purpose, what: &str) -> Result<Lent<MySql>> {
        let source = match purpose {
            Purpose::Renew => &self.renewals,
            Purpose::Other => &self.others,
        };
        source.acquire().await.map_err(|error| classify(what, error))
    }

    /// A transaction of the engine, where one statement is not enough.
    pub(super) async fn engine_transaction(
        &self,
        what: &str,
    ) -> Result<(Transaction<'static, MySql>, Place)> {
        let begin = "set transaction isolation level read committed; start transaction";
        self.others.begin(begin).await.map_err(|error| classify(what, error))
    }

    /// Closes the pools, but not somebody else's.
    pub(super) async fn close(&self) {
        if !self.foreign {
            for source in [&self.application, &self.renewals, &self.others] {
                source.pool().close().await;
            }
        }
    }

    /// A guarded transaction for the application.
    pub(super) async fn begin(&self) -> Result<MySqlTx<'static>> {
        let begun = self.application.begin(BEGIN).await;
        let (tx, place) = begun.map_err(|error| classify("begin", error))?;
        Ok(MySqlTx::guarded(tx, place))
    }

    /// A connection for a migration.
    pub(super) async fn migration(&self) -> Result<Lent<MySql>> {
        self.application.acquire().await.map_err(|error| classify("migrate", error))
    }
}

fn pool() -> MySqlPoolOptions {
    let tested = MySqlPoolOptions::new().test_before_acquire(false);
    tested.before_acquire(|conn, about| Box::pin(is_alive(conn, about))).acquire_timeout(PATIENCE)
}

fn engine_pool() -> MySqlPoolOptions {
    pool().after_connect(|conn, _| {
        Box::pin(async move { conn.execute(sqlx::raw_sql(OWN_SESSION)).await.map(drop) })
    })
}

/// MariaDB 10.6 brought SKIP LOCKED and JSON_TABLE, MySQL 8.0 too.
fn is_recent(version: &str) -> bool {
    let mut numbers = version.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let found = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    found >= if version.contains("MariaDB") { (10, 6) } else { (8, 0) }
}

/// A round trip that asks whether the connection is there is worth it only after a while: it would
/// be a good part of a claim.
async fn is_alive(conn: &mut MySqlConnection, about: PoolConnectionMetadata) -> sqlx::Result<bool> {
    if about.idle_for >= UNUSED {
        conn.ping().await?;
    }
    Ok(true)
}

/// For what can not happen.
pub(super) fn broken(what: &str) -> Error {
    Error::new(ErrorKind::Database, format!("the database answered without {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_servers_are_told_apart() {
        for fine in ["10.11.19-MariaDB-0+deb12u1-log", "11.8.2-MariaDB", "8.0.36", "9.1.0", "8.4.2"]
        {
            assert!(is_recent(fine), "{fine}");
        }
        for old in ["10.5.23-MariaDB", "5.7.44-log", "5.5.68-MariaDB", ""] {
            assert!(!is_recent(old), "{old}");
        }
    }
}
