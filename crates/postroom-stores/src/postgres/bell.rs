//! Tells other processes that rows are ready: one NOTIFY for many commits, some time after them.
//!
//! Never inside the transaction that writes the rows: notifying transactions commit one at a time.
//! A ring that is lost costs others the wait for their next poll, so nothing here is tried twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use postroom_core::OwnerToken;
use sqlx::postgres::PgPool;
use sqlx::{Postgres, SqlStr};
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until, timeout};

use crate::budget::Source;

/// Between one ring and the next.
const APART: Duration = Duration::from_millis(1);

/// Long enough for a database that answers at all.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Rings for one box: on a channel of its own in its database, or at the door of the server, where
/// it says which box it is.
#[derive(Debug)]
pub(super) struct Bell {
    source: Source<Postgres>,
    notify: SqlStr,
    channel: String,
    /// Who rings: a listener ignores itself.
    id: String,
    /// What is rung: who it is, and at the door also which box.
    payload: String,
    /// Somebody is going to ring for whatever is committed by now.
    due: AtomicBool,
    /// Held by whoever rings; when that was last.
    last: Mutex<Option<Instant>>,
}

impl Bell {
    pub(super) fn new(source: Source<Postgres>, notify: SqlStr, channel: String) -> Self {
        let id = OwnerToken::random().to_string();
        let payload = id.clone();
        let (due, last) = (AtomicBool::new(false), Mutex::default());
        Self { source, notify, channel, id, payload, due, last }
    }

    /// For a box that others know by this address.
    pub(super) fn at_the_door(
        source: Source<Postgres>,
        notify: SqlStr,
        channel: String,
        address: &str,
    ) -> Self {
        let mut bell = Self::new(source, notify, channel);
        bell.payload = format!("{} {address}", bell.id);
        bell
    }

    pub(super) fn pool(&self) -> &PgPool {
        self.source.pool()
    }

    pub(super) fn channel(&self) -> &str {
        &self.channel
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// Rings in the background. Outside a runtime there is no background, and others poll.
    pub(super) fn ring(self: &Arc<Self>) {
        if self.due.swap(true, Ordering::SeqCst) {
            return;
        }
        let due = Due(Arc::clone(self));
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(ring_once(due));
        }
    }

    /// Rings at once if somebody was going to, and waits for who is ringing. For the end.
    pub(super) async fn finish(&self) {
        let _turn = self.last.lock().await;
        if self.due.swap(false, Ordering::SeqCst) {
            self.ring_now().await;
        }
    }

    async fn ring_now(&self) {
        let _ = self.say(&self.payload).await;
    }

    /// Sends a notification; answers whether the database took it.
    pub(super) async fn say(&self, payload: &str) -> bool {
        let saying = async {
            let mut conn = self.source.acquire().await?;
            let query = sqlx::query(self.notify.clone()).bind(&self.channel).bind(payload);
            query.execute(&mut *conn).await
        };
        matches!(timeout(PATIENCE, saying).await, Ok(Ok(_)))
    }
}

/// The duty to ring. It ends with whoever has it, also when its runtime goes away.
struct Due(Arc<Bell>);

impl Drop for Due {
    fn drop(&mut self) {
        self.0.due.store(false, Ordering::SeqCst);
    }
}

async fn ring_once(due: Due) {
    let bell = Arc::clone(&due.0);
    let mut last = bell.last.lock().await;
    if let Some(last) = *last {
        sleep_until(last + APART).await;
    }
    // What is committed from here on needs another one.
    drop(due);
    *last = Some(Instant::now());
    bell.ring_now().await;
}
