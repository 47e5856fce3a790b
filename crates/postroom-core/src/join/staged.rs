//! Joins and attaches of a transaction that are not written yet.

use std::collections::{HashMap, HashSet};

use super::Join;
use crate::error::Result;
use crate::ids::{JoinId, MessageId};
use crate::message::Message;
use crate::outbox::Published;
use crate::store::{Attach, TransactionalStore};

/// What is staged beside the messages. Written after them, so that a duplicate's id is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct StagedJoins {
    joins: Vec<Join>,
    attaches: Vec<(JoinId, MessageId)>,
    /// The first messages of those that turned out to be duplicates.
    firsts: HashMap<MessageId, MessageId>,
}

impl StagedJoins {
    pub(crate) fn start(&mut self, join: Join) -> JoinId {
        let id = join.id();
        self.joins.push(join);
        id
    }

    pub(crate) fn attach(&mut self, join: JoinId, message: MessageId) {
        self.attaches.push((join, message));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.joins.is_empty() && self.attaches.is_empty()
    }

    /// Takes note of what became of messages. A message can be written twice, when a savepoint took
    /// it back in between, so the last word counts.
    pub(crate) fn published(&mut self, messages: &[Message], published: &[Published]) {
        for (message, published) in messages.iter().zip(published) {
            if published.id == message.id() {
                self.firsts.remove(&message.id());
            } else {
                self.firsts.insert(message.id(), published.id);
            }
        }
    }

    /// Writes what is staged; a join leaves once it is written, and attaches leave together.
    /// `written` is what the transaction published.
    pub(crate) async fn flush<S: TransactionalStore>(
        &mut self,
        store: &S,
        conn: &mut S::Conn,
        written: &[Published],
    ) -> Result<()> {
        while let Some(join) = self.joins.first() {
            store.start_join(conn, join).await?;
            self.joins.remove(0);
        }
        if self.attaches.is_empty() {
            return Ok(());
        }
        let new = written.iter().filter(|published| published.work.is_some());
        let new: HashSet<_> = new.map(|published| published.id).collect();
        let attaches = self.attaches.iter().map(|(join, message)| {
            let message = *self.firsts.get(message).unwrap_or(message);
            Attach { join: *join, message, fresh: new.contains(&message) }
        });
        let attaches: Vec<_> = attaches.collect();
        store.attach(conn, &attaches).await?;
        self.attaches.clear();
        Ok(())
    }
}
