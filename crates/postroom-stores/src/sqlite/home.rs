//! The tables of a fleet's home.

use std::sync::Arc;
use std::time::Duration;

use postroom_core::Result;
use postroom_core::fleet::Home;
use serde_json::json;
use sqlx::query::Query;
use sqlx::sqlite::SqliteArguments;
use sqlx::{Row, SqlStr, Sqlite, Transaction};
use uuid::Uuid;

use super::classify::classify;
use super::{SqliteStore, commit};
use crate::fleet::home::{self, Register};

impl SqliteStore {
    /// This file as the place where the processes of a fleet divide its stores; for
    /// [`Fleet::home`](postroom_core::fleet::Fleet::home). Fleets with other names are apart.
    ///
    /// # Errors
    /// `Invalid` for a name that is empty, longer than 64 characters or has control characters.
    pub fn home(&self, fleet: &str) -> Result<Arc<dyn Home>> {
        home::home(self.clone(), fleet)
    }
}

type Tx = Transaction<'static, Sqlite>;
type SqliteQuery = Query<'static, Sqlite, SqliteArguments>;

fn of(sql: &SqlStr, fleet: &str) -> SqliteQuery {
    sqlx::query(sql.clone()).bind(fleet.to_owned())
}

async fn run(tx: &mut Tx, query: SqliteQuery) -> Result<()> {
    query.execute(&mut **tx).await.map(drop).map_err(classify)
}

impl Register for SqliteStore {
    type Tx = Tx;

    async fn open(&self) -> Result<Tx> {
        self.begin_write().await
    }

    async fn nodes(&self, tx: &mut Tx, fleet: &str) -> Result<Vec<(Uuid, bool)>> {
        let query = of(&self.sql().fleet_nodes, fleet).bind(self.now().as_micros());
        let rows = query.fetch_all(&mut **tx).await.map_err(classify)?;
        let node = |row| Ok((Row::try_get(row, "node")?, Row::try_get(row, "is_live")?));
        rows.iter().map(node).collect::<sqlx::Result<_>>().map_err(classify)
    }

    async fn live(&self, tx: &mut Tx, fleet: &str, node: Uuid, lease: Duration) -> Result<()> {
        let until = self.now().saturating_add(lease);
        run(tx, of(&self.sql().fleet_live, fleet).bind(node).bind(until.as_micros())).await
    }

    async fn gone(&self, tx: &mut Tx, fleet: &str, node: Uuid) -> Result<()> {
        for sql in [&self.sql().fleet_gone, &self.sql().fleet_freed] {
            run(tx, of(sql, fleet).bind(node)).await?;
        }
        Ok(())
    }

    async fn shares(&self, tx: &mut Tx, fleet: &str) -> Result<Vec<(String, Uuid)>> {
        let rows = of(&self.sql().fleet_shares, fleet).fetch_all(&mut **tx).await;
        let share = |row| Ok((Row::try_get(row, "store")?, Row::try_get(row, "node")?));
        rows.map_err(classify)?.iter().map(share).collect::<sqlx::Result<_>>().map_err(classify)
    }

    async fn give(&self, tx: &mut Tx, fleet: &str, node: Uuid, stores: &[String]) -> Result<()> {
        let stores = json!(stores).to_string();
        run(tx, of(&self.sql().fleet_give, fleet).bind(node).bind(stores)).await
    }

    async fn take(&self, tx: &mut Tx, fleet: &str, node: Uuid, stores: &[String]) -> Result<()> {
        let stores = json!(stores).to_string();
        run(tx, of(&self.sql().fleet_take, fleet).bind(node).bind(stores)).await
    }

    async fn commit(&self, tx: Tx) -> Result<()> {
        commit(tx).await
    }
}
