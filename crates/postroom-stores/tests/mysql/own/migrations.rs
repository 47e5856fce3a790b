//! Setting up the schema.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use postroom_core::store::{AdminStore, Claim, Store};
use postroom_core::{ErrorKind, Message, Outbox, OwnerToken};
use postroom_stores::mysql::migration_sql;
use postroom_stores::{MySqlStore, Queue, StoreConfig};
use sqlx::mysql::{MySqlPool, MySqlPoolOptions};
use sqlx::{AssertSqlSafe, Executor, Row};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::mysql_support::{create_database, pool_for, run, server, url};

/// An empty database of its own.
struct Fresh {
    database: String,
    pool: MySqlPool,
}

impl Fresh {
    async fn new() -> Self {
        let database = create_database().await;
        Self { pool: pool_for(&database), database }
    }

    async fn open(&self, config: StoreConfig) -> MySqlStore {
        MySqlStore::connect(&url(&self.database), config).await.expect("the test server answers")
    }

    async fn migrated(&self) -> MySqlStore {
        let store = self.open(StoreConfig::default()).await;
        store.migrate().await.expect("migrates");
        store
    }

    async fn execute(&self, sql: String) {
        let sql = sqlx::raw_sql(AssertSqlSafe(sql));
        self.pool.execute(sql).await.expect("the statement of the test");
    }

    async fn strings(&self, sql: &'static str) -> Vec<String> {
        sqlx::query_scalar(sql).fetch_all(&self.pool).await.expect("texts")
    }

    /// Everything that is there, as texts that can be compared.
    async fn everything(&self) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        let tables = "select cast(table_name as char) from information_schema.tables
            where table_schema = database()";
        for table in self.strings(tables).await {
            let show = sqlx::raw_sql(AssertSqlSafe(format!("show create table {table}")));
            let row = show.fetch_one(&self.pool).await.expect("a table or a view");
            // Of a slot or a message only the next number differs.
            let text: String = row.get(1);
            let text = text.split(" AUTO_INCREMENT=").next().unwrap_or_default().to_owned();
            all.insert(table, text.replace(&self.database, "database"));
        }
        let routines = "select cast(concat_ws(
                '|', routine_name, routine_type, security_type, sql_mode, routine_comment,
                routine_definition
            ) as char)
            from information_schema.routines where routine_schema = database()";
        let parameters = "select cast(concat_ws(
                '|', specific_name, ordinal_position, parameter_mode, parameter_name,
                dtd_identifier, character_set_name
            ) as char)
            from information_schema.parameters where specific_schema = database()";
        for sql in [routines, parameters] {
            all.extend(self.strings(sql).await.into_iter().map(|text| (text, String::new())));
        }
        all
    }

    async fn drop(self) {
        self.execute(format!("drop database {}", self.database)).await;
        self.pool.close().await;
    }
}

