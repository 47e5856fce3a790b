//! The handle that applications publish through.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use crate::contention::again_on_contention;
use crate::dispatcher::hot::Handover;
use crate::error::{Error, ErrorKind, Result};
use crate::event::IntoMessage;
use crate::ids::{Lease, MessageId, OwnerToken, WorkId};
use crate::message::{Message, TraceContext};
use crate::observe::{self, Snapshot};
use crate::store::{
    Appended, CHUNK_BYTES, CHUNK_MESSAGES, Entry, Store, StoreTransaction, TransactionalStore,
    id_taken,
};
use crate::transaction::OutboxTransaction;
use crate::work_queue::WorkQueue;

/// Publishes messages to one store. Cheap to clone.
///
/// There are three ways in, and all of them write the message in a transaction:
/// - [`begin`](Self::begin): Postroom's own transaction handle, the fastest way and the one with
///   hooks;
/// - [`publish_in`](Self::publish_in): inside a transaction of the driver that you began yourself;
/// - [`publish`](Self::publish): a transaction of its own, for events without a business change.
///
/// When a [`Dispatcher`](crate::Dispatcher) runs on the same store handle (or a clone of it), the
/// first and the last way hand it the messages right after the commit; see [`OutboxTransaction`].
/// Publishing never fails or waits because a dispatcher is slow, stopped or absent.
pub struct Outbox<S> {
    store: Arc<S>,
    config: Arc<OutboxConfig>,
}

/// Settings of an [`Outbox`].
#[derive(Clone)]
pub struct OutboxConfig {
    /// The largest payload. Default 1 MiB; at most 512 MiB.
    pub max_payload_bytes: usize,
    /// Gives the caller's W3C trace context, which then travels in the headers. Default: none.
    pub trace: Option<Arc<dyn Fn() -> Option<TraceContext> + Send + Sync>>,
}

impl Default for OutboxConfig {
    fn default() -> Self {
        Self { max_payload_bytes: 1024 * 1024, trace: None }
    }
}

impl OutboxConfig {
    /// Checks the settings.
    ///
    /// # Errors
    /// `Invalid` when one is out of bounds.
    pub fn validate(&self) -> Result<()> {
        let max = self.max_payload_bytes;
        if max == 0 || max > MAX_PAYLOAD_CEILING {
            let allowed = format_args!("1 to {MAX_PAYLOAD_CEILING}").to_string();
            return Err(Error::limit("max_payload_bytes", allowed, max));
        }
        Ok(())
    }

    /// The message that an outbox with these settings would write: within the limits, and with the
    /// caller's trace context. For who writes it without an [`Outbox`].
    ///
    /// # Errors
    /// `Invalid` when a limit is broken, `Codec` when the payload does not serialise.
    pub fn check(&self, message: impl IntoMessage) -> Result<Message> {
        let message = message.into_message()?;
        let (bytes, max) = (message.payload().len(), self.max_payload_bytes);
        if bytes > max {
            let allowed = format_args!("at most {max} bytes (max_payload_bytes)").to_string();
            return Err(Error::limit("payload", allowed, format_args!("{bytes} bytes")));
        }
        let Some(trace) = &self.trace else { return Ok(message) };
        if message.is_traced() {
            return Ok(message);
        }
        // What travels is the context of the message's own creation.
        match observe::create_span(&message).in_scope(|| trace()) {
            Some(trace) => message.traced(&trace),
            None => Ok(message),
        }
    }
}

const MAX_PAYLOAD_CEILING: usize = 512 * 1024 * 1024;

/// What became of a published message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// The id of the message that is in the store: this one's, or the first one's of a duplicate.
    pub id: MessageId,
    /// Its place in the queue, unless it was there already.
    pub work: Option<WorkId>,
    /// Whether a message with this idempotency key, or id and content, was there first.
    pub already_existed: bool,
    /// Whether that one says the same. `false` is worth a look: one key for two different things.
    pub same_content: bool,
}

impl<S: TransactionalStore> Outbox<S> {
    /// The largest payload that can be configured.
    pub const MAX_PAYLOAD_CEILING: usize = MAX_PAYLOAD_CEILING;

    /// An outbox on this store with default settings.
    #[must_use]
    pub fn new(store: Arc<S>) -> Self {
        Self { store, config: Arc::default() }
    }

    /// The same outbox with other settings.
    ///
    /// # Errors
    /// `Invalid` when a setting is out of bounds.
    pub fn configure(mut self, config: OutboxConfig) -> Result<Self> {
        config.validate()?;
        self.config = Arc::new(config);
        Ok(self)
    }

    pub(crate) fn with(store: Arc<S>, config: Arc<OutboxConfig>) -> Self {
        Self { store, config }
    }

