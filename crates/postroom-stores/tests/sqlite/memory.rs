//! SQLite in memory, one connection for everything, passes the suite as well.

use crate::sqlite_harness::{InMemory, SqliteIn};

postroom_testkit::store_conformance!(SqliteIn<InMemory>);
