//! The boundary between the engine and a database. Read this page and you know the system.
//!
//! It is cut by who owns the transaction:
//! - [`Store`] is the engine's half. Every call is one transaction of its own on a connection of
//!   its own. It is dyn-compatible: a dispatcher holds an `Arc<dyn Store>`.
//! - [`TransactionalStore`] is the application's half. It writes inside a transaction that somebody
//!   else began, and neither commits nor rolls it back.
//! - [`AdminStore`] is for people: look, count, replay, pause, set up.
//!
//! Three rules hold for all of them. Time is the database's, at statement time. Every lease is
//! fenced by a token that is fresh per claim: a call with another token changes nothing and says so
//! in its answer. And a store carries out settlements; what an outcome means is decided in
//! [`lifecycle`](crate::lifecycle), once, without a database.
//!
//! A store makes one try per call. Retrying victims of contention is the work of
//! [`WorkQueue`](crate::WorkQueue).

mod act;
mod admin;
mod append;
mod control;
mod cursor;
mod join;
pub mod order;
mod purge;
pub mod tenants;
mod wakes;
mod watch;

use std::fmt;
use std::time::Duration;

pub use act::Act;
pub use admin::{AdminStore, Attempt, Detail, List, Migrated, Page, Record, Stats, Status};
pub use append::{Appended, Birth, Entry, id_taken};
pub use control::{Changed, Pause, PauseRecord, Paused, Refusal};
pub use cursor::Cursor;
pub use join::{
    Attach, JoinMember, JoinRecord, JoinState, ListJoins, MemberOutcome, NewMember, Sight,
    Standing, admit_members, join_id_taken,
};
pub use purge::{Purge, Purged};
pub use wakes::{Silence, Wakes};
pub use watch::{AuditEntry, AuditRecord, Block, BlockedKey, Failing, Heartbeat, Node, TopicStats};

use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::ids::{Lease, OwnerToken};
use crate::join::Join;
use crate::lifecycle::Settlement;
pub use crate::local::Local;
use crate::message::Message;

/// A boxed future, written out so that its cost is visible where it is paid: once per round trip.
pub type BoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The engine's half: the work queue of one box in one database.
pub trait Store: fmt::Debug + Send + Sync + 'static {
    /// Leases up to `batch` eligible items to the owner.
    ///
    /// Eligible is what is ready and due, and what is leased with an expired lease. Items whose
    /// lease ran out once (*suspects*) are at most `suspects` per call. What expired, and what lost
    /// too many leases, is made dead on the way and not returned; neither is a row that can not be
    /// decoded, which dies alone.
    ///
    /// Without an ordering key: higher priority first; within a priority first what waited for its
    /// time, then by place in the queue. With one, see [`order`]: the owner gets the first items of
    /// a key, in order, while nobody holds or awaits one of that key; keys take turns. Both kinds
    /// take turns in coming first.
    ///
    /// What is [paused](AdminStore::pause) is left out, as of the claim's own snapshot. A paused
    /// row at the head of a key stops that key.
    fn claim<'a>(&'a self, claim: &'a Claim) -> BoxFuture<'a, Result<Claimed>>;

    /// Settles leased items, mixed outcomes in one transaction.
    ///
    /// An item is touched only if it is leased under exactly this owner and token. Its lease may
    /// have run out, as long as nobody took the item over. No lease twice in one call.
    fn settle<'a>(
        &'a self,
        owner: OwnerToken,
        items: &'a [(Lease, Settlement)],
    ) -> BoxFuture<'a, Result<Settled>>;

    /// Extends leases that have not run out to `lease` from now, and with an ordered item the slot
    /// that it lies in.
    fn renew<'a>(
        &'a self,
        owner: OwnerToken,
        leases: &'a [Lease],
        lease: Duration,
    ) -> BoxFuture<'a, Result<Settled>>;

    /// Returns up to `limit` expired leases to ready, or to dead past `max_attempts`, and makes up
    /// to as many expired messages dead. Hygiene only: [`claim`](Self::claim) takes over by itself.
    /// Ordered items are left to the owner of their slot.
    fn reap(&self, limit: u32, max_attempts: u32) -> BoxFuture<'_, Result<Reaped>>;

    /// Deletes settled messages, keys and ended joins that are old enough, up to `limit` of each.
    fn purge<'a>(&'a self, purge: &'a Purge) -> BoxFuture<'a, Result<Purged>>;

    /// Gives back the slots of an owner that claims no more, but those in which it holds items, and
    /// forgets what it [reported](Self::report). Not calling it costs others the rest of its lease.
    fn leave(&self, owner: OwnerToken) -> BoxFuture<'_, Result<()>>;

    /// Takes note of a dispatcher's sign of life, for [`AdminStore::nodes`]: of each owner the last
    /// one counts, and when it began by its first. Also forgets whoever has been silent for a day.
    fn report<'a>(&'a self, heartbeat: &'a Heartbeat) -> BoxFuture<'a, Result<()>>;

    /// What is paused now. For those who hold items already: a claim looks for itself.
    fn paused(&self) -> BoxFuture<'_, Result<Paused>>;

    /// How long until the next of the messages is due that wait for their time or for a retry; an
    /// ordered one that waits for a retry is not among them. What is due already does not count. A
    /// hint, asked for when there was nothing to claim: polling is the guarantee.
    fn next_due(&self) -> BoxFuture<'_, Result<Option<Duration>>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Which box of which database this is: equal for two handles exactly when they hand out the
    /// same messages, however they got there.
    fn identity(&self) -> BoxFuture<'_, Result<String>>;

    /// Whether a dead ordered message stops its key until somebody replays or discards it. Without
    /// that its successors go on.
    fn halts(&self) -> bool {
        false
    }

    /// Resolves when there may be new work. A hint: polling is the guarantee. Waiting here is what
    /// makes a store listen for other processes.
    fn woken(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.local().woken())
    }

    /// Resolves [`woken`](Self::woken) for whoever waits in this process, and later for others
    /// where the database can tell them. It neither waits nor fails, and many calls at once cost
    /// no more than one.
    fn wake(&self) {
        self.local().wake();
    }

    /// How it learns of work that other processes commit. For health checks.
    fn wakes(&self) -> Wakes {
        self.local().wakes()
    }

    /// Where this process's publishers find its dispatcher. Clones of a store share it.
    fn local(&self) -> &Local;
}

