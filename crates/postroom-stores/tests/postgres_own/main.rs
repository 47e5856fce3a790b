//! What only PostgreSQL has: its transactions, its functions, its schema.

#![cfg(feature = "postgres")]

mod claims;
mod functions;
mod migrations;
mod order;
#[path = "../postgres_support/mod.rs"]
mod postgres_support;
mod transactions;