    /// The same settings for another box.
    pub(crate) fn on(&self, store: Arc<S>) -> Self {
        Self::with(store, Arc::clone(&self.config))
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Arc<S> {
        &self.store
    }

    /// Begins a transaction: run your statements on its connection, publish into it, commit it.
    ///
    /// # Errors
    /// `Unavailable` when the store gives no connection.
    pub async fn begin(&self) -> Result<OutboxTransaction<S>> {
        let tx = self.store.begin().await?;
        Ok(OutboxTransaction::new(self.clone(), tx))
    }

    /// Wraps a transaction that you began yourself.
    pub fn adopt<T>(&self, tx: T) -> OutboxTransaction<S, T>
    where
        T: StoreTransaction<Conn = S::Conn>,
    {
        OutboxTransaction::new(self.clone(), tx)
    }

    /// Publishes in a transaction of its own, committed before this returns.
    ///
    /// # Errors
    /// `Invalid` or `Codec` before anything is written; else as [`OutboxTransaction::commit`].
    pub async fn publish(&self, message: impl IntoMessage) -> Result<Published> {
        let published = self.publish_all([message]).await?;
        published.into_iter().next().ok_or_else(|| unreachable("a message without an answer"))
    }

    /// Publishes many in one transaction, committed before this returns.
    ///
    /// # Errors
    /// As [`publish`](Self::publish); then nothing was published.
    pub async fn publish_all<M: IntoMessage>(
        &self,
        messages: impl IntoIterator<Item = M>,
    ) -> Result<Vec<Published>> {
        let messages = self.check_all(messages)?;
        again_on_contention(|| async {
            let mut tx = self.begin().await?;
            for message in &messages {
                tx.publish(message.clone())?;
            }
            Ok(tx.commit().await?.published)
        })
        .await
    }

    /// Publishes inside a transaction of the driver. It is delivered after you commit; a
    /// [`wake`](Self::wake) then makes that immediate.
    ///
    /// # Errors
    /// `Invalid` or `Codec` before anything is written, `NotInTransaction` when the connection has
    /// no open transaction, `IdTaken` when the id belongs to another message. In all of these cases
    /// your transaction stays usable.
    pub async fn publish_in(
        &self,
        conn: &mut S::Conn,
        message: impl IntoMessage,
    ) -> Result<Published> {
        let published = self.publish_all_in(conn, [message]).await?;
        published.into_iter().next().ok_or_else(|| unreachable("a message without an answer"))
    }

    /// Publishes many inside a transaction of the driver, a round trip per 1,000.
    ///
    /// # Errors
    /// As [`publish_in`](Self::publish_in). All messages are checked before the first is written.
    pub async fn publish_all_in<M: IntoMessage>(
        &self,
        conn: &mut S::Conn,
        messages: impl IntoIterator<Item = M>,
    ) -> Result<Vec<Published>> {
        let messages = self.check_all(messages)?;
        // Whoever was faster, the transaction is somebody else's and must stay usable.
        for message in &messages {
            let _ = message.take_fresh();
        }
        self.store.require_transaction(conn).await?;
        let mut published = Vec::with_capacity(messages.len());
        let mut rest = messages.as_slice();
        while !rest.is_empty() {
            let (chunk, later) = rest.split_at(chunk_len(rest));
            published.extend(self.append(conn, chunk, &mut Handover::default()).await?);
            rest = later;
        }
        Ok(published)
    }

    /// Tells dispatchers that there may be work: in this process at once, in others a moment later.
    /// Harmless after a rollback.
    pub fn wake(&self) {
        self.store.wake();
    }

    /// Gives back rows that were born leased to a dispatcher that ended meanwhile. In the
    /// background: the commit is done, and else they are only found after their lease.
    pub(crate) fn release(&self, owner: OwnerToken, leases: Vec<Lease>) {
        let store = Arc::clone(&self.store);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                let queue = WorkQueue::new(store as Arc<dyn Store>);
                if queue.release(owner, &leases).await.is_ok() {
                    queue.store().wake();
                }
            });
        }
    }

    fn check_all<M: IntoMessage>(
        &self,
        messages: impl IntoIterator<Item = M>,
    ) -> Result<Vec<Message>> {
        messages.into_iter().map(|message| self.check(message)).collect()
    }

    pub(crate) fn check(&self, message: impl IntoMessage) -> Result<Message> {
        self.config.check(message)
    }

    /// Writes one chunk, and answers for duplicates within it from memory.
    pub(crate) async fn append(
        &self,
        conn: &mut S::Conn,
        chunk: &[Message],
        handover: &mut Handover,
    ) -> Result<Vec<Published>> {
        let (firsts, first_of) = distinct(chunk)?;
        let mut reserved = handover.reserve(&firsts);
        let entries: Vec<_> = firsts.iter().map(|message| reserved.entry(message)).collect();
        let appended = self.store.append(conn, &entries).await?;
        if appended.len() != entries.len() {
            return Err(unreachable("a store answers for each entry"));
        }
        handover.wrote(reserved, &entries, &appended);
        self.observe(&entries, &appended);
        let mut answered = vec![false; appended.len()];
        Ok(first_of
            .into_iter()
            .zip(chunk)
            .map(|(first, repetition)| {
                let repeated = std::mem::replace(&mut answered[first], true);
                let message = &entries[first].message;
                let same = || message.content_hash() == repetition.content_hash();
                published(message.id(), appended[first], repeated.then(same))
            })
            .collect())
    }

    fn observe(&self, entries: &[Entry], appended: &[Appended]) {
        let observer = self.store.local().observer();
        for (entry, appended) in entries.iter().zip(appended) {
            match appended {
                Appended::New { leased, .. } => observer.enqueued(&entry.message, *leased),
                Appended::Existed { same_content: false, .. }
                    if entry.message.origin().is_some() =>
                {
                    observer.conflict(&entry.message);
                }
                Appended::Existed { .. } => observer.duplicate(&entry.message),
            }
        }
    }

    /// The figures of this process for this store.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.store.local().snapshot()
    }
}