/// The application's half: writes inside the caller's transaction.
pub trait TransactionalStore: Store {
    /// The driver's connection, as the caller knows it.
    type Conn: Send;
    /// A transaction that the store itself began.
    type Tx: StoreTransaction<Conn = Self::Conn> + 'static;

    /// Begins a transaction on a connection of the store.
    fn begin(&self) -> impl Future<Output = Result<Self::Tx>> + Send;

    /// Fails with `NotInTransaction` when the connection has no open transaction. Changes nothing.
    fn require_transaction(&self, conn: &mut Self::Conn)
    -> impl Future<Output = Result<()>> + Send;

    /// The inbox of the same database, on the same connections. An inbox is its own.
    #[must_use]
    fn inbox(&self) -> Self
    where
        Self: Sized;

    /// Writes messages: each one's row and its place in the queue, in the order given.
    ///
    /// A duplicate by its [unique key](crate::Message::unique_key), or by id with equal content, is
    /// not written and is answered with the first message's id. The caller keeps the list within
    /// [`CHUNK_MESSAGES`] and [`CHUNK_BYTES`], with no key and no id twice.
    ///
    /// # Errors
    /// `IdTaken` when an id belongs to a message with other content: nothing of the list is written
    /// and the transaction stays usable. A rival's commit that the caller's snapshot can not see is
    /// a transient `Contention`.
    fn append(
        &self,
        conn: &mut Self::Conn,
        entries: &[Entry],
    ) -> impl Future<Output = Result<Vec<Appended>>> + Send;

    /// Takes note of a unique key for which there is no message, and answers whether that is new.
    /// Of many who try at once all wait for the first to end its transaction; when it commits they
    /// are told no, and their transactions stay usable.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    fn admit(
        &self,
        conn: &mut Self::Conn,
        key: [u8; 32],
    ) -> impl Future<Output = Result<bool>> + Send;

    /// Settles a leased item as done, inside the caller's transaction. `false` says that the lease
    /// is lost: nothing was changed, and the caller must roll back.
    fn settle_in(
        &self,
        conn: &mut Self::Conn,
        owner: OwnerToken,
        lease: Lease,
    ) -> impl Future<Output = Result<bool>> + Send;

    /// Starts a join; joins belong to both boxes. Answers whether it is new: starting it again with
    /// equal content changes nothing.
    ///
    /// # Errors
    /// `IdTaken` when the id belongs to a join with other content; the transaction stays usable.
    fn start_join(
        &self,
        conn: &mut Self::Conn,
        join: &Join,
    ) -> impl Future<Output = Result<bool>> + Send;

    /// Makes messages of this box members of joins. What is settled already counts at once, which
    /// may end the join. What is a member already stays one, also of a join that has ended.
    ///
    /// Neither this nor a settle at the same time may miss the other: the place of each message in
    /// the queue is locked before members are written, unless it is [fresh](Attach::fresh). Places
    /// are locked before joins, and joins in the order of their ids.
    ///
    /// # Errors
    /// `Join` when one of them is refused; then nothing is written and the transaction stays
    /// usable.
    fn attach(
        &self,
        conn: &mut Self::Conn,
        attaches: &[Attach],
    ) -> impl Future<Output = Result<()>> + Send;
}

