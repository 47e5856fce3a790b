//! Joins. Members are counted in the transaction that settles them, just before that: who is
//! settled is known by its place in the queue.

use std::collections::BTreeMap;

use postroom_core::store::{
    Attach, JoinMember, JoinRecord, JoinState, ListJoins, MemberOutcome, NewMember, Sight,
    admit_members, join_id_taken,
};
use postroom_core::{Join, JoinId, Message, MessageId, Result, Timestamp};
use serde_json::json;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{Row, SqlStr};
use uuid::Uuid;

use super::admin::{optional_timestamp, timestamp};
use super::classify::classify;
use super::{SqliteStore, commit};
use crate::listing::MAX_PAGE;
use crate::names::Queue;
use crate::row::DEAD;

/// How the counts of a join change.
#[derive(Default)]
struct Change {
    attached: i64,
    done: i64,
    dead: i64,
}

impl Change {
    fn count(&mut self, outcome: Option<MemberOutcome>) {
        match outcome {
            Some(MemberOutcome::Done) => self.done += 1,
            Some(MemberOutcome::Dead) => self.dead += 1,
            None => {}
        }
    }
}

impl SqliteStore {
    fn is_inbox(&self) -> bool {
        self.inner.config.queue == Queue::Inbox
    }

    pub(super) async fn begin_join(
        &self,
        conn: &mut SqliteConnection,
        join: &Join,
    ) -> Result<bool> {
        let started = sqlx::query(self.sql().join_start.clone())
            .bind(join.id().as_uuid())
            .bind(join.expected())
            .bind(self.now().as_micros())
            .bind(join.content_hash().to_vec())
            .execute(&mut *conn)
            .await
            .map_err(classify)?;
        if started.rows_affected() == 1 {
            let follow_ups =
                [(JoinState::Succeeded, join.success()), (JoinState::Failed, join.failure())];
            for (state, message) in follow_ups {
                if let Some(message) = message {
                    self.prepare_follow_up(conn, join.id(), state, message).await?;
                }
            }
            return Ok(true);
        }
        let query = sqlx::query(self.sql().join_get.clone()).bind(join.id().as_uuid());
        let first = query.fetch_one(conn).await.map_err(classify)?;
        let content: Vec<u8> = first.try_get("content_hash").map_err(classify)?;
        match content == join.content_hash() {
            true => Ok(false),
            false => Err(join_id_taken(join.id())),
        }
    }

    async fn prepare_follow_up(
        &self,
        conn: &mut SqliteConnection,
        join: JoinId,
        state: JoinState,
        message: &Message,
    ) -> Result<()> {
        let content_type = Some(message.content_type());
        let lane = message.lane();
        sqlx::query(self.sql().join_follow_up.clone())
            .bind(join.as_uuid())
            .bind(state.code())
            .bind(message.id().as_uuid())
            .bind(message.topic().as_str())
            .bind(message.payload().as_ref())
            .bind(content_type.filter(|text| *text != Message::DEFAULT_CONTENT_TYPE))
            .bind(message.headers().to_json())
            .bind(message.aggregate_type().map(AsRef::<str>::as_ref))
            .bind(message.aggregate_id().map(AsRef::<str>::as_ref))
            .bind(message.ordering_key().map(AsRef::<str>::as_ref))
            .bind(message.tenant_id().map(AsRef::<str>::as_ref))
            .bind(message.correlation_id().map(AsRef::<str>::as_ref))
            .bind(message.causation_id().map(AsRef::<str>::as_ref))
            .bind(message.priority())
            .bind(lane.map(|lane| lane.slot))
            .bind(lane.map(|lane| lane.key_hash))
            .bind(message.tenant_hash())
            .bind(message.topic_hash())
            .execute(conn)
            .await
            .map_err(classify)?;
        Ok(())
    }

    pub(super) async fn attach_members(
        &self,
        conn: &mut SqliteConnection,
        attaches: &[Attach],
    ) -> Result<()> {
        let wanted: Vec<_> = attaches
            .iter()
            .map(|attach| {
                let (join, message) = (hex(attach.join.as_uuid()), hex(attach.message.as_uuid()));
                json!({ "join": join, "message": message })
            })
            .collect();
        let rows = sqlx::query(self.sql().join_look.clone())
            .bind(json!(wanted).to_string())
            .fetch_all(&mut *conn)
            .await
            .map_err(classify)?;
        let sights: sqlx::Result<Vec<_>> =
            rows.iter().map(|row| sight(row, self.is_inbox())).collect();
        let members = admit_members(attaches, &sights.map_err(classify)?)?;
        self.add_members(conn, &members).await
    }

