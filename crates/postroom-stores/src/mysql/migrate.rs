//! Setting up the schema.
//!
//! Definitions commit by themselves here, so every step may be run again, and the version is
//! written when a step is complete. A lock of the server lets one of many processes that start at
//! once do the work; the others find it done.

use std::collections::HashMap;

use postroom_core::store::Migrated;
use postroom_core::{Error, ErrorKind, Result};
use sqlx::mysql::MySqlConnection;
use sqlx::{Executor, SqlStr};

use super::MySqlStore;
use super::classify::classify;
use super::procedures;
use super::row::{counter, int, text};
use super::session::Purpose;
use super::statements::Statements;
use super::tenants;
use crate::names::{Names, Queue};
use crate::schema::{self, Migration};
use crate::{Roles, StoreConfig};

const MIGRATIONS: [Migration; 6] = [
    Migration {
        version: 1,
        sql: include_str!("../../migrations/mysql/0001_tables.sql"),
        per_queue: true,
    },
    Migration {
        version: 2,
        sql: include_str!("../../migrations/mysql/0002_shared.sql"),
        per_queue: false,
    },
    Migration {
        version: 3,
        sql: include_str!("../../migrations/mysql/0003_inbox.sql"),
        per_queue: false,
    },
    Migration {
        version: 4,
        sql: include_str!("../../migrations/mysql/0004_joins.sql"),
        per_queue: false,
    },
    Migration {
        version: 5,
        sql: include_str!("../../migrations/mysql/0005_watch.sql"),
        per_queue: true,
    },
    Migration {
        version: 6,
        sql: include_str!("../../migrations/mysql/0006_fleet.sql"),
        per_queue: false,
    },
];

const ROLES: &str = include_str!("../../sql/mysql/roles.sql");

/// How long one process waits for another that migrates.
const PATIENCE_SECONDS: i64 = 60;

/// Such locks are the server's, and each database is migrated by itself. Names have 64 characters.
const LOCK: &str = "select get_lock(concat('postroom_', sha1(coalesce(database(), ''))), ?)";
const UNLOCK: &str = "do release_lock(concat('postroom_', sha1(coalesce(database(), ''))))";

/// What sets up procedures must not depend on the session: the mode is kept with each.
const MODE: &str = "set session sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION'";

/// The whole schema as one script for the `mysql` or `mariadb` client, for people who run their own
/// migrations. It may be run again. With `fair_tenants` the indexes for that are part of it.
///
/// # Errors
/// `Invalid` when the schema or the prefix is not a plain lower-case identifier, or too long.
pub fn migration_sql(config: &StoreConfig) -> Result<String> {
    let names = super::short_names(config)?;
    let mut script = format!("{MODE};\n\n");
    for sql in tables(&names, 0) {
        script += sql.as_str().trim_end();
        script += "\n\n";
    }
    script += "delimiter //\n";
    for procedure in procedures::rendered(&names) {
        let (drop, create) = (procedure.drop, procedure.create);
        script += &format!("{}//\n{}//\n", drop.as_str(), create.as_str());
    }
    script += "delimiter ;\n\n";
    for view in procedures::views(&names) {
        script += view.as_str().trim_end();
        script += "\n\n";
    }
    if config.fair_tenants {
        for index in tenants::indexes(&names) {
            script += index.as_str();
            script += "\n";
        }
    }
    Ok(script)
}

/// A script that makes four roles with the least rights for what they do, and gives them these
/// rights: for a producer, a worker, an admin, and somebody who only looks.
///
/// Run it in the database of the tables, and again after each migration: a procedure that was
/// replaced has lost its grants.
///
/// # Errors
/// `Invalid` when the schema, the prefix or a role is not a plain lower-case identifier, or too
/// long.
pub fn roles_sql(config: &StoreConfig, roles: &Roles) -> Result<String> {
    // Both boxes are named in it, each by its own name.
    let names = super::short_names(config)?.for_queue(Queue::Outbox);
    roles.render(ROLES, '`', |sql| names.render_flat(sql))
}

impl MySqlStore {
    pub(super) async fn migrate_schema(&self) -> Result<Migrated> {
        self.sessions.check_server().await?;
        let mut conn = self.sessions.migration().await?;
        // The session gets the lock, and a mode that nobody asked for: whoever goes away in the
        // middle must not leave it in the pool.
        conn.close_on_drop();
        let got: Option<i64> = sqlx::query_scalar(LOCK)
            .bind(PATIENCE_SECONDS)
            .fetch_one(&mut *conn)
            .await
            .map_err(|error| classify("migrate", error))?;
        if got != Some(1) {
            let problem = "migrate: another process has been migrating for a minute; try later";
            return Err(Error::new(ErrorKind::Contention, problem));
        }
        let migrated = self.migrate_locked(&mut conn).await;
        let unlock = sqlx::query(UNLOCK).execute(&mut *conn).await;
        unlock.map_err(|error| classify("migrate", error))?;
        migrated
    }

