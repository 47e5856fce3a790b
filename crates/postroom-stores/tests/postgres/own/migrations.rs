//! Setting up the schema.

use std::sync::Arc;
use std::time::Duration;

use postroom_core::store::{AdminStore, Claim, List, Store};
use postroom_core::{ErrorKind, Inbox, Message, Outbox, OwnerToken, Received};
use postroom_stores::postgres::migration_sql;
use postroom_stores::{PgStore, Queue, StoreConfig};
use postroom_testkit::Harness;
use sqlx::Executor;
use tokio::task::JoinSet;

use crate::postgres_support::{Pg, drop_schema, fresh_schema, pool_for, run, url};

fn config(schema: &str) -> StoreConfig {
    StoreConfig { schema: schema.to_owned(), ..StoreConfig::default() }
}

#[tokio::test]
async fn sch_1_ten_processes_migrate_at_once() {
    let schema = fresh_schema();
    let mut starts = JoinSet::new();
    for _ in 0..10 {
        let config = config(&schema);
        starts.spawn(async move {
            let store = PgStore::connect(&url(), config).await.expect("connects");
            let migrated = store.migrate().await.expect("migrates");
            store.check_schema().await.expect("fits");
            migrated.from
        });
    }
    let from = starts.join_all().await;
    assert_eq!(from.iter().filter(|from| **from == 0).count(), 1, "one did the work: {from:?}");
    drop_schema(&pool_for(&schema)).await;
}

#[tokio::test]
async fn sch_1_missing_old_and_new_schemas_say_what_to_do() {
    let schema = fresh_schema();
    let store = PgStore::connect(&url(), config(&schema)).await.expect("connects");
    let missing = store.check_schema().await.expect_err("not there");
    assert_eq!(missing.kind(), ErrorKind::Schema);
    assert!(missing.to_string().contains("postroom migrate"), "{missing}");
    let claim = store.stats().await.expect_err("not there");
    assert_eq!(claim.kind(), ErrorKind::Schema);
    assert!(claim.to_string().contains("postroom migrate"), "{claim}");

    store.migrate().await.expect("migrates");
    store.check_schema().await.expect("fits");
    let pool = pool_for(&schema);
    run(&pool, "update meta set schema_version = 1").await;
    let old = store.check_schema().await.expect_err("too old");
    assert!(old.to_string().contains("run `postroom migrate`"), "{old}");
    run(&pool, "update meta set schema_version = 99, min_client = 2").await;
    store.check_schema().await.expect("newer, and says that it still fits");
    assert_eq!(store.migrate().await.expect("nothing to do").to, 99);
    run(&pool, "update meta set min_client = 99").await;
    for error in [
        store.check_schema().await.expect_err("too new"),
        store.migrate().await.expect_err("too new"),
    ] {
        assert_eq!(error.kind(), ErrorKind::Schema);
        assert!(error.to_string().contains("upgrade Postroom"), "{error}");
    }
    drop_schema(&pool).await;
}

#[tokio::test]
async fn sch_2_the_printed_script_runs_as_it_stands() {
    let schema = fresh_schema();
    let config = StoreConfig { prefix: "app_".into(), queue: Queue::Inbox, ..config(&schema) };
    let script = migration_sql(&config).expect("legal names");
    assert!(script.starts_with("begin;\n") && script.ends_with("commit;\n"));
    assert!(!script.contains("postroom.") && !script.contains("{{"), "everything is rendered");
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), script).expect("written");
    let psql = std::process::Command::new("psql")
        .args(["--quiet", "--no-psqlrc", "--set=ON_ERROR_STOP=1", "--file"])
        .arg(file.path())
        .arg(url())
        .output()
        .expect("psql is installed");
    assert!(psql.status.success(), "{}", String::from_utf8_lossy(&psql.stderr));
    let store = PgStore::connect(&url(), config).await.expect("connects");
    store.check_schema().await.expect("fits");
    assert_eq!(store.migrate().await.expect("nothing to do").from, 7);
    drop_schema(&pool_for(&schema)).await;
}

