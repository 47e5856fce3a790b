//! rusqlite, version 0.35 to 0.39.
//!
//! Later versions link another SQLite than sqlx 0.9, on which Postroom's own store stands, and
//! cargo lets only one into a program.
//!
//! There is no `wake`: a dispatcher sees by the version of the file that somebody committed.
//!
//! ```no_run
//! use postroom_adapters::{SqliteOutbox, rusqlite as adapter};
//! use postroom_core::Message;
//! use rusqlite::{Connection, TransactionBehavior};
//!
//! # type Error = Box<dyn std::error::Error + Send + Sync>;
//! fn place(outbox: &SqliteOutbox, conn: &mut Connection) -> Result<(), Error> {
//!     let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
//!     tx.execute("insert into orders values (7, 1250)", [])?;
//!     let message = Message::builder("order.placed").payload(r#"{"order_id":7}"#);
//!     adapter::publish_in(outbox, &tx, message)?;
//!     tx.commit()?;
//!     Ok(())
//! }
//! ```
//!
//! A connection is not a transaction:
//!
//! ```compile_fail,E0277
//! # fn place(outbox: &postroom_adapters::SqliteOutbox, conn: &rusqlite::Connection) {
//! # let message = postroom_core::Message::builder("order.placed");
//! postroom_adapters::rusqlite::publish_in(outbox, conn, message);
//! # }
//! ```

use std::ops::Deref;

use ::rusqlite::types::Value as Sql;
use ::rusqlite::{Connection, Error as SqliteError, OptionalExtension, Row, params_from_iter};
use postroom_core::{Error, ErrorKind, IntoMessage, Message, OutboxConfig, Result, Timestamp};
use postroom_stores::StoreConfig;
use postroom_stores::sqlite::foreign::{Bound, First, Publisher, Value, first_one, refused};

use crate::{Enqueued, check_message, require_outbox};

/// An outbox in SQLite. Make it once; it holds no connection.
#[derive(Debug)]
pub struct SqliteOutbox {
    statements: Publisher,
    config: OutboxConfig,
}

impl SqliteOutbox {
    /// The outbox with the configured schema, prefix and clock; other settings of a store do not
    /// matter here.
    ///
    /// # Errors
    /// `Invalid` when the schema or the prefix is not a plain lower-case identifier, or the
    /// configuration is that of an inbox.
    pub fn new(store: &StoreConfig) -> Result<Self> {
        require_outbox(store)?;
        Ok(Self { statements: Publisher::new(store)?, config: OutboxConfig::default() })
    }

    /// The same outbox with other settings.
    ///
    /// # Errors
    /// `Invalid` when a setting is out of bounds.
    pub fn configure(self, config: OutboxConfig) -> Result<Self> {
        config.validate()?;
        Ok(Self { config, ..self })
    }
}

/// Publishes inside a transaction or savepoint. Begin it as `IMMEDIATE`: one that reads first and
/// writes later can be refused.
///
/// # Errors
/// `Invalid` or `Codec` for a bad message, `NotInTransaction` when SQLite has ended the transaction
/// on its own, `IdTaken` when the id belongs to another message: nothing was written then.
/// `Unavailable` when the file is locked, or as the database says. Your transaction stays usable
/// where SQLite leaves it open.
pub fn publish_in(
    outbox: &SqliteOutbox,
    tx: &impl Deref<Target = Connection>,
    message: impl IntoMessage,
) -> Result<Enqueued> {
    let message = check_message(&outbox.config, message)?;
    if tx.is_autocommit() {
        return Err(Error::new(
            ErrorKind::NotInTransaction,
            "the connection has no open transaction; begin one before publishing",
        ));
    }
    let writer = Writer { conn: tx, sql: &outbox.statements, now: outbox.statements.now() };
    writer.publish(&message)
}

const BEGIN: &str = "savepoint postroom_publish";
const KEEP: &str = "release postroom_publish";
const UNDO: &str = "rollback to postroom_publish; release postroom_publish";

struct Writer<'a> {
    conn: &'a Connection,
    sql: &'a Publisher,
    now: Timestamp,
}

impl Writer<'_> {
    /// All of it or nothing: half a message that is committed all the same is never delivered.
    fn publish(&self, message: &Message) -> Result<Enqueued> {
        self.run(BEGIN)?;
        let published = self.publish_in_steps(message);
        match published {
            Ok(_) => self.run(KEEP)?,
            // Where SQLite has rolled back by itself there is nothing left to undo.
            Err(_) if self.conn.is_autocommit() => {}
            Err(_) => self.run(UNDO)?,
        }
        published
    }

    fn publish_in_steps(&self, message: &Message) -> Result<Enqueued> {
        let is_first = match self.sql.take_key(message, self.now) {
            Some(take) => self.execute(take)? == 1,
            None => true,
        };
        let written = if is_first { self.write(message)? } else { None };
        let seq = match written {
            Some(seq) => seq,
            None => match self.first_one(message)? {
                First::Existed { id, .. } => return Ok(Enqueued { id, already_existed: true }),
                First::Unplaced { seq } => seq,
                First::Unwritten => self.write(message)?.ok_or_else(unanswered)?,
            },
        };
        for place in self.sql.place(message, seq, self.now) {
            self.execute(place)?;
        }
        Ok(Enqueued { id: message.id(), already_existed: false })
    }

    fn first_one(&self, message: &Message) -> Result<First> {
        let judge = |row: &Row<'_>| {
            let column = |name: &str| row.get(name).map_or(Value::Null, from_sql);
            Ok(first_one(message, column))
        };
        self.query(self.sql.look_up(message), judge)?.ok_or_else(unanswered)?
    }

    fn write(&self, message: &Message) -> Result<Option<i64>> {
        self.query(self.sql.write(message, self.now), |row| row.get("seq"))
    }

    fn run(&self, sql: &str) -> Result<()> {
        self.conn.execute_batch(sql).map_err(classify)
    }

    fn execute(&self, (sql, values): Bound<'_>) -> Result<usize> {
        let mut statement = self.conn.prepare_cached(sql).map_err(classify)?;
        statement.execute(params_from_iter(values.into_iter().map(to_sql))).map_err(classify)
    }

    /// The first row, if there is one.
    fn query<T>(
        &self,
        (sql, values): Bound<'_>,
        read: impl FnOnce(&Row<'_>) -> Result<T, SqliteError>,
    ) -> Result<Option<T>> {
        let mut statement = self.conn.prepare_cached(sql).map_err(classify)?;
        let values = params_from_iter(values.into_iter().map(to_sql));
        statement.query_row(values, read).optional().map_err(classify)
    }
}

fn to_sql(value: Value) -> Sql {
    match value {
        Value::Null => Sql::Null,
        Value::Integer(number) => Sql::Integer(number),
        Value::Text(text) => Sql::Text(text),
        Value::Blob(bytes) => Sql::Blob(bytes),
    }
}

fn from_sql(value: Sql) -> Value {
    match value {
        // Postroom stores no such numbers.
        Sql::Null | Sql::Real(_) => Value::Null,
        Sql::Integer(number) => Value::Integer(number),
        Sql::Text(text) => Value::Text(text),
        Sql::Blob(bytes) => Value::Blob(bytes),
    }
}

fn classify(error: SqliteError) -> Error {
    let code = error.sqlite_error().map_or(0, |error| error.extended_code);
    refused(code, &error.to_string()).with_source(error)
}

fn unanswered() -> Error {
    Error::new(ErrorKind::Database, "the database did not answer a statement")
}