async fn works(store: MySqlStore) {
    store.check_schema().await.expect("fits");
    let store = Arc::new(store);
    Outbox::new(Arc::clone(&store)).publish(Message::builder("t")).await.expect("publishes");
    let claim = Claim::new(OwnerToken::random(), Duration::from_secs(30), 10).expect("legal");
    assert_eq!(store.claim(&claim).await.expect("claims").items.len(), 1);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sch_1_eight_processes_migrate_at_once() {
    let fresh = Fresh::new().await;
    let mut starts = JoinSet::new();
    for _ in 0..8 {
        let store = fresh.open(StoreConfig::default()).await;
        starts.spawn(async move {
            let migrated = store.migrate().await.expect("migrates");
            store.check_schema().await.expect("fits");
            store.close().await;
            migrated.from
        });
    }
    let from = starts.join_all().await;
    assert_eq!(from.iter().filter(|from| **from == 0).count(), 1, "one did the work: {from:?}");
    works(fresh.open(StoreConfig::default()).await).await;
    fresh.drop().await;
}

#[tokio::test]
async fn sch_1_missing_old_and_new_schemas_say_what_to_do() {
    let fresh = Fresh::new().await;
    let store = fresh.open(StoreConfig::default()).await;
    let missing = store.check_schema().await.expect_err("not there");
    let stats = store.stats().await.expect_err("not there");
    for error in [missing, stats] {
        assert_eq!(error.kind(), ErrorKind::Schema, "{error}");
        assert!(error.to_string().contains("postroom migrate"), "{error}");
    }
    assert!(fresh.everything().await.is_empty(), "looking creates nothing");
    store.migrate().await.expect("migrates");
    store.check_schema().await.expect("fits");
    run(&fresh.pool, "update postroom_meta set schema_version = 1").await;
    let old = store.check_schema().await.expect_err("too old");
    assert!(old.to_string().contains("run `postroom migrate`"), "{old}");
    run(&fresh.pool, "update postroom_meta set schema_version = 99, min_client = 2").await;
    store.check_schema().await.expect("newer, and says that it still fits");
    assert_eq!(store.migrate().await.expect("nothing to do").to, 99);
    run(&fresh.pool, "update postroom_meta set min_client = 99").await;
    for error in [
        store.check_schema().await.expect_err("too new"),
        store.migrate().await.expect_err("too new"),
    ] {
        assert_eq!(error.kind(), ErrorKind::Schema);
        assert!(error.to_string().contains("upgrade Postroom"), "{error}");
    }
    store.close().await;
    fresh.drop().await;
}

/// When each procedure was made. The server tells whole seconds, so the next one is waited for.
async fn ages(fresh: &Fresh) -> Vec<String> {
    let passed = "select now() > max(last_altered) from information_schema.routines
        where routine_schema = database()";
    while sqlx::query_scalar::<_, i64>(passed).fetch_one(&fresh.pool).await.expect("a time") == 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let sql = "select cast(concat(routine_name, ' ', last_altered, ' ', created) as char)
        from information_schema.routines where routine_schema = database() order by 1";
    fresh.strings(sql).await
}

#[tokio::test]
async fn sch_1_a_second_migration_changes_nothing_and_takes_no_rights_away() {
    let fresh = Fresh::new().await;
    let store = fresh.migrated().await;
    let user = format!("producer_{}", &Uuid::new_v4().simple().to_string()[..16]);
    fresh
        .execute(format!(
            "create user {user}; grant execute on procedure postroom_outbox_enqueue to {user}"
        ))
        .await;
    let (ages_before, before) = (ages(&fresh).await, fresh.everything().await);
    assert!(ages_before.len() > 100, "{}", ages_before.len());
    assert_eq!(store.migrate().await.expect("nothing to do").from, 6);
    assert_eq!(ages(&fresh).await, ages_before);
    assert_eq!(fresh.everything().await, before);

    // With that right and no other it publishes.
    let options = server().database(&fresh.database).username(&user);
    let pool = MySqlPoolOptions::new().max_connections(1).connect_lazy_with(options);
    let mut tx = pool.begin().await.expect("begins");
    tx.execute("call postroom_outbox_enqueue('t', 'x', null)").await.expect("enqueues");
    tx.execute("select count(*) from postroom_outbox_message").await.expect_err("may not look");
    tx.commit().await.expect("commits");
    pool.close().await;
    assert_eq!(store.stats().await.expect("stats").ready, 1);
    fresh.execute(format!("drop user {user}")).await;
    store.close().await;
    fresh.drop().await;
}

#[tokio::test]
async fn sch_3_a_procedure_with_another_text_is_replaced_and_no_other() {
    let fresh = Fresh::new().await;
    let store = fresh.migrated().await;
    let (before, ages_before) = (fresh.everything().await, ages(&fresh).await);
    run(
        &fresh.pool,
        "drop procedure postroom_outbox_run_leave;
        create procedure postroom_outbox_run_leave(p_owner binary(16)) comment 'an older text'
        select 1;
        drop procedure postroom_inbox_reap",
    )
    .await;
    assert_ne!(fresh.everything().await, before);
    store.migrate().await.expect("migrates");
    assert_eq!(fresh.everything().await, before);
    let after = ages(&fresh).await;
    let changed: Vec<_> = after.iter().filter(|age| !ages_before.contains(age)).collect();
    assert_eq!(changed.len(), 2, "{changed:?}");
    store.close().await;
    fresh.drop().await;
}

/// Definitions commit one by one here, so a migration can end anywhere.
#[tokio::test]
async fn sch_1_an_interrupted_migration_is_completed() {
    let whole = Fresh::new().await;
    whole.migrated().await.close().await;
    let wanted = whole.everything().await;
    let tables = include_str!("../../../migrations/mysql/0001_tables.sql");
    let shared = include_str!("../../../migrations/mysql/0002_shared.sql");
    // With the first of its indexes, and without the second.
    let watch = include_str!("../../../migrations/mysql/0005_watch.sql");
    let watch = watch.split_inclusive("deallocate prepare postroom_step;").next().expect("a part");
    let statements: Vec<_> = tables.split(";\n").collect();
    let some = |count: usize| statements[..count].join(";\n");
    let inbox = tables.replace("postroom_outbox", "postroom_inbox");
    for (what, sql, from) in [
        ("one table", some(1), 0),
        ("some tables", some(5), 0),
        ("slots that are not there", some(8), 0),
        ("both boxes", format!("{tables}{inbox}"), 0),
        ("tables of version 2", format!("{tables}{inbox}{shared}"), 2),
        ("a part of version 5", format!("{tables}{inbox}{shared}{watch}"), 2),
    ] {
        let fresh = Fresh::new().await;
        fresh.execute(sql).await;
        let store = fresh.open(StoreConfig::default()).await;
        assert_eq!(store.migrate().await.expect(what).from, from, "{what}");
        assert_eq!(fresh.everything().await, wanted, "{what}");
        let slots = "select count(*) from postroom_inbox_slot";
        let slots: i64 = sqlx::query_scalar(slots).fetch_one(&fresh.pool).await.expect("slots");
        assert_eq!(slots, 256);
        works(store).await;
        fresh.drop().await;
    }
    // The tables are all there, and a part of the procedures.
    let some: Vec<_> = wanted.keys().filter(|name| name.starts_with("postroom_outbox_t")).collect();
    assert!(!some.is_empty());
    run(
        &whole.pool,
        "drop procedure postroom_outbox_take; drop procedure postroom_begin;
        drop procedure postroom_inbox_walk; drop view postroom_inbox",
    )
    .await;
    let store = whole.open(StoreConfig::default()).await;
    assert_eq!(store.migrate().await.expect("completes").from, 6);
    assert_eq!(whole.everything().await, wanted);
    works(store).await;
    whole.drop().await;
}

/// As the `mysql` and `mariadb` clients read a script.
fn split(script: &str) -> Vec<String> {
    let mut delimiter = ";".to_owned();
    let (mut statements, mut current) = (Vec::new(), String::new());
    for line in script.lines() {
        if let Some(next) = line.strip_prefix("delimiter ") {
            assert!(current.trim().is_empty(), "a statement without an end: {current}");
            delimiter = next.to_owned();
            continue;
        }
        current += line;
        current += "\n";
        if let Some(statement) = current.trim_end().strip_suffix(delimiter.as_str()) {
            statements.push(statement.to_owned());
            current.clear();
        }
    }
    assert!(current.trim().is_empty(), "a statement without an end: {current}");
    statements
}

#[tokio::test]
async fn sch_2_the_printed_script_makes_what_a_migration_makes() {
    let config = || StoreConfig {
        schema: "mail".into(),
        prefix: "app_".into(),
        queue: Queue::Inbox,
        ..StoreConfig::default()
    };
    let script = migration_sql(&config()).expect("legal names");
    assert!(!script.contains("postroom_") && !script.contains("{{"), "everything is rendered");
    let (printed, migrated) = (Fresh::new().await, Fresh::new().await);
    // Twice: it may be run again.
    let mut conn = printed.pool.acquire().await.expect("a session");
    for statement in split(&script).into_iter().chain(split(&script)) {
        let sql = sqlx::raw_sql(AssertSqlSafe(statement.clone()));
        if let Err(error) = conn.execute(sql).await {
            panic!("{error}: {statement}");
        }
    }
    conn.close().await.expect("it has a mode of its own");
    let store = printed.open(config()).await;
    store.check_schema().await.expect("fits");
    let other = migrated.open(config()).await;
    other.migrate().await.expect("migrates");
    assert_eq!(printed.everything().await, migrated.everything().await);
    let before = ages(&printed).await;
    assert_eq!(store.migrate().await.expect("nothing to do").from, 6);
    assert_eq!(ages(&printed).await, before, "the marks are in the script too");
    works(store).await;
    other.close().await;
    printed.drop().await;
    migrated.drop().await;
}

#[tokio::test]
async fn sch_2_two_schemas_share_a_database() {
    let fresh = Fresh::new().await;
    for (schema, prefix) in [("mail", "x_"), ("mail", ""), ("mail_x", "")] {
        let config =
            StoreConfig { schema: schema.into(), prefix: prefix.into(), ..StoreConfig::default() };
        let store = fresh.open(config).await;
        store.migrate().await.expect("migrates");
        works(store).await;
    }
    fresh.drop().await;
}

#[tokio::test]
async fn sch_1_a_binary_log_of_statements_is_refused() {
    let fresh = Fresh::new().await;
    for (setting, fine) in [
        ("set session binlog_format = 'STATEMENT'", false),
        ("set session binlog_format = 'MIXED'", true),
        ("set session binlog_format = 'ROW'", true),
    ] {
        let pool = MySqlPoolOptions::new()
            .after_connect(move |conn, _| {
                Box::pin(async move { conn.execute(setting).await.map(drop) })
            })
            .connect_lazy_with(server().database(&fresh.database));
        let store = MySqlStore::new(pool.clone(), StoreConfig::default()).expect("legal names");
        let migrated = store.migrate().await;
        if fine {
            migrated.expect("migrates");
            works(store).await;
        } else {
            let error = migrated.expect_err("nothing could be written");
            assert_eq!(error.kind(), ErrorKind::Schema, "{error}");
            assert!(error.to_string().contains("set binlog_format to ROW or MIXED"), "{error}");
            assert!(fresh.everything().await.is_empty(), "before anything is made");
        }
        pool.close().await;
    }
    fresh.drop().await;
}

/// Nobody listens at that address: what is wrong is said before anything is asked.
#[tokio::test]
async fn sch_2_names_that_do_not_fit_are_refused_before_any_call() {
    let nowhere = "mysql://u:s3cret@127.0.0.1:1/shop";
    let long = "x".repeat(37);
    for (schema, prefix) in [
        ("", ""),
        ("Mail", ""),
        ("mail`; drop table business; --", ""),
        ("mail", "x'"),
        ("mail.x", ""),
        ("1mail", ""),
        ("mail", "\u{e4}_"),
        (long.as_str(), ""),
        (&long[..20], &long[..17]),
    ] {
        let config = || StoreConfig {
            schema: schema.to_owned(),
            prefix: prefix.to_owned(),
            ..StoreConfig::default()
        };
        let error = MySqlStore::connect(nowhere, config()).await.expect_err("not a name");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{schema:?} {prefix:?}: {error}");
        migration_sql(&config()).expect_err("not a name");
    }
    let error = MySqlStore::connect("mysql://u:s3cret@127.0.0.1:1", StoreConfig::default()).await;
    let error = error.expect_err("no database");
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("must name a database"), "{error}");
}

