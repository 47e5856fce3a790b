//! Deleting what is settled and old enough.

use postroom_core::store::{Purge, Purged};
use postroom_core::{Result, Timestamp};
use serde_json::json;
use sqlx::Row;
use sqlx::sqlite::SqliteConnection;

use super::classify::classify;
use super::{SqliteStore, commit};

impl SqliteStore {
    pub(super) async fn do_purge(&self, purge: &Purge) -> Result<Purged> {
        let mut tx = self.begin_write().await?;
        let now = self.now();
        let horizon = |age: Option<_>| age.map(|age| now.saturating_sub(age).as_micros());
        let rows = sqlx::query(self.sql().purge.clone())
            .bind(horizon(purge.done))
            .bind(horizon(purge.dead))
            .bind(purge.limit)
            .fetch_all(&mut *tx)
            .await
            .map_err(classify)?;
        let mut seqs = Vec::with_capacity(rows.len());
        for row in &rows {
            let seq: i64 = row.try_get("seq").map_err(classify)?;
            seqs.push(seq);
            let settled_at: i64 = row.try_get("settled_at").map_err(classify)?;
            self.forget(&mut tx, &[seq], Timestamp::from_micros(settled_at)).await?;
        }
        // A dead message that is gone stops nothing: nobody could replay it any more.
        self.run_on(&mut tx, &self.sql().forget_halts, &seqs).await?;
        let mut keys = 0;
        if let Some(horizon) = horizon(purge.keys) {
            let purged = sqlx::query(self.sql().purge_keys.clone())
                .bind(horizon)
                .bind(purge.limit)
                .execute(&mut *tx)
                .await
                .map_err(classify)?;
            keys = purged.rows_affected() as u32;
        }
        let (members, joins) = match horizon(purge.done) {
            Some(horizon) => self.purge_old_joins(&mut tx, horizon, purge.limit).await?,
            None => (0, 0),
        };
        commit(tx).await?;
        let messages = rows.len() as u32;
        let more = [messages, keys, members, joins].contains(&purge.limit);
        Ok(Purged { messages, keys, joins, more })
    }

    /// Deletes messages with their history; their keys stay, and their time runs from `settled_at`.
    pub(super) async fn forget(
        &self,
        conn: &mut SqliteConnection,
        seqs: &[i64],
        settled_at: Timestamp,
    ) -> Result<()> {
        sqlx::query(self.sql().forget_keys.clone())
            .bind(json!(seqs).to_string())
            .bind(settled_at.as_micros())
            .execute(&mut *conn)
            .await
            .map_err(classify)?;
        self.run_on(conn, &self.sql().forget_attempts, seqs).await?;
        self.run_on(conn, &self.sql().forget, seqs).await
    }
}
