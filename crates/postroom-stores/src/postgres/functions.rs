//! Postroom for any language: the SQL functions and the view, replaced by each migration.

use sqlx::SqlStr;

use crate::names::{Names, Queue};

/// For both boxes.
pub(super) fn rendered(_names: &Names) -> Vec<SqlStr> {
    let _ = Queue::ALL;
    Vec::new()
}
