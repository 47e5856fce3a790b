//! The admin API and dashboard of Postroom, as a router that any axum application can mount.
//!
//! - [`Admin`] is built from [`Database`]s and an [`Access`], and becomes a [`Router`].
//! - `desk` is what both the JSON API and the pages call: looking, acting, and the audit of that.
//! - `sampler` counts in the background, so that no request ever counts history.
//! - `access` decides who may do what; `routes` is the list of what there is.
#![forbid(unsafe_code)]

mod access;
mod desk;
mod problem;
mod routes;
mod sampler;

use axum::Router;

pub use access::rates::Limits;
pub use access::{Access, Person, Right, Role, Token};
pub use desk::Database;
pub use routes::{Need, Route};

use desk::Desk;
use routes::Guarded;

/// The admin API and dashboard, before they are served.
#[derive(Debug)]
pub struct Admin {
    databases: Vec<Database>,
    access: Access,
    settings: Settings,
}

#[derive(Debug, Default)]
struct Settings {
    read_only: bool,
    guarded_elsewhere: bool,
    base_path: String,
    trusts_forwarded_prefix: bool,
    limits: Limits,
}

impl Admin {
    /// Of these databases, open to whom `access` lets in.
    #[must_use]
    pub fn new(databases: Vec<Database>, access: Access) -> Self {
        Self { databases, access, settings: Settings::default() }
    }

    /// Shows everything and changes nothing, whoever asks.
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.settings.read_only = read_only;
        self
    }

    /// Where the router is mounted, such as `/postroom`: links and redirects begin with it. Default:
    /// at the root.
    #[must_use]
    pub fn base_path(mut self, path: &str) -> Self {
        path.trim_end_matches('/').clone_into(&mut self.settings.base_path);
        self
    }

    /// Puts the header `X-Forwarded-Prefix` before the base path. Only behind a proxy that sets it.
    #[must_use]
    pub fn trust_forwarded_prefix(mut self, trust: bool) -> Self {
        self.settings.trusts_forwarded_prefix = trust;
        self
    }

    /// Something in front, such as the application's own login, lets nobody else through. Then
    /// [`Access::Open`] answers requests to any host, and not to loopback ones only.
    #[must_use]
    pub fn guarded_elsewhere(mut self, guarded: bool) -> Self {
        self.settings.guarded_elsewhere = guarded;
        self
    }

    /// How much may be asked for.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.settings.limits = limits;
        self
    }

    /// The router. It counts in background tasks, which end when the router and all its clones are
    /// gone.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn router(self) -> Router {
        let desk = Desk::open(self.databases, self.access, self.settings);
        all().into_router(&desk)
    }

    /// Every route, with what a request to it needs.
    #[must_use]
    pub fn routes() -> Vec<Route> {
        all().list()
    }
}

/// Everything there is.
fn all() -> Guarded {
    Guarded::new().merge(access::session::routes())
}
