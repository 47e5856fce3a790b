//! Tenants that take turns: their claims, and the indexes that these need.

use std::time::Duration;

use postroom_core::store::tenants::{Rotation, Round};
use postroom_core::{Error, ErrorKind, Result};
use sqlx::postgres::{PgConnection, PgRow};
use sqlx::{Executor, Row, SqlStr};
use tokio::time::{Instant, sleep};

use super::PgStore;
use super::claim::{Look, WHAT, add};
use super::classify::classify;
use super::row::small_count;
use crate::names::{Names, Queue};
use crate::taking::Taking;

/// Each by itself, because none can be made in a transaction while others write.
const INDEXES: [&str; 2] = [
    include_str!("../../sql/postgres/index_queue_tenants.sql"),
    include_str!("../../sql/postgres/index_parked_tenants.sql"),
];

/// Their names, as the files have them.
const NAMES: [&str; 2] = ["postroom.outbox_queue_tenants", "postroom.outbox_parked_tenants"];

/// How long one process waits for another that makes them.
const PATIENCE: Duration = Duration::from_mins(10);

const LOOK_AGAIN: Duration = Duration::from_millis(200);

impl PgStore {
    /// Takes rows without an ordering key, of one tenant after the other, in rounds. Answers
    /// whether there are ordered ones.
    pub(super) async fn take_in_turn(&self, taking: &mut Taking<'_>) -> Result<bool> {
        let mut rotation = Rotation::behind(self.turn.rotation().after());
        loop {
            let rows = self.unpaused_rows(taking, Look::Behind(rotation.after())).await?;
            // All of it is paused.
            let Some(first) = rows.first() else { return Ok(false) };
            let read = |error| classify(WHAT, error);
            let round = round(first).map_err(read)?;
            let ordered_work = first.try_get("ordered_work").map_err(read)?;
            add(taking, &rows).map_err(read)?;
            let more = rotation.go_on(round, taking.room);
            *self.turn.rotation() = rotation;
            if !more {
                return Ok(ordered_work);
            }
        }
    }

    /// Makes the indexes that are missing, while others go on writing. Of many processes that start
    /// at once one does it. The others ask now and then and hold no snapshot meanwhile: that is
    /// what the one would wait for.
    pub(super) async fn index_tenants(&self) -> Result<()> {
        let what = |error| classify("index tenants", error);
        let mut conn = self.sessions.session("index tenants").await?;
        // The session gets a lock and settings: whoever goes away in the middle must not leave them
        // in the pool.
        conn.close_on_drop();
        if is_indexed(&mut conn, &self.names).await? {
            return Ok(());
        }
        // An old transaction of somebody else must not stop us for ever.
        conn.execute("set statement_timeout = 0; set lock_timeout = '60s'").await.map_err(what)?;
        let give_up = Instant::now() + PATIENCE;
        while !try_lock(&mut conn, &self.names).await? {
            if Instant::now() >= give_up {
                let problem =
                    "another process has been indexing tenants for ten minutes; try later";
                return Err(Error::new(ErrorKind::Contention, problem));
            }
            sleep(LOOK_AGAIN).await;
        }
        for queue in Queue::ALL {
            let names = self.names.for_queue(queue);
            for (index, name) in INDEXES.into_iter().zip(NAMES) {
                make_index(&mut conn, &names, index, name).await?;
            }
        }
        Ok(())
    }
}

/// The definitions for both boxes.
pub(super) fn indexes(names: &Names) -> Vec<SqlStr> {
    let of_queue = |queue| {
        let names = names.for_queue(queue);
        INDEXES.map(|index| names.render_index(index))
    };
    Queue::ALL.into_iter().flat_map(of_queue).collect()
}

/// Whether the indexes are there and complete.
pub(super) async fn is_indexed(conn: &mut PgConnection, names: &Names) -> Result<bool> {
    for queue in Queue::ALL {
        let names = names.for_queue(queue);
        for name in NAMES {
            if index_state(conn, &names, name).await? != Some(true) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Whether an index is complete; none when there is none.
async fn index_state(conn: &mut PgConnection, names: &Names, name: &str) -> Result<Option<bool>> {
    let sql = "select indisvalid from pg_index where indexrelid = to_regclass($1)";
    let name = names.render_qualified(name);
    let found = sqlx::query_scalar(sql).bind(name.as_str()).fetch_optional(conn).await;
    found.map_err(|error| classify("look for indexes", error))
}

/// Under the lock: what is not complete then was left by somebody who did not finish.
async fn make_index(conn: &mut PgConnection, names: &Names, index: &str, name: &str) -> Result<()> {
    let what = |error| classify("index tenants", error);
    let state = index_state(conn, names, name).await?;
    if state == Some(false) {
        let drop = names.render_qualified(&format!("drop index concurrently if exists {name}"));
        conn.execute(sqlx::raw_sql(drop)).await.map_err(what)?;
    }
    if state != Some(true) {
        let online = index.replacen("create index", "create index concurrently", 1);
        conn.execute(sqlx::raw_sql(names.render_index(&online))).await.map_err(what)?;
    }
    Ok(())
}

/// For this session, until it ends.
async fn try_lock(conn: &mut PgConnection, names: &Names) -> Result<bool> {
    let sql = "select pg_try_advisory_lock(hashtextextended($1, 7355609))";
    let got = sqlx::query_scalar(sql).bind(names.schema()).fetch_one(conn).await;
    got.map_err(|error| classify("index tenants", error))
}

fn round(row: &PgRow) -> sqlx::Result<Round> {
    Ok(Round {
        first: row.try_get("first_tenant")?,
        last: row.try_get("last_tenant")?,
        was_all: row.try_get("was_all")?,
        is_more: row.try_get("is_more")?,
        taken: small_count(row, "taken")?,
    })
}
