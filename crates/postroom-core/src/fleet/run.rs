//! A fleet: what one builds, starts and stops.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::crew::Crew;
use super::member::MemberStatus;
use super::{Home, Opened, RoundRobin, Stores, Strategy, Watcher};
use crate::dispatcher::DispatcherConfig;
use crate::error::{Error, ErrorKind, Result};
use crate::sink::{Interceptor, Sink};

/// Settings of a [`Fleet`].
#[derive(Clone, Debug)]
pub struct FleetConfig {
    /// How the messages of each store are delivered.
    pub dispatcher: DispatcherConfig,
    /// Claimed messages of all stores in this process, waiting or running, at most. Default 1,000.
    pub places: usize,
    /// How often to look which stores there are. Default 5 min.
    pub refresh: Duration,
    /// How long deliveries of a store that is removed, or served by another process from now on,
    /// may take to end. Default 30 s.
    pub grace: Duration,
    /// How long a process has its share of the stores without saying so again. Default 30 s.
    pub share_lease: Duration,
}

impl Default for FleetConfig {
    fn default() -> Self {
        // Hundreds of stores have nothing to do most of the time.
        let idle_interval = Some(Duration::from_secs(30));
        Self {
            dispatcher: DispatcherConfig { idle_interval, ..DispatcherConfig::default() },
            places: 1_000,
            refresh: Duration::from_mins(5),
            grace: Duration::from_secs(30),
            share_lease: Duration::from_secs(30),
        }
    }
}

impl FleetConfig {
    /// Checks all settings.
    ///
    /// # Errors
    /// `Invalid`, naming every setting that is out of bounds.
    pub fn validate(&self) -> Result<()> {
        let mut problems = Vec::new();
        let mut require = |fine: bool, problem: &str| {
            if !fine {
                problems.push(problem.to_owned());
            }
        };
        require((1..=1_000_000).contains(&self.places), "places must be 1 to 1000000");
        let day = Duration::from_hours(24);
        let refresh = Duration::from_secs(1)..=day;
        require(refresh.contains(&self.refresh), "refresh must be 1 s to 24 h");
        let lease = Duration::from_millis(100)..=day;
        require(lease.contains(&self.share_lease), "share_lease must be 100 ms to 24 h");
        if let Err(error) = self.dispatcher.validate() {
            problems.push(error.to_string());
        }
        match problems.is_empty() {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::Invalid, problems.join("; "))),
        }
    }
}

/// Delivers the messages of many stores to one sink. Build it, [`start`](Self::start) it, and
/// [`shutdown`](RunningFleet::shutdown) what that gives you.
pub struct Fleet<P, O> {
    pub(super) stores: Stores<P, O>,
    pub(super) sink: Arc<dyn Sink>,
    pub(super) interceptors: Vec<Arc<dyn Interceptor>>,
    pub(super) strategy: Box<dyn Strategy>,
    pub(super) home: Option<Arc<dyn Home>>,
    pub(super) watcher: Option<Box<dyn Watcher<O>>>,
    pub(super) config: FleetConfig,
}

impl<P, O> Fleet<P, O>
where
    P: Clone + PartialEq + Send + Sync + 'static,
    O: Opened,
{
    /// A fleet with default settings, whose stores take turns.
    pub fn new(stores: Stores<P, O>, sink: impl Sink) -> Self {
        Self {
            stores,
            sink: Arc::new(sink),
            interceptors: Vec::new(),
            strategy: Box::new(RoundRobin),
            home: None,
            watcher: None,
            config: FleetConfig::default(),
        }
    }

    /// Who is next.
    #[must_use]
    pub fn strategy(mut self, strategy: impl Strategy) -> Self {
        self.strategy = Box::new(strategy);
        self
    }

    /// Divides the stores among the processes that say so here. Without it each serves them all.
    #[must_use]
    pub fn home(mut self, home: impl Home) -> Self {
        self.home = Some(Arc::new(home));
        self
    }

    /// Has somebody told which stores are served here.
    #[must_use]
    pub fn watch(mut self, watcher: impl Watcher<O>) -> Self {
        self.watcher = Some(Box::new(watcher));
        self
    }

    /// Has every message looked at before and after it is handled.
    #[must_use]
    pub fn intercept(mut self, interceptor: impl Interceptor) -> Self {
        self.interceptors.push(Arc::new(interceptor));
        self
    }

    /// Other settings.
    #[must_use]
    pub fn config(mut self, config: FleetConfig) -> Self {
        self.config = config;
        self
    }

    /// Starts it on the current tokio runtime. It looks for stores in the background.
    ///
    /// # Errors
    /// `Invalid` when a setting is out of bounds; then nothing was started.
    pub fn start(self) -> Result<RunningFleet<P, O>> {
        self.config.validate()?;
        let crew = Crew::start(self);
        Ok(RunningFleet { crew })
    }
}

impl<P, O> fmt::Debug for Fleet<P, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fleet").field("stores", &self.stores).finish_non_exhaustive()
    }
}

/// What a look at the list changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refreshed {
    /// New stores, and those that moved.
    pub added: usize,
    /// Stores that are gone, and those that moved; what is under way there is being finished.
    pub removed: usize,
    /// Stores that are as they were.
    pub unchanged: usize,
}

/// A fleet at work. Dropping it stops it in the background, as a shutdown without waiting.
#[must_use = "dropping it stops the fleet"]
pub struct RunningFleet<P, O> {
    crew: Arc<Crew<P, O>>,
}

impl<P, O> RunningFleet<P, O>
where
    P: Clone + PartialEq + Send + Sync + 'static,
    O: Opened,
{
    /// Looks now which stores there are.
    ///
    /// # Errors
    /// What the discovery says; then everything stays as it is.
    pub async fn refresh(&self) -> Result<Refreshed> {
        self.crew.refresh().await
    }

    /// Waits until it knows which stores there are: the list was had for the first time, and each
    /// store is [a member](Self::members).
    ///
    /// # Cancel safety
    /// Nothing is lost.
    pub async fn looked(&self) {
        self.crew.looked.cancelled().await;
    }

    /// How each store is, in the order of their ids.
    #[must_use]
    pub fn members(&self) -> Vec<MemberStatus> {
        self.crew.statuses()
    }

    /// What [`members`](Self::members) says, for whoever looks from elsewhere, such as an admin
    /// API; nothing after the fleet is gone.
    pub fn watch_members(&self) -> impl Fn() -> Vec<MemberStatus> + Send + Sync + use<P, O> {
        let crew = Arc::downgrade(&self.crew);
        move || crew.upgrade().map(|crew| crew.statuses()).unwrap_or_default()
    }

    /// The stores, with their open handles.
    #[must_use]
    pub fn stores(&self) -> &Stores<P, O> {
        &self.crew.stores
    }

    /// Stops: every store finishes what is under way within `grace`; then that is cut, which costs
    /// no attempt. Answers whether all that ended in time. The stores stay open.
    ///
    /// # Cancel safety
    /// Dropping the future leaves it stopping in the background.
    pub async fn shutdown(self, grace: Duration) -> bool {
        self.crew.stop(grace).await
    }
}

impl<P, O> Drop for RunningFleet<P, O> {
    fn drop(&mut self) {
        self.crew.halt();
    }
}

impl<P, O> fmt::Debug for RunningFleet<P, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunningFleet").field("stores", &self.crew.stores).finish_non_exhaustive()
    }
}
