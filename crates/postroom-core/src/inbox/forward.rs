//! From an outbox in one database into an inbox in another, with no broker between them.

use std::fmt;

use super::{Inbox, Received, conflict};
use crate::error::{ErrorKind, Result};
use crate::handler::{HandlerError, outcome_of};
use crate::lifecycle::Outcome;
use crate::message::Message;
use crate::sink::{Delivery, Sink};
use crate::store::{BoxFuture, TransactionalStore};
use crate::text::Source;

/// Stores messages in an inbox, each under the id that it has in its outbox; see [`Inbox::sink`].
///
/// Topic, payload, headers, order, tenant and correlation stay as they are. A message that the
/// inbox knows with other content is a dead letter of the outbox.
pub struct ToInbox<S> {
    inbox: Inbox<S>,
    source: Source,
}

// One transaction of the inbox.
const AT_ONCE: usize = 100;

impl<S: TransactionalStore> ToInbox<S> {
    pub(super) fn new(inbox: Inbox<S>, source: Source) -> Self {
        Self { inbox, source }
    }

    async fn store(&self, messages: Vec<Message>) -> Result<Vec<Received>> {
        let named = messages.into_iter().map(|message| (message.id().to_string(), message));
        self.inbox.receive_all(self.source.as_str(), named).await
    }

    async fn forward(&self, batch: &[Delivery]) -> Vec<Outcome> {
        let all = batch.iter().map(|delivery| delivery.message().clone()).collect();
        match self.store(all).await {
            Ok(received) => received.into_iter().map(outcome).collect(),
            // The others must not share the fate of one that the inbox does not take.
            Err(error) if is_refusal(error.kind()) && batch.len() > 1 => {
                let mut outcomes = Vec::with_capacity(batch.len());
                for delivery in batch {
                    outcomes.push(Box::pin(self.forward(std::slice::from_ref(delivery))).await);
                }
                outcomes.concat()
            }
            Err(error) if is_refusal(error.kind()) => {
                vec![outcome_of(Err(HandlerError::dead(error)))]
            }
            Err(error) => {
                let failed = outcome_of(Err(error.into()));
                vec![failed; batch.len()]
            }
        }
    }
}

/// Whether trying again will not help.
fn is_refusal(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Invalid | ErrorKind::Codec)
}

fn outcome(received: Received) -> Outcome {
    match received {
        Received::New(_) | Received::Duplicate(_) => Outcome::Done,
        Received::Conflict(id) => outcome_of(Err(HandlerError::dead(conflict(id)))),
    }
}

impl<S: TransactionalStore> Sink for ToInbox<S> {
    fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> BoxFuture<'a, Vec<Outcome>> {
        Box::pin(self.forward(batch))
    }

    fn max_batch(&self) -> usize {
        AT_ONCE
    }

    /// They lie in the inbox in the order of the batch.
    fn takes_runs(&self) -> bool {
        true
    }
}

impl<S> fmt::Debug for ToInbox<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToInbox").field("source", &self.source).finish_non_exhaustive()
    }
}
