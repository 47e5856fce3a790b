//! SQLite: the suite that every store passes, and what only SQLite has. One binary, because most of
//! the time that it takes to build one is the same for each.

#![cfg(all(feature = "sqlite", unix))]

mod acceptance;
mod dispatcher;
mod effects;
mod faults;
mod fleet;
#[path = "../home_support/mod.rs"]
mod home_support;
mod incoming;
mod languages;
mod locked;
mod memory;
mod model;
mod order;
mod own;
mod query;
mod sqlite_harness;
mod wakes;
#[allow(dead_code, reason = "each database uses its part")]
#[path = "../wakes_support/mod.rs"]
mod wakes_support;

use sqlite_harness::{InFile, SqliteIn};

postroom_testkit::store_conformance!(SqliteIn<InFile>);
