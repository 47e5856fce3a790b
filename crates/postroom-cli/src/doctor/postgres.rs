//! PostgreSQL.

use std::time::Duration;

use postroom::{Roles, Timestamp};
use sqlx::postgres::{PgListener, PgPoolOptions, PgRow};
use sqlx::{PgConnection, Row as _};

use super::catalog::{self, Drift, Object};
use super::rights::{self, Right};
use super::{Finding, add, blind, or_ok};
use crate::args;
use crate::failure::Failure;
use crate::sql::statement;
use crate::store::Target;

/// What the migrations make, with default names; a test keeps it up to date.
const CATALOG: &str = include_str!("catalog/postgres.txt");

/// A notification takes less than this, or it does not come.
const PROBE: Duration = Duration::from_secs(2);

pub(super) async fn examine(target: &Target, args: &args::Doctor) -> Result<Vec<Finding>, Failure> {
    let mut conn: PgConnection = super::connect(target).await?;
    let conn = &mut conn;
    let mut findings = Vec::new();
    add(&mut findings, "server", server(conn).await);
    let version = super::schema_version(target).await?;
    let has_schema = version.level == super::Level::Ok;
    findings.push(version);
    if has_schema {
        add(&mut findings, "schema", drift(conn, target).await);
        add(&mut findings, "rights", missing_rights(conn, target).await);
        add(&mut findings, "leases", leases(conn, target).await);
        add(&mut findings, "vacuum", vacuum(conn, target).await);
    }
    findings.push(notifications(target).await);
    add(&mut findings, "transactions", long_transactions(conn, args).await);
    add(&mut findings, "transaction ids", transaction_ids(conn).await);
    add(&mut findings, "connections", connections(conn).await);
    add(&mut findings, "replication slots", slots(conn).await);
    Ok(findings)
}

async fn server(conn: &mut PgConnection) -> sqlx::Result<Vec<Finding>> {
    let before = Timestamp::host_now();
    let sql = "select current_setting('server_version_num')::int,
        current_setting('server_version'),
        (extract(epoch from clock_timestamp()) * 1000000)::bigint";
    let (number, name, now): (i32, String, i64) = sqlx::query_as(sql).fetch_one(conn).await?;
    let what = format!("PostgreSQL {name}");
    let version = match number {
        130_000.. => Finding::ok("server", what),
        _ => Finding::problem("server", what)
            .why("Postroom needs PostgreSQL 13 or later: upgrade the server"),
    };
    Ok(vec![version, super::clock(before, Timestamp::from_micros(now))])
}

const COLUMNS: &str = "select c.relname::text, a.attname::text,
    format_type(a.atttypid, a.atttypmod) || case when a.attnotnull then ' not null' else '' end
from pg_class c
join pg_attribute a on a.attrelid = c.oid
where c.relnamespace = to_regnamespace($1) and c.relkind in ('r', 'p')
    and a.attnum > 0 and not a.attisdropped
order by 1, a.attnum";

// Known by what they are on: their names depend on those of the tables.
const INDEXES: &str = "select c.relname::text, x.indisprimary, x.indisunique, x.indisvalid,
    regexp_replace(pg_get_indexdef(x.indexrelid), '^.*? USING ', '')
from pg_index x
join pg_class c on c.oid = x.indrelid
where c.relnamespace = to_regnamespace($1) and c.relkind in ('r', 'p')
order by 1, 5, 2 desc";

const OTHERS: &str = "select kind, name from (
    select case relkind when 'S' then 'sequence' else 'view' end as kind, relname::text as name
    from pg_class where relnamespace = to_regnamespace($1) and relkind in ('S', 'v')
    union all
    select distinct 'function', proname::text from pg_proc
    where pronamespace = to_regnamespace($1)
) as there
order by 1, 2";

