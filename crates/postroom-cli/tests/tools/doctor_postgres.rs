//! `postroom doctor` on PostgreSQL. Needs a server: `cargo xtask test` starts one.

use crate::patient::{self, complaint, complaints, follow, heals};
use crate::world::{Kind::Postgres, World};
use sqlx::{Connection as _, Executor as _, PgConnection};

#[test]
fn cli_1_a_healthy_database_has_no_problem() {
    patient::a_healthy_database_has_no_problem(Postgres);
}

#[test]
fn sch_2_names_are_those_that_are_configured() {
    patient::names_are_those_that_are_configured(Postgres);
}

#[test]
fn sch_1_a_database_without_the_schema_gets_the_command() {
    patient::a_database_without_the_schema_gets_the_command(Postgres);
}

#[test]
fn cli_1_the_queue_is_looked_at() {
    patient::the_queue_is_looked_at(Postgres);
}

#[test]
fn sch_1_what_is_missing_in_the_schema_is_found_and_mended() {
    let world = World::migrated(Postgres);
    let p = "problem";
    let heals = |defect: &str, text: &str| heals(&world, defect, "schema", text, p);
    let index = "index outbox_key btree (message_id) is missing";
    heals("drop index postroom.outbox_key_message_id_idx", index);
    heals(
        "alter table postroom.outbox_halt drop constraint outbox_halt_pkey",
        "index outbox_halt btree (seq) is missing",
    );
    heals("drop index postroom.inbox_control_coalesce_idx", "index inbox_control btree");
    heals(
        "alter table postroom.outbox_message drop column priority",
        "column outbox_message.priority is missing",
    );
    heals(
        "alter table postroom.join_tally alter column expected type bigint",
        "column join_tally.expected is bigint not null, not integer not null",
    );
    heals(
        "alter table postroom.outbox_attempt alter column kind drop not null",
        "column outbox_attempt.kind is smallint, not smallint not null",
    );
    heals("drop table postroom.inbox_halt", "table inbox_halt is missing");
    heals("drop view postroom.outbox", "view outbox is missing");
    heals("drop sequence postroom.outbox_seq", "sequence outbox_seq is missing");
    heals("drop function postroom.outbox_leave", "function outbox_leave is missing");
    heals(
        "do $$ begin execute replace(pg_get_functiondef('postroom.hash64'::regproc),
            'sha256', 'sha224'); end $$",
        "function hash64 is not as this version makes it",
    );
    assert_eq!(complaints(&world, &[]), Vec::<serde_json::Value>::new());
    // It still works.
    world.ok(&["enqueue", "t", "--payload={}"]);
    assert_eq!(world.messages(), 1);
}

#[test]
fn sch_6_missing_rights_are_found_and_mended() {
    let world = World::migrated(Postgres);
    let role = format!("doctor_{}", postroom::MessageId::new().as_uuid().simple());
    let worker = format!("{role}_w");
    let roles = ["producer", "admin", "reader"].map(|name| format!("--{name}={role}_{name}"));
    let mut arguments = vec!["roles", "--worker", &worker];
    arguments.extend(roles.iter().map(String::as_str));
    world.sql(&world.ok(&arguments));
    world.sql(&format!("create role {role} login; grant {worker} to {role}"));
    let (host, rest) = world.url().split_once('@').map(|(_, rest)| rest).map_or_else(
        || panic!("a URL with a user"),
        |rest| rest.split_once('/').map(|(h, d)| (h.to_owned(), d.to_owned())).expect("a database"),
    );
    let url = format!("--url=postgres://{role}@{host}/{rest}");
    let options = [url.as_str()];
    assert_eq!(complaint(&world, &options, "rights", ""), None);
    for (right, text) in [
        ("delete on postroom.outbox_queue", "lacks delete on \"postroom\".outbox_queue"),
        ("usage on sequence postroom.outbox_seq", "lacks usage on \"postroom\".outbox_seq"),
        (
            "execute on function postroom.outbox_run_settle",
            "lacks execute on function \"postroom\".outbox_run_settle",
        ),
    ] {
        world.sql(&format!("revoke {right} from {worker}"));
        let found = complaint(&world, &options, "rights", text).expect(text);
        assert_eq!(found["level"], "problem");
        follow(&world, &found);
        assert_eq!(complaint(&world, &options, "rights", text), None, "{found:#}");
    }
    world.sql(&format!("drop owned by {role}, {worker}; drop role {role}, {worker}"));
    for name in ["producer", "admin", "reader"] {
        world.sql(&format!("drop owned by {role}_{name}; drop role {role}_{name}"));
    }
}

#[test]
fn cli_1_a_long_transaction_is_found_and_ended() {
    let world = World::migrated(Postgres);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let mut conn = runtime.block_on(async {
        let mut conn = PgConnection::connect(&world.url()).await.expect("connects");
        conn.execute("begin; select 1").await.expect("begins");
        conn
    });
    assert_eq!(complaint(&world, &[], "transactions", ""), None, "it is not long by default");
    let options = ["--long-transaction=0s"];
    let found = complaint(&world, &options, "transactions", "has had one open for");
    follow(&world, &found.expect("found"));
    let ended = runtime.block_on(async { conn.execute("select 1").await });
    ended.expect_err("its connection was ended");
    assert_eq!(complaint(&world, &options, "transactions", ""), None);
}

#[test]
fn cli_1_a_table_that_is_not_vacuumed_is_found_and_mended() {
    let world = World::migrated(Postgres);
    let off = "alter table postroom.outbox_queue_plain set (autovacuum_enabled = off)";
    heals(&world, off, "vacuum", "outbox_queue_plain is not vacuumed", "warning");
}

#[test]
fn cli_1_a_slot_that_nobody_reads_is_found_and_dropped() {
    let world = World::migrated(Postgres);
    let slot = format!("doctor_{}", postroom::MessageId::new().as_uuid().simple());
    let make = format!("select pg_create_physical_replication_slot('{slot}', true)");
    heals(&world, &make, "replication slots", &slot, "warning");
}

#[test]
fn cli_1_a_server_that_does_not_answer_is_exit_code_5() {
    let world = World::new(Postgres);
    let ran = world.run(&["doctor", "--url=postgres://app:s3cret@127.0.0.1:1/app"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (5, ""), "{ran:?}");
    assert!(!ran.stderr.contains("s3cret"), "{ran:?}");
}
