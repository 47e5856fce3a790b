//! The databases of Postroom, side by side.
//!
//! Each has the same modules, the same SQL file names under `sql/` and the same migration numbers,
//! so that a diff of two folders is the review. What they share is here: [names](StoreConfig) and
//! the decoding of a stored message.

#![cfg_attr(
    not(any(feature = "sqlite", feature = "postgres")),
    allow(dead_code, reason = "without a store there is only what adapters need")
)]

mod config;
#[doc(hidden)]
pub mod foreign;
mod names;
#[cfg(feature = "postgres")]
pub mod postgres;
mod row;
mod schema;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod sqlstate;

pub use config::StoreConfig;
pub use names::Queue;
#[cfg(feature = "postgres")]
pub use postgres::PgStore;
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteStore;
