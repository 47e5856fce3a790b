//! The one place where text becomes SQL.
//!
//! What goes in is made of this program's own words and of names that were checked: by
//! [`StoreConfig`](postroom::StoreConfig), or found in a database's catalog and quoted. Values are
//! always bound.

use sqlx::{AssertSqlSafe, SqlSafeStr as _, SqlStr};

/// A statement that was put together here.
pub(crate) fn statement(text: impl Into<String>) -> SqlStr {
    AssertSqlSafe(text.into()).into_sql_str()
}
