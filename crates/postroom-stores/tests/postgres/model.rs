//! Random histories and random transactions: PostgreSQL answers as the reference does.

use crate::postgres_support::Pg;
use postroom_testkit::{cases, model, savepoints};

#[test]
fn random_histories_equal_the_reference() {
    model::compare_with_reference::<Pg>(cases(60));
}

#[test]
fn pub_3_random_savepoints_leave_what_the_handle_says() {
    savepoints::rows_equal_what_the_handle_says::<Pg>(cases(60));
}
