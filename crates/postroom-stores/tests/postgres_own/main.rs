//! What only PostgreSQL has: its transactions, its functions, its schema.

#![cfg(feature = "postgres")]

mod claims;
mod commits;
mod functions;
mod inbox;
mod joins;
mod migrations;
mod order;
#[path = "../postgres_support/mod.rs"]
mod postgres_support;
mod proxy;
mod transactions;
mod wakes;
#[allow(dead_code, reason = "each test binary uses its part")]
#[path = "../wakes_support/mod.rs"]
mod wakes_support;