/// The most messages in one [`append`](TransactionalStore::append).
pub const CHUNK_MESSAGES: usize = 1_000;
/// The most payload bytes in one append, unless a single message is larger.
pub const CHUNK_BYTES: usize = 4 * 1024 * 1024;

/// A transaction of a driver: what the staging handle needs of it. Dropped, it is rolled back.
pub trait StoreTransaction: Send {
    /// The driver's connection.
    type Conn: Send;
    /// A savepoint within it.
    type Nested<'a>: StoreTransaction<Conn = Self::Conn>
    where
        Self: 'a;

    /// The connection inside the transaction.
    fn conn(&mut self) -> &mut Self::Conn;

    /// Fails with `RolledBack` when the server has already ended or aborted the transaction.
    /// `writes_follow` says that an append comes next, which on some databases is proof enough.
    fn check_open(&mut self, writes_follow: bool) -> impl Future<Output = Result<()>> + Send;

    /// Opens a savepoint.
    fn savepoint(&mut self) -> impl Future<Output = Result<Self::Nested<'_>>> + Send;

    /// Commits, or releases a savepoint.
    ///
    /// # Errors
    /// `RolledBack` when the server refused, `CommitUnknown` when its answer was lost.
    fn commit(self) -> impl Future<Output = Result<()>> + Send;

    /// Rolls back.
    fn rollback(self) -> impl Future<Output = Result<()>> + Send;
}

/// A request for work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    owner: OwnerToken,
    lease: Duration,
    batch: u32,
    suspects: u32,
    max_attempts: u32,
    ordered: bool,
    quick: bool,
    holding: Option<Vec<i64>>,
    capacity: u32,
    except_topics: Vec<i64>,
}

impl Claim {
    /// Up to `batch` items for `owner`, each leased for `lease`; one suspect at most.
    ///
    /// # Errors
    /// `Invalid` when the lease or the batch is zero or out of bounds.
    pub fn new(owner: OwnerToken, lease: Duration, batch: u32) -> Result<Self> {
        if batch == 0 || batch > Self::MAX_BATCH {
            return Err(Error::limit("batch", format_args!("1 to {}", Self::MAX_BATCH), batch));
        }
        check_lease(lease)?;
        Ok(Self {
            owner,
            lease,
            batch,
            suspects: 1,
            max_attempts: 10,
            ordered: true,
            quick: false,
            holding: None,
            capacity: 0,
            except_topics: Vec::new(),
        })
    }

    /// The largest batch.
    pub const MAX_BATCH: u32 = 10_000;
    /// The longest lease.
    pub const MAX_LEASE: Duration = Duration::from_hours(24);

    /// Takes up to this many items whose lease ran out before. Default 1.
    #[must_use]
    pub fn suspects(mut self, suspects: u32) -> Self {
        self.suspects = suspects;
        self
    }

    /// A suspect whose attempts reach this is dead. Default 10.
    #[must_use]
    pub fn max_attempts(mut self, max_attempts: u32) -> Self {
        self.max_attempts = max_attempts;
        self
    }

    /// Whether ordered items are wanted. Only an owner that serves every topic may ask for them:
    /// one that gives some back stops their keys for everybody. Default: yes.
    #[must_use]
    pub fn ordered(mut self, ordered: bool) -> Self {
        self.ordered = ordered;
        self
    }

    /// Whether an answer is wanted as soon as there is something: perhaps only items with an
    /// ordering key, or only items without, whichever come first this time. A store may answer with
    /// both all the same. Default: no.
    #[must_use]
    pub fn quick(mut self, quick: bool) -> Self {
        self.quick = quick;
        self
    }

