//! MySQL and MariaDB: the suite that every store passes, and what only they have. One binary,
//! because most of the time that it takes to build one is the same for each.

#![cfg(all(feature = "mysql", unix))]

mod acceptance;
mod dispatcher;
mod effects;
mod faults;
#[path = "../home_support/mod.rs"]
mod home_support;
mod languages;
mod model;
mod mysql_support;
mod own;
mod roles;
#[path = "../roles_support/mod.rs"]
mod roles_support;
#[path = "../languages/mod.rs"]
mod scripts;

use mysql_support::My;

postroom_testkit::store_conformance!(My);
