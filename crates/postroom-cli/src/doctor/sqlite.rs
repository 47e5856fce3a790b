//! SQLite.

use std::path::Path;
use std::process::Command;
use std::str::FromStr as _;
use std::time::Duration;

use postroom::store::AdminStore as _;
use postroom::{SqliteStore, Timestamp};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions as _, Executor as _};

use super::catalog::{self, Drift, Object};
use super::{Finding, Level, add};
use crate::failure::{Exit, Failure};
use crate::sql::statement;
use crate::store::Target;

/// Less free space than this is a warning.
const FREE_MIB: u64 = 512;

/// How long somebody else may hold the write lock.
const BUSY: Duration = Duration::from_secs(1);

pub(super) async fn examine(target: &Target) -> Result<Vec<Finding>, Failure> {
    let Some(file) = target.url().file() else {
        let what = "a database in memory is new and has nothing to look at";
        return Err(Failure::new(Exit::Invalid, what).next("name a file with --url"));
    };
    if target.is_missing() {
        let next = "`postroom migrate` creates it; --url names another";
        return Err(target.missing().next(next));
    }
    let mut conn = open(target).await.map_err(|error| {
        let what = format!("can not open {file}");
        Failure::new(Exit::Unavailable, what).why(&error).next("check who may write there")
    })?;
    let conn = &mut conn;
    let mut findings = Vec::new();
    add(&mut findings, "server", server(conn).await);
    add(&mut findings, "integrity", integrity(conn).await);
    let version = version(conn, target).await;
    let has_schema = version.level == Level::Ok;
    findings.push(version);
    if has_schema {
        add(&mut findings, "schema", drift(conn, target).await);
        add(&mut findings, "leases", leases(conn, target).await);
    }
    add(&mut findings, "journal mode", journal_mode(conn).await);
    findings.push(write_lock(conn).await);
    findings.extend(free_space(&file));
    Ok(findings)
}

/// As the file is: nothing is set on it.
async fn open(target: &Target) -> sqlx::Result<SqliteConnection> {
    let options = SqliteConnectOptions::from_str(target.url().as_str())?;
    options.busy_timeout(BUSY).connect().await
}

async fn server(conn: &mut SqliteConnection) -> sqlx::Result<Vec<Finding>> {
    let version: String = sqlx::query_scalar("select sqlite_version()").fetch_one(conn).await?;
    Ok(vec![Finding::ok("server", format!("SQLite {version}, built in"))])
}

async fn integrity(conn: &mut SqliteConnection) -> sqlx::Result<Vec<Finding>> {
    let found: Vec<String> = sqlx::query_scalar("pragma quick_check(5)").fetch_all(conn).await?;
    if found == ["ok"] {
        return Ok(vec![Finding::ok("integrity", "quick_check finds nothing")]);
    }
    let why = "the file is damaged: stop everybody, keep a copy, and rebuild it from what can be \
        read, or restore a backup";
    let finding = Finding::problem("integrity", found.join("; ")).why(why);
    Ok(vec![finding.command("sqlite3 FILE .recover | sqlite3 NEW")])
}

/// Read by hand: a store that opens the file would set its journal mode.
async fn version(conn: &mut SqliteConnection, target: &Target) -> Finding {
    let check = "schema version";
    let (schema, prefix) = target.names();
    let sql = format!("select version, min_client from {schema}_{prefix}meta where only_row = 1");
    let found: sqlx::Result<(u32, u32)> = sqlx::query_as(statement(sql)).fetch_one(conn).await;
    let reference = reference(target).await.map(|(_, version)| version);
    match (found, reference) {
        (Ok((found, needs)), Ok(ours)) if found >= ours && needs <= ours => {
            Finding::ok(check, "fits this version of Postroom")
        }
        (Ok((found, _)), Ok(ours)) if found > ours => {
            let what = format!("the schema is at version {found}, this build is for {ours}");
            Finding::problem(check, what).why("upgrade Postroom")
        }
        (Ok((found, _)), Ok(ours)) => {
            let what = format!("the schema is at version {found}, this build needs {ours}");
            Finding::problem(check, what).command("postroom migrate")
        }
        (_, Err(error)) => super::blind(check, &error),
        (Err(_), _) => Finding::problem(check, "the database has no Postroom schema")
            .command("postroom migrate"),
    }
}

/// What the migrations make in an empty database, and its version.
async fn reference(target: &Target) -> sqlx::Result<(Vec<Object>, u32)> {
    let opened = async {
        let store = SqliteStore::in_memory(target.config().clone()).await?;
        let migrated = store.migrate().await?;
        postroom::Result::Ok((store, migrated.to))
    };
    let (store, version) =
        opened.await.map_err(|error: postroom::Error| sqlx::Error::Protocol(error.to_string()))?;
    let mut conn = store.writer().acquire().await?;
    let (schema, prefix) = target.names();
    Ok((objects(&mut conn, &format!("{schema}_{prefix}")).await?, version))
}

const COLUMNS: &str =
    "select m.name, p.name, lower(p.type), p.\"notnull\" <> 0, coalesce(m.sql, '')
from sqlite_master m
join pragma_table_info(m.name) p
where m.type = 'table' and substr(m.name, 1, length(?1)) = ?1
order by m.name, p.cid";

