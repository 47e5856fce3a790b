//! MySQL and MariaDB.

use postroom::{Roles, Timestamp};
use sqlx::{Executor as _, MySqlConnection};

use super::catalog::{self, Drift, Object};
use super::rights::{self, Right};
use super::{Finding, add, or_ok};
use crate::args;
use crate::failure::Failure;
use crate::sql::statement;
use crate::store::Target;

/// What the migrations make, with default names; a test keeps it up to date.
const CATALOG: &str = include_str!("catalog/mysql.txt");

pub(super) async fn examine(target: &Target, args: &args::Doctor) -> Result<Vec<Finding>, Failure> {
    let mut conn: MySqlConnection = super::connect(target).await?;
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
    }
    add(&mut findings, "binary log", binary_log(conn).await);
    add(&mut findings, "durability", durability(conn).await);
    add(&mut findings, "packets", packets(conn).await);
    add(&mut findings, "transactions", long_transactions(conn, args).await);
    add(&mut findings, "connections", connections(conn).await);
    Ok(findings)
}

async fn server(conn: &mut MySqlConnection) -> sqlx::Result<Vec<Finding>> {
    let before = Timestamp::host_now();
    let sql = "select cast(version() as char),
        cast(timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) as signed)";
    let (version, now): (String, i64) = sqlx::query_as(sql).fetch_one(conn).await?;
    let mut numbers = version.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    let mut number = || numbers.next().and_then(Result::ok).unwrap_or(0);
    let found = (number(), number());
    let is_mariadb = version.to_lowercase().contains("mariadb");
    let (name, least) = if is_mariadb { ("MariaDB", (10, 6)) } else { ("MySQL", (8, 0)) };
    let what = format!("{name} {version}");
    let server = match found >= least {
        true => Finding::ok("server", what),
        false => Finding::problem("server", what)
            .why("Postroom needs MariaDB 10.6 or MySQL 8.0 or later: upgrade the server"),
    };
    Ok(vec![server, super::clock(before, Timestamp::from_micros(now))])
}

const COLUMNS: &str = "select cast(c.table_name as char), cast(c.column_name as char),
    cast(c.column_type as char), c.is_nullable = 'NO'
from information_schema.columns c
join information_schema.tables t
    on t.table_schema = c.table_schema and t.table_name = c.table_name
where c.table_schema = database() and t.table_type = 'BASE TABLE'
order by c.table_name, c.ordinal_position";

// Known by what they are on. Within a table: the primary key, then by columns.
const INDEXES: &str = "select cast(table_name as char), cast(index_name as char) = 'PRIMARY',
    min(non_unique) = 0,
    cast(group_concat(column_name order by seq_in_index separator ', ') as char)
from information_schema.statistics
where table_schema = database()
group by table_name, index_name
order by table_name, 2 desc, 4";

const OTHERS: &str = "select 'view', cast(table_name as char), ''
from information_schema.views where table_schema = database()
union all
select 'procedure', cast(routine_name as char), cast(routine_comment as char)
from information_schema.routines where routine_schema = database()
order by 1, 2";

/// Everything in the database whose name begins so.
async fn objects(conn: &mut MySqlConnection, beginning: &str) -> sqlx::Result<Vec<Object>> {
    let mut objects: Vec<Object> = Vec::new();
    let is_ours = |name: &str| name.starts_with(beginning);
    let columns: Vec<(String, String, String, bool)> =
        sqlx::query_as(COLUMNS).fetch_all(&mut *conn).await?;
    for (table, column, kind, required) in columns {
        if !is_ours(&table) {
            continue;
        }
        if objects.last().is_none_or(|last| !last.name.starts_with(&format!("{table}."))) {
            objects.push(Object::new("table", &*table, ""));
        }
        let required = if required { " not null" } else { "" };
        let shape = format!("{}{required}", without_width(&kind));
        objects.push(Object::new("column", format!("{table}.{column}"), shape));
    }
    let indexes: Vec<(String, bool, bool, String)> =
        sqlx::query_as(INDEXES).fetch_all(&mut *conn).await?;
    for (table, primary, unique, columns) in indexes {
        let shape = match (primary, unique) {
            (true, _) => "primary key",
            (_, true) => "unique",
            _ => "plain",
        };
        if is_ours(&table) {
            objects.push(Object::new("index", format!("{table} ({columns})"), shape));
        }
    }
    let others: Vec<(String, String, String)> = sqlx::query_as(OTHERS).fetch_all(conn).await?;
    for (kind, name, mark) in others {
        if is_ours(&name) {
            objects.push(Object::new(kind, name, mark));
        }
    }
    Ok(objects)
}

