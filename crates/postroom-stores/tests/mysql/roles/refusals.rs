//! What each role may not do.

use std::time::Duration;

use postroom_core::lifecycle::Settlement;
use postroom_core::store::{
    AdminStore, Claim, List, ListJoins, Pause, Purge, Store, StoreTransaction as _,
    TransactionalStore,
};
use postroom_core::{JoinId, Message, Outbox, OwnerToken};
use postroom_testkit::Harness;
use sqlx::mysql::MySqlPool;
use sqlx::{AssertSqlSafe, Executor};

use crate::roles::mysql_roles_support::{Admin, As, Producer, Reader, Who, Worker};
use crate::roles_support::{
    audit_entry, heartbeat, looks_around, receives_and_joins, shows_itself,
};

/// The server's words for a table, for a procedure, for a database, for one's own account, and for
/// triggers where there is a binary log.
const DENIED: [u16; 5] = [1142, 1370, 1044, 1227, 1419];

/// Whether the role is denied this; another error means that it is not.
async fn is_denied(pool: &MySqlPool, sql: &str) -> bool {
    let mut tx = pool.begin().await.expect("begins");
    let answer = tx.execute(sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))).await;
    tx.rollback().await.expect("rolls back");
    let Err(sqlx::Error::Database(error)) = answer else { return false };
    DENIED.contains(&error.downcast_ref::<sqlx::mysql::MySqlDatabaseError>().number())
}

async fn names<W: Who>(env: &As<W>, sql: &'static str) -> Vec<String> {
    sqlx::query_scalar(sql).fetch_all(&env.owner.pool).await.expect("the catalog")
}

/// All that the role may do to our tables and views, as `select postroom_outbox_message`.
async fn on_tables<W: Who>(env: &As<W>) -> Vec<String> {
    let sql = "select cast(table_name as char) from information_schema.tables
        where table_schema = database() and table_name <> 'business'";
    let tables = names(env, sql).await;
    assert!(tables.len() > 25, "{tables:?}");
    let mut allowed = Vec::new();
    for table in tables {
        let column = "select cast(column_name as char) from information_schema.columns
            where table_schema = database() and table_name = ? limit 1";
        let column: String = sqlx::query_scalar(column)
            .bind(&table)
            .fetch_one(&env.owner.pool)
            .await
            .expect("the catalog");
        for (right, sql) in [
            ("select", format!("select {column} from {table} limit 0")),
            ("insert", format!("insert into {table} ({column}) values (null)")),
            ("update", format!("update {table} set {column} = null where false")),
            ("delete", format!("delete from {table} where false")),
        ] {
            if !is_denied(&env.pool, &sql).await {
                allowed.push(format!("{right} {table}"));
            }
        }
    }
    allowed.sort();
    allowed
}

/// All procedures that the role may call.
async fn callable<W: Who>(env: &As<W>) -> Vec<String> {
    let sql = "select concat(routine.routine_name, '(', coalesce(
            (select group_concat(if(parameter_mode = 'IN', 'null', '@answer'))
            from information_schema.parameters
            where specific_schema = database() and specific_name = routine.routine_name), ''), ')')
        from information_schema.routines as routine
        where routine.routine_schema = database()
        order by routine.routine_name";
    let calls = names(env, sql).await;
    assert!(calls.len() > 100, "{calls:?}");
    let mut allowed = Vec::new();
    for call in calls {
        if !is_denied(&env.pool, &format!("call {call}")).await {
            allowed.push(call.split('(').next().unwrap_or_default().to_owned());
        }
    }
    allowed
}

