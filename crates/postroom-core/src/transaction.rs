//! Postroom's own transaction handle: stage in memory, write once, commit, then and only then tell.
//!
//! `publish` is synchronous: it validates, encodes and stages. [`OutboxTransaction::commit`] writes
//! everything staged in one go as the last thing before COMMIT. A savepoint is a nested handle that
//! borrows the outer one, so nobody can publish on the outer handle meanwhile; what was staged in a
//! rolled-back one is gone, row and memory.

use std::fmt;

use crate::dispatcher::hot::Handover;
use crate::error::{Error, ErrorKind, Result};
use crate::event::IntoMessage;
use crate::ids::{JoinId, MessageId};
use crate::join::{IntoJoin, StagedJoins};
use crate::message::Message;
use crate::outbox::{Outbox, Published, chunk_len};
use crate::sink::Right;
use crate::store::{StoreTransaction, TransactionalStore};

/// A transaction that messages can be published in.
///
/// Dropping it rolls back. Hooks run after the end: `after_commit` after a confirmed commit,
/// `after_rollback` after a rollback or a drop, neither when the outcome is unknown.
///
/// What [`commit`](Self::commit) writes is born leased to the dispatcher of this process, if there
/// is one with a free place in its [hot queue](crate::DispatcherConfig::hot_queue), and goes to its
/// workers from memory once the commit is confirmed: no claim in between. Everything else is born
/// ready and waits for a claim, for which the dispatcher is woken: messages with an ordering key, a
/// due time or a point in time at which they expire, and what an early [`flush`](Self::flush)
/// wrote. A handler sees no difference, but for the times that the producer left to the database:
/// there `occurred_at` and the end of `expires_after` are this host's, a little off the row's.
///
/// ```
/// # use postroom_core::{Message, Outbox, Result, store::TransactionalStore};
/// async fn place_order<S: TransactionalStore>(outbox: &Outbox<S>) -> Result<()> {
///     let mut tx = outbox.begin().await?;
///     // your statements, on tx.conn()
///     tx.publish(Message::builder("order.placed").payload("{}"))?;
///     let mut attempt = tx.savepoint().await?;
///     attempt.publish(Message::builder("coupon.used"))?;
///     attempt.rollback().await?;
///     assert_eq!(tx.commit().await?.published.len(), 1);
///     Ok(())
/// }
/// ```
///
/// Publishing on a finished handle does not compile:
///
/// ```compile_fail,E0382
/// # use postroom_core::{Message, Outbox, Result, store::TransactionalStore};
/// async fn place_order<S: TransactionalStore>(outbox: &Outbox<S>) -> Result<()> {
///     let mut tx = outbox.begin().await?;
///     tx.commit().await?;
///     tx.publish(Message::builder("order.placed"))?;
///     Ok(())
/// }
/// ```
///
/// Nor does publishing on the outer handle while a savepoint is open:
///
/// ```compile_fail,E0499
/// # use postroom_core::{Message, Outbox, Result, store::TransactionalStore};
/// async fn place_order<S: TransactionalStore>(outbox: &Outbox<S>) -> Result<()> {
///     let mut tx = outbox.begin().await?;
///     let inner = tx.savepoint().await?;
///     tx.publish(Message::builder("order.placed"))?;
///     inner.release().await
/// }
/// ```
#[must_use = "dropping a transaction rolls it back"]
pub struct OutboxTransaction<S, T = <S as TransactionalStore>::Tx>
where
    S: TransactionalStore,
    T: StoreTransaction<Conn = S::Conn>,
{
    outbox: Outbox<S>,
    // Before `tx`, so that on a drop the hooks run first; neither can see the other.
    staging: Staging,
    tx: T,
}

/// A savepoint: publish, nest, then [`release`](Self::release) or [`rollback`](Self::rollback).
///
/// Dropping it rolls back to where it began.
#[must_use = "dropping a savepoint rolls it back"]
pub struct Savepoint<'a, S, T>
where
    S: TransactionalStore,
    T: StoreTransaction<Conn = S::Conn>,
{
    outbox: &'a Outbox<S>,
    scope: Scope<'a>,
    tx: T,
}

/// What a confirmed commit published.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Committed {
    /// One answer per message, in publish order.
    pub published: Vec<Published>,
}

