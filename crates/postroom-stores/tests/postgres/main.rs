//! PostgreSQL: the suite that every store passes, and what only PostgreSQL has. One binary, because
//! most of the time that it takes to build one is the same for each.

#![cfg(all(feature = "postgres", unix))]

mod acceptance;
mod dispatcher;
mod effects;
mod faults;
#[path = "../home_support/mod.rs"]
mod home_support;
mod languages;
mod model;
mod own;
mod postgres_support;
mod roles;
#[path = "../roles_support/mod.rs"]
mod roles_support;
#[path = "../languages/mod.rs"]
mod scripts;
#[allow(dead_code, reason = "each database uses its part")]
#[path = "../wakes_support/mod.rs"]
mod wakes_support;

use postgres_support::Pg;

postroom_testkit::store_conformance!(Pg);