    async fn migrate_locked(&self, conn: &mut MySqlConnection) -> Result<Migrated> {
        let what = |error| classify("migrate", error);
        conn.execute(MODE).await.map_err(what)?;
        let found = found_version(conn, &self.names, &self.sql).await?;
        let latest = schema::latest(&MIGRATIONS);
        if let Some(newer) = found.filter(|found| found.version > latest) {
            // Nothing of a newer version may be overwritten.
            schema::check(Some(newer.version), newer.min_client, latest)?;
            return Ok(Migrated { from: newer.version, to: newer.version });
        }
        let from = found.map_or(0, |found| found.version);
        for sql in tables(&self.names, from) {
            conn.execute(sqlx::raw_sql(sql)).await.map_err(what)?;
        }
        let known = known_procedures(conn).await?;
        for procedure in procedures::rendered(&self.names) {
            if known.get(&procedure.name) != Some(&procedure.mark) {
                conn.execute(sqlx::raw_sql(procedure.drop)).await.map_err(what)?;
                conn.execute(sqlx::raw_sql(procedure.create)).await.map_err(what)?;
            }
        }
        for view in procedures::views(&self.names) {
            conn.execute(sqlx::raw_sql(view)).await.map_err(what)?;
        }
        if self.fair_tenants {
            for index in tenants::indexes(&self.names) {
                conn.execute(sqlx::raw_sql(index)).await.map_err(what)?;
            }
        }
        Ok(Migrated { from, to: latest })
    }

    pub(super) async fn check_version(&self) -> Result<()> {
        let mut conn = self.sessions.engine(Purpose::Other, "check schema").await?;
        let found = found_version(&mut conn, &self.names, &self.sql).await?;
        let (version, min_client) =
            found.map_or((None, 0), |found| (Some(found.version), found.min_client));
        schema::check(version, min_client, schema::latest(&MIGRATIONS))?;
        let indexed = !self.fair_tenants || tenants::is_indexed(&mut conn, &self.names).await?;
        schema::check_tenants(indexed)
    }
}

/// What is to be run on tables of version `from`.
fn tables(names: &Names, from: u32) -> Vec<SqlStr> {
    let render = |migration: &Migration| match migration.per_queue {
        true => Queue::ALL.map(|queue| names.for_queue(queue).render_flat(migration.sql)).to_vec(),
        false => vec![names.render_flat(migration.sql)],
    };
    MIGRATIONS.iter().filter(|migration| migration.version > from).flat_map(render).collect()
}

/// The procedures of the database with their marks.
async fn known_procedures(conn: &mut MySqlConnection) -> Result<HashMap<String, String>> {
    let what = |error| classify("migrate", error);
    let sql = "select cast(routine_name as binary) as name, cast(routine_comment as binary) as mark
        from information_schema.routines
        where routine_schema = database()";
    let rows = sqlx::query(sql).fetch_all(conn).await.map_err(what)?;
    let read = |row| Ok((text(row, "name")?, text(row, "mark")?));
    rows.iter().map(read).collect::<sqlx::Result<_>>().map_err(what)
}

#[derive(Clone, Copy)]
struct Found {
    version: u32,
    min_client: u32,
}

/// The version that the database says it has; nothing when there is no schema.
async fn found_version(
    conn: &mut MySqlConnection,
    names: &Names,
    sql: &Statements,
) -> Result<Option<Found>> {
    let what = |error| classify("read the schema version", error);
    let table = names.render_flat("postroom_meta");
    let exists = "select count(*) as tables from information_schema.tables
        where table_schema = database() and table_name = ?";
    let row = sqlx::query(exists).bind(table.as_str()).fetch_one(&mut *conn).await;
    if int(&row.map_err(what)?, "tables").map_err(what)? == 0 {
        return Ok(None);
    }
    let row = sqlx::query(sql.schema_version.clone()).fetch_optional(conn).await.map_err(what)?;
    let read = |row: &sqlx::mysql::MySqlRow| -> sqlx::Result<Found> {
        let (version, min_client) = (counter(row, "schema_version")?, counter(row, "min_client")?);
        Ok(Found { version, min_client })
    };
    row.as_ref().map(read).transpose().map_err(what)
}
