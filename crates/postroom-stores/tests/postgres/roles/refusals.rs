//! What each role may not do.

use std::time::Duration;

use postroom_core::lifecycle::Settlement;
use postroom_core::store::{
    AdminStore, Claim, List, ListJoins, Pause, Purge, Store, StoreTransaction as _,
    TransactionalStore,
};
use postroom_core::{JoinId, Message, MessageId, Outbox, OwnerToken};
use postroom_stores::PgStore;
use postroom_testkit::Harness;
use sqlx::postgres::PgPool;
use sqlx::{AssertSqlSafe, Executor, Row};

use crate::roles::postgres_roles_support::{Admin, As, Producer, Reader, Who, Worker};
use crate::roles_support::{
    audit_entry, heartbeat, looks_around, receives_and_joins, shows_itself,
};

/// The server's "permission denied".
const DENIED: &str = "42501";

async fn names(owner: &PgPool, sql: &'static str, role: &str, schema: &str) -> Vec<String> {
    let query = sqlx::query_scalar(sql).bind(role).bind(schema);
    query.fetch_all(owner).await.expect("the catalog")
}

/// Every function that `$1` may call, with its arguments.
const CALLABLE: &str = "select proname::text from pg_proc
    where pronamespace = $2::regnamespace and has_function_privilege($1, oid, 'execute')
    group by proname order by proname";

/// Every right of `$1` on our tables, views and sequences, as `select outbox_message`.
const ON_TABLES: &str = "select lower(held.name) || ' ' || relname from pg_class
    cross join unnest(array['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES',
        'TRIGGER']) as held (name)
    where relnamespace = $2::regnamespace and relkind in ('r', 'p', 'v')
        and relname <> 'business'
        and case
            when held.name in ('SELECT', 'INSERT', 'UPDATE', 'REFERENCES')
                then has_any_column_privilege($1, oid, held.name)
            else has_table_privilege($1, oid, held.name)
        end
    union all
    select lower(held.name) || ' ' || relname from pg_class
    cross join unnest(array['SELECT', 'UPDATE', 'USAGE']) as held (name)
    where relnamespace = $2::regnamespace and relkind = 'S'
        and has_sequence_privilege($1, oid, held.name)
    order by 1";

/// The code of the error, as the role sees it.
async fn code(pool: &PgPool, sql: &str) -> String {
    let mut tx = pool.begin().await.expect("begins");
    let answer = tx.execute(sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))).await;
    tx.rollback().await.expect("rolls back");
    let error = answer.expect_err(sql);
    let error = error.as_database_error().expect("the server's own error");
    error.code().expect("a code").into_owned()
}

#[tokio::test]
async fn sch_6_a_producer_publishes_in_its_own_transaction() {
    let env = As::<Producer>::on_database_time().await;
    for (end, rows) in [("rollback", 0), ("commit", 3)] {
        let mut tx = env.pool.begin().await.expect("begins");
        tx.execute("insert into business values (1)").await.expect("business row");
        for call in [
            "select outbox_enqueue('t', 'text', tenant_id => 'acme')",
            "select outbox_enqueue('t', '{}'::jsonb, ordering_key => 'k')",
            "select outbox_enqueue('t', '\\x00'::bytea, due_at => now() + interval '1 h',
                idempotency_key => '00000000-0000-0000-0000-000000000001')",
        ] {
            tx.execute(call).await.expect(call);
        }
        match end {
            "commit" => tx.commit().await.expect("commits"),
            _ => tx.rollback().await.expect("rolls back"),
        }
        let stats = env.owner.0.store.stats().await.expect("stats");
        assert_eq!(stats.ready + stats.waiting, rows, "{end}");
    }
    // A duplicate is found by reading what a producer may not read.
    let again = "select outbox_enqueue('t', 'x',
        idempotency_key => '00000000-0000-0000-0000-000000000001')";
    env.pool.execute(again).await.expect("a duplicate is success");
    let stats = env.owner.0.store.stats().await.expect("stats");
    assert_eq!(stats.ready + stats.waiting, 3);
    env.finish().await;
}

