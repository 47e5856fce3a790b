//! Random histories and random transactions: MySQL answers as the reference does.

use crate::mysql_support::My;
use postroom_testkit::{cases, model, savepoints};

#[test]
fn random_histories_equal_the_reference() {
    model::compare_with_reference::<My>(cases(60));
}

#[test]
fn pub_3_random_savepoints_leave_what_the_handle_says() {
    savepoints::rows_equal_what_the_handle_says::<My>(cases(60));
}
