//! What only PostgreSQL has: its transactions, its functions, its schema.

mod claims;
mod commits;
mod functions;
mod inbox;
mod joins;
mod migrations;
mod order;
mod proxy;
mod query;
mod ready;
mod servers;
mod transactions;
mod wakes;