    async fn add_members(&self, conn: &mut SqliteConnection, members: &[NewMember]) -> Result<()> {
        let mut changes: BTreeMap<JoinId, Change> = BTreeMap::new();
        let mut rows = Vec::with_capacity(members.len());
        for member in members {
            let change = changes.entry(member.join).or_default();
            change.attached += 1;
            change.count(member.outcome);
            rows.push(json!({
                "join": hex(member.join.as_uuid()),
                "message": hex(member.message.as_uuid()),
                "outcome": member.outcome.map(MemberOutcome::code),
            }));
        }
        sqlx::query(self.sql().join_add.clone())
            .bind(json!(rows).to_string())
            .bind(self.is_inbox())
            .execute(&mut *conn)
            .await
            .map_err(classify)?;
        self.change_counts(conn, changes, self.now()).await.map(drop)
    }

    /// Live messages are about to die.
    pub(super) async fn count_dead(
        &self,
        conn: &mut SqliteConnection,
        seqs: &[i64],
        now: Timestamp,
    ) -> Result<()> {
        if !self.has_open_joins(conn).await? {
            return Ok(());
        }
        let ended: Vec<_> = seqs.iter().map(|seq| (*seq, DEAD)).collect();
        self.count_settled(conn, &ended, now).await
    }

    /// These places in the queue are about to be settled, each with the state that it ends in.
    pub(super) async fn count_settled(
        &self,
        conn: &mut SqliteConnection,
        ended: &[(i64, i16)],
        now: Timestamp,
    ) -> Result<()> {
        let ended = ended.iter().map(|(seq, state)| json!({ "seq": seq, "state": state }));
        let ended = serde_json::Value::from_iter(ended).to_string();
        let mut changes: BTreeMap<JoinId, Change> = BTreeMap::new();
        for row in self.changed_members(conn, &self.sql().join_mark, &ended).await? {
            let outcome: i16 = row.try_get("outcome").map_err(classify)?;
            let change = changes.entry(join_of(&row)?).or_default();
            change.count(MemberOutcome::from_code(outcome));
        }
        if self.change_counts(conn, changes, now).await? {
            // Whoever wakes up waits for the end of this transaction.
            self.inner.outbox_local.wake();
        }
        Ok(())
    }

    /// Dead messages are about to be live again.
    pub(super) async fn count_reopened(
        &self,
        conn: &mut SqliteConnection,
        seqs: &[i64],
    ) -> Result<()> {
        if !self.has_open_joins(conn).await? {
            return Ok(());
        }
        let seqs = json!(seqs).to_string();
        let mut changes: BTreeMap<JoinId, Change> = BTreeMap::new();
        for row in self.changed_members(conn, &self.sql().join_unmark, &seqs).await? {
            changes.entry(join_of(&row)?).or_default().dead -= 1;
        }
        self.change_counts(conn, changes, self.now()).await.map(drop)
    }

    async fn has_open_joins(&self, conn: &mut SqliteConnection) -> Result<bool> {
        let query = sqlx::query_scalar(self.sql().join_open.clone());
        query.fetch_one(conn).await.map_err(classify)
    }

    async fn changed_members(
        &self,
        conn: &mut SqliteConnection,
        statement: &SqlStr,
        which: &str,
    ) -> Result<Vec<SqliteRow>> {
        let query = sqlx::query(statement.clone()).bind(which.to_owned()).bind(self.is_inbox());
        query.fetch_all(conn).await.map_err(classify)
    }

    /// Answers whether a follow-up was published.
    async fn change_counts(
        &self,
        conn: &mut SqliteConnection,
        changes: BTreeMap<JoinId, Change>,
        now: Timestamp,
    ) -> Result<bool> {
        let mut published = false;
        for (join, change) in changes {
            let row = sqlx::query(self.sql().join_count.clone())
                .bind(join.as_uuid())
                .bind(change.attached)
                .bind(change.done)
                .bind(change.dead)
                .fetch_one(&mut *conn)
                .await
                .map_err(classify)?;
            let read = || -> sqlx::Result<JoinState> {
                let count = |column| row.try_get::<u32, _>(column);
                Ok(JoinState::of_counts(count("expected")?, count("done")?, count("dead")?))
            };
            let state = read().map_err(classify)?;
            if state != JoinState::Open {
                published |= self.complete(conn, join, state, now).await?;
            }
        }
        Ok(published)
    }

    async fn complete(
        &self,
        conn: &mut SqliteConnection,
        join: JoinId,
        state: JoinState,
        now: Timestamp,
    ) -> Result<bool> {
        let of = |statement: &SqlStr| sqlx::query(statement.clone()).bind(join.as_uuid());
        let ended = of(&self.sql().join_end).bind(state.code()).bind(now.as_micros());
        ended.execute(&mut *conn).await.map_err(classify)?;
        let publish = of(&self.sql().join_publish).bind(state.code()).bind(now.as_micros());
        let written = publish.fetch_optional(&mut *conn).await.map_err(classify)?;
        if let Some(row) = &written {
            let seq: i64 = row.try_get("seq").map_err(classify)?;
            let place = of(&self.sql().join_place).bind(state.code()).bind(seq);
            place.execute(&mut *conn).await.map_err(classify)?;
        }
        of(&self.sql().join_forget).execute(conn).await.map_err(classify)?;
        Ok(written.is_some())
    }