/// The longest names leave room for the longest name of a procedure.
#[tokio::test]
async fn sch_2_the_longest_names_fit() {
    let fresh = Fresh::new().await;
    let config =
        StoreConfig { schema: "s".repeat(18), prefix: "p".repeat(18), ..StoreConfig::default() };
    let store = fresh.open(config).await;
    store.migrate().await.expect("migrates");
    works(store).await;
    fresh.drop().await;
}

#[tokio::test]
async fn sec_2_a_connection_string_never_shows_in_an_error() {
    for (url, kind) in [
        ("mysql://u:s3cret@[::bad/shop", ErrorKind::Invalid),
        ("mysql://u:s3cret@127.0.0.1:1/shop", ErrorKind::Unavailable),
    ] {
        let error = MySqlStore::connect(url, StoreConfig::default()).await.expect_err("bad");
        assert_eq!(error.kind(), kind, "{error}");
        assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
    }
}

#[tokio::test]
async fn fleet_6_the_indexes_for_tenants_are_made_where_they_are_wanted() {
    let fresh = Fresh::new().await;
    let plain = fresh.migrated().await;
    let fair = fresh.open(StoreConfig { fair_tenants: true, ..StoreConfig::default() }).await;
    let missing = fair.check_schema().await.expect_err("the schema is there, the indexes are not");
    assert_eq!(missing.kind(), ErrorKind::Schema);
    assert!(missing.to_string().contains("run `postroom migrate --fair-tenants`"), "{missing}");
    for _ in 0..2 {
        fair.migrate().await.expect("makes them, and leaves them");
        fair.check_schema().await.expect("fits");
    }
    plain.migrate().await.expect("leaves them");
    fair.check_schema().await.expect("still fits");
    let script = migration_sql(&StoreConfig { fair_tenants: true, ..StoreConfig::default() });
    let script = script.expect("legal names");
    assert_eq!(script.matches("create index tenants").count(), 4, "two for each box");
    fresh.drop().await;
}