const OTHERS: &str = "select type, name, sql
from sqlite_master
where type in ('index', 'trigger', 'view') and sql is not null
    and substr(name, 1, length(?1)) = ?1
order by type, name";

/// Everything whose name begins so. The shape of what is no column is the statement that makes it.
async fn objects(conn: &mut SqliteConnection, beginning: &str) -> sqlx::Result<Vec<Object>> {
    let mut objects: Vec<Object> = Vec::new();
    let columns: Vec<(String, String, String, bool, String)> =
        sqlx::query_as(COLUMNS).bind(beginning).fetch_all(&mut *conn).await?;
    for (table, column, kind, required, sql) in columns {
        if objects.last().is_none_or(|last| !last.name.starts_with(&format!("{table}."))) {
            objects.push(Object::new("table", &*table, sql));
        }
        let required = if required { " not null" } else { "" };
        let shape = format!("{kind}{required}");
        objects.push(Object::new("column", format!("{table}.{column}"), shape.trim()));
    }
    let others: Vec<(String, String, String)> =
        sqlx::query_as(OTHERS).bind(beginning).fetch_all(conn).await?;
    objects.extend(others.into_iter().map(|(kind, name, sql)| Object::new(kind, name, sql)));
    Ok(objects)
}

async fn drift(conn: &mut SqliteConnection, target: &Target) -> sqlx::Result<Vec<Finding>> {
    let (expected, _) = reference(target).await?;
    let (schema, prefix) = target.names();
    let mut actual = objects(conn, &format!("{schema}_{prefix}")).await?;
    // A table that got its column back has another text; its columns are compared one by one.
    for table in actual.iter_mut().filter(|object| object.kind == "table") {
        let same = expected.iter().find(|one| one.kind == "table" && one.name == table.name);
        if let Some(same) = same {
            table.shape = same.shape.clone();
        }
    }
    Ok(catalog::compare(&expected, &actual, mend))
}

fn mend(object: &Object, drift: Drift<'_>, finding: Finding) -> Finding {
    let Object { kind, name, shape } = object;
    match (kind.as_str(), drift) {
        ("column", Drift::Missing) => {
            let (table, column) = name.split_once('.').unwrap_or((name, ""));
            // A column that must not be null needs a value for the rows that are there.
            let default = match shape.strip_suffix(" not null") {
                Some("integer") => " default 0",
                Some(_) => " default ''",
                None => "",
            };
            finding.sql(format!("alter table {table} add column {column} {shape}{default}"))
        }
        ("column", Drift::Changed(_)) => finding.why("copy the rows into a new file with import"),
        (_, Drift::Missing) => finding.sql(shape.clone()),
        (kind, Drift::Changed(_)) => finding.sql(format!("drop {kind} {name}; {shape}")),
    }
}

async fn leases(conn: &mut SqliteConnection, target: &Target) -> sqlx::Result<Vec<Finding>> {
    let (schema, prefix) = target.names();
    let queue = target.queue().as_str();
    let sql = format!(
        "select count(*) from {schema}_{prefix}{queue}_queue
        where token is not null and locked_until < ?1"
    );
    let before = Timestamp::host_now().saturating_sub(Duration::from_secs(60));
    let query = sqlx::query_scalar(statement(sql)).bind(before.as_micros());
    Ok(vec![super::queue::leases(query.fetch_one(conn).await?)])
}

async fn journal_mode(conn: &mut SqliteConnection) -> sqlx::Result<Vec<Finding>> {
    let mode: String = sqlx::query_scalar("pragma journal_mode").fetch_one(conn).await?;
    if mode == "wal" {
        return Ok(vec![Finding::ok("journal mode", "write-ahead log")]);
    }
    let why = "readers and the writer wait for each other, and a process may find the file locked";
    let finding = Finding::warning("journal mode", format!("is {mode}, not wal"));
    Ok(vec![finding.why(why).sql("pragma journal_mode = wal")])
}

/// Takes the lock that every writer needs, and gives it back.
async fn write_lock(conn: &mut SqliteConnection) -> Finding {
    let check = "write lock";
    match conn.execute("begin immediate; rollback").await {
        Ok(_) => Finding::ok(check, "is free"),
        Err(_) => Finding::warning(check, "somebody has held it for more than a second")
            .why("nobody can publish meanwhile: find the process and end its transaction")
            .command("fuser -v FILE"),
    }
}

/// By `df`, which every system has; nothing when it can not tell.
fn free_space(file: &str) -> Option<Finding> {
    let folder = Path::new(file).canonicalize().ok()?;
    let output = Command::new("df").arg("-Pk").arg(folder.parent()?).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let free: u64 = text.lines().last()?.split_whitespace().nth(3)?.parse().ok()?;
    Some(space(free / 1024))
}

fn space(mebibytes: u64) -> Finding {
    let what = format!("{mebibytes} MiB are free");
    if mebibytes >= FREE_MIB {
        return Finding::ok("free space", what);
    }
    let why = "without space nothing can be written, and the log of the database only grows";
    Finding::warning("free space", what).why(why).command("postroom stats")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_space_is_a_warning() {
        assert_eq!(space(FREE_MIB).level, Level::Ok);
        assert_eq!(space(FREE_MIB - 1).level, Level::Warning);
        assert!(free_space("Cargo.toml").is_some(), "df is understood");
    }
}