/// Everything that is in a schema.
async fn objects(conn: &mut PgConnection, schema: &str) -> sqlx::Result<Vec<Object>> {
    let quoted = format!("\"{schema}\"");
    let mut objects = Vec::new();
    for row in sqlx::query(COLUMNS).bind(&quoted).fetch_all(&mut *conn).await? {
        let (table, column): (String, String) = (row.try_get(0)?, row.try_get(1)?);
        let known = Object::new("table", &*table, "");
        if objects.last().is_none_or(|last: &Object| !last.name.starts_with(&format!("{table}."))) {
            objects.push(known);
        }
        objects.push(Object::new(
            "column",
            format!("{table}.{column}"),
            row.try_get::<String, _>(2)?,
        ));
    }
    for row in sqlx::query(INDEXES).bind(&quoted).fetch_all(&mut *conn).await? {
        objects.push(index(&row)?);
    }
    for row in sqlx::query(OTHERS).bind(&quoted).fetch_all(&mut *conn).await? {
        objects.push(Object::new(row.try_get::<String, _>(0)?, row.try_get::<String, _>(1)?, ""));
    }
    Ok(objects)
}

fn index(row: &PgRow) -> sqlx::Result<Object> {
    let (table, definition): (String, String) = (row.try_get(0)?, row.try_get(4)?);
    let (primary, unique, valid): (bool, bool, bool) =
        (row.try_get(1)?, row.try_get(2)?, row.try_get(3)?);
    let kind = match (primary, unique) {
        (true, _) => "primary key",
        (_, true) => "unique",
        _ => "plain",
    };
    let shape = if valid { kind.to_owned() } else { format!("{kind}, not valid") };
    Ok(Object::new("index", format!("{table} {definition}"), shape))
}

async fn drift(conn: &mut PgConnection, target: &Target) -> sqlx::Result<Vec<Finding>> {
    let (schema, prefix) = target.names();
    let expected = catalog::parse(CATALOG, |name| format!("{prefix}{name}"));
    let actual = objects(conn, schema).await?;
    let script = target.migration_sql().unwrap_or_default();
    let mut findings = catalog::compare(&expected, &actual, |object, drift, finding| {
        mend(object, drift, finding, schema, &script)
    });
    let changed = changed_functions(conn, schema, &expected, &script).await?;
    if !changed.is_empty() {
        findings.retain(|finding| finding.level != super::Level::Ok);
        findings.extend(changed);
    }
    Ok(findings)
}

/// Functions whose text is not in the script that makes them.
async fn changed_functions(
    conn: &mut PgConnection,
    schema: &str,
    expected: &[Object],
    script: &str,
) -> sqlx::Result<Vec<Finding>> {
    let sql = "select proname::text, prosrc from pg_proc where pronamespace = to_regnamespace($1)";
    let there: Vec<(String, String)> =
        sqlx::query_as(sql).bind(format!("\"{schema}\"")).fetch_all(conn).await?;
    let is_ours =
        |name: &str| expected.iter().any(|object| object.kind == "function" && object.name == name);
    let changed = there.into_iter().filter(|(name, body)| is_ours(name) && !script.contains(body));
    let finding = |(name, _): (String, String)| {
        let what = format!("function {name} is not as this version makes it");
        Finding::problem("schema", what).command("postroom migrate")
    };
    Ok(changed.map(finding).collect())
}

fn mend(
    object: &Object,
    drift: Drift<'_>,
    finding: Finding,
    schema: &str,
    script: &str,
) -> Finding {
    let Object { kind, name, shape } = object;
    match (kind.as_str(), drift) {
        ("function" | "view", _) => finding.command("postroom migrate"),
        ("column", Drift::Missing) => {
            let (table, column) = name.split_once('.').unwrap_or((name, ""));
            let add = format!("alter table \"{schema}\".{table} add column {column} {shape}");
            finding.why("what it held is gone, and every statement that names it fails").sql(add)
        }
        ("column", Drift::Changed(_)) => {
            let (table, column) = name.split_once('.').unwrap_or((name, ""));
            let kind = shape.trim_end_matches(" not null");
            let nulls = if kind == shape { "drop" } else { "set" };
            finding.sql(format!(
                "alter table \"{schema}\".{table} alter column {column} type {kind}, \
                 alter column {column} {nulls} not null"
            ))
        }
        ("index", drift) => {
            let (table, on) = name.split_once(' ').unwrap_or((name, ""));
            let finding = finding.why("claims, purges or lists read the whole table without it");
            finding.sql(match (shape.as_str(), drift) {
                (_, Drift::Changed(_)) => format!("reindex table \"{schema}\".{table}"),
                ("primary key", _) => {
                    let columns = on.strip_prefix("btree ").unwrap_or(on);
                    format!("alter table \"{schema}\".{table} add primary key {columns}")
                }
                ("unique", _) => format!("create unique index on \"{schema}\".{table} using {on}"),
                _ => format!("create index on \"{schema}\".{table} using {on}"),
            })
        }
        ("sequence", _) => {
            let messages = name.replace("_seq", "_message");
            finding.sql(format!(
                "create sequence \"{schema}\".{name} as bigint; \
                 select setval('\"{schema}\".{name}', coalesce(max(seq), 0) + 1000) \
                 from \"{schema}\".{messages}"
            ))
        }
        _ => match table_statements(script, schema, name) {
            Some(sql) => finding.why("what it held is gone").sql(sql),
            None => finding.why("restore it from a backup"),
        },
    }
}

