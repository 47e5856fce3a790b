//! The tables of a fleet's home.

use std::sync::Arc;
use std::time::Duration;

use postroom_core::fleet::Home;
use postroom_core::{Result, micros};
use sqlx::postgres::PgArguments;
use sqlx::query::Query;
use sqlx::{Postgres, Row};
use uuid::Uuid;

use super::PgStore;
use super::classify::classify;
use super::session::EngineConn;
use crate::fleet::home::{self, Register};

const WHAT: &str = "divide the stores";

impl PgStore {
    /// This database as the place where the processes of a fleet divide its stores; for
    /// [`Fleet::home`](postroom_core::fleet::Fleet::home). Fleets with other names are apart.
    ///
    /// # Errors
    /// `Invalid` for a name that is empty, longer than 64 characters or has control characters.
    pub fn home(&self, fleet: &str) -> Result<Arc<dyn Home>> {
        home::home(self.clone(), fleet)
    }
}

async fn run(tx: &mut EngineConn, query: Query<'static, Postgres, PgArguments>) -> Result<()> {
    query.execute(tx.conn()).await.map(drop).map_err(|error| classify(WHAT, error))
}

impl Register for PgStore {
    type Tx = EngineConn;

    async fn open(&self) -> Result<EngineConn> {
        self.sessions.engine_transaction(WHAT).await
    }

    async fn nodes(&self, tx: &mut EngineConn, fleet: &str) -> Result<Vec<(Uuid, bool)>> {
        let query = self.query(&self.sql.fleet_nodes).bind(fleet.to_owned()).bind(self.now());
        let read = |error| classify(WHAT, error);
        let rows = query.fetch_all(tx.conn()).await.map_err(read)?;
        let node = |row| Ok((Row::try_get(row, "node")?, Row::try_get(row, "is_live")?));
        rows.iter().map(node).collect::<sqlx::Result<_>>().map_err(read)
    }

    async fn live(
        &self,
        tx: &mut EngineConn,
        fleet: &str,
        node: Uuid,
        lease: Duration,
    ) -> Result<()> {
        let query = self.query(&self.sql.fleet_live).bind(fleet.to_owned()).bind(node);
        run(tx, query.bind(micros(lease)).bind(self.now())).await
    }

    async fn gone(&self, tx: &mut EngineConn, fleet: &str, node: Uuid) -> Result<()> {
        run(tx, self.query(&self.sql.fleet_gone).bind(fleet.to_owned()).bind(node)).await
    }

    async fn shares(&self, tx: &mut EngineConn, fleet: &str) -> Result<Vec<(String, Uuid)>> {
        let query = self.query(&self.sql.fleet_shares).bind(fleet.to_owned());
        let read = |error| classify(WHAT, error);
        let rows = query.fetch_all(tx.conn()).await.map_err(read)?;
        let share = |row| Ok((Row::try_get(row, "store")?, Row::try_get(row, "node")?));
        rows.iter().map(share).collect::<sqlx::Result<_>>().map_err(read)
    }

    async fn give(
        &self,
        tx: &mut EngineConn,
        fleet: &str,
        node: Uuid,
        stores: &[String],
    ) -> Result<()> {
        let query = self.query(&self.sql.fleet_give).bind(fleet.to_owned()).bind(node);
        run(tx, query.bind(stores.to_vec())).await
    }

    async fn take(
        &self,
        tx: &mut EngineConn,
        fleet: &str,
        node: Uuid,
        stores: &[String],
    ) -> Result<()> {
        let query = self.query(&self.sql.fleet_take).bind(fleet.to_owned()).bind(node);
        run(tx, query.bind(stores.to_vec())).await
    }

    async fn commit(&self, tx: EngineConn) -> Result<()> {
        tx.finish(WHAT).await
    }
}
