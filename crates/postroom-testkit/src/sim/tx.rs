//! Connections to the in-memory store, and transactions on them.

use std::fmt;
use std::sync::Arc;

use postroom_core::store::{Appended, Attach, Entry, StoreTransaction, TransactionalStore};
use postroom_core::{
    Error, ErrorKind, Join, Lease, MessageId, OwnerToken, Result, Timestamp, lifecycle::Settlement,
};
use tokio::sync::OwnedMutexGuard;

use super::state::{Database, Held, Side, Undo, Write};
use super::{Bug, Call, Fault, SimStore, contention, refused, unavailable};

impl SimStore {
    /// A connection outside any transaction.
    #[must_use]
    pub fn connection(&self) -> SimConn {
        SimConn { store: self.clone(), open: None, undo: Vec::new() }
    }
}

impl TransactionalStore for SimStore {
    type Conn = SimConn;
    type Tx = SimTx;

    async fn begin(&self) -> Result<SimTx> {
        match self.fault(Call::Begin) {
            Some(Fault::Contention) => return Err(contention()),
            Some(Fault::Refused) => return Err(refused()),
            Some(Fault::Unavailable | Fault::ReplyLost) => return Err(unavailable()),
            None => {}
        }
        let mut conn = self.connection();
        conn.begin().await;
        Ok(SimTx { conn })
    }

    async fn require_transaction(&self, conn: &mut SimConn) -> Result<()> {
        conn.open().map(drop)
    }

    fn inbox(&self) -> Self {
        let local = Arc::clone(&self.inbox_local);
        Self { side: Side::Inbox, local, ..self.clone() }
    }

    async fn admit(&self, conn: &mut SimConn, key: [u8; 32]) -> Result<bool> {
        let now = self.now();
        let (database, undo) = conn.open()?;
        let written = database.side(self.side).admit(key, now);
        undo.extend(written.map(|write| Undo::Write(self.side, write)));
        Ok(written.is_some())
    }

    async fn settle_in(&self, conn: &mut SimConn, owner: OwnerToken, lease: Lease) -> Result<bool> {
        let now = self.now();
        let (database, undo) = conn.open()?;
        undo.push(Undo::Everything(Box::new(database.clone())));
        let items = [(lease, Settlement::Done)];
        let settled = database.side(self.side).settle(owner, &items, self.rules, now);
        if database.count_joins(self.side) {
            // Whoever wakes up waits for the end of this transaction.
            self.outbox_local.wake();
        }
        Ok(settled.applied == 1)
    }

    async fn start_join(&self, conn: &mut SimConn, join: &Join) -> Result<bool> {
        let now = self.now();
        let (database, undo) = conn.open()?;
        undo.push(Undo::Everything(Box::new(database.clone())));
        database.start_join(join, now)
    }

    async fn attach(&self, conn: &mut SimConn, attaches: &[Attach]) -> Result<()> {
        let now = self.now();
        let (database, undo) = conn.open()?;
        undo.push(Undo::Everything(Box::new(database.clone())));
        database.attach(self.side, attaches, now)
    }

    async fn append(&self, conn: &mut SimConn, entries: &[Entry]) -> Result<Vec<Appended>> {
        let fault = self.fault(Call::Append);
        match fault {
            Some(Fault::Unavailable) => return Err(unavailable()),
            Some(Fault::Contention) => return Err(contention()),
            Some(Fault::Refused) => return Err(refused()),
            Some(Fault::ReplyLost) | None => {}
        }
        let now = self.now();
        let (database, undo) = conn.open()?;
        let mut written = Vec::new();
        let appended = database.side(self.side).append(entries, now, &mut written)?;
        undo.extend(written.into_iter().map(|write| Undo::Write(self.side, write)));
        match fault {
            Some(_) => Err(unavailable()),
            None => Ok(appended),
        }
    }
}

/// A connection to a [`SimStore`], perhaps inside a transaction.
pub struct SimConn {
    store: SimStore,
    open: Option<OwnedMutexGuard<Database>>,
    undo: Vec<Undo>,
}

impl SimConn {
    /// Begins a transaction; waits for the one that is open elsewhere.
    pub async fn begin(&mut self) {
        self.open = Some(Arc::clone(&self.store.database).lock_owned().await);
    }

    /// Ends the transaction and keeps its writes.
    pub fn commit(&mut self) {
        self.undo.clear();
        self.open = None;
    }

    /// Ends the transaction and takes its writes back.
    pub fn rollback(&mut self) {
        self.rollback_to(0);
        self.open = None;
    }

    /// Writes a row of the application.
    ///
    /// # Errors
    /// `NotInTransaction` outside a transaction.
    pub fn write_business_row(&mut self, row: i64) -> Result<()> {
        let (database, undo) = self.open()?;
        database.business.push(row);
        undo.push(Undo::Business);
        Ok(())
    }

