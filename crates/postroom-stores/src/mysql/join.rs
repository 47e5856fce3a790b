//! Joins: starting, attaching, looking, cancelling. Counting is done by the database itself, where
//! rows are settled: see `proc_join.sql` and `proc_join_box.sql`.

use postroom_core::store::{
    Attach, JoinMember, JoinRecord, JoinState, ListJoins, MemberOutcome, NewMember, Sight,
    admit_members, join_id_taken,
};
use postroom_core::{Join, JoinId, Message, MessageId, Result};
use serde_json::json;
use sqlx::Row;
use sqlx::mysql::{MySqlConnection, MySqlRow};
use uuid::Uuid;

use super::MySqlStore;
use super::classify::classify;
use super::row::{counter, time, time_or_none};
use crate::listing::MAX_PAGE;
use crate::names::Queue;

impl MySqlStore {
    pub(super) async fn begin_join(&self, conn: &mut MySqlConnection, join: &Join) -> Result<bool> {
        let what = |error| classify("start join", error);
        // Most often who starts it again finds it by a look. An insert would lock it, before the
        // places that an attach locks first.
        let query = self.query(&self.sql.join_get).bind(join.id().as_uuid());
        if let Some(first) = query.fetch_optional(&mut *conn).await.map_err(what)? {
            return is_same(&first, join);
        }
        let query = self
            .query(&self.sql.join_start)
            .bind(join.id().as_uuid())
            .bind(join.expected())
            .bind(self.now())
            .bind(join.content_hash().to_vec());
        let started = query.execute(&mut *conn).await.map_err(what)?;
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
        let query = self.query(&self.sql.join_first).bind(join.id().as_uuid());
        is_same(&query.fetch_one(conn).await.map_err(what)?, join)
    }

    async fn prepare_follow_up(
        &self,
        conn: &mut MySqlConnection,
        join: JoinId,
        state: JoinState,
        message: &Message,
    ) -> Result<()> {
        let own = |text: Option<&str>| text.map(str::to_owned);
        let content_type = Some(message.content_type());
        let lane = message.lane();
        self.query(&self.sql.join_follow_up)
            .bind(join.as_uuid())
            .bind(state.code())
            .bind(message.id().as_uuid())
            .bind(message.topic().as_str().to_owned())
            .bind(message.payload().to_vec())
            .bind(own(content_type.filter(|text| *text != Message::DEFAULT_CONTENT_TYPE)))
            .bind(message.headers().to_json())
            .bind(own(message.aggregate_type().map(AsRef::as_ref)))
            .bind(own(message.aggregate_id().map(AsRef::as_ref)))
            .bind(own(message.ordering_key().map(AsRef::as_ref)))
            .bind(own(message.tenant_id().map(AsRef::as_ref)))
            .bind(own(message.correlation_id().map(AsRef::as_ref)))
            .bind(own(message.causation_id().map(AsRef::as_ref)))
            .bind(message.priority())
            .bind(lane.map(|lane| lane.slot))
            .bind(lane.map(|lane| lane.key_hash))
            .bind(message.tenant_hash())
            .bind(message.topic_hash())
            .execute(conn)
            .await
            .map_err(|error| classify("start join", error))?;
        Ok(())
    }

    pub(super) async fn attach_members(
        &self,
        conn: &mut MySqlConnection,
        attaches: &[Attach],
    ) -> Result<()> {
        if attaches.is_empty() {
            return Ok(());
        }
        let what = |error| classify("attach", error);
        let wanted: Vec<_> = attaches
            .iter()
            .map(|attach| {
                let (join, message) = (attach.join.as_uuid(), attach.message.as_uuid());
                json!([hex(join), hex(message), i32::from(attach.fresh)])
            })
            .collect();
        let query = self.query(&self.sql.join_look).bind(json!(wanted).to_string());
        let rows = query.fetch_all(&mut *conn).await.map_err(what)?;
        let in_inbox = self.names.queue() == Queue::Inbox;
        let sights: sqlx::Result<Vec<_>> = rows.iter().map(|row| sight(row, in_inbox)).collect();
        let members = admit_members(attaches, &sights.map_err(what)?)?;
        match members.is_empty() {
            true => Ok(()),
            false => self.add_members(conn, &members).await,
        }
    }

    async fn add_members(&self, conn: &mut MySqlConnection, members: &[NewMember]) -> Result<()> {
        let members: Vec<_> = members
            .iter()
            .map(|member| {
                let (join, message) = (member.join.as_uuid(), member.message.as_uuid());
                json!([hex(join), hex(message), member.outcome.map(MemberOutcome::code)])
            })
            .collect();
        let query = self.query(&self.sql.join_add).bind(self.now());
        let query = query.bind(json!(members).to_string());
        query.execute(conn).await.map(drop).map_err(|error| classify("attach", error))
    }