#[tokio::test]
async fn sch_6_a_producer_publishes_in_its_own_transaction() {
    let env = As::<Producer>::on_database_time().await;
    for (end, rows) in [("rollback", 0), ("commit", 2)] {
        let mut tx = env.pool.begin().await.expect("begins");
        tx.execute("insert into business values (1)").await.expect("business row");
        for call in [
            "call postroom_outbox_enqueue('t', 'text', '{\"ordering_key\": \"k\"}')",
            "call postroom_outbox_enqueue('t', 'text',
                '{\"idempotency_key\": \"00000000-0000-0000-0000-000000000001\"}')",
        ] {
            tx.execute(call).await.expect(call);
        }
        match end {
            "commit" => tx.commit().await.expect("commits"),
            _ => tx.rollback().await.expect("rolls back"),
        }
        assert_eq!(env.owner.store.stats().await.expect("stats").ready, rows, "{end}");
    }
    // A duplicate is found by reading what a producer may not read.
    let mut tx = env.pool.begin().await.expect("begins");
    let again = "call postroom_outbox_enqueue('t', 'x',
        '{\"idempotency_key\": \"00000000-0000-0000-0000-000000000001\"}')";
    tx.execute(again).await.expect("a duplicate is success");
    tx.commit().await.expect("commits");
    assert_eq!(env.owner.store.stats().await.expect("stats").ready, 2);
    env.finish().await;
}

#[tokio::test]
async fn sch_6_a_producer_may_do_nothing_else() {
    let env = As::<Producer>::on_database_time().await;
    assert_eq!(callable(&env).await, ["postroom_outbox_enqueue"]);
    assert_eq!(on_tables(&env).await, [""; 0]);
    // Or it could put a table of its own in front of one of ours.
    let decoy = "create temporary table postroom_outbox_message (id int)";
    assert!(is_denied(&env.pool, decoy).await);
    refuses_ddl(&env).await;
    env.finish().await;
}

/// What nobody but the account that migrates may do.
async fn refuses_ddl<W: Who>(env: &As<W>) {
    for sql in [
        "create table mine (id int)",
        "create procedure mine() select 1",
        "drop table postroom_outbox_attempt",
        "drop procedure postroom_outbox_ack",
        "alter table postroom_outbox_queue add column mine int",
        "create index mine on postroom_outbox_message (topic)",
        "truncate postroom_outbox_attempt",
        "create trigger mine before insert on postroom_outbox_message for each row set @x = 1",
        "update postroom_meta set schema_version = 1",
    ] {
        assert!(is_denied(&env.pool, sql).await, "{sql}");
    }
}

fn denied<T: std::fmt::Debug>(what: &str, answer: postroom_core::Result<T>) {
    let error = answer.expect_err(what);
    assert!(format!("{error:?}").contains("command denied"), "{what}: {error:?}");
}

async fn refuses_what_admins_do<W: Who>(env: &As<W>) {
    let outbox = Outbox::new(env.owner.store());
    let [live, dead] = ["live", "dead"].map(Message::builder);
    let live = outbox.publish(live).await.expect("publish").id;
    let dead = outbox.publish(dead).await.expect("publish").id;
    assert_eq!(env.owner.store.discard(&[dead]).await.expect("discard").applied, [dead]);
    let store = &env.store;
    denied("pause", store.pause(&Pause::default()).await);
    denied("resume", store.resume(None).await);
    denied("discard", store.discard(&[live]).await);
    denied("replay", store.replay(&[dead]).await);
    denied("cancel", store.cancel_join(JoinId::new()).await);
    denied("audit", store.write_audit(&audit_entry()).await);
}

#[tokio::test]
async fn sch_6_a_worker_receives_and_joins() {
    let env = As::<Worker>::on_database_time().await;
    receives_and_joins(&env).await;
    env.finish().await;
}

#[tokio::test]
async fn sch_6_a_worker_may_not_do_what_admins_do() {
    let env = As::<Worker>::on_database_time().await;
    refuses_what_admins_do(&env).await;
    shows_itself(&*env.store).await;
    refuses_ddl(&env).await;
    let stats = env.store.stats().await.expect("stats");
    assert_eq!((stats.ready, stats.dead), (1, 1), "as it was");
    env.finish().await;
}

