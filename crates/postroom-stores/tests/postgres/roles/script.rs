//! The script of the roles, and what keeps its word: migrations, and the functions themselves.

use postroom_core::store::AdminStore;
use postroom_core::{IdempotencyKey, Message, MessageId, Outbox};
use postroom_stores::postgres::{migration_sql, roles_sql};
use postroom_stores::{Roles, StoreConfig};
use postroom_testkit::Harness;
use sqlx::postgres::PgPool;
use sqlx::{AssertSqlSafe, Executor};
use uuid::Uuid;

use crate::postgres_support::{drop_schema, fresh_schema, pool_for, run};
use crate::roles::postgres_roles_support::{As, Producer, Who, Worker, give_rights};

/// All rights that somebody was given in the schema.
async fn rights(pool: &PgPool, schema: &str) -> Vec<String> {
    let sql = "select format('%s %s', relname, relacl) from pg_class
            where relnamespace = $1::regnamespace and relacl is not null
        union all
        select format('%s %s %s', attrelid::regclass, attname, attacl) from pg_attribute
            join pg_class on pg_class.oid = attrelid
            where relnamespace = $1::regnamespace and attacl is not null
        union all
        select format('%s %s', oid::regprocedure, proacl) from pg_proc
            where pronamespace = $1::regnamespace
        union all
        select format('%s %s', nspname, nspacl) from pg_namespace where oid = $1::regnamespace
        order by 1";
    sqlx::query_scalar(sql).bind(schema).fetch_all(pool).await.expect("the catalog")
}

fn config(schema: &str) -> StoreConfig {
    StoreConfig { schema: schema.to_owned(), ..StoreConfig::default() }
}

#[tokio::test]
async fn sch_6_migrating_again_neither_loses_nor_widens_rights() {
    let env = As::<Worker>::on_database_time().await;
    let owner = &env.owner.0;
    let before = rights(&owner.pool, &owner.schema).await;
    assert!(before.iter().any(|right| right.contains(Worker::ROLE)), "{before:?}");
    owner.store.migrate().await.expect("migrates");
    assert_eq!(rights(&owner.pool, &owner.schema).await, before);
    // What an older version left to everybody is taken back.
    run(&owner.pool, "grant execute on function outbox_claim, micros to public").await;
    assert_ne!(rights(&owner.pool, &owner.schema).await, before);
    owner.store.migrate().await.expect("migrates");
    assert_eq!(rights(&owner.pool, &owner.schema).await, before);
    env.finish().await;
}

#[tokio::test]
async fn sch_6_a_migration_leaves_the_functions_of_others_alone() {
    let env = As::<Worker>::on_database_time().await;
    let owner = &env.owner.0;
    run(&owner.pool, "create function theirs() returns int language sql as 'select 7'").await;
    owner.store.migrate().await.expect("migrates");
    let seven: i32 = sqlx::query_scalar("select theirs()").fetch_one(&env.pool).await.expect("ok");
    assert_eq!(seven, 7);
    env.finish().await;
}

#[tokio::test]
async fn sch_6_the_script_leaves_exactly_its_rights() {
    let env = As::<Producer>::on_database_time().await;
    let owner = &env.owner.0;
    let before = rights(&owner.pool, &owner.schema).await;
    let more = format!(
        "grant select, update on outbox_message to {0}; grant update (hash) on outbox_key to {0}",
        Producer::ROLE
    );
    owner.pool.execute(sqlx::raw_sql(AssertSqlSafe(more))).await.expect("grants");
    assert_ne!(rights(&owner.pool, &owner.schema).await, before);
    give_rights(&owner.pool, &config(&owner.schema)).await;
    assert_eq!(rights(&owner.pool, &owner.schema).await, before);
    env.finish().await;
}

/// As people do who run their own migrations, with names of their own.
#[tokio::test]
async fn sch_6_the_script_fits_a_printed_migration_with_other_names() {
    let schema = fresh_schema();
    let pool = pool_for(&schema);
    let config = StoreConfig { prefix: "x_".to_owned(), ..config(&schema) };
    let roles = Roles { producer: "postroom_test_user".to_owned(), ..Roles::default() };
    let roles = Roles {
        worker: "postroom_test_user".to_owned(),
        admin: Worker::ROLE.to_owned(),
        reader: Worker::ROLE.to_owned(),
        ..roles
    };
    for script in [migration_sql(&config), roles_sql(&config, &roles)] {
        let script = script.expect("legal");
        pool.execute(sqlx::raw_sql(AssertSqlSafe(script))).await.expect("runs");
    }
    let mut tx = pool.begin().await.expect("begins");
    tx.execute("set local role postroom_test_user").await.expect("exists");
    tx.execute("select x_outbox_enqueue('t', 'x')").await.expect("may publish");
    tx.execute("select from x_outbox_claim(gen_random_uuid())").await.expect("may claim");
    drop(tx);
    drop_schema(&pool).await;
}

