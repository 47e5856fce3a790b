//! What all stores can be told.

use postroom_core::store::Local;
use postroom_core::{Clock, Result};

use crate::names::{Names, Queue};

/// Settings of a store.
///
/// ```
/// use postroom_stores::StoreConfig;
///
/// let config = StoreConfig { schema: "messaging".into(), ..StoreConfig::default() };
/// assert!(config.validate().is_ok());
/// assert!(StoreConfig { schema: "x; drop table".into(), ..config }.validate().is_err());
/// ```
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// What log lines and figures call this store. Default the name of the database or the file.
    pub name: Option<String>,
    /// The schema (PostgreSQL) or the first part of each table name (SQLite). Default `postroom`.
    pub schema: String,
    /// Put before each table name within the schema. Default none.
    pub prefix: String,
    /// Which of the two boxes. Default the outbox.
    pub queue: Queue,
    /// Keep a record of delivered messages; purge deletes it later. `false` deletes a message when
    /// it is acknowledged. Default `true`.
    pub keep_done: bool,
    /// A dead ordered message stops its key until somebody replays or discards it. `false` lets its
    /// successors go on. Default `false`.
    pub halt: bool,
    /// Tenants take turns: a claim of messages without an ordering key is divided equally among the
    /// tenants that have some, and what one does not use goes to the others. Messages without a
    /// tenant are one tenant. Priority counts among the messages of one tenant. It needs two
    /// indexes, which a [migration](postroom_core::store::AdminStore::migrate) of a store with this
    /// option makes. Default `false`: by priority and age, whoever's they are.
    pub fair_tenants: bool,
    /// Where the time comes from. Default the database.
    pub clock: Clock,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            name: None,
            schema: "postroom".to_owned(),
            prefix: String::new(),
            queue: Queue::Outbox,
            keep_done: true,
            halt: false,
            fair_tenants: false,
            clock: Clock::Database,
        }
    }
}

impl StoreConfig {
    /// Checks the identifiers.
    ///
    /// # Errors
    /// `Invalid` when the schema or the prefix is not a plain lower-case identifier.
    pub fn validate(&self) -> Result<()> {
        self.names().map(drop)
    }

    /// What the stores' handles in this process share.
    pub(crate) fn local(&self, database: Option<&str>) -> Local {
        let name = self.name.as_deref().or(database).unwrap_or(&self.schema);
        Local::new(name, self.queue.as_str())
    }

    pub(crate) fn names(&self) -> Result<Names> {
        Names::new(&self.schema, &self.prefix, self.queue)
    }
}
