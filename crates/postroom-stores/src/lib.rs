//! The databases of Postroom, side by side.
//!
//! Each has the same modules, the same SQL file names under `sql/` and the same migration numbers,
//! so that a diff of two folders is the review. What they share is here: [names](StoreConfig) and
//! the decoding of a stored message.

#![cfg_attr(
    not(any(feature = "sqlite", feature = "postgres", feature = "mysql")),
    allow(dead_code, reason = "without a store there is only what adapters need")
)]

#[cfg(any(feature = "mysql", feature = "postgres"))]
mod budget;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod cancel;
mod config;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
pub mod fleet;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod floor;
#[doc(hidden)]
pub mod foreign;
mod listing;
#[cfg(feature = "mysql")]
pub mod mysql;
mod names;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod roles;
mod row;
mod schema;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod sqlstate;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod taking;

pub use config::StoreConfig;
#[cfg(feature = "mysql")]
pub use mysql::{MySqlServers, MySqlStore};
pub use names::Queue;
#[cfg(feature = "postgres")]
pub use postgres::{PgServers, PgStore};
#[cfg(any(feature = "mysql", feature = "postgres"))]
pub use roles::Roles;
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteStore;
