//! SQLite passes the suite.

mod sqlite_harness;

use sqlite_harness::SqliteFile;

postroom_testkit::store_conformance!(SqliteFile);
