//! Setting up the schema.
//!
//! Everything happens in one transaction under an advisory lock, so that of many processes that
//! start at once one does the work and the others find it done.

use postroom_core::store::Migrated;
use postroom_core::{Error, ErrorKind, Result};
use sqlx::postgres::PgConnection;
use sqlx::{Executor, Row, SqlStr};

use super::PgStore;
use super::classify::classify;
use super::functions;
use super::session::Purpose;
use super::statements::Statements;
use super::tenants;
use crate::names::{Names, Queue};
use crate::schema::{self, Migration};
use crate::{Roles, StoreConfig};

const MIGRATIONS: [Migration; 7] = [
    Migration {
        version: 1,
        sql: include_str!("../../migrations/postgres/0001_tables.sql"),
        per_queue: true,
    },
    Migration {
        version: 2,
        sql: include_str!("../../migrations/postgres/0002_shared.sql"),
        per_queue: false,
    },
    Migration {
        version: 3,
        sql: include_str!("../../migrations/postgres/0003_inbox.sql"),
        per_queue: true,
    },
    Migration {
        version: 4,
        sql: include_str!("../../migrations/postgres/0004_joins.sql"),
        per_queue: false,
    },
    Migration {
        version: 5,
        sql: include_str!("../../migrations/postgres/0005_watch.sql"),
        per_queue: true,
    },
    Migration {
        version: 6,
        sql: include_str!("../../migrations/postgres/0006_lists.sql"),
        per_queue: true,
    },
    Migration {
        version: 7,
        sql: include_str!("../../migrations/postgres/0007_fleet.sql"),
        per_queue: false,
    },
];

const ROLES: &str = include_str!("../../sql/postgres/roles.sql");

/// The whole schema as one script, for people who run their own migrations.
///
/// It expects a database without it, and runs as it stands in any client. With `fair_tenants` the
/// indexes for that are part of it.
///
/// # Errors
/// `Invalid` when the schema or the prefix is not a plain lower-case identifier.
pub fn migration_sql(config: &StoreConfig) -> Result<String> {
    let names = config.names()?;
    let mut script = vec!["begin".to_owned(), names.create_schema().as_str().to_owned()];
    let steps = rendered(&names, &MIGRATIONS).into_iter().chain(functions::rendered(&names));
    script.extend(steps.map(|sql| sql.as_str().trim_end().trim_end_matches(';').to_owned()));
    if config.fair_tenants {
        let indexes = tenants::indexes(&names).into_iter();
        script.extend(indexes.map(|index| index.as_str().trim_end().to_owned()));
    }
    script.push("commit".to_owned());
    Ok(script.join(";\n\n") + ";\n")
}

/// A script that makes four roles with the least rights for what they do, and gives them these
/// rights: for a producer, a worker, an admin, and somebody who only looks.
///
/// Run it as the owner of the schema, and again after each migration.
///
/// # Errors
/// `Invalid` when the schema, the prefix or a role is not a plain lower-case identifier.
pub fn roles_sql(config: &StoreConfig, roles: &Roles) -> Result<String> {
    // Both boxes are named in it, each by its own name.
    let names = config.names()?.for_queue(Queue::Outbox);
    let schema = format!("on schema \"{}\"", names.schema());
    let script = roles.render(ROLES, '"', |sql| {
        names.render_qualified(&sql.replace("on schema postroom", &schema))
    })?;
    Ok(format!("begin;\n\n{script}\ncommit;\n"))
}

impl PgStore {
    pub(super) async fn migrate_schema(&self) -> Result<Migrated> {
        let what = |error| classify("migrate", error);
        let (mut tx, _place) = self.sessions.begin_migration().await?;
        let lock = sqlx::query("select pg_advisory_xact_lock(hashtextextended($1, 7355608))");
        lock.bind(self.names.schema()).execute(&mut *tx).await.map_err(what)?;
        // From here on only: whoever migrates first may take longer, and the others wait for that.
        tx.execute("set local lock_timeout = '5s'").await.map_err(what)?;
        let found = found_version(&mut tx, &self.names, &self.sql).await?;
        let latest = schema::latest(&MIGRATIONS);
        if let Some(newer) = found.filter(|found| found.version > latest) {
            // Nothing of a newer version may be overwritten.
            schema::check(Some(newer.version), newer.min_client, latest)?;
            return Ok(Migrated { from: newer.version, to: newer.version });
        }
        let from = found.map_or(0, |found| found.version);
        for sql in steps(&self.names, from) {
            tx.execute(sqlx::raw_sql(sql)).await.map_err(what)?;
        }
        tx.commit().await.map_err(what)?;
        if self.fair_tenants {
            self.index_tenants().await?;
        }
        Ok(Migrated { from, to: latest })
    }

    pub(super) async fn check_version(&self) -> Result<()> {
        let mut engine = self.sessions.engine(Purpose::Claim, "check schema").await?;
        let found = found_version(engine.conn(), &self.names, &self.sql).await?;
        let indexed = !self.fair_tenants || tenants::is_indexed(engine.conn(), &self.names).await?;
        engine.finish("check schema").await?;
        let (version, min_client) =
            found.map_or((None, 0), |found| (Some(found.version), found.min_client));
        schema::check(version, min_client, schema::latest(&MIGRATIONS))?;
        schema::check_tenants(indexed)
    }
}

/// What is to be run on a schema of version `from`.
fn steps(names: &Names, from: u32) -> Vec<SqlStr> {
    let missing: Vec<_> =
        MIGRATIONS.into_iter().filter(|migration| migration.version > from).collect();
    let mut steps = Vec::new();
    // Not when the schema is there: its owner may have made it, and nobody else may create any.
    if from == 0 {
        steps.push(names.create_schema());
    }
    steps.extend(rendered(names, &missing));
    steps.extend(functions::rendered(names));
    steps
}

fn rendered(names: &Names, migrations: &[Migration]) -> Vec<SqlStr> {
    let render = |migration: &Migration| match migration.per_queue {
        true => {
            Queue::ALL.map(|queue| names.for_queue(queue).render_qualified(migration.sql)).to_vec()
        }
        false => vec![names.render_qualified(migration.sql)],
    };
    migrations.iter().flat_map(render).collect()
}

#[derive(Clone, Copy)]
struct Found {
    version: u32,
    min_client: u32,
}

/// The version that the database says it has; nothing when there is no schema.
async fn found_version(
    conn: &mut PgConnection,
    names: &Names,
    sql: &Statements,
) -> Result<Option<Found>> {
    let what = |error| classify("read the schema version", error);
    let table = names.render_qualified("postroom.meta");
    let exists: bool = sqlx::query_scalar("select to_regclass($1) is not null")
        .bind(table.as_str())
        .fetch_one(&mut *conn)
        .await
        .map_err(what)?;
    if !exists {
        return Ok(None);
    }
    let row = sqlx::query(sql.schema_version.clone()).fetch_one(conn).await.map_err(what)?;
    let number = |column| -> Result<u32> {
        let number: i32 = row.try_get(column).map_err(what)?;
        u32::try_from(number)
            .map_err(|_| Error::new(ErrorKind::Schema, "the schema version is not a number"))
    };
    Ok(Some(Found { version: number("schema_version")?, min_client: number("min_client")? }))
}
