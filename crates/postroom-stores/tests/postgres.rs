//! PostgreSQL passes the suite that every store passes.

#![cfg(feature = "postgres")]

mod postgres_support;

use postgres_support::Pg;

postroom_testkit::store_conformance!(Pg);
