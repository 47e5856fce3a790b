//! Somebody at a box: what they do is done to the end, and written down.

use std::sync::Arc;

use postroom_core::store::{AdminStore, AuditEntry};

use super::act::persistently;
use super::{Desk, Queue};
use crate::access::{Person, Right};
use crate::problem::Problem;

/// One person at one box.
#[derive(Clone)]
pub(crate) struct Hand {
    pub(crate) store: Arc<dyn AdminStore>,
    pub(crate) actor: String,
    database: String,
    kind: &'static str,
}

impl Desk {
    /// Lets somebody change a box. The guard has asked the same before; so nothing slips through
    /// that it does not know.
    pub(crate) fn hand(
        &self,
        caller: &Person,
        right: Right,
        queue: &Queue,
    ) -> Result<Hand, Problem> {
        self.may_change()?;
        if !caller.may(right) {
            return Err(Problem::forbidden(&caller.name, right));
        }
        queue.sampler.look();
        Ok(Hand {
            store: Arc::clone(&queue.store),
            actor: caller.name.clone(),
            database: queue.database.clone(),
            kind: queue.kind,
        })
    }
}

impl Hand {
    /// Writes down what was done, in the log, too: that is all there is when the database fails.
    pub(crate) async fn audit(&self, action: &str, target: &str, outcome: String, changed: u64) {
        let target = format!("{}: {target}", self.kind);
        let (store, actor) = (&self.database, &self.actor);
        tracing::info!(store, actor, action, target, outcome, changed, "audit");
        let (actor, action) = (actor.clone(), action.to_owned());
        let entry = AuditEntry { actor, action, target, outcome, changed };
        if let Err(error) = persistently(|| self.store.write_audit(&entry)).await {
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            tracing::error!(store, %error, cause, "could not write the audit log");
        }
    }
}

/// Runs it whether or not somebody waits for the answer: who hangs up must not leave a change
/// without its row in the audit log.
pub(crate) async fn to_the_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, Problem>> + Send + 'static,
) -> Result<T, Problem> {
    tokio::spawn(work).await.unwrap_or_else(|_| Err(Problem::bug()))
}
