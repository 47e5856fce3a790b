//! The admin API and dashboard of Postroom, as a router that any axum application can mount.
//!
//! - [`Admin`] is built from [`Databases`] and an [`Access`], and becomes a [`Router`].
//! - `desk` is what both the JSON API and the pages call: looking, acting, and the audit of that.
//! - `sampler` counts in the background, so that no request ever counts history.
//! - `access` decides who may do what; `routes` is the list of what there is.
#![forbid(unsafe_code)]

mod access;
mod api;
mod databases;
mod desk;
mod health;
mod live;
mod metrics;
mod pages;
mod problem;
mod routes;
mod sampler;

use axum::Router;
use postroom_core::fleet::MemberStatus;
use tokio_util::sync::CancellationToken;

pub use access::rates::Limits;
pub use access::{Access, Person, Right, Role, Token};
pub use databases::{Database, Databases};
pub use health::{Limit, SinkState, Thresholds};
pub use metrics::Exporter;
pub use routes::{Need, Route};

use desk::Desk;
use metrics::Watch;
use routes::Guarded;

/// The admin API and dashboard, before they are served.
#[derive(Debug)]
pub struct Admin {
    databases: Databases,
    access: Access,
    settings: Settings,
}

#[derive(Debug, Default)]
struct Settings {
    read_only: bool,
    guarded_elsewhere: bool,
    base_path: String,
    trusts_forwarded_prefix: bool,
    trusts_forwarded_for: bool,
    limits: Limits,
    shutdown: CancellationToken,
    watch: Watch,
}

impl Admin {
    /// Of these databases, open to whom `access` lets in. With [`Databases`] they may come and go
    /// while it is served.
    #[must_use]
    pub fn new(databases: impl Into<Databases>, access: Access) -> Self {
        Self { databases: databases.into(), access, settings: Settings::default() }
    }

    /// Shows everything and changes nothing, whoever asks.
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.settings.read_only = read_only;
        self
    }

    /// Where the router is mounted, such as `/postroom`: links and redirects begin with it.
    /// Default: at the root.
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

    /// Takes the last address in the header `X-Forwarded-For` for the client's, by which wrong
    /// tokens are counted. Only behind a proxy that adds it. Default: the one in the extension
    /// [`ConnectInfo`](axum::extract::ConnectInfo) of the request, if the server puts it there.
    #[must_use]
    pub fn trust_forwarded_for(mut self, trust: bool) -> Self {
        self.settings.trusts_forwarded_for = trust;
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

    /// When the health is degraded, and when it is bad.
    #[must_use]
    pub fn thresholds(mut self, thresholds: Thresholds) -> Self {
        self.settings.watch.thresholds = thresholds;
        self
    }

    /// How places are that messages go to, for health and metrics. It is asked whenever somebody
    /// looks, so it must answer from memory.
    #[must_use]
    pub fn sinks(mut self, sinks: impl Fn() -> Vec<SinkState> + Send + Sync + 'static) -> Self {
        self.settings.watch.sinks = Some(Box::new(sinks));
        self
    }

    /// How the stores of a fleet are, also those that are not open here: what
    /// [`RunningFleet::members`](postroom_core::fleet::RunningFleet::members) says. It is asked
    /// whenever somebody looks, so it must answer from memory. A store is known by its name: give a
    /// [`Database`] the id of its store.
    #[must_use]
    pub fn members(
        mut self,
        members: impl Fn() -> Vec<MemberStatus> + Send + Sync + 'static,
    ) -> Self {
        self.settings.watch.members = Some(Box::new(members));
        self
    }

    /// Serves what this renders at `/metrics`: that of an [`Exporter`], or of your own recorder.
    /// Default: nothing is there.
    #[must_use]
    pub fn metrics(mut self, render: impl Fn() -> String + Send + Sync + 'static) -> Self {
        self.settings.watch.render = Some(Box::new(render));
        self
    }

    /// Shows `/metrics` to whoever asks, without a token. Default: to those who may look.
    #[must_use]
    pub fn public_metrics(mut self, public: bool) -> Self {
        self.settings.watch.public = public;
        self
    }

    /// Ends live streams and jobs when this is cancelled: streams would keep a graceful shutdown
    /// waiting for ever.
    #[must_use]
    pub fn shutdown(mut self, shutdown: CancellationToken) -> Self {
        self.settings.shutdown = shutdown;
        self
    }

    /// The router. It counts in background tasks of the runtime that this is called on, which end
    /// when the router and all its clones are gone.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn router(self) -> Router {
        let public_metrics = self.settings.watch.public;
        let desk = Desk::open(self.databases, self.access, self.settings);
        all(public_metrics).into_router(&desk)
    }

    /// Every route, with what a request to it needs unless settings say otherwise.
    #[must_use]
    pub fn routes() -> Vec<Route> {
        all(false).list()
    }
}

/// Everything there is.
fn all(public_metrics: bool) -> Guarded {
    Guarded::new()
        .merge(access::session::routes())
        .merge(api::routes())
        .merge(pages::routes())
        .merge(health::routes())
        .merge(metrics::routes(public_metrics))
}
