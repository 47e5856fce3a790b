//! Signs of life, for people: who runs where, and since when.
//!
//! Delivery neither waits for them nor depends on them. A failure is told once, and only in detail:
//! that a database is away is the claims' business to tell.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::Engine;
use crate::store::Heartbeat;

const REPORT_EVERY: Duration = Duration::from_secs(10);

/// A database that hangs keeps nobody longer.
const PATIENCE: Duration = Duration::from_secs(3);

impl Engine {
    /// Reports at once, again and again, and when the dispatcher begins to stop; until `end`, or
    /// until it has left.
    pub(super) async fn report(self: Arc<Self>, end: CancellationToken) {
        let (name, began) = (self.config.name.clone().unwrap_or_else(default_name), Instant::now());
        let mut failing = false;
        loop {
            let draining = self.stop.is_cancelled();
            let heartbeat = Heartbeat {
                owner: self.owner,
                name: name.clone(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                running_for: began.elapsed(),
                draining,
                // One report may get lost.
                valid_for: 2 * (REPORT_EVERY + self.config.visit_wait()),
            };
            let Some(problem) = self.report_once(&heartbeat).await else { return };
            if let Some(problem) = problem.as_ref().filter(|_| !failing) {
                let store = self.queue.store().local().name();
                tracing::debug!(%store, error = %problem, "people do not see this dispatcher");
            }
            failing = problem.is_some();
            let next = async {
                sleep(REPORT_EVERY).await;
                // With a claim, if there is one soon: it is the same connection.
                self.visits.next(self.config.visit_wait()).await;
            };
            tokio::select! {
                biased;
                () = end.cancelled() => return,
                () = self.stop.cancelled(), if !draining => {}
                () = next => {}
            }
        }
    }

    /// What went wrong, if anything; nothing at all when the dispatcher has left.
    async fn report_once(&self, heartbeat: &Heartbeat) -> Option<Option<String>> {
        let gone = self.gone.lock().await;
        if *gone {
            return None;
        }
        let _turn = self.visits.turn().await;
        Some(match timeout(PATIENCE, self.queue.store().report(heartbeat)).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some("the store does not answer".to_owned()),
        })
    }
}

fn default_name() -> String {
    let pid = std::process::id();
    let hosts = [std::env::var("HOSTNAME").ok(), std::fs::read_to_string("/etc/hostname").ok()];
    let mut hosts = hosts.into_iter().flatten().map(|host| host.trim().to_owned());
    match hosts.find(|host| !host.is_empty()) {
        Some(host) => format!("{host}/{pid}"),
        None => format!("pid {pid}"),
    }
}