#[tokio::test]
async fn sch_6_a_producer_may_do_nothing_else() {
    let env = As::<Producer>::on_database_time().await;
    let owner = &env.owner.0.pool;
    let callable = names(owner, CALLABLE, Producer::ROLE, env.schema()).await;
    assert_eq!(callable, ["outbox_enqueue"]);
    assert_eq!(names(owner, ON_TABLES, Producer::ROLE, env.schema()).await, [""; 0]);

    // The catalog says so; the server does so.
    let views = "select relname::text from pg_class
        where relnamespace = $2::regnamespace and relkind = 'v' and $1 <> ''";
    for view in names(owner, views, "-", env.schema()).await {
        assert_eq!(code(&env.pool, &format!("select from {view}")).await, DENIED, "{view}");
    }
    let tables = "select relname::text from pg_class
        where relnamespace = $2::regnamespace and relkind in ('r', 'p')
            and relname <> 'business' and $1 <> ''";
    let tables = names(owner, tables, "-", env.schema()).await;
    assert!(tables.len() > 20, "{tables:?}");
    for table in tables {
        for sql in [
            format!("select from {table}"),
            format!("insert into {table} default values"),
            format!("delete from {table}"),
            format!("lock table {table}"),
        ] {
            assert_eq!(code(&env.pool, &sql).await, DENIED, "{sql}");
        }
    }
    let calls = "select format('select %I(%s)', proname,
            (select string_agg(format('null::%s', format_type(type, null)), ', ')
            from unnest(proargtypes) as type))
        from pg_proc
        where pronamespace = $2::regnamespace and proname <> 'outbox_enqueue' and $1 <> ''";
    let calls = names(owner, calls, "-", env.schema()).await;
    assert!(calls.len() > 40, "{calls:?}");
    for call in calls {
        assert_eq!(code(&env.pool, &call).await, DENIED, "{call}");
    }
    for sql in ["create table mine (id int)", "select nextval('outbox_seq')", "drop view outbox"] {
        assert_eq!(code(&env.pool, sql).await, DENIED, "{sql}");
    }
    env.finish().await;
}

#[tokio::test]
async fn sch_6_nobody_else_may_do_anything() {
    let env = As::<Producer>::on_database_time().await;
    let owner = &env.owner.0.pool;
    assert_eq!(names(owner, CALLABLE, "public", env.schema()).await, [""; 0]);
    assert_eq!(names(owner, ON_TABLES, "public", env.schema()).await, [""; 0]);
    // Of all our functions one kind has the rights of its owner, and those have a fixed path.
    let definers = "select distinct proname || ' ' || array_to_string(proconfig, ' ') from pg_proc
        where pronamespace = $2::regnamespace and prosecdef and $1 <> '' order by 1";
    let definers = names(owner, definers, "-", env.schema()).await;
    let fixed = "search_path=pg_catalog, pg_temp";
    assert_eq!(definers, [format!("inbox_enqueue {fixed}"), format!("outbox_enqueue {fixed}")]);
    env.finish().await;
}

/// What nobody but the owner may do.
async fn refuses_ddl<W: Who>(env: &As<W>) {
    for sql in [
        "create table mine (id int)",
        "create function mine() returns int language sql as 'select 1'",
        "drop table outbox_message",
        "drop function outbox_ack",
        "alter table outbox_queue add column mine int",
        "create index on outbox_message (topic)",
        "truncate outbox_attempt",
        "update meta set schema_version = 1",
        "create or replace function outbox_leave(given_owner uuid) returns void language sql as ''",
    ] {
        assert_eq!(code(&env.pool, sql).await, DENIED, "{sql}");
    }
    let error = env.store.migrate().await.expect_err("that is for the owner");
    assert!(format!("{error:?}").contains("permission denied"), "{error:?}");
    env.store.check_schema().await.expect("but it may look");
}

fn denied<T: std::fmt::Debug>(what: &str, answer: postroom_core::Result<T>) {
    let error = answer.expect_err(what);
    assert!(format!("{error:?}").contains("permission denied"), "{what}: {error:?}");
}

async fn refuses_to_pause_and_discard(store: &PgStore, id: MessageId) {
    let pause = Pause::default();
    denied("pause", store.pause(&pause).await);
    denied("resume", store.resume(None).await);
    denied("discard", store.discard(&[id]).await);
}

#[tokio::test]
async fn sch_6_a_worker_receives_and_joins() {
    let env = As::<Worker>::on_database_time().await;
    receives_and_joins(&env).await;
    env.finish().await;
}

#[tokio::test]
async fn sch_6_a_worker_may_not_pause_or_discard_or_change_the_schema() {
    let env = As::<Worker>::on_database_time().await;
    let id = Outbox::new(env.store()).publish(Message::builder("t")).await.expect("publish").id;
    refuses_to_pause_and_discard(&env.store, id).await;
    denied("audit", env.store.write_audit(&audit_entry()).await);
    shows_itself(&*env.store).await;
    refuses_ddl(&env).await;
    assert_eq!(env.store.stats().await.expect("stats").ready, 1);
    env.finish().await;
}