/// MariaDB shows how wide an integer is printed; MySQL no longer does.
fn without_width(kind: &str) -> String {
    match kind.split_once('(') {
        Some((name, _)) if name.ends_with("int") => name.to_owned(),
        _ => kind.to_owned(),
    }
}

async fn drift(conn: &mut MySqlConnection, target: &Target) -> sqlx::Result<Vec<Finding>> {
    let (schema, prefix) = target.names();
    let beginning = format!("{schema}_{prefix}");
    let mut expected = catalog::parse(CATALOG, |name| format!("{beginning}{name}"));
    let script = target.migration_sql().unwrap_or_default();
    expected.extend(procedures(&script));
    let actual = objects(conn, &beginning).await?;
    Ok(catalog::compare(&expected, &actual, |object, drift, finding| {
        mend(object, drift, finding, &script)
    }))
}

/// The procedures that the script makes, each with the mark of its text.
fn procedures(script: &str) -> Vec<Object> {
    let made = script.split("\ncreate procedure ").skip(1);
    let read = |text: &str| {
        let (name, _) = text.split_once('(')?;
        let (_, mark) = text.split_once("\ncomment '")?;
        Some(Object::new("procedure", name, mark.split('\'').next()?))
    };
    made.filter_map(read).collect()
}

fn mend(object: &Object, drift: Drift<'_>, finding: Finding, script: &str) -> Finding {
    let Object { kind, name, shape } = object;
    match (kind.as_str(), drift) {
        ("procedure", Drift::Missing) => finding
            .why("or this account may not see it, for want of the right to execute it")
            .command("postroom migrate"),
        ("procedure" | "view", _) => finding.command("postroom migrate"),
        ("column", drift) => {
            let (table, column) = name.split_once('.').unwrap_or((name, ""));
            let verb = if drift == Drift::Missing { "add" } else { "modify" };
            finding.sql(format!("alter table {table} {verb} column {column} {shape}"))
        }
        ("index", Drift::Missing) => {
            let (table, columns) = name.split_once(' ').unwrap_or((name, ""));
            let finding = finding.why("claims, purges or lists read the whole table without it");
            finding.sql(match shape.as_str() {
                "primary key" => format!("alter table {table} add primary key {columns}"),
                "unique" => format!("alter table {table} add unique key {columns}"),
                _ => format!("alter table {table} add key {columns}"),
            })
        }
        ("table", _) => match table_statements(script, name) {
            Some(sql) => finding.why("what it held is gone, if it was there").sql(sql),
            None => finding.command("postroom migrate --print"),
        },
        _ => finding.why("drop it and run doctor again"),
    }
}

/// What makes a table, and fills it, from the script.
fn table_statements(script: &str, table: &str) -> Option<String> {
    let begins =
        [format!("create table if not exists {table} "), format!("insert ignore into {table} ")];
    let is_about = |statement: &&str| {
        let code = statement.lines().filter(|line| !line.trim_start().starts_with("--"));
        let code = code.collect::<Vec<_>>().join(" ");
        begins.iter().any(|begin| code.trim().starts_with(begin))
    };
    let found: Vec<_> = script.split(";\n").filter(is_about).map(str::trim).collect();
    (!found.is_empty()).then(|| found.join(";\n"))
}

