//! Hears other processes ring: a connection of its own that does nothing but LISTEN.
//!
//! It is made when somebody first waits for work and ends with the store, so a process that only
//! publishes has none. A connection that is silent proves nothing: poolers and dead networks look
//! alike. So it rings for itself at the start and after each long silence, and what it does not
//! hear then means that this process polls.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use postroom_core::__private::random_unit;
use postroom_core::store::{Local, Silence, Wakes};
use postroom_core::{OwnerToken, Retry};
use sqlx::postgres::{PgListener, PgPoolOptions};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::bell::{Bell, PATIENCE};

/// A ring for oneself takes less than this, or it does not come.
const PROBE: Duration = Duration::from_secs(2);

/// After such a silence it rings for itself.
const QUIET: Duration = Duration::from_secs(30);

/// What a listener rings for itself begins with this; other listeners ignore it.
const NONCE: &str = "probe ";

/// Who is told what a listener hears.
pub(super) trait Hears: Send + Sync + 'static {
    /// Somebody rang.
    fn heed(&self, payload: &str);

    /// Others may have rung before anybody listened.
    fn wake(&self);

    /// How that stands now.
    fn set_wakes(&self, now: Wakes);
}

/// The one box whose channel is listened to.
pub(super) struct OneBox {
    pub(super) local: Arc<Local>,
    pub(super) bell: Arc<Bell>,
}

impl Hears for OneBox {
    /// This process has been told of its own rows already.
    fn heed(&self, payload: &str) {
        if payload != self.bell.id() {
            self.local.wake();
        }
    }

    fn wake(&self) {
        self.local.wake();
    }

    fn set_wakes(&self, now: Wakes) {
        self.local.set_wakes(now);
    }
}

/// The task that listens, if there is one.
#[derive(Debug, Default)]
pub(super) struct Listener(Mutex<Option<JoinHandle<()>>>);

impl Listener {
    /// Listens from now on, if it does not yet.
    pub(super) fn start(&self, bell: &Arc<Bell>, hears: impl FnOnce() -> Arc<dyn Hears>) {
        let mut task = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // It is finished, too, when the runtime that it ran on is gone.
        if task.as_ref().is_some_and(|task| !task.is_finished()) || bell.pool().is_closed() {
            return;
        }
        if let Ok(runtime) = Handle::try_current() {
            let ears = Ears { hears: hears(), bell: Arc::clone(bell) };
            *task = Some(runtime.spawn(ears.listen()));
        }
    }

    pub(super) fn stop(&self) {
        let task = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(task) = task {
            task.abort();
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Ears {
    hears: Arc<dyn Hears>,
    bell: Arc<Bell>,
}

impl Drop for Ears {
    fn drop(&mut self) {
        self.hears.set_wakes(Wakes::InProcess);
    }
}

impl Ears {
    /// Listens until the pool is closed, with pauses that grow while it is in vain.
    async fn listen(self) {
        let (backoff, mut failures) = (Retry::default(), 0);
        let mut closed = self.bell.pool().close_event();
        let listening = async {
            loop {
                let why = self.hear(&mut failures).await;
                self.hears.set_wakes(Wakes::PollOnly { why });
                failures += 1;
                sleep(backoff.delay(failures, random_unit())).await;
            }
        };
        let _: sqlx::Result<()> = closed.do_until(listening).await;
    }

    /// Listens as long as that goes well; answers with what went wrong.
    async fn hear(&self, failures: &mut u32) -> Silence {
        let connecting = timeout(PATIENCE, self.connect()).await;
        let Ok(Ok(mut listener)) = connecting else { return Silence::Unreachable };
        if let Err(why) = self.probe(&mut listener).await {
            return why;
        }
        *failures = 0;
        self.hears.set_wakes(Wakes::Listening);
        self.hears.wake();
        loop {
            match timeout(QUIET, next(&mut listener)).await {
                Ok(Some(payload)) => self.heed(&payload),
                Ok(None) => return Silence::Unreachable,
                Err(_) => match self.probe(&mut listener).await {
                    Ok(()) => {}
                    Err(why) => return why,
                },
            }
        }
    }

    /// A connection beside the pool's: that is for claims, and its sessions come and go.
    async fn connect(&self) -> sqlx::Result<PgListener> {
        let options = self.bell.pool().connect_options();
        let options = (*options).clone().application_name("postroom-listen");
        let one = PgPoolOptions::new().max_connections(1).max_lifetime(None).idle_timeout(None);
        let pool = one.acquire_timeout(PATIENCE).connect_lazy_with(options);
        let mut listener = PgListener::connect_with(&pool).await?;
        // Losing the connection must be seen: what was rung meanwhile is lost.
        listener.eager_reconnect(false);
        listener.listen(self.bell.channel()).await?;
        Ok(listener)
    }

    /// Rings for itself through the pool, as others do, and listens for that.
    async fn probe(&self, listener: &mut PgListener) -> Result<(), Silence> {
        let nonce = format!("{NONCE}{}", OwnerToken::random());
        if !self.bell.say(&nonce).await {
            return Err(Silence::Unreachable);
        }
        let hearing = async {
            loop {
                match next(listener).await {
                    Some(payload) if payload == nonce => return Ok(()),
                    Some(payload) => self.heed(&payload),
                    None => return Err(Silence::Unreachable),
                }
            }
        };
        timeout(PROBE, hearing).await.unwrap_or(Err(Silence::Undelivered))
    }

    fn heed(&self, payload: &str) {
        if !payload.starts_with(NONCE) {
            self.hears.heed(payload);
        }
    }
}

/// The payload of the next notification; none when the connection is lost.
async fn next(listener: &mut PgListener) -> Option<String> {
    let heard = listener.try_recv().await;
    heard.ok().flatten().map(|heard| heard.payload().to_owned())
}