/// What makes a table and its indexes, from the script.
fn table_statements(script: &str, schema: &str, table: &str) -> Option<String> {
    let name = format!("\"{schema}\".{table}");
    let is_about = |statement: &&str| {
        let code = statement.lines().filter(|line| !line.trim_start().starts_with("--"));
        let code = code.collect::<Vec<_>>().join(" ");
        let code = code.trim();
        let begins = ["create table", "create table if not exists", "insert into"]
            .map(|verb| format!("{verb} {name} "));
        let is_index = code.starts_with("create") && code.contains(&format!("index on {name} "));
        begins.iter().any(|begin| code.starts_with(begin)) || is_index
    };
    let found: Vec<_> = script.split(";\n").filter(is_about).map(str::trim).collect();
    (!found.is_empty()).then(|| found.join(";\n"))
}

async fn missing_rights(conn: &mut PgConnection, target: &Target) -> sqlx::Result<Vec<Finding>> {
    let roles = Roles::default();
    let Ok(script) = target.roles_sql(&roles) else { return Ok(Vec::new()) };
    let needed = rights::given_to(&script, &roles.worker);
    let column = |get: fn(&Right) -> String| needed.iter().map(get).collect::<Vec<_>>();
    let sql = "select n.verb, n.object, quote_ident(current_user)
        from unnest($1::text[], $2::text[], $3::text[]) as n (verb, kind, object)
        where case
            when n.kind = 'table' and to_regclass(n.object) is not null
                then not has_table_privilege(n.object, n.verb)
            when n.kind = 'sequence' and to_regclass(n.object) is not null
                then not has_sequence_privilege(n.object, n.verb)
            when n.kind = 'function'
                then exists (
                    select from pg_proc p
                    where p.pronamespace = to_regnamespace($4)
                        and format('%s.%s', $4::text, p.proname) = n.object
                        and not has_function_privilege(p.oid, n.verb)
                )
            else false
        end";
    let (schema, _) = target.names();
    let rows: Vec<(String, String, String)> = sqlx::query_as(sql)
        .bind(column(|right| right.verb.clone()))
        .bind(column(|right| right.kind.to_owned()))
        .bind(column(|right| right.object.clone()))
        .bind(format!("\"{schema}\""))
        .fetch_all(conn)
        .await?;
    let finding = |(verb, object, user): (String, String, String)| {
        let is_function = verb == "execute";
        let kind = if is_function { "function " } else { "" };
        Finding::problem("rights", format!("{user} lacks {verb} on {kind}{object}"))
            .why("a service that delivers needs it; `postroom roles` gives all of them to a role")
            .sql(format!("grant {verb} on {kind}{object} to {user}"))
    };
    let found = rows.into_iter().map(finding).collect();
    Ok(or_ok(found, "rights", "this account may publish and deliver"))
}

async fn leases(conn: &mut PgConnection, target: &Target) -> sqlx::Result<Vec<Finding>> {
    let (schema, prefix) = target.names();
    let queue = target.queue().as_str();
    let sql = format!(
        "select count(*) from \"{schema}\".{prefix}{queue}_queue
        where token is not null and locked_until < clock_timestamp() - interval '1 minute'"
    );
    let lost: i64 = sqlx::query_scalar(statement(sql)).fetch_one(conn).await?;
    Ok(vec![super::queue::leases(lost)])
}

