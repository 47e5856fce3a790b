//! The tenants' databases, as a query on a master database lists them.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::TryStreamExt as _;
use postroom_core::fleet::{Discovery, Listed};
use postroom_core::store::BoxFuture;
use postroom_core::{Error, ErrorKind, Result};
use sqlx::{Column as _, ColumnIndex, Connection, Database, Decode, Executor, Row, Type};
use tokio::time::timeout;

use super::row::{Cell, Columns};
use super::url::{KINDS, Kind, StoreUrl, Template, masked, scrubbed};
use crate::names::own;

/// More stores than this in one process is a mistake in the query.
const MOST_ROWS: usize = 100_000;

/// The stores of a fleet as a query on a master database lists them: each row is a store.
///
/// | column | meaning |
/// |---|---|
/// | `id` | what the store is called, for ever |
/// | `url` | where it is; not needed with a [template](Self::template) |
/// | `weight` | 1 without it |
/// | `keys` | its routing keys: texts with commas between, a JSON array or on PostgreSQL an array |
/// | `schema` | the schema of its tables |
///
/// Each look has a connection of its own, which is closed after it, and a transaction that can not
/// write. A row that is not understood fails the whole look, and so the list stays as it was: its
/// messages would wait for ever, and nobody would know. So does a look that finds nothing where
/// there was something: that is believed when the next one says the same.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
/// use postroom_core::fleet::{Listed, Router, Stores};
/// use postroom_core::store::AdminStore as _;
/// use postroom_stores::fleet::{SqlQuery, StoreUrl};
/// use postroom_stores::{SqliteStore, StoreConfig};
/// # use sqlx::{Connection as _, Executor as _};
/// # let folder = tempfile::tempdir()?;
/// # let master = format!("sqlite:{}/master.db", folder.path().display());
/// # let mut conn = sqlx::SqliteConnection::connect(&format!("{master}?mode=rwc")).await?;
/// # conn.execute("create table tenants (name text, active int)").await?;
/// # conn.execute("insert into tenants values ('acme', 1), ('initech', 0)").await?;
///
/// let tenants = SqlQuery::new(&master, "select name as id from tenants where active = 1")?
///     .template(&format!("sqlite:{}/{{id}}.db", folder.path().display()))?;
/// let stores = Stores::new(tenants, |listed: Listed<StoreUrl>| {
///     let opening = async move {
///         let name = Some(listed.id.to_string());
///         let config = StoreConfig { name, ..StoreConfig::default() };
///         let store = SqliteStore::open(listed.place.as_str(), config).await?;
///         store.migrate().await?;
///         Ok(store)
///     };
///     Box::pin(opening) as postroom_core::store::BoxFuture<'static, _>
/// });
/// let router = Router::new(stores);
/// assert!(router.outbox("acme").await.is_ok());
/// assert!(router.outbox("initech").await.is_err(), "it is not active");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SqlQuery {
    url: String,
    kind: Kind,
    query: String,
    template: Option<Template>,
    limit: Duration,
    /// How many stores the last look found that was believed.
    found: AtomicUsize,
}

impl SqlQuery {
    /// The rows of this query on the database with this URL. The query is run as it is: it must be
    /// yours, and never contain what others wrote.
    ///
    /// # Errors
    /// `Invalid` when the URL is of no database that this build knows, or the query is empty.
    pub fn new(url: &str, query: impl Into<String>) -> Result<Self> {
        let query = query.into();
        let invalid = |what: String| Err(Error::new(ErrorKind::Invalid, what));
        let Some(kind) = Kind::of(url) else {
            return invalid(format!("the URL of a master database must be {KINDS}"));
        };
        if query.trim().is_empty() {
            return invalid("the query is empty; select id and url of each store".to_owned());
        }
        let (url, limit) = (url.to_owned(), Duration::from_secs(10));
        Ok(Self { url, kind, query, template: None, limit, found: AtomicUsize::new(0) })
    }

    /// Makes each store's URL from this one, in which `{name}` stands for that column of its row,
    /// as in `postgres://relay@db/{database}`. What stands there is percent-encoded.
    ///
    /// # Errors
    /// `Invalid` when it is not understood or names no column.
    pub fn template(mut self, template: &str) -> Result<Self> {
        self.template = Some(Template::parse(template)?);
        Ok(self)
    }

    /// How long one look may take. Default 10 s.
    #[must_use]
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    async fn look(&self) -> Result<Vec<Listed<StoreUrl>>> {
        let rows = match timeout(self.limit, self.rows()).await {
            Ok(rows) => rows.map_err(|error| self.failed(&error))?,
            Err(_) => {
                let what = format!("{} gave no list within {:?}", masked(&self.url), self.limit);
                return Err(Error::new(ErrorKind::Unavailable, what));
            }
        };
        let mut stores = Vec::with_capacity(rows.len());
        for (number, row) in (1..).zip(&rows) {
            let listed = row.listed(self.template.as_ref());
            stores.push(listed.map_err(|why| self.misread(&format!("row {number}: {why}")))?);
        }
        let before = self.found.swap(stores.len(), Ordering::Relaxed);
        if stores.is_empty() && before > 0 {
            let what = format!(
                "the query found no store where there were {before}; \
                 that is believed when the next look finds none either"
            );
            return Err(self.misread(&what));
        }
        Ok(stores)
    }

