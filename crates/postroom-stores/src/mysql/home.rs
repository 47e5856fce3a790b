//! The tables of a fleet's home.

use std::sync::Arc;
use std::time::Duration;

use postroom_core::fleet::Home;
use postroom_core::{Result, micros};
use serde_json::json;
use sqlx::mysql::{MySqlArguments, MySqlRow};
use sqlx::query::Query;
use sqlx::{MySql, Row, Transaction};
use uuid::Uuid;

use super::MySqlStore;
use super::classify::classify;
use super::row::{flag, text};
use crate::budget::Place;
use crate::fleet::home::{self, Register};

const WHAT: &str = "divide the stores";

impl MySqlStore {
    /// This database as the place where the processes of a fleet divide its stores; for
    /// [`Fleet::home`](postroom_core::fleet::Fleet::home). Fleets with other names are apart.
    ///
    /// # Errors
    /// `Invalid` for a name that is empty, longer than 64 characters or has control characters.
    pub fn home(&self, fleet: &str) -> Result<Arc<dyn Home>> {
        home::home(self.clone(), fleet)
    }
}

type Tx = (Transaction<'static, MySql>, Place);
type MySqlQuery = Query<'static, MySql, MySqlArguments>;

async fn run(tx: &mut Tx, query: MySqlQuery) -> Result<()> {
    query.execute(&mut *tx.0).await.map(drop).map_err(|error| classify(WHAT, error))
}

async fn read<T>(
    tx: &mut Tx,
    query: MySqlQuery,
    row: impl Fn(&MySqlRow) -> sqlx::Result<T>,
) -> Result<Vec<T>> {
    let failed = |error| classify(WHAT, error);
    let rows = query.fetch_all(&mut *tx.0).await.map_err(failed)?;
    rows.iter().map(row).collect::<sqlx::Result<_>>().map_err(failed)
}

impl Register for MySqlStore {
    type Tx = Tx;

    async fn open(&self) -> Result<Tx> {
        self.sessions.engine_transaction(WHAT).await
    }

    async fn nodes(&self, tx: &mut Tx, fleet: &str) -> Result<Vec<(Uuid, bool)>> {
        let query = self.query(&self.sql.fleet_nodes).bind(self.now()).bind(fleet.to_owned());
        read(tx, query, |row| Ok((row.try_get("node")?, flag(row, "is_live")?))).await
    }

    async fn live(&self, tx: &mut Tx, fleet: &str, node: Uuid, lease: Duration) -> Result<()> {
        let query = self.query(&self.sql.fleet_live).bind(fleet.to_owned()).bind(node);
        run(tx, query.bind(self.now()).bind(micros(lease))).await
    }

    async fn gone(&self, tx: &mut Tx, fleet: &str, node: Uuid) -> Result<()> {
        for sql in [&self.sql.fleet_gone, &self.sql.fleet_freed] {
            run(tx, self.query(sql).bind(fleet.to_owned()).bind(node)).await?;
        }
        Ok(())
    }

    async fn shares(&self, tx: &mut Tx, fleet: &str) -> Result<Vec<(String, Uuid)>> {
        let query = self.query(&self.sql.fleet_shares).bind(fleet.to_owned());
        read(tx, query, |row| Ok((text(row, "store")?, row.try_get("node")?))).await
    }

    async fn give(&self, tx: &mut Tx, fleet: &str, node: Uuid, stores: &[String]) -> Result<()> {
        let query = self.query(&self.sql.fleet_give).bind(fleet.to_owned()).bind(node);
        run(tx, query.bind(json!(stores).to_string())).await
    }

    async fn take(&self, tx: &mut Tx, fleet: &str, node: Uuid, stores: &[String]) -> Result<()> {
        let query = self.query(&self.sql.fleet_take).bind(fleet.to_owned()).bind(node);
        run(tx, query.bind(json!(stores).to_string())).await
    }

    async fn commit(&self, (tx, _place): Tx) -> Result<()> {
        tx.commit().await.map_err(|error| classify(WHAT, error))
    }
}
