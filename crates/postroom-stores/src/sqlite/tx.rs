//! A transaction, guarded by a savepoint.
//!
//! SQLite can end a transaction on its own (a full disk, `insert or rollback`), and the next
//! statement then commits by itself. A savepoint taken at the beginning is gone in that case:
//! releasing it before anything of ours is written tells the truth.

use postroom_core::store::StoreTransaction;
use postroom_core::{Error, ErrorKind, Result};
use sqlx::sqlite::SqliteConnection;
use sqlx::{Connection, Sqlite, Transaction};

use super::classify::{already_ended, classify, classify_commit};

/// A transaction of the driver that messages can be staged in; also a savepoint within one.
#[derive(Debug)]
pub struct SqliteTx<'c> {
    tx: Transaction<'c, Sqlite>,
}

impl<'c> SqliteTx<'c> {
    /// Takes over a transaction that you began, for
    /// [`Outbox::adopt`](postroom_core::Outbox::adopt).
    ///
    /// # Errors
    /// As the database says; the transaction is then rolled back.
    pub async fn adopt(mut tx: Transaction<'c, Sqlite>) -> Result<Self> {
        sqlx::raw_sql("savepoint postroom_guard").execute(&mut *tx).await.map_err(classify)?;
        Ok(Self { tx })
    }
}

impl StoreTransaction for SqliteTx<'_> {
    type Conn = SqliteConnection;
    type Nested<'a>
        = SqliteTx<'a>
    where
        Self: 'a;

    fn conn(&mut self) -> &mut SqliteConnection {
        &mut self.tx
    }

    async fn check_open(&mut self, _writes_follow: bool) -> Result<()> {
        let renew = "release savepoint postroom_guard; savepoint postroom_guard";
        match sqlx::raw_sql(renew).execute(&mut *self.tx).await {
            Ok(_) => Ok(()),
            Err(error) if error.to_string().contains("no such savepoint") => {
                Err(already_ended(error))
            }
            Err(error) => Err(classify(error)),
        }
    }

    async fn savepoint(&mut self) -> Result<SqliteTx<'_>> {
        SqliteTx::adopt(self.tx.begin().await.map_err(classify)?).await
    }

    async fn commit(self) -> Result<()> {
        self.tx.commit().await.map_err(classify_commit)
    }

    async fn rollback(self) -> Result<()> {
        self.tx.rollback().await.map_err(classify)
    }
}

/// `begin` inside a transaction is an error without any effect, and there is no other way to ask.
pub(super) async fn require_transaction(conn: &mut SqliteConnection) -> Result<()> {
    match sqlx::raw_sql("begin").execute(&mut *conn).await {
        Err(error) if error.to_string().contains("within a transaction") => Ok(()),
        Err(error) => Err(classify(error)),
        Ok(_) => {
            sqlx::raw_sql("rollback").execute(conn).await.map_err(classify)?;
            Err(Error::new(
                ErrorKind::NotInTransaction,
                "the connection has no open transaction; begin one before publishing",
            ))
        }
    }
}

/// Whether a connection is fit for the pool.
///
/// When SQLite has ended a transaction on its own, the driver still believes in it: its rollback
/// fails, and it would refuse every later `begin immediate` on this connection.
pub(super) async fn is_fit(conn: &mut SqliteConnection) -> sqlx::Result<bool> {
    if !conn.is_in_transaction() {
        return Ok(true);
    }
    // A dropped transaction is rolled back in the background: wait for that, then look again.
    conn.ping().await?;
    Ok(!conn.is_in_transaction())
}
