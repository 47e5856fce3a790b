//! Tenants that take turns: their claims, and the indexes that these need.

use postroom_core::Result;
use postroom_core::store::tenants::{LOOKS, Rotation, Round, tenants_wanted};
use sqlx::mysql::{MySqlConnection, MySqlRow};
use sqlx::{Row, SqlStr};

use super::MySqlStore;
use super::claim::{WHAT, add, bind, list};
use super::classify::classify;
use super::row::{counter, flag, int};
use crate::names::{Names, Queue};
use crate::taking::Taking;

/// Each is made if it is not there. Others go on writing meanwhile.
const INDEXES: [&str; 2] = [
    include_str!("../../sql/mysql/index_queue_tenants.sql"),
    include_str!("../../sql/mysql/index_parked_tenants.sql"),
];

impl MySqlStore {
    /// Takes rows without an ordering key, of one tenant after the other, in rounds. Answers
    /// whether there are ordered ones.
    pub(super) async fn take_in_turn(&self, taking: &mut Taking<'_>) -> Result<bool> {
        let mut rotation = Rotation::behind(self.turn.rotation().after());
        loop {
            let query = bind(taking, self.query(&self.sql.claim_fair), self.now())
                .bind(rotation.after())
                .bind(list(taking.claim.excluded_topics()))
                .bind(tenants_wanted(taking.room))
                .bind(LOOKS);
            let rows = self.engine_rows(WHAT, query).await?;
            let Some(first) = rows.first() else { return Ok(false) };
            let read = |error| classify(WHAT, error);
            let round = round(first).map_err(read)?;
            let ordered_work = flag(first, "ordered_work").map_err(read)?;
            add(taking, &rows, false).map_err(read)?;
            let more = rotation.go_on(round, taking.room);
            *self.turn.rotation() = rotation;
            if !more {
                return Ok(ordered_work);
            }
        }
    }
}

/// The definitions for both boxes.
pub(super) fn indexes(names: &Names) -> Vec<SqlStr> {
    let of_queue = |queue| {
        let names = names.for_queue(queue);
        INDEXES.map(|index| names.render_flat(index))
    };
    Queue::ALL.into_iter().flat_map(of_queue).collect()
}

/// Whether the indexes are there.
pub(super) async fn is_indexed(conn: &mut MySqlConnection, names: &Names) -> Result<bool> {
    let what = |error| classify("look for indexes", error);
    for queue in Queue::ALL {
        let names = names.for_queue(queue);
        let tables = ["postroom_outbox_queue", "postroom_outbox_parked"];
        let [queue, parked] = tables.map(|table| names.render_flat(table));
        let sql = "select count(*) as indexes from information_schema.statistics
            where table_schema = database() and table_name in (?, ?)
                and index_name = 'tenants' and seq_in_index = 1";
        let row = sqlx::query(sql).bind(queue.as_str()).bind(parked.as_str());
        let row = row.fetch_one(&mut *conn).await.map_err(what)?;
        if int(&row, "indexes").map_err(what)? < 2 {
            return Ok(false);
        }
    }
    Ok(true)
}

fn round(row: &MySqlRow) -> sqlx::Result<Round> {
    let last: Option<i64> = row.try_get("last_tenant")?;
    Ok(Round {
        first: row.try_get("first_tenant")?,
        last,
        was_all: last.is_none(),
        is_more: flag(row, "is_more")?,
        taken: counter(row, "taken")?,
    })
}
