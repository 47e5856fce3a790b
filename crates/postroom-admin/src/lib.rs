//! The admin API and dashboard of Postroom, as a router that any axum application can mount.
//!
//! - [`Admin`] is built from [`Database`]s and an [`Access`], and becomes a [`Router`].
//! - `desk` is what both the JSON API and the pages call: looking, acting, and the audit of that.
//! - `sampler` counts in the background, so that no request ever counts history.
//! - `access` decides who may do what.
#![forbid(unsafe_code)]

mod access;
mod desk;
mod problem;
mod sampler;

use axum::Router;

pub use access::{Access, Person, Right, Role, Token};
pub use desk::Database;

use desk::Desk;

/// The admin API and dashboard, before they are served.
#[derive(Debug)]
pub struct Admin {
    databases: Vec<Database>,
    access: Access,
    read_only: bool,
}

impl Admin {
    /// Of these databases, open to whom `access` lets in.
    #[must_use]
    pub fn new(databases: Vec<Database>, access: Access) -> Self {
        Self { databases, access, read_only: false }
    }

    /// Shows everything and changes nothing, whoever asks.
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// The router. It counts in background tasks, which end when the router and all its clones are
    /// gone.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn router(self) -> Router {
        let desk = Desk::open(self.databases, self.access, self.read_only);
        Router::new().with_state(desk)
    }
}