impl<S, T> OutboxTransaction<S, T>
where
    S: TransactionalStore,
    T: StoreTransaction<Conn = S::Conn>,
{
    pub(crate) fn new(outbox: Outbox<S>, tx: T) -> Self {
        Self { outbox, staging: Staging::default(), tx }
    }

    /// The connection, for your own statements.
    pub fn conn(&mut self) -> &mut S::Conn {
        self.tx.conn()
    }

    /// Stages a message. Nothing is written before [`flush`](Self::flush) or
    /// [`commit`](Self::commit).
    ///
    /// # Errors
    /// `Invalid` or `Codec`; then this message is not staged and the others still are.
    pub fn publish(&mut self, message: impl IntoMessage) -> Result<MessageId> {
        self.staging.publish(self.outbox.check(message)?)
    }

    /// Stages a [join](crate::Join). It is written after the messages, by [`flush`](Self::flush) or
    /// [`commit`](Self::commit); that the id belongs to a join with other content is found there.
    ///
    /// # Errors
    /// `Invalid` or `Codec`; then it is not staged.
    pub fn start_join(&mut self, join: impl IntoJoin) -> Result<JoinId> {
        Ok(self.staging.joins.start(self.outbox.check_join(join)?))
    }

    /// Stages a message as a member of a join: one that was published here, then a duplicate counts
    /// as the first message with its key, or one that is in the box. Written after messages and
    /// joins; a join that takes no such member is found there.
    pub fn attach(&mut self, join: JoinId, message: MessageId) {
        self.staging.joins.attach(join, message);
    }

    /// Runs after a confirmed commit.
    pub fn after_commit(&mut self, hook: impl FnOnce(&Committed) + Send + 'static) {
        self.staging.after_commit.push(Box::new(hook));
    }

    /// Runs after a rollback, also one by drop.
    pub fn after_rollback(&mut self, hook: impl FnOnce() + Send + 'static) {
        self.staging.after_rollback.push(Box::new(hook));
    }

    /// Opens a savepoint. The outer handle can not be used until it ends.
    ///
    /// # Errors
    /// As the database says; then nothing changed.
    pub async fn savepoint(&mut self) -> Result<Savepoint<'_, S, T::Nested<'_>>> {
        let tx = self.tx.savepoint().await?;
        Ok(Savepoint { outbox: &self.outbox, scope: Scope::new(&mut self.staging), tx })
    }

    /// Writes what is staged now, for callers who want to know about duplicates before they commit.
    /// Answers for everything published so far. What it writes is delivered by a claim.
    ///
    /// # Errors
    /// As the database says. What was not written stays staged; another flush never writes an item
    /// twice.
    ///
    /// # Cancel safety
    /// A cancelled flush may have written a part; the next one knows those messages by their ids.
    pub async fn flush(&mut self) -> Result<&[Published]> {
        self.staging.flush(&self.outbox, &mut self.tx, &mut Handover::default()).await?;
        Ok(&self.staging.written)
    }

    /// Writes what is staged and commits.
    ///
    /// # Errors
    /// `RolledBack` when the server had ended the transaction or refused COMMIT; transient when
    /// running the whole transaction again may help. `CommitUnknown` when the answer was lost.
    /// `IdTaken` and other errors of the write roll back. In no case was anything told to anybody;
    /// what an unknown outcome did commit is delivered after its lease.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the outcome unknown; no hook runs then.
    pub async fn commit(mut self) -> Result<Committed> {
        let mut handover = self.outbox.store().local().handover();
        match self.staging.flush(&self.outbox, &mut self.tx, &mut handover).await {
            Ok(()) => self.end(handover).await,
            Err(error) => Err(self.abort(error).await),
        }
    }

    /// Marks a message of an inbox as done, and commits. Nothing when its lease is lost: then
    /// everything is rolled back.
    pub(crate) async fn settle_and_commit(
        mut self,
        inbox: &S,
        right: Right,
    ) -> Result<Option<Committed>> {
        if let Err(error) = self.tx.check_open(true).await {
            return Err(self.abort(error).await);
        }
        // First the fence: whoever lost the right to this message writes nothing more.
        match inbox.settle_in(self.tx.conn(), right.owner, right.lease).await {
            Ok(true) => self.commit().await.map(Some),
            Ok(false) => {
                self.rollback().await?;
                Ok(None)
            }
            Err(error) => Err(self.abort(as_rolled_back(error)).await),
        }
    }

    /// Rolls back because of an error, which is the one to report.
    async fn abort(self, error: Error) -> Error {
        // A rollback that fails ends the connection.
        let _ = self.rollback().await;
        error
    }

    async fn end(self, handover: Handover) -> Result<Committed> {
        let Self { outbox, mut staging, tx } = self;
        let hooks = staging.disarm();
        match tx.commit().await {
            Ok(()) => {
                let committed = Committed { published: std::mem::take(&mut staging.written) };
                let written = committed.published.iter().filter(|one| one.work.is_some()).count();
                let ready = written > handover.len() || staging.attached;
                if let Some((owner, leases)) = handover.send() {
                    outbox.release(owner, leases);
                }
                if ready {
                    outbox.wake();
                }
                hooks.committed(&committed);
                Ok(committed)
            }
            Err(error) => {
                if error.kind() != ErrorKind::CommitUnknown {
                    hooks.rolled_back();
                }
                Err(error)
            }
        }
    }

    /// Rolls back: nothing of it ever happened.
    ///
    /// # Errors
    /// As the database says; it rolls back all the same when the connection ends.
    pub async fn rollback(self) -> Result<()> {
        // Dropping the staging runs the hooks.
        self.tx.rollback().await
    }
}