async fn vacuum(conn: &mut PgConnection, target: &Target) -> sqlx::Result<Vec<Finding>> {
    let (schema, _) = target.names();
    let is_on: bool = sqlx::query_scalar("select current_setting('autovacuum')::bool")
        .fetch_one(&mut *conn)
        .await?;
    let mut found = Vec::new();
    if !is_on {
        let why = "claims get slower with every message while dead rows are not cleaned up";
        let fix = "alter system set autovacuum = on; select pg_reload_conf()";
        found.push(Finding::problem("vacuum", "autovacuum is off").why(why).sql(fix));
    }
    let sql = "select c.relname::text, c.reloptions::text ~ 'autovacuum_enabled=(false|off|0)',
            coalesce(s.n_dead_tup, 0)
        from pg_class c
        left join pg_stat_all_tables s on s.relid = c.oid
        where c.relnamespace = to_regnamespace($1) and c.relkind = 'r'
            and (coalesce(s.n_dead_tup, 0) > 100000 + s.n_live_tup
                or c.reloptions::text ~ 'autovacuum_enabled=(false|off|0)')";
    let rows: Vec<(String, Option<bool>, i64)> =
        sqlx::query_as(sql).bind(format!("\"{schema}\"")).fetch_all(conn).await?;
    for (table, is_off, dead) in rows {
        found.push(match is_off {
            Some(true) => Finding::warning("vacuum", format!("{table} is not vacuumed by itself"))
                .why("somebody switched autovacuum off for it")
                .sql(format!("alter table \"{schema}\".{table} reset (autovacuum_enabled)")),
            _ => Finding::warning("vacuum", format!("{table} has {dead} dead rows"))
                .why("vacuum does not keep up, or an old transaction holds it back")
                .sql(format!("vacuum (analyze) \"{schema}\".{table}")),
        });
    }
    Ok(or_ok(found, "vacuum", "autovacuum is on and keeps up"))
}

/// Two connections: what one says the other must hear.
async fn notifications(target: &Target) -> Finding {
    let check = "notifications";
    match heard(target).await {
        Ok(true) => Finding::ok(check, "processes can wake each other"),
        Ok(false) => Finding::warning(check, "LISTEN hears nothing")
            .why(
                "a pooler that gives each transaction another connection breaks it; dispatchers \
                 then only poll: give them a connection past the pooler, or in session mode",
            )
            .command("postroom --url postgres://HOST:5432/DATABASE doctor"),
        Err(error) => blind(check, &error),
    }
}

async fn heard(target: &Target) -> sqlx::Result<bool> {
    let pool = PgPoolOptions::new().max_connections(2).acquire_timeout(PROBE);
    let pool = pool.connect(target.url().as_str()).await?;
    let channel = format!("postroom_doctor_{}", std::process::id());
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.listen(&channel).await?;
    sqlx::query("select pg_notify($1, 'probe')").bind(&channel).execute(&pool).await?;
    let heard = tokio::time::timeout(PROBE, listener.recv()).await;
    Ok(heard.is_ok_and(|notification| notification.is_ok()))
}

async fn long_transactions(
    conn: &mut PgConnection,
    args: &args::Doctor,
) -> sqlx::Result<Vec<Finding>> {
    let sql = "select pid, coalesce(usename::text, ''), coalesce(application_name, ''),
            extract(epoch from clock_timestamp() - xact_start)::bigint
        from pg_stat_activity
        where datname = current_database() and pid <> pg_backend_pid()
            and backend_type = 'client backend'
            and xact_start < clock_timestamp() - make_interval(secs => $1)
        order by xact_start limit 20";
    let rows: Vec<(i32, String, String, i64)> =
        sqlx::query_as(sql).bind(args.long_transaction.as_secs_f64()).fetch_all(conn).await?;
    let finding = |(pid, user, application, seconds): (i32, String, String, i64)| {
        let what = format!("{user} {application} (pid {pid}) has had one open for {seconds}s");
        let why = "vacuum can not clean up what died since then, so claims get slower";
        let fix = format!("select pg_terminate_backend({pid})");
        Finding::warning("transactions", what).why(why).sql(fix)
    };
    let found = rows.into_iter().map(finding).collect();
    Ok(or_ok(found, "transactions", "none is open for long"))
}