    async fn rows(&self) -> sqlx::Result<Vec<Columns>> {
        match self.kind {
            #[cfg(feature = "postgres")]
            Kind::Postgres => {
                let conn = sqlx::PgConnection::connect(&self.url).await?;
                select(conn, "begin read only", &self.query, pg_text).await
            }
            #[cfg(feature = "mysql")]
            Kind::MySql => {
                let conn = sqlx::MySqlConnection::connect(&self.url).await?;
                select(conn, "start transaction read only", &self.query, text).await
            }
            #[cfg(feature = "sqlite")]
            Kind::Sqlite => {
                use sqlx::ConnectOptions as _;
                let options: sqlx::sqlite::SqliteConnectOptions = self.url.parse()?;
                let options = options.read_only(true).create_if_missing(false);
                let conn = options.busy_timeout(self.limit).connect().await?;
                select(conn, "begin", &self.query, text).await
            }
            #[cfg(not(all(feature = "postgres", feature = "mysql", feature = "sqlite")))]
            _ => Err(sqlx::Error::Configuration("this build has no such database".into())),
        }
    }

    fn failed(&self, error: &sqlx::Error) -> Error {
        let (kind, what) = match error {
            sqlx::Error::Database(_) => (ErrorKind::Database, "refuses the login or the query"),
            sqlx::Error::Configuration(_) => (ErrorKind::Invalid, "can not be used"),
            sqlx::Error::Protocol(_) => (ErrorKind::Database, "can not be read"),
            _ => (ErrorKind::Unavailable, "does not answer"),
        };
        let why = match error {
            sqlx::Error::Database(error) => error.message().to_owned(),
            error => error.to_string(),
        };
        Error::new(kind, format!("{} {what}", masked(&self.url)))
            .with_source(scrubbed(&why, &self.url))
    }

    fn misread(&self, what: &str) -> Error {
        Error::new(ErrorKind::Invalid, format!("{}: {what}", masked(&self.url)))
    }
}

impl Discovery<StoreUrl> for SqlQuery {
    fn discover(&self) -> BoxFuture<'_, Result<Vec<Listed<StoreUrl>>>> {
        Box::pin(self.look())
    }
}

impl fmt::Debug for SqlQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let url = masked(&self.url);
        f.debug_struct("SqlQuery").field("url", &url).field("query", &self.query).finish()
    }
}

/// Runs the query in a transaction. Without parameters a server answers in text, whatever types the
/// columns have.
async fn select<C, DB>(
    mut conn: C,
    begin: &'static str,
    query: &str,
    text: impl Fn(&DB::Row, usize) -> Cell,
) -> sqlx::Result<Vec<Columns>>
where
    DB: Database<Connection = C>,
    C: Connection<Database = DB>,
    for<'c> &'c mut C: Executor<'c, Database = DB>,
{
    conn.execute(begin).await?;
    let mut found = Vec::new();
    {
        let mut rows = (&mut conn).fetch(sqlx::raw_sql(own(query)));
        while let Some(row) = rows.try_next().await? {
            if found.len() == MOST_ROWS {
                let what = format!("the query has more than {MOST_ROWS} rows");
                return Err(sqlx::Error::Protocol(what));
            }
            let cell = |(at, name): (usize, String)| (name, text(&row, at));
            let names = row.columns().iter().map(|column| column.name().to_owned());
            found.push(Columns(names.enumerate().map(cell).collect()));
        }
    }
    // What is left of the transaction ends with the connection.
    let _ = conn.close().await;
    Ok(found)
}

/// A value as text. The type is not asked for: it is text already, and SQLite makes it so.
fn text<R>(row: &R, at: usize) -> Cell
where
    R: Row,
    usize: ColumnIndex<R>,
    for<'r> String: Decode<'r, R::Database> + Type<R::Database>,
{
    match row.try_get_unchecked::<Option<String>, _>(at) {
        Ok(Some(text)) => Cell::Text(text),
        Ok(None) => Cell::Null,
        Err(_) => Cell::Bytes,
    }
}

/// An array becomes a JSON array, which the other databases have.
#[cfg(feature = "postgres")]
fn pg_text(row: &sqlx::postgres::PgRow, at: usize) -> Cell {
    use sqlx::TypeInfo as _;
    if !row.column(at).type_info().name().ends_with("[]") {
        return text(row, at);
    }
    match row.try_get_unchecked::<Option<Vec<String>>, _>(at) {
        Ok(Some(texts)) => Cell::Text(serde_json::json!(texts).to_string()),
        Ok(None) => Cell::Null,
        Err(_) => Cell::Bytes,
    }
}