#[tokio::test]
async fn sch_6_an_admin_may_do_all_that_a_worker_may_but_not_change_the_schema() {
    let env = As::<Admin>::on_database_time().await;
    let (tables, procedures) = (on_tables(&env).await, callable(&env).await);
    refuses_ddl(&env).await;
    env.finish().await;
    let worker = As::<Worker>::on_database_time().await;
    let more = |admins: Vec<String>, workers: Vec<String>| {
        assert!(workers.iter().all(|right| admins.contains(right)), "{workers:?}");
        admins.into_iter().filter(|right| !workers.contains(right)).collect::<Vec<_>>()
    };
    // What the suite proves for one of the two it proves for the other, but for these.
    let expected = [
        "delete postroom_inbox_control",
        "delete postroom_join_follow_up",
        "delete postroom_outbox_control",
        "insert postroom_audit",
        "insert postroom_inbox_control",
        "insert postroom_outbox_control",
        "update postroom_join_tally",
    ];
    assert_eq!(more(tables, on_tables(&worker).await), expected);
    let expected = [
        "postroom_inbox_run_discard",
        "postroom_inbox_run_replay",
        "postroom_outbox_run_discard",
        "postroom_outbox_run_replay",
    ];
    assert_eq!(more(procedures, callable(&worker).await), expected);
    worker.finish().await;
}

#[tokio::test]
async fn sch_6_a_reader_looks_at_everything_and_changes_nothing() {
    let env = As::<Reader>::on_database_time().await;
    let outbox = Outbox::new(env.owner.store());
    let id = outbox.publish(Message::builder("t").payload("text")).await.expect("publish").id;

    let store = &env.store;
    assert_eq!(store.stats().await.expect("stats").ready, 1);
    assert_eq!(store.list(&List::default()).await.expect("list").records.len(), 1);
    let detail = store.get(id).await.expect("get").expect("is there");
    assert_eq!(detail.record.message.expect("decodes").payload().as_ref(), b"text");
    assert!(store.pauses().await.expect("pauses").is_empty());
    assert!(store.joins(&ListJoins::default()).await.expect("joins").is_empty());
    assert!(store.join(JoinId::new()).await.expect("join").is_none());
    looks_around(&**store).await;
    store.check_schema().await.expect("fits");
    let view = "select cast(payload_text as char) from postroom_outbox";
    let view: String = sqlx::query_scalar(view).fetch_one(&env.pool).await.expect("the view");
    assert_eq!(view, "text");

    let rights = on_tables(&env).await;
    assert!(rights.iter().all(|right| right.starts_with("select ")), "{rights:?}");
    assert!(rights.len() > 25, "{rights:?}");
    assert_eq!(callable(&env).await, [""; 0]);

    let me = OwnerToken::random();
    let claim = Claim::new(me, Duration::from_secs(30), 1).expect("legal");
    denied("publish", Outbox::new(env.store()).publish(Message::builder("t")).await);
    denied("claim", store.claim(&claim).await);
    let held = env.owner.store.claim(&claim).await.expect("claim").items.remove(0).lease;
    denied("settle", store.settle(me, &[(held, Settlement::Done)]).await);
    denied("renew", store.renew(me, &[held], Duration::from_secs(9)).await);
    denied("reap", store.reap(1, 1).await);
    denied("purge", store.purge(&Purge::default()).await);
    denied("leave", store.leave(me).await);
    denied("report", store.report(&heartbeat()).await);
    let mut tx = store.begin().await.expect("begins");
    denied("admit", store.admit(tx.conn(), [0; 32]).await);
    drop(tx);
    refuses_what_admins_do(&env).await;
    refuses_ddl(&env).await;
    assert_eq!(env.owner.store.stats().await.expect("stats").leased, 1, "as it was");
    env.finish().await;
}

/// A migration that finds nothing to change leaves the grants on procedures alone.
#[tokio::test]
async fn sch_6_migrating_again_neither_loses_nor_widens_rights() {
    let env = As::<Producer>::on_database_time().await;
    env.owner.store.migrate().await.expect("migrates");
    assert_eq!(callable(&env).await, ["postroom_outbox_enqueue"]);
    assert_eq!(on_tables(&env).await, [""; 0]);
    env.finish().await;
}
