//! The schema: numbered steps, run once, in one transaction.

use postroom_core::Result;
use postroom_core::store::Migrated;
use sqlx::sqlite::SqliteConnection;
use sqlx::{Row, SqlStr};

use super::classify::classify;
use super::tenants;
use super::{SqliteStore, commit};
use crate::config::StoreConfig;
use crate::names::{Names, Queue};
use crate::schema::{self, Migration};

const MIGRATIONS: &[Migration] = &[
    Migration {
        version: 1,
        sql: include_str!("../../migrations/sqlite/0001_tables.sql"),
        per_queue: true,
    },
    Migration {
        version: 2,
        sql: include_str!("../../migrations/sqlite/0002_shared.sql"),
        per_queue: false,
    },
    Migration {
        version: 3,
        sql: include_str!("../../migrations/sqlite/0003_inbox.sql"),
        per_queue: true,
    },
    Migration {
        version: 4,
        sql: include_str!("../../migrations/sqlite/0004_joins.sql"),
        per_queue: false,
    },
    Migration {
        version: 5,
        sql: include_str!("../../migrations/sqlite/0005_incoming.sql"),
        per_queue: true,
    },
    Migration {
        version: 6,
        sql: include_str!("../../migrations/sqlite/0006_watch.sql"),
        per_queue: true,
    },
    Migration {
        version: 7,
        sql: include_str!("../../migrations/sqlite/0007_lists.sql"),
        per_queue: true,
    },
    Migration {
        version: 8,
        sql: include_str!("../../migrations/sqlite/0008_fleet.sql"),
        per_queue: false,
    },
];

// The first version of the client that can work with the newest schema: an older one would settle
// members of joins without counting them.
const MIN_CLIENT: u32 = 4;

const META: &str = "create table if not exists postroom_meta (
  only_row   integer primary key check (only_row = 1),
  version    integer not null,
  min_client integer not null
)";

const SET_VERSION: &str = "insert into postroom_meta (only_row, version, min_client)
values (1, ?1, ?2)
on conflict (only_row) do update set version = excluded.version, min_client = excluded.min_client";

/// The SQL that brings an empty database to the newest version, for people who run it themselves;
/// with `fair_tenants` the indexes for that are part of it.
///
/// # Errors
/// `Invalid` for a bad configuration.
pub fn migration_sql(config: &StoreConfig) -> Result<String> {
    let names = config.names()?;
    let mut text = format!(
        "-- Postroom schema, version {} (SQLite).\nbegin immediate;\n\n{};\n",
        schema::latest(MIGRATIONS),
        names.render_flat(META).as_str()
    );
    for step in MIGRATIONS {
        for script in scripts(step, &names) {
            text.push('\n');
            text.push_str(script.as_str());
        }
    }
    if config.fair_tenants {
        for index in tenants::indexes(&names) {
            text.push_str(&format!("\n{};\n", index.as_str().trim_end()));
        }
    }
    let set_version = names.render_flat(SET_VERSION);
    let set_version = set_version.as_str().replace("?1", &schema::latest(MIGRATIONS).to_string());
    text.push_str(&format!(
        "\n{};\n\ncommit;\n",
        set_version.replace("?2", &MIN_CLIENT.to_string())
    ));
    Ok(text)
}

fn scripts(step: &Migration, names: &Names) -> Vec<SqlStr> {
    if step.per_queue {
        Queue::ALL.map(|queue| names.for_queue(queue).render_flat(step.sql)).to_vec()
    } else {
        vec![names.render_flat(step.sql)]
    }
}

impl SqliteStore {
    /// The write lock of the transaction makes ten processes that start at once take turns.
    pub(super) async fn do_migrate(&self) -> Result<Migrated> {
        let names = self.inner.config.names()?;
        let latest = schema::latest(MIGRATIONS);
        let mut tx = self.begin_write().await?;
        sqlx::raw_sql(names.render_flat(META)).execute(&mut *tx).await.map_err(classify)?;
        let (from, min_client) = self.version(&mut tx).await?.unwrap_or((0, 0));
        if from > latest {
            schema::check(Some(from), min_client, latest)?;
            return Ok(Migrated { from, to: from });
        }
        for step in MIGRATIONS.iter().filter(|step| step.version > from) {
            for script in scripts(step, &names) {
                sqlx::raw_sql(script).execute(&mut *tx).await.map_err(classify)?;
            }
        }
        if self.inner.config.fair_tenants {
            for index in tenants::indexes(&names) {
                sqlx::raw_sql(index).execute(&mut *tx).await.map_err(classify)?;
            }
        }
        sqlx::query(names.render_flat(SET_VERSION))
            .bind(latest)
            .bind(MIN_CLIENT)
            .execute(&mut *tx)
            .await
            .map_err(classify)?;
        commit(tx).await?;
        Ok(Migrated { from, to: latest })
    }

    pub(super) async fn do_check_schema(&self) -> Result<()> {
        let mut conn = self.inner.reader.acquire().await.map_err(classify)?;
        let found = match self.version(&mut conn).await {
            Err(error) if error.kind() == postroom_core::ErrorKind::Schema => None,
            answer => answer?,
        };
        let min_client = found.map_or(0, |(_, min_client)| min_client);
        let version = found.map(|(version, _)| version);
        schema::check(version, min_client, schema::latest(MIGRATIONS))?;
        let config = &self.inner.config;
        let names = config.names()?;
        schema::check_tenants(!config.fair_tenants || tenants::is_indexed(&mut conn, &names).await?)
    }

    /// The version of the schema and the oldest client that it admits.
    async fn version(&self, conn: &mut SqliteConnection) -> Result<Option<(u32, u32)>> {
        let row = sqlx::query(self.sql().schema_version.clone())
            .fetch_optional(conn)
            .await
            .map_err(classify)?;
        row.map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).transpose().map_err(classify)
    }
}
