//! SQLite in memory, one connection for everything, passes the suite as well.

#![cfg(feature = "sqlite")]

#[allow(dead_code, reason = "each test file uses its own part")]
mod sqlite_harness;

use sqlite_harness::{InMemory, SqliteIn};

postroom_testkit::store_conformance!(SqliteIn<InMemory>);
