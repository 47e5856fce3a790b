//! The application's half of a wrapped store: its transactions, step by step.

use std::fmt;
use std::sync::Arc;

use postroom_core::store::{Appended, Attach, Entry, StoreTransaction, TransactionalStore};
use postroom_core::{Join, Lease, OwnerToken, Result};

use super::{Around, Wrapped};

/// A point on the way of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Before BEGIN.
    Beginning,
    /// After it.
    Begun,
    /// Whoever worked in it is ready: before the first look whether it is still open.
    Ending,
    /// Before a message of an inbox is marked done in it.
    Settling,
    /// It was marked.
    Settled,
    /// It was not, because it is somebody else's by now.
    Refused,
    /// After messages were written.
    Appended,
    /// Before COMMIT.
    Committing,
    /// The database has confirmed it, and nobody else knows.
    Committed,
}

/// A transaction of a [`Wrapped`] store.
#[derive(Debug)]
pub struct SteppedTx<T, A> {
    tx: T,
    around: Arc<A>,
    /// Whether somebody looked if it is open.
    ending: bool,
}

impl<S: TransactionalStore, A: Around> TransactionalStore for Wrapped<S, A> {
    type Conn = S::Conn;
    type Tx = SteppedTx<S::Tx, A>;

    async fn begin(&self) -> Result<Self::Tx> {
        self.around.step(Step::Beginning).await;
        let tx = self.store.begin().await?;
        self.around.step(Step::Begun).await;
        Ok(SteppedTx { tx, around: Arc::clone(&self.around), ending: false })
    }

    async fn require_transaction(&self, conn: &mut S::Conn) -> Result<()> {
        self.store.require_transaction(conn).await
    }

    fn inbox(&self) -> Self {
        Self { store: Arc::new(self.store.inbox()), around: Arc::clone(&self.around) }
    }

    async fn append(&self, conn: &mut S::Conn, entries: &[Entry]) -> Result<Vec<Appended>> {
        let appended = self.store.append(conn, entries).await?;
        self.around.step(Step::Appended).await;
        Ok(appended)
    }

    async fn admit(&self, conn: &mut S::Conn, key: [u8; 32]) -> Result<bool> {
        self.store.admit(conn, key).await
    }

    async fn settle_in(&self, conn: &mut S::Conn, owner: OwnerToken, lease: Lease) -> Result<bool> {
        self.around.step(Step::Settling).await;
        let settled = self.store.settle_in(conn, owner, lease).await?;
        self.around.step(if settled { Step::Settled } else { Step::Refused }).await;
        Ok(settled)
    }

    async fn start_join(&self, conn: &mut S::Conn, join: &Join) -> Result<bool> {
        self.store.start_join(conn, join).await
    }

    async fn attach(&self, conn: &mut S::Conn, attaches: &[Attach]) -> Result<()> {
        self.store.attach(conn, attaches).await
    }
}

impl<T, A> StoreTransaction for SteppedTx<T, A>
where
    T: StoreTransaction + 'static,
    A: Around,
{
    type Conn = T::Conn;
    type Nested<'a> = T::Nested<'a>;

    fn conn(&mut self) -> &mut T::Conn {
        self.tx.conn()
    }

    async fn check_open(&mut self, writes_follow: bool) -> Result<()> {
        if !std::mem::replace(&mut self.ending, true) {
            self.around.step(Step::Ending).await;
        }
        self.tx.check_open(writes_follow).await
    }

    async fn savepoint(&mut self) -> Result<T::Nested<'_>> {
        self.tx.savepoint().await
    }

    async fn commit(self) -> Result<()> {
        self.around.step(Step::Committing).await;
        self.tx.commit().await?;
        self.around.step(Step::Committed).await;
        Ok(())
    }

    async fn rollback(self) -> Result<()> {
        self.tx.rollback().await
    }
}

impl fmt::Display for Step {
    /// One word in lower case.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format!("{self:?}").to_lowercase())
    }
}