async fn transaction_ids(conn: &mut PgConnection) -> sqlx::Result<Vec<Finding>> {
    let sql = "select age(datfrozenxid) from pg_database where datname = current_database()";
    let age: i32 = sqlx::query_scalar(sql).fetch_one(conn).await?;
    let what = format!("the oldest is {age} transactions old");
    let why = "at 2 billion the database stops taking writes";
    Ok(vec![match age {
        ..1_000_000_000 => Finding::ok("transaction ids", what),
        1_000_000_000..1_500_000_000 => {
            Finding::warning("transaction ids", what).why(why).sql("vacuum freeze")
        }
        _ => Finding::problem("transaction ids", what).why(why).sql("vacuum freeze"),
    }])
}

async fn connections(conn: &mut PgConnection) -> sqlx::Result<Vec<Finding>> {
    let sql = "select count(*)::int, current_setting('max_connections')::int
        from pg_stat_activity where backend_type = 'client backend'";
    let (used, most): (i32, i32) = sqlx::query_as(sql).fetch_one(conn).await?;
    let what = format!("{used} of {most} are in use");
    if i64::from(used) * 10 < i64::from(most) * 9 {
        return Ok(vec![Finding::ok("connections", what)]);
    }
    let fix = format!("alter system set max_connections = {}", most.saturating_mul(2));
    let why = "when there are none left, services can not publish; the fix needs a restart";
    Ok(vec![Finding::warning("connections", what).why(why).sql(fix)])
}

async fn slots(conn: &mut PgConnection) -> sqlx::Result<Vec<Finding>> {
    let sql = "select slot_name::text, quote_literal(slot_name), active,
            pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::bigint / 1048576
        from pg_replication_slots
        where not pg_is_in_recovery() and restart_lsn is not null
            and (not active
                or pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn) > 10 * 1073741824::numeric)";
    let rows: Vec<(String, String, bool, i64)> = sqlx::query_as(sql).fetch_all(conn).await?;
    let finding = |(name, literal, active, mebibytes): (String, String, bool, i64)| {
        let state = if active { "lags" } else { "is used by nobody" };
        let what = format!("slot {name} {state} and keeps {mebibytes} MiB of log");
        let why = "the log is kept until the slot is read or dropped, and fills the disk";
        let fix = format!("select pg_drop_replication_slot({literal})");
        Finding::warning("replication slots", what).why(why).sql(fix)
    };
    let found = rows.into_iter().map(finding).collect();
    Ok(or_ok(found, "replication slots", "none holds back the log"))
}

#[cfg(test)]
mod tests {
    use sqlx::{Connection as _, Executor as _};

    use super::*;

    /// The list is what the migrations make. To renew it, put what this prints into the file.
    #[tokio::test]
    async fn sch_1_the_catalog_is_what_the_migrations_make() {
        let url = std::env::var("POSTROOM_TEST_PG_URL").expect("`cargo xtask test` sets it");
        let mut conn = PgConnection::connect(&url).await.expect("connects");
        let schema = format!("doctor_{}", postroom::MessageId::new().as_uuid().simple());
        let config = postroom::StoreConfig { schema: schema.clone(), ..Default::default() };
        let script = postroom::postgres::migration_sql(&config).expect("legal");
        conn.execute(sqlx::raw_sql(statement(script))).await.expect("runs");
        let objects = objects(&mut conn, &schema).await.expect("reads");
        let drop = format!("drop schema \"{schema}\" cascade");
        conn.execute(statement(drop)).await.expect("drops");
        let list: String = objects.iter().map(Object::line).collect();
        assert!(list == CATALOG, "src/doctor/catalog/postgres.txt must be:\n{list}");
    }

    #[test]
    fn sch_1_a_table_is_made_by_what_the_script_says_of_it() {
        let script = postroom::postgres::migration_sql(&postroom::StoreConfig::default());
        let sql = table_statements(&script.expect("legal"), "postroom", "outbox_halt");
        let sql = sql.expect("it is made");
        assert_eq!(sql.matches("create ").count(), 2, "{sql}");
    }
}