/// SCH-3: an older schema with messages in it, and with functions whose answers are others now.
#[tokio::test]
async fn sch_3_version_2_is_brought_up_to_date_with_what_is_in_it() {
    let schema = fresh_schema();
    let (tables, shared) = (
        include_str!("../../../migrations/postgres/0001_tables.sql"),
        include_str!("../../../migrations/postgres/0002_shared.sql"),
    );
    let old = format!(
        "create schema postroom; {tables}; {}; {shared};
        create function postroom.outbox_claim(
            owner uuid, lease interval, batch integer, suspects integer, max_attempts integer,
            halt boolean
        ) returns table (seq bigint) language sql as 'select 1::bigint';
        insert into postroom.outbox_message
            (id, seq, occurred_at, created_at, priority, topic, payload, aggregate_type,
            aggregate_id)
        values (gen_random_uuid(), 1, now(), now(), 0, 'order.placed', 'x', 'order', '7');
        insert into postroom.outbox_queue (seq, id, topic_hash, attempts, lost, priority)
        select seq, id, 7, 0, 0, 0 from postroom.outbox_message",
        tables.replace("postroom.outbox", "postroom.inbox"),
    );
    let old = old.replace("postroom", &schema);
    let pool = pool_for(&schema);
    pool.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(old))).await.expect("version 2");
    let store = Arc::new(PgStore::connect(&url(), config(&schema)).await.expect("up"));
    assert_eq!(store.check_schema().await.expect_err("too old").kind(), ErrorKind::Schema);
    let migrated = store.migrate().await.expect("migrates");
    assert_eq!(migrated.from, 2);
    store.check_schema().await.expect("fits");
    let items = store.claim(&claim()).await.expect("claims").items;
    assert_eq!(items[0].message.topic().as_str(), "order.placed");
    assert_eq!(store.list(&of_order_7()).await.expect("lists").records[0].payload_bytes, 1);
    let inbox = Inbox::new(&Outbox::new(store), "billing").expect("legal");
    let received = inbox.receive("shop", "1", Message::builder("t")).await.expect("receives");
    assert!(matches!(received, Received::New(_)));
    drop_schema(&pool).await;
}

fn of_order_7() -> List {
    let [kind, id] = ["order", "7"].map(|text| Some(text.to_owned()));
    List { aggregate_type: kind, aggregate_id: id, ..List::default() }
}

/// SCH-3: whoever has many messages makes the indexes of version 5 beforehand.
#[tokio::test]
async fn sch_3_indexes_that_were_made_concurrently_are_not_made_again() {
    let pg = Pg::on_database_time().await;
    let store = pg.store();
    let message = Message::builder("t").aggregate("order", "7").ordering_key("k");
    Outbox::new(Arc::clone(&store)).publish(message).await.expect("publishes");
    let indexes = async || -> Vec<String> {
        let sql = "select indexdef from pg_indexes
            where schemaname = current_schema and tablename like '%box_message' order by 1";
        sqlx::query_scalar(sql).fetch_all(&pg.pool).await.expect("the catalog")
    };
    let wanted = indexes().await;
    assert_eq!(wanted.len(), 6, "{wanted:?}");
    run(
        &pg.pool,
        "drop index outbox_message_aggregate_type_aggregate_id_id_idx,
            inbox_message_aggregate_type_aggregate_id_id_idx,
            outbox_message_ordering_key_id_idx, inbox_message_ordering_key_id_idx",
    )
    .await;
    // One by hand; the others are left to the migration.
    let by_hand = "create index concurrently on outbox_message (aggregate_type, aggregate_id, id)
        where aggregate_type is not null and aggregate_id is not null";
    pg.pool.execute(by_hand).await.expect("made");
    run(
        &pg.pool,
        "drop table outbox_dispatcher, inbox_dispatcher, audit;
        update meta set schema_version = 4",
    )
    .await;
    let migrated = store.migrate().await.expect("migrates");
    assert_eq!((migrated.from, migrated.to), (4, 7));
    assert_eq!(indexes().await, wanted);
    assert_eq!(store.list(&of_order_7()).await.expect("lists").records.len(), 1);
    // A build for version 4 goes on.
    let needs: i32 =
        sqlx::query_scalar("select min_client from meta").fetch_one(&pg.pool).await.expect("meta");
    assert_eq!(needs, 4);
    pg.finish().await;
}

