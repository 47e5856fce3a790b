//! What a store brings to the conformance suite, and what a case gets.

use std::future::Future;
use std::ops::DerefMut;
use std::sync::Arc;
use std::time::Duration;

use postroom_core::store::{AdminStore, Claimed, Record, Store, TransactionalStore, WorkItem};
use postroom_core::{
    IntoMessage, Lease, ManualClock, Message, MessageBuilder, MessageId, Outbox, OwnerToken,
    Published, WorkQueue,
};

/// A store under test. Its guard (temp folder, schema) lives in the harness.
pub trait Harness: Sized + Send + Sync + 'static {
    /// The store.
    type Store: TransactionalStore + AdminStore;
    /// A connection of the driver outside any transaction.
    type Plain: DerefMut<Target = Conn<Self>> + Send;

    /// A fresh, migrated, empty store whose time is the clock's.
    fn fresh(clock: ManualClock, options: Options) -> impl Future<Output = Self> + Send;
    /// The store.
    fn store(&self) -> Arc<Self::Store>;
    /// A connection of the driver.
    fn connection(&self) -> impl Future<Output = Self::Plain> + Send;
    /// Begins a transaction with the driver's own words.
    fn begin(&self, conn: &mut Conn<Self>) -> impl Future<Output = ()> + Send;
    /// Commits it.
    fn commit(&self, conn: &mut Conn<Self>) -> impl Future<Output = ()> + Send;
    /// Rolls it back.
    fn rollback(&self, conn: &mut Conn<Self>) -> impl Future<Output = ()> + Send;
    /// Writes a row of the application inside a transaction.
    fn write_business_row(
        &self,
        conn: &mut Conn<Self>,
        row: i64,
    ) -> impl Future<Output = ()> + Send;
    /// The application's rows, in order.
    fn business_rows(&self) -> impl Future<Output = Vec<i64>> + Send;
    /// Damages a stored message so that it can not be decoded any more.
    fn make_undecodable(&self, id: MessageId) -> impl Future<Output = ()> + Send;
    /// Cleans up what a drop can not.
    fn finish(self) -> impl Future<Output = ()> + Send {
        async {}
    }
}

type Conn<H> = <<H as Harness>::Store as TransactionalStore>::Conn;

/// How a case wants its store.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// See `StoreConfig::keep_done`.
    pub keep_done: bool,
    /// See `StoreConfig::halt`.
    pub halt: bool,
    /// See `StoreConfig::fair_tenants`.
    pub fair_tenants: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { keep_done: true, halt: false, fair_tenants: false }
    }
}

impl Options {
    /// Whether delivered messages are kept.
    #[must_use]
    pub fn keep_done(mut self, keep_done: bool) -> Self {
        self.keep_done = keep_done;
        self
    }

    /// Whether a dead ordered message stops its key.
    #[must_use]
    pub fn halt(mut self, halt: bool) -> Self {
        self.halt = halt;
        self
    }

    /// Whether tenants take turns.
    #[must_use]
    pub fn fair_tenants(mut self, fair: bool) -> Self {
        self.fair_tenants = fair;
        self
    }
}

/// A fresh store and shorthands for a case.
#[derive(Debug)]
pub struct Env<H: Harness> {
    /// The harness.
    pub harness: H,
    /// The store's time.
    pub clock: ManualClock,
    /// To publish.
    pub outbox: Outbox<H::Store>,
    /// To claim.
    pub queue: WorkQueue,
    /// The owner of this case.
    pub me: OwnerToken,
}

/// The lease of the shorthands.
pub(crate) const LEASE: Duration = Duration::from_secs(30);

impl<H: Harness> Env<H> {
    /// A fresh store.
    pub async fn fresh(options: Options) -> Self {
        let clock = ManualClock::default();
        let harness = H::fresh(clock.clone(), options).await;
        let store = harness.store();
        let outbox = Outbox::new(Arc::clone(&store));
        let queue = WorkQueue::new(store as Arc<dyn Store>);
        Self { harness, clock, outbox, queue, me: OwnerToken::random() }
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> Arc<H::Store> {
        self.harness.store()
    }

    /// Publishes on its own.
    pub async fn publish(&self, message: impl IntoMessage) -> Published {
        self.outbox.publish(message).await.expect("publish")
    }

    /// Publishes `n` plain messages; payloads are their numbers.
    pub async fn publish_many(&self, n: usize) -> Vec<MessageId> {
        let messages = (0..n).map(|i| Message::builder("t").payload(i.to_string()));
        let published = self.outbox.publish_all(messages).await.expect("publish");
        published.into_iter().map(|published| published.id).collect()
    }

    /// Claims for this case's owner.
    pub async fn claim(&self, batch: u32) -> Claimed {
        self.queue.claim(self.me, LEASE, batch).await.expect("claim")
    }

    /// Claims exactly one item.
    pub async fn claim_one(&self) -> WorkItem {
        let mut items = self.claim(10).await.items;
        assert_eq!(items.len(), 1, "exactly one item to claim");
        items.remove(0)
    }

    /// Publishes one message and claims it.
    pub async fn leased(&self, message: MessageBuilder) -> WorkItem {
        self.publish(message).await;
        self.claim_one().await
    }

    /// The message and its state.
    pub async fn record(&self, id: MessageId) -> Record {
        self.store().get(id).await.expect("get").expect("the message is there").record
    }

    /// Moves the time.
    pub fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    /// Lets every lease run out.
    pub fn expire_leases(&self) {
        self.advance(LEASE + Duration::from_micros(1));
    }
}

/// A plain message.
pub(crate) fn plain() -> MessageBuilder {
    Message::builder("order.placed").payload("{}")
}

/// The leases of items.
pub(crate) fn leases(items: &[WorkItem]) -> Vec<Lease> {
    items.iter().map(|item| item.lease).collect()
}

/// The ids of items.
pub(crate) fn ids(items: &[WorkItem]) -> Vec<MessageId> {
    items.iter().map(|item| item.message.id()).collect()
}

/// Runs a case on a runtime of its own.
pub fn run<H: Harness, F>(options: Options, case: impl FnOnce(Arc<Env<H>>) -> F)
where
    F: Future<Output = ()>,
{
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let env = Arc::new(Env::fresh(options).await);
        case(Arc::clone(&env)).await;
        if let Some(env) = Arc::into_inner(env) {
            env.harness.finish().await;
        }
    });
}
