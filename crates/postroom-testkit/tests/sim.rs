//! The in-memory store passes the suite that it is the reference for.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use postroom_core::{ManualClock, MessageId};
use postroom_testkit::{Harness, Options, SimConn, SimStore, store_conformance};

struct Sim(SimStore);

struct Plain(SimConn);

impl Deref for Plain {
    type Target = SimConn;

    fn deref(&self) -> &SimConn {
        &self.0
    }
}

impl DerefMut for Plain {
    fn deref_mut(&mut self) -> &mut SimConn {
        &mut self.0
    }
}

impl Harness for Sim {
    type Store = SimStore;
    type Plain = Plain;

    async fn fresh(clock: ManualClock, options: Options) -> Self {
        let store = SimStore::new(clock).keep_done(options.keep_done).halt(options.halt);
        Self(store.fair_tenants(options.fair_tenants))
    }

    fn store(&self) -> Arc<SimStore> {
        Arc::new(self.0.clone())
    }

    async fn connection(&self) -> Plain {
        Plain(self.0.connection())
    }

    async fn begin(&self, conn: &mut SimConn) {
        conn.begin().await;
    }

    async fn commit(&self, conn: &mut SimConn) {
        conn.commit();
    }

    async fn rollback(&self, conn: &mut SimConn) {
        conn.rollback();
    }

    async fn write_business_row(&self, conn: &mut SimConn, row: i64) {
        conn.write_business_row(row).expect("inside a transaction");
    }

    async fn business_rows(&self) -> Vec<i64> {
        self.0.business_rows().await
    }

    async fn make_undecodable(&self, id: MessageId) {
        self.0.make_undecodable(id).await;
    }
}

store_conformance!(Sim);
