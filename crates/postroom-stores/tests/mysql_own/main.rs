//! What only MySQL and MariaDB have: their transactions, their procedures, their schema.

#![cfg(feature = "mysql")]

mod binary;
mod claims;
mod commits;
mod functions;
mod inbox;
mod joins;
mod lists;
mod migrations;
#[path = "../mysql_support/mod.rs"]
mod mysql_support;
mod order;
mod rivals;
mod transactions;