impl<'a, S, T> Savepoint<'a, S, T>
where
    S: TransactionalStore,
    T: StoreTransaction<Conn = S::Conn>,
{
    /// The connection, for your own statements.
    pub fn conn(&mut self) -> &mut S::Conn {
        self.tx.conn()
    }

    /// Stages a message; see [`OutboxTransaction::publish`].
    ///
    /// # Errors
    /// `Invalid` or `Codec`; then this message is not staged and the others still are.
    pub fn publish(&mut self, message: impl IntoMessage) -> Result<MessageId> {
        self.scope.staging.publish(self.outbox.check(message)?)
    }

    /// Stages a join; see [`OutboxTransaction::start_join`].
    ///
    /// # Errors
    /// `Invalid` or `Codec`; then it is not staged.
    pub fn start_join(&mut self, join: impl IntoJoin) -> Result<JoinId> {
        Ok(self.scope.staging.joins.start(self.outbox.check_join(join)?))
    }

    /// Stages a message as a member of a join; see [`OutboxTransaction::attach`].
    pub fn attach(&mut self, join: JoinId, message: MessageId) {
        self.scope.staging.joins.attach(join, message);
    }

    /// Runs after a confirmed commit of the whole transaction, unless this savepoint is rolled
    /// back.
    pub fn after_commit(&mut self, hook: impl FnOnce(&Committed) + Send + 'static) {
        self.scope.staging.after_commit.push(Box::new(hook));
    }

    /// Runs after a rollback of this savepoint or of the whole transaction.
    pub fn after_rollback(&mut self, hook: impl FnOnce() + Send + 'static) {
        self.scope.staging.after_rollback.push(Box::new(hook));
    }

    /// Opens a savepoint within this one.
    ///
    /// # Errors
    /// As the database says; then nothing changed.
    pub async fn savepoint(&mut self) -> Result<Savepoint<'_, S, T::Nested<'_>>> {
        let tx = self.tx.savepoint().await?;
        Ok(Savepoint { outbox: self.outbox, scope: Scope::new(self.scope.staging), tx })
    }

    /// Writes what is staged now; see [`OutboxTransaction::flush`].
    ///
    /// # Errors
    /// As [`OutboxTransaction::flush`].
    pub async fn flush(&mut self) -> Result<&[Published]> {
        self.scope.staging.flush(self.outbox, &mut self.tx, &mut Handover::default()).await?;
        Ok(&self.scope.staging.written)
    }

    /// Keeps what happened inside; it commits with the outer transaction.
    ///
    /// # Errors
    /// As the database says; then it is rolled back.
    pub async fn release(mut self) -> Result<()> {
        // A cancelled release leaves it open whether the rows stay: then the whole must not commit.
        self.scope.staging.in_doubt = true;
        let released = self.tx.commit().await;
        self.scope.staging.in_doubt = false;
        self.scope.keep = released.is_ok();
        released
    }

    /// Undoes what happened inside, staged or written.
    ///
    /// # Errors
    /// As the database says; the outer transaction is then of no use.
    pub async fn rollback(self) -> Result<()> {
        // Dropping the scope forgets what was staged.
        self.tx.rollback().await
    }
}

type CommitHook = Box<dyn FnOnce(&Committed) + Send>;
type RollbackHook = Box<dyn FnOnce() + Send>;

