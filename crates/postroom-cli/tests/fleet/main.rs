//! Many stores: the relay that finds them, and commands that work on all of them or on one by name.

mod folder;
mod many;
mod query_mysql;
mod query_postgres;
mod query_sqlite;
mod world;
