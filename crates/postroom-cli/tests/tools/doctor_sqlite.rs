//! `postroom doctor` on SQLite.

use std::os::unix::fs::FileExt as _;

use crate::patient::{self, complaint, follow, heals};
use crate::world::{Kind::Sqlite, World};
use sqlx::{Connection as _, Executor as _, SqliteConnection};

#[test]
fn cli_1_a_healthy_database_has_no_problem() {
    patient::a_healthy_database_has_no_problem(Sqlite);
}

#[test]
fn sch_2_names_are_those_that_are_configured() {
    patient::names_are_those_that_are_configured(Sqlite);
}

#[test]
fn sch_1_a_database_without_the_schema_gets_the_command() {
    patient::a_database_without_the_schema_gets_the_command(Sqlite);
}

#[test]
fn cli_1_the_queue_is_looked_at() {
    patient::the_queue_is_looked_at(Sqlite);
}

#[test]
fn sch_1_what_is_missing_in_the_schema_is_found_and_mended() {
    let world = World::migrated(Sqlite);
    let heals = |defect: &str, text: &str| heals(&world, defect, "schema", text, "problem");
    heals("drop index postroom_outbox_queue_plain", "index postroom_outbox_queue_plain is missing");
    heals(
        "drop index postroom_outbox_queue_plain;
        create index postroom_outbox_queue_plain on postroom_outbox_queue (id)",
        "index postroom_outbox_queue_plain is not as this version makes it",
    );
    heals(
        "drop view postroom_outbox; alter table postroom_outbox_settled drop column lost",
        "column postroom_outbox_settled.lost is missing",
    );
    let view = complaint(&world, &[], "schema", "view postroom_outbox is missing");
    follow(&world, &view.expect("it went with the column"));
    heals("drop table postroom_inbox_halt", "table postroom_inbox_halt is missing");
    let index = complaint(&world, &[], "schema", "postroom_inbox_halt_key is missing");
    follow(&world, &index.expect("it went with the table"));
    let complaints = patient::complaints(&world, &[]);
    assert_eq!(complaints, Vec::<serde_json::Value>::new());
    world.ok(&["enqueue", "t", "--payload={}"]);
    assert_eq!(world.messages(), 1);
}

#[test]
fn cli_1_a_wrong_journal_mode_is_found_and_mended() {
    let world = World::migrated(Sqlite);
    heals(&world, "pragma journal_mode = delete", "journal mode", "is delete, not wal", "warning");
}

#[test]
fn cli_1_a_write_lock_that_is_held_is_found() {
    let world = World::migrated(Sqlite);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let mut conn = runtime.block_on(async {
        let mut conn = SqliteConnection::connect(&world.url()).await.expect("connects");
        conn.execute("begin immediate").await.expect("begins");
        conn
    });
    let found = complaint(&world, &[], "write lock", "somebody has held it");
    assert_eq!(found.expect("found")["level"], "warning");
    runtime.block_on(async { conn.execute("rollback").await }).expect("ends");
    assert_eq!(complaint(&world, &[], "write lock", ""), None);
}

#[test]
fn cli_1_a_damaged_file_is_found() {
    let world = World::migrated(Sqlite);
    world.sql("pragma wal_checkpoint(truncate)");
    let root = "select rootpage from sqlite_master where name = 'postroom_outbox_slot'";
    let page = u64::try_from(world.number(root)).expect("a page");
    let file = std::fs::OpenOptions::new().write(true).open(world.file()).expect("opens");
    // Past the header of the page: its cells.
    file.write_at(&[0xff; 2_000], (page - 1) * 4096 + 1_000).expect("writes");
    let found = complaint(&world, &[], "integrity", "").expect("found");
    assert_eq!(found["level"], "problem", "{found:#}");
}

#[test]
fn cli_1_a_file_that_is_not_there_is_exit_code_5() {
    let world = World::new(Sqlite);
    let ran = world.run(&["doctor"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (5, ""), "{ran:?}");
    assert!(!world.file().exists(), "it creates nothing");
}