/// Each right is tried by a plan that is made and not run. What an account may execute it sees in
/// the catalog, so procedures are the schema's matter.
async fn missing_rights(conn: &mut MySqlConnection, target: &Target) -> sqlx::Result<Vec<Finding>> {
    let roles = Roles::default();
    let Ok(script) = target.roles_sql(&roles) else { return Ok(Vec::new()) };
    let account = "select cast(current_user() as char)";
    let account: String = sqlx::query_scalar(account).fetch_one(&mut *conn).await?;
    let account = account.replace('@', "'@'");
    let mut found = Vec::new();
    for Right { verb, kind, object } in rights::given_to(&script, &roles.worker) {
        let sql = match verb.as_str() {
            _ if kind != "table" => continue,
            "select" => format!("explain select 1 from {object}"),
            "insert" => format!("explain insert into {object} select * from {object} where 1 = 0"),
            "delete" => format!("explain delete from {object} where 1 = 0"),
            // The one table that is changed in place.
            "update" => format!("explain update {object} set hash = hash where 1 = 0"),
            _ => continue,
        };
        let tried = conn.execute(statement(sql)).await;
        let is_denied = tried.is_err_and(|error| is_denied(&error));
        if is_denied {
            found.push(
                Finding::problem("rights", format!("'{account}' lacks {verb} on {object}"))
                    .why("a service that delivers needs it; `postroom roles` gives all of them")
                    .sql(format!("grant {verb} on {object} to '{account}'")),
            );
        }
    }
    Ok(or_ok(found, "rights", "this account may publish and deliver"))
}

fn is_denied(error: &sqlx::Error) -> bool {
    let sqlx::Error::Database(error) = error else { return false };
    let number = error.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>();
    // Of a table, or of a column.
    number.is_some_and(|error| [1142, 1143].contains(&error.number()))
}

async fn leases(conn: &mut MySqlConnection, target: &Target) -> sqlx::Result<Vec<Finding>> {
    let (schema, prefix) = target.names();
    let queue = format!("{schema}_{prefix}{}", target.queue().as_str());
    let lost = |table: &str| {
        format!(
            "(select count(*) from {queue}_{table} where leased = 1 and locked_until < \
             timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) - 60000000)"
        )
    };
    let sql = format!("select cast({} + {} as signed)", lost("queue"), lost("ordered"));
    let lost: i64 = sqlx::query_scalar(statement(sql)).fetch_one(conn).await?;
    Ok(vec![super::queue::leases(lost)])
}

async fn binary_log(conn: &mut MySqlConnection) -> sqlx::Result<Vec<Finding>> {
    let sql = "select @@log_bin = 1, cast(@@global.binlog_format as char)";
    let (is_on, format): (bool, String) = sqlx::query_as(sql).fetch_one(conn).await?;
    Ok(vec![match (is_on, format.as_str()) {
        (false, _) => Finding::ok("binary log", "is off"),
        (true, "STATEMENT") => Finding::problem("binary log", "records statements")
            .why("nothing can be written at READ COMMITTED, at which Postroom works")
            .sql("set global binlog_format = 'ROW'"),
        (true, format) => Finding::ok("binary log", format!("records as {format}")),
    }])
}

async fn durability(conn: &mut MySqlConnection) -> sqlx::Result<Vec<Finding>> {
    let sql = "select cast(@@global.innodb_flush_log_at_trx_commit as signed)";
    let flush: i64 = sqlx::query_scalar(sql).fetch_one(conn).await?;
    Ok(vec![match flush {
        1 => Finding::ok("durability", "a commit is on the disk when it returns"),
        other => {
            let what = format!("innodb_flush_log_at_trx_commit is {other}");
            let why = "a crash of the host loses the last second of commits, messages too";
            let fix = "set global innodb_flush_log_at_trx_commit = 1";
            Finding::warning("durability", what).why(why).sql(fix)
        }
    }])
}

async fn packets(conn: &mut MySqlConnection) -> sqlx::Result<Vec<Finding>> {
    let sql = "select cast(@@global.max_allowed_packet as signed)";
    let most: i64 = sqlx::query_scalar(sql).fetch_one(conn).await?;
    let what = format!("have at most {} MiB", most / (1024 * 1024));
    if most >= 16 * 1024 * 1024 {
        return Ok(vec![Finding::ok("packets", what)]);
    }
    let why = "a list of messages is written in statements of some 4 MiB, a payload in one";
    let fix = "set global max_allowed_packet = 16777216";
    Ok(vec![Finding::warning("packets", what).why(why).sql(fix)])
}