    pub(super) async fn get_join(&self, id: JoinId) -> Result<Option<JoinRecord>> {
        let query = sqlx::query(self.sql().join_get.clone()).bind(id.as_uuid());
        let row = query.fetch_optional(&self.inner.reader).await.map_err(classify)?;
        row.as_ref().map(join_record).transpose().map_err(classify)
    }

    pub(super) async fn list_joins(&self, list: &ListJoins) -> Result<Vec<JoinRecord>> {
        let rows = sqlx::query(self.sql().join_list.clone())
            .bind(list.state.map(JoinState::code))
            .bind(list.before.map(JoinId::as_uuid))
            .bind(list.limit.min(MAX_PAGE))
            .fetch_all(&self.inner.reader)
            .await
            .map_err(classify)?;
        rows.iter().map(|row| join_record(row).map_err(classify)).collect()
    }

    pub(super) async fn list_members(
        &self,
        id: JoinId,
        after: Option<MessageId>,
        limit: u32,
    ) -> Result<Vec<JoinMember>> {
        let rows = sqlx::query(self.sql().join_members.clone())
            .bind(id.as_uuid())
            .bind(after.map(MessageId::as_uuid))
            .bind(limit.min(MAX_PAGE))
            .fetch_all(&self.inner.reader)
            .await
            .map_err(classify)?;
        rows.iter().map(|row| member(row).map_err(classify)).collect()
    }

    pub(super) async fn end_join(&self, id: JoinId) -> Result<bool> {
        let mut tx = self.begin_write().await?;
        let of = |statement: &SqlStr| sqlx::query(statement.clone()).bind(id.as_uuid());
        let cancel = of(&self.sql().join_cancel).bind(self.now().as_micros());
        let was_open = cancel.execute(&mut *tx).await.map_err(classify)?.rows_affected() == 1;
        if was_open {
            of(&self.sql().join_forget).execute(&mut *tx).await.map_err(classify)?;
        }
        commit(tx).await?;
        Ok(was_open)
    }

    /// Deletes members, then joins without any; answers how many of each.
    pub(super) async fn purge_old_joins(
        &self,
        conn: &mut SqliteConnection,
        horizon: i64,
        limit: u32,
    ) -> Result<(u32, u32)> {
        let mut deleted = [0; 2];
        let statements = [&self.sql().purge_members, &self.sql().purge_joins];
        for (deleted, statement) in deleted.iter_mut().zip(statements) {
            let query = sqlx::query(statement.clone()).bind(horizon).bind(limit);
            *deleted = query.execute(&mut *conn).await.map_err(classify)?.rows_affected() as u32;
        }
        Ok((deleted[0], deleted[1]))
    }
}

fn hex(id: Uuid) -> String {
    id.simple().to_string()
}

fn join_of(row: &SqliteRow) -> Result<JoinId> {
    row.try_get::<Uuid, _>("join_id").map(JoinId::from).map_err(classify)
}

fn sight(row: &SqliteRow, in_inbox: bool) -> sqlx::Result<Sight> {
    let join = match row.try_get("state")? {
        Some(state) => Some((state, row.try_get("expected")?, row.try_get("attached")?)),
        None => None,
    };
    let (member, standing) = (row.try_get("member_in_inbox")?, row.try_get("standing")?);
    Ok(Sight::of_codes(join, member, standing, in_inbox))
}

fn join_record(row: &SqliteRow) -> sqlx::Result<JoinRecord> {
    let state = JoinState::from_code(row.try_get("state")?);
    let follow_up: Option<Uuid> = row.try_get("follow_up")?;
    Ok(JoinRecord {
        id: JoinId::from(row.try_get::<Uuid, _>("id")?),
        state: state.ok_or_else(|| sqlx::Error::Decode("no state of a join".into()))?,
        expected: row.try_get("expected")?,
        attached: row.try_get("attached")?,
        done: row.try_get("done")?,
        dead: row.try_get("dead")?,
        created_at: timestamp(row, "created_at")?,
        ended_at: optional_timestamp(row, "ended_at")?,
        follow_up: follow_up.map(MessageId::from),
    })
}

fn member(row: &SqliteRow) -> sqlx::Result<JoinMember> {
    let outcome: Option<i16> = row.try_get("outcome")?;
    Ok(JoinMember {
        message: MessageId::from(row.try_get::<Uuid, _>("message_id")?),
        outcome: outcome.and_then(MemberOutcome::from_code),
    })
}
