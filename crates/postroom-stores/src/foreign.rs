//! What it takes to publish with a driver that is not ours. `postroom-adapters` is built on this;
//! it is not for people and may change.

use postroom_core::{ErrorKind, Result};

use crate::{StoreConfig, sqlstate};

/// A statement for PostgreSQL, written against the default names, with the configured ones.
///
/// # Errors
/// `Invalid` when the schema or the prefix is not a plain identifier.
pub fn postgres_sql(config: &StoreConfig, sql: &str) -> Result<String> {
    Ok(config.names()?.render_qualified(sql).as_str().to_owned())
}

/// The channel on which dispatchers of this box are woken.
///
/// # Errors
/// As [`postgres_sql`].
pub fn postgres_channel(config: &StoreConfig) -> Result<String> {
    Ok(config.names()?.channel())
}

/// What a SQLSTATE means to a caller, and a half-sentence that says so.
#[must_use]
pub fn sqlstate(code: &str) -> (ErrorKind, &'static str) {
    sqlstate::meaning(code)
}