#[tokio::test]
async fn sch_6_an_admin_may_do_all_that_a_worker_may_but_not_change_the_schema() {
    let env = As::<Admin>::on_database_time().await;
    let owner = &env.owner.0.pool;
    let callable = names(owner, CALLABLE, Admin::ROLE, env.schema()).await;
    assert_eq!(callable, names(owner, CALLABLE, Worker::ROLE, env.schema()).await);
    let workers = names(owner, ON_TABLES, Worker::ROLE, env.schema()).await;
    let admins = names(owner, ON_TABLES, Admin::ROLE, env.schema()).await;
    assert!(workers.iter().all(|right| admins.contains(right)), "{workers:?}");
    // So what the suite proves for one of the two it proves for the other, but for these; and an
    // admin may also update rows of settled, of which a worker may update one column.
    let more: Vec<_> = admins.iter().filter(|right| !workers.contains(right)).collect();
    let expected = [
        "delete inbox_control",
        "delete outbox_control",
        "insert audit",
        "insert inbox_control",
        "insert outbox_control",
    ];
    assert_eq!(more, expected);
    let id = Outbox::new(env.store()).publish(Message::builder("t")).await.expect("publish").id;
    assert_eq!(env.store.discard(&[id]).await.expect("discard").applied, [id]);
    assert_eq!(env.store.replay(&[id]).await.expect("replay").applied, [id]);
    assert!(env.store.pause(&Pause::default()).await.expect("pause"));
    assert!(env.store.resume(None).await.expect("resume"));
    refuses_ddl(&env).await;
    env.finish().await;
}

#[tokio::test]
async fn sch_6_a_reader_looks_at_everything_and_changes_nothing() {
    let env = As::<Reader>::on_database_time().await;
    let owner = &env.owner.0;
    let outbox = Outbox::new(owner.store());
    let dead = outbox.publish(Message::builder("dead")).await.expect("publish").id;
    assert_eq!(owner.store.discard(&[dead]).await.expect("discard").applied, [dead]);
    let id = outbox.publish(Message::builder("t").payload("text")).await.expect("publish").id;

    let store = &env.store;
    assert_eq!(store.stats().await.expect("stats").ready, 1);
    assert_eq!(store.list(&List::default()).await.expect("list").records.len(), 2);
    let detail = store.get(id).await.expect("get").expect("is there");
    assert_eq!(detail.record.message.expect("decodes").payload().as_ref(), b"text");
    assert!(store.pauses().await.expect("pauses").is_empty());
    assert!(store.joins(&ListJoins::default()).await.expect("joins").is_empty());
    assert!(store.join(JoinId::new()).await.expect("join").is_none());
    looks_around(&**store).await;
    store.check_schema().await.expect("fits");
    let view =
        sqlx::query("select payload_text from outbox where topic = 't'").fetch_one(&env.pool).await;
    assert_eq!(view.expect("the view").get::<&str, _>("payload_text"), "text");

    let rights = names(&owner.pool, ON_TABLES, Reader::ROLE, env.schema()).await;
    assert!(rights.iter().all(|right| right.starts_with("select ")), "{rights:?}");
    assert!(rights.len() > 20, "{rights:?}");
    let callable = names(&owner.pool, CALLABLE, Reader::ROLE, env.schema()).await;
    assert_eq!(callable, ["payload_text"]);

    let me = OwnerToken::random();
    let claim = Claim::new(me, Duration::from_secs(30), 1).expect("legal");
    denied("publish", Outbox::new(env.store()).publish(Message::builder("t")).await);
    denied("claim", store.claim(&claim).await);
    let held = owner.store.claim(&claim).await.expect("claim").items.remove(0).lease;
    denied("settle", store.settle(me, &[(held, Settlement::Done)]).await);
    denied("renew", store.renew(me, &[held], Duration::from_secs(9)).await);
    denied("reap", store.reap(1, 1).await);
    denied("purge", store.purge(&Purge::default()).await);
    denied("leave", store.leave(me).await);
    denied("report", store.report(&heartbeat()).await);
    denied("audit", store.write_audit(&audit_entry()).await);
    denied("replay", store.replay(&[dead]).await);
    denied("cancel", store.cancel_join(JoinId::new()).await);
    let mut tx = store.begin().await.expect("begins");
    denied("admit", store.admit(tx.conn(), [0; 32]).await);
    drop(tx);
    refuses_to_pause_and_discard(store, id).await;
    refuses_ddl(&env).await;
    assert_eq!(owner.store.stats().await.expect("stats").leased, 1, "as it was");
    env.finish().await;
}