fn claim() -> Claim {
    Claim::new(OwnerToken::random(), Duration::from_secs(30), 10).expect("legal")
}

#[tokio::test]
async fn sch_2_names_are_configurable() {
    let schema = fresh_schema();
    let pg = Pg::with(StoreConfig { prefix: "my_".into(), ..config(&schema) }).await;
    pg.pool.execute("select my_outbox_enqueue('t', 'x')").await.expect("the prefix is in use");
    assert_eq!(pg.store.stats().await.expect("stats").ready, 1);
    pg.finish().await;
}

#[tokio::test]
async fn sch_1_a_connection_string_never_shows_in_an_error() {
    let error = PgStore::connect("postgres://u:s3cret@[::bad", config("x")).await.expect_err("bad");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
    let error = PgStore::connect("postgres://u:s3cret@127.0.0.1:1/db", config("x")).await;
    let error = error.expect_err("nobody listens there");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
}

async fn fair(schema: &str) -> PgStore {
    let config = StoreConfig { fair_tenants: true, ..config(schema) };
    PgStore::connect(&url(), config).await.expect("connects")
}

#[tokio::test]
async fn fleet_6_the_indexes_for_tenants_are_made_where_they_are_wanted() {
    let schema = fresh_schema();
    let plain = PgStore::connect(&url(), config(&schema)).await.expect("connects");
    plain.migrate().await.expect("migrates");
    let fair = fair(&schema).await;
    let missing = fair.check_schema().await.expect_err("the schema is there, the indexes are not");
    assert_eq!(missing.kind(), ErrorKind::Schema);
    assert!(missing.to_string().contains("run `postroom migrate --fair-tenants`"), "{missing}");
    fair.migrate().await.expect("makes them");
    fair.check_schema().await.expect("fits");
    plain.check_schema().await.expect("they are in nobody's way");
    plain.migrate().await.expect("leaves them");
    fair.check_schema().await.expect("still fits");

    // As an interrupted build leaves it.
    let pool = pool_for(&schema);
    let broken = "update pg_index set indisvalid = false
        where indexrelid = to_regclass('inbox_parked_tenants')";
    run(&pool, broken).await;
    fair.check_schema().await.expect_err("it is not complete");
    fair.migrate().await.expect("makes it anew");
    fair.check_schema().await.expect("fits");
    drop_schema(&pool).await;
}

#[tokio::test]
async fn fleet_6_ten_processes_index_tenants_while_others_publish() {
    let schema = fresh_schema();
    let plain = PgStore::connect(&url(), config(&schema)).await.expect("connects");
    plain.migrate().await.expect("migrates");
    let outbox = Outbox::new(Arc::new(plain));
    let (stop, mut stopped) = tokio::sync::oneshot::channel::<()>();
    let publisher = tokio::spawn(async move {
        while stopped.try_recv().is_err() {
            outbox.publish(Message::builder("t").tenant_id("a")).await.expect("publishes");
        }
    });
    let mut starts = JoinSet::new();
    for _ in 0..10 {
        let schema = schema.clone();
        starts.spawn(async move {
            let store = fair(&schema).await;
            store.migrate().await.expect("migrates");
            store.check_schema().await.expect("fits");
        });
    }
    starts.join_all().await;
    stop.send(()).expect("it publishes still");
    publisher.await.expect("nothing failed");
    drop_schema(&pool_for(&schema)).await;
}

#[tokio::test]
async fn fleet_6_the_printed_schema_has_the_indexes_for_tenants() {
    let schema = fresh_schema();
    let config = StoreConfig { fair_tenants: true, prefix: "eu_".into(), ..config(&schema) };
    let script = migration_sql(&config).expect("legal names");
    let pool = pool_for(&schema);
    pool.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(script))).await.expect("runs as it stands");
    let store = PgStore::connect(&url(), config).await.expect("connects");
    store.check_schema().await.expect("fits");
    drop_schema(&pool).await;
}
