//! Random histories and random transactions: SQLite answers as the reference does.

use crate::sqlite_harness::{InFile, SqliteIn};
use postroom_testkit::{cases, model, savepoints};

#[test]
fn random_histories_equal_the_reference() {
    model::compare_with_reference::<SqliteIn<InFile>>(cases(100));
}

#[test]
fn pub_3_random_savepoints_leave_what_the_handle_says() {
    savepoints::rows_equal_what_the_handle_says::<SqliteIn<InFile>>(cases(100));
}