    /// The hashes of the keys ([`Lane::key_hash`](crate::Lane)) of which the owner holds items: it
    /// gets no more of those. Without this list the database looks for such items itself, which
    /// costs more the longer a key's backlog is.
    #[must_use]
    pub fn holding(mut self, keys: Vec<i64>) -> Self {
        self.holding = Some(keys);
        self
    }

    /// How many items the owner can hold in all. Its keys share that: with long runs they wait less
    /// often for a claim. A hint, which a store may pass over. Default: the batch.
    #[must_use]
    pub fn capacity(mut self, items: u32) -> Self {
        self.capacity = items;
        self
    }

    /// Nothing of these topics, given by their [hashes](crate::Message::topic_hash). An ordered
    /// item of such a topic stops its key.
    #[must_use]
    pub fn except_topics(mut self, hashes: Vec<i64>) -> Self {
        self.except_topics = hashes;
        self
    }

    /// Who asks.
    #[must_use]
    pub fn owner(&self) -> OwnerToken {
        self.owner
    }

    /// For how long.
    #[must_use]
    pub fn lease(&self) -> Duration {
        self.lease
    }

    /// How many at most.
    #[must_use]
    pub fn batch(&self) -> u32 {
        self.batch
    }

    /// How many items the owner can hold; 0 when it did not say.
    #[must_use]
    pub fn most_held(&self) -> u32 {
        self.capacity
    }

    /// How many suspects at most.
    #[must_use]
    pub fn max_suspects(&self) -> u32 {
        self.suspects.min(self.batch)
    }

    /// When a suspect is dead.
    #[must_use]
    pub fn attempts_limit(&self) -> u32 {
        self.max_attempts
    }

    /// Whether ordered items are wanted.
    #[must_use]
    pub fn wants_ordered(&self) -> bool {
        self.ordered
    }

    /// Whether an answer is wanted as soon as there is something.
    #[must_use]
    pub fn is_quick(&self) -> bool {
        self.quick
    }

    /// Keys of which the owner holds items, if it says so.
    #[must_use]
    pub fn held_keys(&self) -> Option<&[i64]> {
        self.holding.as_deref()
    }

    /// How many keys those are; none when it does not say.
    #[must_use]
    pub fn held_count(&self) -> u32 {
        self.holding.as_ref().map_or(0, |keys| u32::try_from(keys.len()).unwrap_or(u32::MAX))
    }

    /// Topics of which it wants nothing.
    #[must_use]
    pub fn excluded_topics(&self) -> &[i64] {
        &self.except_topics
    }
}

/// `lease` must be at least a microsecond and at most a day.
pub(crate) fn check_lease(lease: Duration) -> Result<()> {
    if lease < Duration::from_micros(1) || lease > Claim::MAX_LEASE {
        let allowed = "more than 0 and at most 24 h";
        return Err(Error::limit("lease", allowed, format_args!("{lease:?}")));
    }
    Ok(())
}

/// The answer to a claim.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Claimed {
    /// What the owner now holds.
    pub items: Vec<WorkItem>,
    /// How many items the claim met and made dead: expired, lost too often, undecodable.
    pub dead: u32,
}

/// A leased message.
#[derive(Clone, Debug)]
pub struct WorkItem {
    /// The right to settle it.
    pub lease: Lease,
    /// The message.
    pub message: Message,
    /// Deliveries that ended badly so far.
    pub attempts: u32,
    /// Leases that ran out so far; more than none makes it a suspect.
    pub lost: u32,
    /// When it was written.
    pub created_at: Timestamp,
    /// When it was claimed, by the database's clock.
    pub claimed_at: Timestamp,
    /// When the lease runs out, by the database's clock. An ordered item is leased no longer than
    /// its slot, so this may be less than what was asked for.
    pub locked_until: Timestamp,
}

/// What became of the items of a settle or renew.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Settled {
    /// How many were applied.
    pub applied: usize,
    /// Which were not: foreign, unknown, settled before, or lost to another claim.
    pub lost: Vec<Lease>,
    /// Which were not applied by a second try whose first answer was lost: perhaps the first did.
    pub unknown: Vec<Lease>,
}

/// The answer to a reap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Reaped {
    /// Leases that ran out, back to ready.
    pub released: u32,
    /// Items made dead: lost too often, or expired.
    pub dead: u32,
    /// Whether there may be more.
    pub more: bool,
}
