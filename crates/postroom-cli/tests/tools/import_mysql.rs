//! `postroom import` on MySQL and MariaDB. Needs a server: `cargo xtask test` starts one.

use crate::old_tables;
use crate::world::Kind::MySql;

#[test]
fn sch_4_outbox_messages_keep_every_field() {
    old_tables::outbox_messages_keep_every_field(MySql);
}

#[test]
fn sch_4_keys_and_tenants_are_kept() {
    old_tables::keys_and_tenants_are_kept(MySql);
}

#[test]
fn sch_4_outbox_event_keeps_every_field() {
    old_tables::outbox_event_keeps_every_field(MySql);
}

#[test]
fn sch_4_infra_outbox_keeps_every_field() {
    old_tables::infra_outbox_keeps_every_field(MySql);
}

#[test]
fn sch_4_a_killed_import_is_run_again() {
    old_tables::a_killed_import_is_run_again(MySql);
}

#[test]
fn sch_4_imports_may_race() {
    old_tables::imports_may_race(MySql);
}

#[test]
fn sch_4_bad_rows_do_not_stop_the_others() {
    old_tables::bad_rows_do_not_stop_the_others(MySql);
}

#[test]
fn sch_4_a_dry_run_writes_nothing() {
    old_tables::a_dry_run_writes_nothing(MySql);
}

#[test]
fn sch_4_other_tables_are_mapped() {
    old_tables::other_tables_are_mapped(MySql);
}

#[test]
fn sch_4_what_is_missing_is_named() {
    old_tables::what_is_missing_is_named(MySql);
}

#[cfg(target_os = "linux")]
#[test]
fn sec_6_memory_is_bounded() {
    old_tables::memory_is_bounded(MySql);
}