/// What a transaction holds in memory. Dropping it means that the transaction was rolled back.
#[derive(Default)]
struct Staging {
    staged: Vec<Message>,
    written: Vec<Published>,
    joins: StagedJoins,
    /// Something was attached, which may have ended a join.
    attached: bool,
    after_commit: Vec<CommitHook>,
    after_rollback: Vec<RollbackHook>,
    /// A savepoint's release was cancelled: rows and memory may disagree.
    in_doubt: bool,
}

struct Hooks {
    after_commit: Vec<CommitHook>,
    after_rollback: Vec<RollbackHook>,
}

impl Hooks {
    fn committed(self, committed: &Committed) {
        self.after_commit.into_iter().for_each(|hook| hook(committed));
    }

    fn rolled_back(self) {
        self.after_rollback.into_iter().for_each(|hook| hook());
    }
}

impl Staging {
    fn publish(&mut self, message: Message) -> Result<MessageId> {
        let id = message.id();
        self.staged.push(message);
        Ok(id)
    }

    /// Writes chunk by chunk; a chunk leaves the staging area only once it is written.
    async fn flush<S, T>(
        &mut self,
        outbox: &Outbox<S>,
        tx: &mut T,
        handover: &mut Handover,
    ) -> Result<()>
    where
        S: TransactionalStore,
        T: StoreTransaction<Conn = S::Conn>,
    {
        if self.in_doubt {
            let message = "a savepoint's release was cancelled; nothing was written";
            return Err(Error::new(ErrorKind::RolledBack, message));
        }
        tx.check_open(!self.staged.is_empty() || !self.joins.is_empty()).await?;
        while !self.staged.is_empty() {
            let chunk = chunk_len(&self.staged);
            let published = outbox.append(tx.conn(), &self.staged[..chunk], handover).await;
            let published = published.map_err(as_rolled_back)?;
            self.joins.published(&self.staged[..chunk], &published);
            self.written.extend(published);
            self.staged.drain(..chunk);
        }
        self.attached |= !self.joins.is_empty();
        let joins = self.joins.flush(&**outbox.store(), tx.conn(), &self.written).await;
        joins.map_err(as_rolled_back)
    }

    fn disarm(&mut self) -> Hooks {
        Hooks {
            after_commit: std::mem::take(&mut self.after_commit),
            after_rollback: std::mem::take(&mut self.after_rollback),
        }
    }
}

/// A victim of contention, or an aborted transaction, is gone as a whole: say so.
fn as_rolled_back(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Contention => {
            let message = "the database chose this transaction to roll back; run it again";
            Error::new(ErrorKind::RolledBack, message).transient(true).with_source(error)
        }
        _ => error,
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        self.disarm().rolled_back();
    }
}

/// The part of the staging area that belongs to a savepoint.
///
/// It keeps what the outer scopes staged, because a flush inside writes those too, in publish
/// order, and a rollback inside takes their rows away again.
struct Scope<'a> {
    staging: &'a mut Staging,
    staged: Vec<Message>,
    joins: StagedJoins,
    written: usize,
    after_commit: usize,
    after_rollback: usize,
    keep: bool,
}

impl<'a> Scope<'a> {
    fn new(staging: &'a mut Staging) -> Self {
        Self {
            staged: staging.staged.clone(),
            joins: staging.joins.clone(),
            written: staging.written.len(),
            after_commit: staging.after_commit.len(),
            after_rollback: staging.after_rollback.len(),
            staging,
            keep: false,
        }
    }
}

impl Drop for Scope<'_> {
    fn drop(&mut self) {
        if self.keep {
            return;
        }
        self.staging.staged = std::mem::take(&mut self.staged);
        self.staging.joins = std::mem::take(&mut self.joins);
        self.staging.written.truncate(self.written);
        self.staging.after_commit.truncate(self.after_commit);
        self.staging.after_rollback.drain(self.after_rollback..).for_each(|hook| hook());
    }
}

impl<S, T> fmt::Debug for OutboxTransaction<S, T>
where
    S: TransactionalStore,
    T: StoreTransaction<Conn = S::Conn>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboxTransaction")
            .field("staged", &self.staging.staged.len())
            .field("written", &self.staging.written.len())
            .finish_non_exhaustive()
    }
}

impl<S, T> fmt::Debug for Savepoint<'_, S, T>
where
    S: TransactionalStore,
    T: StoreTransaction<Conn = S::Conn>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let staged = self.scope.staging.staged.len();
        f.debug_struct("Savepoint").field("staged", &staged).finish_non_exhaustive()
    }
}
