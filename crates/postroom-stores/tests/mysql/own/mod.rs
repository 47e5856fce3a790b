//! What only MySQL and MariaDB have: their transactions, their procedures, their schema.

mod binary;
mod claims;
mod commits;
mod functions;
mod inbox;
mod joins;
mod lists;
mod migrations;
mod order;
mod query;
mod rivals;
mod servers;
mod transactions;