/// `repeats` is set for one that comes again within its chunk, and says whether with equal content.
fn published(id: MessageId, appended: Appended, repeats: Option<bool>) -> Published {
    let (id, work, same_content) = match appended {
        Appended::Existed { id, same_content } => (id, None, repeats.unwrap_or(same_content)),
        Appended::New { work, .. } => {
            (id, Some(work).filter(|_| repeats.is_none()), repeats.unwrap_or(true))
        }
    };
    Published { id, work, already_existed: work.is_none(), same_content }
}

/// The messages of a chunk without repetitions, and for each message which of those it repeats.
fn distinct(chunk: &[Message]) -> Result<(Vec<&Message>, Vec<usize>)> {
    let mut firsts: Vec<&Message> = Vec::with_capacity(chunk.len());
    let mut by_key: HashMap<[u8; 32], usize> = HashMap::new();
    let mut by_id: HashMap<MessageId, usize> = HashMap::with_capacity(chunk.len());
    let mut first_of = Vec::with_capacity(chunk.len());
    for message in chunk {
        let key = message.unique_key();
        if let Some(&first) = key.and_then(|key| by_key.get(&key)) {
            first_of.push(first);
            continue;
        }
        if let Some(&first) = by_id.get(&message.id()) {
            if firsts[first].content_hash() != message.content_hash() {
                return Err(id_taken(message.id()));
            }
            first_of.push(first);
            continue;
        }
        let place = firsts.len();
        by_id.insert(message.id(), place);
        if let Some(key) = key {
            by_key.insert(key, place);
        }
        firsts.push(message);
        first_of.push(place);
    }
    Ok((firsts, first_of))
}

fn unreachable(what: &str) -> Error {
    Error::new(ErrorKind::Database, format!("broken store: {what}"))
}

/// How many of the messages fit one round trip; at least one.
pub(crate) fn chunk_len(messages: &[Message]) -> usize {
    let mut bytes = 0;
    let fits = messages.iter().take(CHUNK_MESSAGES).take_while(|message| {
        bytes += message.payload().len();
        bytes <= CHUNK_BYTES
    });
    fits.count().clamp(1, messages.len().max(1))
}

impl<S> Clone for Outbox<S> {
    fn clone(&self) -> Self {
        Self { store: Arc::clone(&self.store), config: Arc::clone(&self.config) }
    }
}

impl<S: fmt::Debug> fmt::Debug for Outbox<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox").field("store", &self.store).finish_non_exhaustive()
    }
}

impl fmt::Debug for OutboxConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboxConfig")
            .field("max_payload_bytes", &self.max_payload_bytes)
            .field("trace", &self.trace.is_some())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(payload_bytes: usize) -> Message {
        Message::builder("t").payload(vec![0; payload_bytes]).build().expect("legal")
    }

    #[test]
    fn pub_7_chunks_have_at_most_1000_messages_and_4_mib() {
        assert_eq!(chunk_len(&vec![message(1); 2_500]), 1_000);
        assert_eq!(chunk_len(&vec![message(1024 * 1024); 9]), 4);
        assert_eq!(chunk_len(&[message(CHUNK_BYTES + 1), message(1)]), 1);
        assert_eq!(chunk_len(&[message(7)]), 1);
    }

    #[test]
    fn pub_6_repeated_keys_and_ids_are_resolved_in_memory() {
        let keyed = |n: u128| {
            let key = uuid::Uuid::from_u128(n);
            Message::builder("t").idempotency_key(key).build().expect("legal")
        };
        let same = message(3);
        let chunk = [keyed(1), keyed(2), keyed(1), same.clone(), same];
        let (firsts, first_of) = distinct(&chunk).expect("no id is taken");
        assert_eq!((firsts.len(), first_of), (3, vec![0, 1, 0, 2, 2]));
    }

    #[test]
    fn pub_6_one_id_with_two_contents_is_refused() {
        let id = MessageId::new();
        let of = |payload: &'static str| {
            Message::builder("t").id(id).payload(payload).build().expect("legal")
        };
        let error = distinct(&[of("a"), of("b")]).expect_err("taken");
        assert_eq!(error.kind(), ErrorKind::IdTaken);
    }
}