    fn open(&mut self) -> Result<(&mut Database, &mut Vec<Undo>)> {
        match &mut self.open {
            Some(database) => Ok((database, &mut self.undo)),
            None => Err(Error::new(
                ErrorKind::NotInTransaction,
                "the connection has no open transaction; begin one before publishing",
            )),
        }
    }

    /// What the transaction has written and not taken back.
    pub(crate) fn written(&self) -> Vec<Written> {
        let Some(database) = &self.open else { return Vec::new() };
        let state = &database.outbox;
        let rows = self.undo.iter().filter_map(|write| match write {
            Undo::Write(Side::Outbox, Write::Message(seq)) => Some(*seq),
            _ => None,
        });
        rows.map(|seq| {
            let row = state.queue.get(&seq).or_else(|| state.parked.get(&seq));
            let (held, expires) =
                (row.and_then(|row| row.held), row.and_then(|row| row.expires_at));
            Written { seq, id: state.messages[&seq].message.id(), held, expires }
        })
        .collect()
    }

    fn rollback_to(&mut self, mark: usize) {
        if let Some(database) = &mut self.open {
            if database.outbox.has(Bug::RollbackKeepsRows) {
                self.undo.clear();
                return;
            }
            database.undo(&mut self.undo, mark);
        }
    }
}

impl Drop for SimConn {
    fn drop(&mut self) {
        self.rollback();
    }
}

impl fmt::Debug for SimConn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimConn").field("in_transaction", &self.open.is_some()).finish()
    }
}

/// A row that a transaction wrote.
pub(crate) struct Written {
    pub(crate) seq: i64,
    pub(crate) id: MessageId,
    pub(crate) held: Option<Held>,
    pub(crate) expires: Option<Timestamp>,
}

/// A transaction on a [`SimStore`].
#[derive(Debug)]
pub struct SimTx {
    conn: SimConn,
}

impl StoreTransaction for SimTx {
    type Conn = SimConn;
    type Nested<'a> = SimSavepoint<'a>;

    fn conn(&mut self) -> &mut SimConn {
        &mut self.conn
    }

    async fn check_open(&mut self, _writes_follow: bool) -> Result<()> {
        match &self.conn.open {
            Some(_) => Ok(()),
            None => Err(Error::new(ErrorKind::RolledBack, "the transaction has already ended")),
        }
    }

    async fn savepoint(&mut self) -> Result<SimSavepoint<'_>> {
        Ok(SimSavepoint::new(&mut self.conn))
    }

    async fn commit(mut self) -> Result<()> {
        match self.conn.store.fault(Call::Commit) {
            None => {
                self.conn.commit();
                Ok(())
            }
            Some(Fault::ReplyLost) => {
                self.conn.commit();
                Err(Error::new(ErrorKind::CommitUnknown, "the answer to COMMIT was lost"))
            }
            Some(Fault::Unavailable) => {
                Err(Error::new(ErrorKind::CommitUnknown, "the answer to COMMIT was lost"))
            }
            Some(Fault::Contention) => {
                Err(Error::new(ErrorKind::RolledBack, "COMMIT was refused").transient(true))
            }
            Some(Fault::Refused) => Err(Error::new(ErrorKind::RolledBack, "COMMIT was refused")),
        }
    }

    async fn rollback(mut self) -> Result<()> {
        self.conn.rollback();
        Ok(())
    }
}

/// A savepoint on a [`SimStore`].
#[derive(Debug)]
pub struct SimSavepoint<'a> {
    conn: &'a mut SimConn,
    mark: usize,
    released: bool,
}

impl<'a> SimSavepoint<'a> {
    fn new(conn: &'a mut SimConn) -> Self {
        Self { mark: conn.undo.len(), conn, released: false }
    }
}

impl StoreTransaction for SimSavepoint<'_> {
    type Conn = SimConn;
    type Nested<'b>
        = SimSavepoint<'b>
    where
        Self: 'b;

    fn conn(&mut self) -> &mut SimConn {
        self.conn
    }

    async fn check_open(&mut self, _writes_follow: bool) -> Result<()> {
        self.conn.open().map(drop)
    }

    async fn savepoint(&mut self) -> Result<SimSavepoint<'_>> {
        Ok(SimSavepoint::new(self.conn))
    }

    async fn commit(mut self) -> Result<()> {
        self.released = true;
        Ok(())
    }

    async fn rollback(self) -> Result<()> {
        Ok(())
    }
}

impl Drop for SimSavepoint<'_> {
    fn drop(&mut self) {
        if !self.released {
            self.conn.rollback_to(self.mark);
        }
    }
}
