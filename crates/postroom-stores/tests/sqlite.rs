//! SQLite passes the suite.

#![cfg(feature = "sqlite")]

#[allow(dead_code, reason = "each test file uses its own part")]
mod sqlite_harness;

use sqlite_harness::{InFile, SqliteIn};

postroom_testkit::store_conformance!(SqliteIn<InFile>);
