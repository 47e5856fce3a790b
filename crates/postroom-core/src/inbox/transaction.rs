//! The transaction that an inbox handler works in.

use std::fmt;

use crate::error::Result;
use crate::event::IntoMessage;
use crate::ids::{JoinId, MessageId};
use crate::join::IntoJoin;
use crate::sink::Right;
use crate::store::{StoreTransaction, TransactionalStore};
use crate::transaction::{Committed, OutboxTransaction, Savepoint};

/// The transaction in which a message of an inbox takes effect.
///
/// A handler gets it, runs its statements on its [connection](Self::conn), publishes into it, and
/// gives it back. Then the message is marked done in it, and it is committed: all of that or none.
/// It is rolled back when the handler fails, panics or runs out of time, and when the message has
/// become somebody else's meanwhile. Dropping it rolls back too.
#[must_use = "give it back, or everything in it is rolled back"]
pub struct InboxTransaction<S: TransactionalStore> {
    tx: OutboxTransaction<S>,
    right: Right,
}

impl<S: TransactionalStore> InboxTransaction<S> {
    pub(super) fn new(tx: OutboxTransaction<S>, right: Right) -> Self {
        Self { tx, right }
    }

    /// The connection, for your own statements.
    pub fn conn(&mut self) -> &mut S::Conn {
        self.tx.conn()
    }

    /// Publishes to the outbox of the same database; see [`OutboxTransaction::publish`].
    ///
    /// # Errors
    /// `Invalid` or `Codec`; then this message is not staged and the others still are.
    pub fn publish(&mut self, message: impl IntoMessage) -> Result<MessageId> {
        self.tx.publish(message)
    }

    /// Starts a join; see [`OutboxTransaction::start_join`].
    ///
    /// # Errors
    /// `Invalid` or `Codec`; then it is not staged.
    pub fn start_join(&mut self, join: impl IntoJoin) -> Result<JoinId> {
        self.tx.start_join(join)
    }

    /// Makes a message of the outbox a member of a join; see [`OutboxTransaction::attach`].
    pub fn attach(&mut self, join: JoinId, message: MessageId) {
        self.tx.attach(join, message);
    }

    /// Runs after a confirmed commit; see [`OutboxTransaction::after_commit`].
    pub fn after_commit(&mut self, hook: impl FnOnce(&Committed) + Send + 'static) {
        self.tx.after_commit(hook);
    }

    /// Runs after a rollback; see [`OutboxTransaction::after_rollback`].
    pub fn after_rollback(&mut self, hook: impl FnOnce() + Send + 'static) {
        self.tx.after_rollback(hook);
    }

    /// Opens a savepoint.
    ///
    /// # Errors
    /// As the database says; then nothing changed.
    pub async fn savepoint(
        &mut self,
    ) -> Result<Savepoint<'_, S, <S::Tx as StoreTransaction>::Nested<'_>>> {
        self.tx.savepoint().await
    }

    /// Whether it is the transaction of this message.
    pub(super) fn belongs_to(&self, right: Right) -> bool {
        self.right == right
    }

    /// Marks the message done and commits. `false` when the lease is lost: then everything is
    /// rolled back.
    pub(super) async fn finish(self, inbox: &S) -> Result<bool> {
        self.tx.settle_and_commit(inbox, self.right).await.map(|committed| committed.is_some())
    }
}

impl<S: TransactionalStore> fmt::Debug for InboxTransaction<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InboxTransaction").field("tx", &self.tx).finish_non_exhaustive()
    }
}
