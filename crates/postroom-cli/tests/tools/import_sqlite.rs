//! `postroom import` on SQLite.

use crate::old_tables;
use crate::world::Kind::Sqlite;

#[test]
fn sch_4_outbox_messages_keep_every_field() {
    old_tables::outbox_messages_keep_every_field(Sqlite);
}

#[test]
fn sch_4_keys_and_tenants_are_kept() {
    old_tables::keys_and_tenants_are_kept(Sqlite);
}

#[test]
fn sch_4_outbox_event_keeps_every_field() {
    old_tables::outbox_event_keeps_every_field(Sqlite);
}

#[test]
fn sch_4_infra_outbox_keeps_every_field() {
    old_tables::infra_outbox_keeps_every_field(Sqlite);
}

#[test]
fn sch_4_a_killed_import_is_run_again() {
    old_tables::a_killed_import_is_run_again(Sqlite);
}

#[test]
fn sch_4_imports_may_race() {
    old_tables::imports_may_race(Sqlite);
}

#[test]
fn sch_4_bad_rows_do_not_stop_the_others() {
    old_tables::bad_rows_do_not_stop_the_others(Sqlite);
}

#[test]
fn sch_4_a_dry_run_writes_nothing() {
    old_tables::a_dry_run_writes_nothing(Sqlite);
}

#[test]
fn sch_4_other_tables_are_mapped() {
    old_tables::other_tables_are_mapped(Sqlite);
}

#[test]
fn sch_4_what_is_missing_is_named() {
    old_tables::what_is_missing_is_named(Sqlite);
}

#[cfg(target_os = "linux")]
#[test]
fn sec_6_memory_is_bounded() {
    old_tables::memory_is_bounded(Sqlite);
}