    pub(super) async fn get_join(&self, id: JoinId) -> Result<Option<JoinRecord>> {
        let query = self.query(&self.sql.join_get).bind(id.as_uuid());
        let rows = self.engine_rows("join", query).await?;
        let record = rows.first().map(join_record).transpose();
        record.map_err(|error| classify("join", error))
    }

    pub(super) async fn list_joins(&self, list: &ListJoins) -> Result<Vec<JoinRecord>> {
        let query = self
            .query(&self.sql.join_list)
            .bind(list.state.map(JoinState::code))
            .bind(list.state.map(JoinState::code))
            .bind(list.before.map(JoinId::as_uuid))
            .bind(list.before.map(JoinId::as_uuid))
            .bind(list.limit.min(MAX_PAGE));
        let rows = self.engine_rows("joins", query).await?;
        let records: sqlx::Result<_> = rows.iter().map(join_record).collect();
        records.map_err(|error| classify("joins", error))
    }

    pub(super) async fn list_members(
        &self,
        id: JoinId,
        after: Option<MessageId>,
        limit: u32,
    ) -> Result<Vec<JoinMember>> {
        let query = self
            .query(&self.sql.join_members)
            .bind(id.as_uuid())
            .bind(after.map(MessageId::as_uuid))
            .bind(after.map(MessageId::as_uuid))
            .bind(limit.min(MAX_PAGE));
        let rows = self.engine_rows("members", query).await?;
        let members: sqlx::Result<_> = rows.iter().map(member).collect();
        members.map_err(|error| classify("members", error))
    }

    pub(super) async fn end_join(&self, id: JoinId) -> Result<bool> {
        let what = |error| classify("cancel join", error);
        let (mut tx, _place) = self.sessions.engine_transaction("cancel join").await?;
        let cancel = self.query(&self.sql.join_cancel).bind(self.now()).bind(id.as_uuid());
        let was_open = cancel.execute(&mut *tx).await.map_err(what)?.rows_affected() == 1;
        if was_open {
            let forget = self.query(&self.sql.join_forget).bind(id.as_uuid());
            forget.execute(&mut *tx).await.map_err(what)?;
        }
        tx.commit().await.map_err(what)?;
        Ok(was_open)
    }
}

/// That it is not new; an error when the id belongs to a join with other content.
fn is_same(first: &MySqlRow, join: &Join) -> Result<bool> {
    let content = first.try_get::<Vec<u8>, _>("content_hash");
    match content.map_err(|error| classify("start join", error))? == join.content_hash() {
        true => Ok(false),
        false => Err(join_id_taken(join.id())),
    }
}

fn hex(id: Uuid) -> String {
    id.simple().to_string()
}

fn sight(row: &MySqlRow, in_inbox: bool) -> sqlx::Result<Sight> {
    let join = match row.try_get("state")? {
        Some(state) => Some((state, counter(row, "expected")?, counter(row, "attached")?)),
        None => None,
    };
    let member: Option<i64> = row.try_get("member_in_inbox")?;
    let (member, standing) = (member.map(|inbox| inbox != 0), row.try_get("standing")?);
    Ok(Sight::of_codes(join, member, standing, in_inbox))
}

fn join_record(row: &MySqlRow) -> sqlx::Result<JoinRecord> {
    let state = JoinState::from_code(row.try_get("state")?);
    let follow_up: Option<Uuid> = row.try_get("follow_up")?;
    Ok(JoinRecord {
        id: JoinId::from(row.try_get::<Uuid, _>("id")?),
        state: state.ok_or_else(|| sqlx::Error::Decode("no state of a join".into()))?,
        expected: counter(row, "expected")?,
        attached: counter(row, "attached")?,
        done: counter(row, "done")?,
        dead: counter(row, "dead")?,
        created_at: time(row, "created_at")?,
        ended_at: time_or_none(row, "ended_at")?,
        follow_up: follow_up.map(MessageId::from),
    })
}

fn member(row: &MySqlRow) -> sqlx::Result<JoinMember> {
    let outcome: Option<i16> = row.try_get("outcome")?;
    Ok(JoinMember {
        message: MessageId::from(row.try_get::<Uuid, _>("message_id")?),
        outcome: outcome.and_then(MemberOutcome::from_code),
    })
}
