//! The database of the old table: a connection that only reads.
//!
//! The whole table is read by one statement, row by row: it is sorted once, what is read is one
//! state of it, and no more than a few rows are in memory.

use std::path::Path;
use std::str::FromStr as _;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{
    ColumnIndex, ConnectOptions as _, Connection as _, Decode, Executor as _, MySqlConnection,
    PgConnection, Row, SqliteConnection, Type,
};
use tokio::sync::mpsc;

use super::dialect;
use super::row::{Cell, OldRow};
use super::shape::Field;
use super::table::{Column, Plan, Table, Wanted};
use crate::failure::{Exit, Failure};
use crate::sql::statement;
use crate::url::{Kind, Url};

/// How long to wait for a server.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// So many rows may wait to be written; each has at most a payload's limit.
const ROWS_AHEAD: usize = 16;

/// A connection to the database of the old table.
pub(crate) enum Source {
    Postgres(Box<PgConnection>),
    MySql(Box<MySqlConnection>),
    Sqlite(Box<SqliteConnection>),
}

/// Does the same with whichever connection it is.
macro_rules! each {
    ($source:expr, $conn:ident => $body:expr) => {
        match $source {
            Source::Postgres($conn) => $body,
            Source::MySql($conn) => $body,
            Source::Sqlite($conn) => $body,
        }
    };
}

impl Source {
    pub(crate) async fn connect(url: &Url) -> Result<Self, Failure> {
        let connecting = tokio::time::timeout(CONNECT_TIMEOUT, Self::open(url));
        let away = || {
            let what = format!("no answer from {}", url.shown());
            let next = "check the database of the old table and --source-url";
            Failure::new(Exit::Unavailable, what).next(next)
        };
        match connecting.await {
            Ok(opened) => opened.map_err(|error| away().why(&error)),
            Err(elapsed) => Err(away().why(&elapsed)),
        }
    }

    async fn open(url: &Url) -> sqlx::Result<Self> {
        let mut source = match url.kind {
            Kind::Postgres => Self::Postgres(Box::new(PgConnection::connect(url.as_str()).await?)),
            Kind::MySql => Self::MySql(Box::new(MySqlConnection::connect(url.as_str()).await?)),
            Kind::Sqlite => {
                if let Some(file) = url.file().filter(|file| !Path::new(&**file).exists()) {
                    let problem = format!("there is no file {file}");
                    return Err(std::io::Error::new(std::io::ErrorKind::NotFound, problem).into());
                }
                let options = SqliteConnectOptions::from_str(url.as_str())?.read_only(true);
                Self::Sqlite(Box::new(options.connect().await?))
            }
        };
        let session = dialect::session(url.kind);
        each!(&mut source, conn => conn.execute(session).await.map(|_| ()))?;
        Ok(source)
    }

    /// The table that is meant.
    pub(crate) async fn find(&mut self, kind: Kind, wanted: &Wanted) -> Result<Table, Failure> {
        let [first, second] = wanted.plain_names();
        let sql = dialect::catalog(kind);
        let found = each!(self, conn => {
            let query = sqlx::query(sql).bind(first).bind(second);
            let rows = query.fetch_all(&mut **conn).await;
            rows.and_then(|rows| rows.iter().map(listed).collect::<sqlx::Result<Vec<_>>>())
        });
        let mut tables: Vec<Table> = Vec::new();
        for (table, column) in found.map_err(|error| failed("look for the old table", &error))? {
            match tables.last_mut() {
                Some(last) if (&last.schema, &last.name) == (&table.schema, &table.name) => {
                    last.columns.push(column);
                }
                _ => tables.push(Table { columns: vec![column], ..table }),
            }
        }
        wanted.choose(kind, tables)
    }

    /// How many rows there are to import.
    pub(crate) async fn count(&mut self, plan: &Plan) -> Result<u64, Failure> {
        let sql = statement(plan.count());
        let counted: sqlx::Result<i64> =
            each!(self, conn => sqlx::query_scalar(sql).fetch_one(&mut **conn).await);
        let counted = counted.map_err(|error| failed("count the rows", &error))?;
        Ok(u64::try_from(counted).unwrap_or(0))
    }

    /// The rows in order, until there are no more or one can not be read.
    pub(crate) fn rows(
        self,
        plan: &Plan,
        max_payload: usize,
    ) -> mpsc::Receiver<Result<OldRow, Failure>> {
        let (sender, receiver) = mpsc::channel(ROWS_AHEAD);
        let sql = statement(plan.select(max_payload));
        let fields: Vec<_> = plan.fields().collect();
        tokio::spawn(async move {
            let pumped: sqlx::Result<()> = each!(self, conn => {
                let mut conn = conn;
                let mut rows = sqlx::query(sql).fetch(&mut *conn);
                loop {
                    match rows.try_next().await {
                        Ok(Some(row)) => {
                            let row = read(&row, &fields);
                            let row = row.map_err(|error| failed("read a row", &error));
                            if sender.send(row).await.is_err() {
                                // Whoever wrote them has given up.
                                break Ok(());
                            }
                        }
                        Ok(None) => break Ok(()),
                        Err(error) => break Err(error),
                    }
                }
            });
            if let Err(error) = pumped {
                let _ = sender.send(Err(failed("read the old table", &error))).await;
            }
        });
        receiver
    }
}

fn failed(what: &str, error: &sqlx::Error) -> Failure {
    let exit = match error {
        sqlx::Error::Io(_) => Exit::Unavailable,
        _ => Exit::Error,
    };
    Failure::new(exit, format!("can not {what}")).why(error)
}

/// A line of the catalog.
fn listed<R>(row: &R) -> sqlx::Result<(Table, Column)>
where
    R: Row,
    usize: ColumnIndex<R>,
    for<'r> String: Decode<'r, R::Database> + Type<R::Database>,
    for<'r> bool: Decode<'r, R::Database> + Type<R::Database>,
{
    let column =
        Column { name: row.try_get(2)?, kind: row.try_get::<String, _>(3)?.to_lowercase() };
    let (schema, name) = (row.try_get(0)?, row.try_get(1)?);
    let here = row.try_get_unchecked(4)?;
    Ok((Table { schema, name, here, columns: Vec::new() }, column))
}

/// A row of the old table: its cells, then the payload, then the length of that.
fn read<R>(row: &R, fields: &[Field]) -> sqlx::Result<OldRow>
where
    R: Row,
    usize: ColumnIndex<R>,
    for<'r> Option<String>: Decode<'r, R::Database> + Type<R::Database>,
    for<'r> Option<Vec<u8>>: Decode<'r, R::Database> + Type<R::Database>,
    for<'r> Option<i64>: Decode<'r, R::Database> + Type<R::Database>,
{
    let mut cells = Vec::with_capacity(fields.len());
    for (index, field) in fields.iter().enumerate() {
        let text: Option<String> = row.try_get(index)?;
        if let Some(text) = text {
            let cell = Cell::parse(&text).map_err(|problem| sqlx::Error::Decode(problem.into()))?;
            cells.push((*field, cell));
        }
    }
    let payload: Option<Vec<u8>> = row.try_get(fields.len())?;
    let bytes: Option<i64> = row.try_get(fields.len() + 1)?;
    let payload_bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0);
    Ok(OldRow { cells, payload, payload_bytes })
}