/// Things of a producer, where the function could find them instead of the real ones.
const DECOYS: &str = "
    create function decoy.taken() returns void language plpgsql as
        $$ begin raise exception 'taken in by %', current_user; end $$;
    create function decoy.sha256(bytea) returns bytea language sql as
        $$ select decoy.taken(); select ''::bytea $$;
    create function decoy.octet_length(bytea) returns integer language sql as
        $$ select decoy.taken(); select 0 $$;
    create function decoy.octet_length(text) returns integer language sql as
        $$ select decoy.taken(); select 0 $$;
    create function decoy.char_length(text) returns integer language sql as
        $$ select decoy.taken(); select 1 $$;
    create function decoy.gen_random_uuid() returns uuid language sql as
        $$ select decoy.taken(); select null::uuid $$;
    create function decoy.clock_timestamp() returns timestamptz language sql as
        $$ select decoy.taken(); select null::timestamptz $$;
    create function decoy.join_bytes(bytea, bytea) returns bytea language sql as
        $$ select decoy.taken(); select ''::bytea $$;
    create operator decoy.|| (function = decoy.join_bytes, leftarg = bytea, rightarg = bytea);
    create function decoy.same(uuid, uuid) returns boolean language sql as
        $$ select decoy.taken(); select true $$;
    create operator decoy.<> (function = decoy.same, leftarg = uuid, rightarg = uuid);
    create function decoy.less(bigint, bigint) returns boolean language sql as
        $$ select decoy.taken(); select true $$;
    create operator decoy.<= (function = decoy.less, leftarg = bigint, rightarg = bigint);
    create domain decoy.bigint as pg_catalog.text;
    create table decoy.outbox_message (id uuid);
    create table decoy.entry (id uuid);
    create temporary table outbox_message (id uuid);
    create temporary table pg_class (id uuid);
    create temporary table entry (id uuid)";

#[tokio::test]
async fn sch_6_a_producers_search_path_changes_nothing() {
    let env = As::<Producer>::on_database_time().await;
    let owner = &env.owner.0;
    let decoy = format!("{}_decoy", &owner.schema[..30]);
    let allow = format!("create schema {decoy} authorization {}", Producer::ROLE);
    owner.pool.execute(AssertSqlSafe(allow)).await.expect("a schema of the producer");

    let (key, id) = (Uuid::from_u128(7), Uuid::from_u128(8));
    let message = Message::builder("order.placed")
        .id(MessageId::from(id))
        .payload("{}")
        .header("h", "v")
        .ordering_key("k")
        .tenant_id("acme")
        .idempotency_key(IdempotencyKey::from(key))
        .build()
        .expect("legal");
    let mut conn = env.connection().await;
    let lay = DECOYS.replace("decoy.", &format!("{decoy}."));
    conn.execute(sqlx::raw_sql(AssertSqlSafe(lay))).await.expect("the producer may");
    // Ahead of everything, even of pg_catalog.
    let path = format!("set search_path = {decoy}, pg_temp, {}, pg_catalog", owner.schema);
    conn.execute(AssertSqlSafe(path)).await.expect("the producer may");
    let trap = conn.execute("select sha256('x'::pg_catalog.bytea)").await;
    assert!(trap.expect_err("a decoy").to_string().contains("taken in"), "the decoys work");
    // Bytes first: the other two have a path of their own, and call this one.
    for payload in ["'\\x7b7d'::pg_catalog.bytea", "'{}'::pg_catalog.text"] {
        let enqueue = format!(
            "select outbox_enqueue('order.placed', {payload}, headers => '{{\"h\": \"v\"}}',
            ordering_key => 'k', tenant_id => 'acme', idempotency_key => $1, id => $2)"
        );
        let enqueue = sqlx::query_scalar::<_, Uuid>(AssertSqlSafe(enqueue)).bind(key).bind(id);
        assert_eq!(enqueue.fetch_one(&mut *conn).await.expect("as always"), id);
    }
    let record = owner.store.get(MessageId::from(id)).await.expect("get").expect("is there").record;
    assert_eq!(record.message.expect("decodes").content_hash(), message.content_hash());
    // Rust finds it by the hash of its key, so that is right too.
    let again = Outbox::new(owner.store()).publish(message).await.expect("a duplicate is success");
    assert!(again.already_existed);
    drop(conn);
    env.pool.close().await;
    let clean = format!("drop schema {decoy} cascade");
    owner.pool.execute(AssertSqlSafe(clean)).await.expect("drops");
    env.finish().await;
}
