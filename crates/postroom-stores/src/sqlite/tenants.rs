//! Tenants that take turns, by the rules of [`postroom_core::store::tenants`].

use std::cmp::Reverse;

use postroom_core::Result;
use postroom_core::store::tenants::{LOOKS, Rotation, Round, part, tenants_wanted};
use serde_json::json;
use sqlx::sqlite::{SqliteArguments, SqliteConnection};
use sqlx::{Row, SqlStr, Sqlite};

use super::SqliteStore;
use super::claim::{Candidate, Taking, candidate, choose};
use super::classify::classify;
use crate::names::{Names, Queue};

const INDEXES: [&str; 2] = [
    include_str!("../../sql/sqlite/index_queue_tenants.sql"),
    include_str!("../../sql/sqlite/index_parked_tenants.sql"),
];

/// Their names, as the files have them.
const NAMES: [&str; 2] = ["postroom_outbox_queue_tenants", "postroom_outbox_parked_tenants"];

/// The tenants of a round, and where it ended before it was around.
struct Visit {
    tenants: Vec<i64>,
    ended: Option<i64>,
}

impl SqliteStore {
    pub(super) async fn claim_in_turn(
        &self,
        conn: &mut SqliteConnection,
        taking: &mut Taking<'_>,
    ) -> Result<()> {
        let mut rotation = Rotation::behind(self.turn().tenant());
        loop {
            let round = self.round(conn, rotation.after(), taking).await?;
            let more = rotation.go_on(round, taking.room);
            self.turn().go_on(rotation);
            if !more {
                return self.grant(conn, taking).await;
            }
            // The next round must not find these again.
            self.grant(conn, taking).await?;
        }
    }

    async fn round(
        &self,
        conn: &mut SqliteConnection,
        after: i64,
        taking: &mut Taking<'_>,
    ) -> Result<Round> {
        let visit = self.visit_tenants(conn, after, taking).await?;
        let (count, room) = (visit.tenants.len() as u32, taking.room);
        let (mut chosen, mut is_more) = (Vec::new(), false);
        for (place, tenant) in (0..).zip(&visit.tenants) {
            let part = part(room, count, place);
            let rows = self.candidates_of(conn, *tenant, part, taking).await?;
            let rows = choose(rows, part, taking);
            is_more |= rows.len() == part as usize;
            chosen.extend((0..).zip(rows).map(|(rank, row)| (rank, place, row)));
        }
        chosen.sort_by_key(|(rank, place, _): &(u32, u32, Candidate)| (*rank, *place));
        let rows: Vec<_> = chosen.into_iter().map(|(.., row)| row).collect();
        let taken = rows.len() as u32;
        self.take_all(conn, rows, taking).await?;
        Ok(Round {
            first: visit.tenants.first().copied(),
            last: visit.ended,
            was_all: visit.ended.is_none(),
            is_more,
            taken,
        })
    }

    /// The next tenants that have something to take.
    async fn visit_tenants(
        &self,
        conn: &mut SqliteConnection,
        after: i64,
        taking: &Taking<'_>,
    ) -> Result<Visit> {
        let (wanted, sql) = (tenants_wanted(taking.room), self.sql());
        let turn = |tenant: i64| (tenant >= after, Reverse(tenant));
        let queued = self.walk(&sql.claim_tenants, after, wanted, taking);
        let queued = queued.fetch_all(&mut *conn).await.map_err(classify)?;
        let waiting = self.walk(&sql.claim_waiting, after, LOOKS, taking);
        let waiting = waiting.fetch_all(conn).await.map_err(classify)?;
        let mut tenants = Vec::new();
        for row in &queued {
            tenants.push(row.try_get("tenant").map_err(classify)?);
        }
        let mut looked_until = None;
        for row in &waiting {
            let tenant = row.try_get("tenant").map_err(classify)?;
            looked_until = Some(tenant);
            if row.try_get("due").map_err(classify)? {
                tenants.push(tenant);
            }
        }
        let looked_until = looked_until.filter(|_| waiting.len() == LOOKS as usize);
        tenants.sort_unstable_by_key(|tenant| turn(*tenant));
        tenants.dedup();
        // Behind that there may be others that come first.
        tenants.retain(|tenant| looked_until.is_none_or(|until| turn(*tenant) <= turn(until)));
        let is_full = tenants.len() >= wanted as usize;
        tenants.truncate(wanted as usize);
        let ended = if is_full { tenants.last().copied() } else { looked_until };
        Ok(Visit { tenants, ended })
    }

    fn walk(
        &self,
        statement: &SqlStr,
        after: i64,
        limit: u32,
        taking: &Taking<'_>,
    ) -> sqlx::query::Query<'static, Sqlite, SqliteArguments> {
        sqlx::query(statement.clone())
            .bind(taking.now.as_micros())
            .bind(after)
            .bind(taking.suspects)
            .bind(taking.left_out())
            .bind(limit)
    }

    async fn candidates_of(
        &self,
        conn: &mut SqliteConnection,
        tenant: i64,
        part: u32,
        taking: &Taking<'_>,
    ) -> Result<Vec<Candidate>> {
        let rows = sqlx::query(self.sql().claim_fair.clone())
            .bind(taking.now.as_micros())
            .bind(part)
            .bind(taking.suspects)
            .bind(taking.left_out())
            .bind(tenant)
            .fetch_all(conn)
            .await
            .map_err(classify)?;
        rows.iter().map(|row| candidate(row).map_err(classify)).collect()
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
pub(super) async fn is_indexed(conn: &mut SqliteConnection, names: &Names) -> Result<bool> {
    let of_queue = |queue| {
        let names = names.for_queue(queue);
        NAMES.map(|name| names.render_flat(name).as_str().to_owned())
    };
    let wanted: Vec<_> = Queue::ALL.into_iter().flat_map(of_queue).collect();
    let sql = "select count(*) from sqlite_schema
        where type = 'index' and name in (select value from json_each(?1))";
    let found = sqlx::query_scalar(sql).bind(json!(wanted).to_string()).fetch_one(conn).await;
    let found: i64 = found.map_err(classify)?;
    Ok(found == wanted.len() as i64)
}