async fn long_transactions(
    conn: &mut MySqlConnection,
    args: &args::Doctor,
) -> sqlx::Result<Vec<Finding>> {
    let sql = "select cast(t.trx_mysql_thread_id as signed), cast(coalesce(p.user, '') as char),
            cast(timestampdiff(second, t.trx_started, now()) as signed)
        from information_schema.innodb_trx t
        left join information_schema.processlist p on p.id = t.trx_mysql_thread_id
        where t.trx_mysql_thread_id not in (0, connection_id())
            and p.db = database()
            and timestampdiff(microsecond, t.trx_started, now(6)) > ?
        order by t.trx_started limit 20";
    let longest = i64::try_from(args.long_transaction.as_micros()).unwrap_or(i64::MAX);
    let rows: Vec<(i64, String, i64)> = sqlx::query_as(sql).bind(longest).fetch_all(conn).await?;
    let finding = |(thread, user, seconds): (i64, String, i64)| {
        let what = format!("{user} (thread {thread}) has had one open for {seconds}s");
        let why = "old versions of rows are kept for it, so claims get slower";
        Finding::warning("transactions", what).why(why).sql(format!("kill {thread}"))
    };
    let found = rows.into_iter().map(finding).collect();
    Ok(or_ok(found, "transactions", "none is open for long"))
}

async fn connections(conn: &mut MySqlConnection) -> sqlx::Result<Vec<Finding>> {
    let sql = "select cast(count(*) as signed), cast(@@global.max_connections as signed)
        from information_schema.processlist";
    let (used, most): (i64, i64) = sqlx::query_as(sql).fetch_one(conn).await?;
    let what = format!("{used} of {most} are in use");
    if used * 10 < most * 9 {
        return Ok(vec![Finding::ok("connections", what)]);
    }
    let why = "when there are none left, services can not publish";
    let fix = format!("set global max_connections = {}", most * 2);
    Ok(vec![Finding::warning("connections", what).why(why).sql(fix)])
}

#[cfg(test)]
mod tests {
    use sqlx::Connection as _;

    use super::*;

    /// The list is what the migrations make. To renew it, put what this prints into the file.
    #[tokio::test]
    async fn sch_1_the_catalog_is_what_the_migrations_make() {
        let url = std::env::var("POSTROOM_TEST_MYSQL_URL").expect("`cargo xtask test` sets it");
        let mut conn = MySqlConnection::connect(&url).await.expect("connects");
        let name = format!("doctor_{}", postroom::MessageId::new().as_uuid().simple());
        conn.execute(statement(format!("create database {name}"))).await.expect("creates");
        let url = format!("{}/{name}", url.trim_end_matches('/'));
        let store = postroom::MySqlStore::connect(&url, postroom::StoreConfig::default()).await;
        let store = store.expect("connects");
        postroom::store::AdminStore::migrate(&store).await.expect("migrates");
        store.close().await;
        conn.execute(statement(format!("use {name}"))).await.expect("uses");
        let mut objects = objects(&mut conn, "postroom_").await.expect("reads");
        conn.execute(statement(format!("drop database {name}"))).await.expect("drops");
        // Procedures are read from the script, with their marks.
        objects.retain(|object| object.kind != "procedure");
        let plain = |mut object: Object| {
            object.name = object.name.replacen("postroom_", "", 1);
            object.line()
        };
        let list: String = objects.into_iter().map(plain).collect();
        assert!(list == CATALOG, "src/doctor/catalog/mysql.txt must be:\n{list}");
    }

    #[test]
    fn sch_1_all_procedures_of_the_script_are_known_with_their_marks() {
        let config = postroom::StoreConfig::default();
        let script = postroom::mysql::migration_sql(&config).expect("legal");
        let found = procedures(&script);
        assert_eq!(found.len(), script.matches("\ncreate procedure ").count());
        assert!(found.iter().all(|object| object.shape.len() == 32), "{found:?}");
        let halt = table_statements(&script, "postroom_outbox_halt").expect("it is made");
        assert!(halt.ends_with("engine = InnoDB"), "{halt}");
    }
}
