//! Joins: starting, attaching, looking, cancelling. Counting is done by the database itself, where
//! rows are settled: see `join.sql` and `join_box.sql`.

use postroom_core::store::{
    Attach, JoinMember, JoinRecord, JoinState, ListJoins, MemberOutcome, NewMember, Purge, Purged,
    Sight, admit_members, join_id_taken,
};
use postroom_core::{Error, ErrorKind, Join, JoinId, Message, MessageId, Result, micros};
use sqlx::Row;
use sqlx::postgres::{PgConnection, PgRow};
use uuid::Uuid;

use super::PgStore;
use super::claim::integer;
use super::classify::classify;
use super::row::{counter, time, time_or_none};
use super::settle::counted;
use crate::listing::MAX_PAGE;
use crate::names::Queue;

impl PgStore {
    pub(super) async fn begin_join(&self, conn: &mut PgConnection, join: &Join) -> Result<bool> {
        let what = |error| classify("start join", error);
        let query = self
            .query(&self.sql.join_start)
            .bind(self.now())
            .bind(join.id().as_uuid())
            .bind(integer(join.expected()))
            .bind(join.content_hash().to_vec());
        let started = FollowUps::of(join).bind(query).fetch_one(&mut *conn).await.map_err(what)?;
        if started.try_get("is_new").map_err(what)? {
            return Ok(true);
        }
        let query = self.query(&self.sql.join_get).bind(join.id().as_uuid());
        let Some(first) = query.fetch_optional(conn).await.map_err(what)? else {
            return Err(Error::new(
                ErrorKind::Contention,
                "start join: a rival with the same id came and went; run it again",
            ));
        };
        let content: Vec<u8> = first.try_get("content_hash").map_err(what)?;
        match content == join.content_hash() {
            true => Ok(false),
            false => Err(join_id_taken(join.id())),
        }
    }

    pub(super) async fn attach_members(
        &self,
        conn: &mut PgConnection,
        attaches: &[Attach],
    ) -> Result<()> {
        if attaches.is_empty() {
            return Ok(());
        }
        let what = |error| classify("attach", error);
        let joins: Vec<_> = attaches.iter().map(|attach| attach.join.as_uuid()).collect();
        let messages: Vec<_> = attaches.iter().map(|attach| attach.message.as_uuid()).collect();
        let fresh: Vec<_> = attaches.iter().map(|attach| attach.fresh).collect();
        let query = self.query(&self.sql.join_look).bind(joins).bind(messages).bind(fresh);
        let rows = query.fetch_all(&mut *conn).await.map_err(what)?;
        let in_inbox = self.names.queue() == Queue::Inbox;
        let sights: sqlx::Result<Vec<_>> = rows.iter().map(|row| sight(row, in_inbox)).collect();
        let members = admit_members(attaches, &sights.map_err(what)?)?;
        match members.is_empty() {
            true => Ok(()),
            false => self.add_members(conn, in_inbox, &members).await,
        }
    }

    async fn add_members(
        &self,
        conn: &mut PgConnection,
        in_inbox: bool,
        members: &[NewMember],
    ) -> Result<()> {
        let joins: Vec<_> = members.iter().map(|member| member.join.as_uuid()).collect();
        let messages: Vec<_> = members.iter().map(|member| member.message.as_uuid()).collect();
        let outcomes: Vec<_> =
            members.iter().map(|member| member.outcome.map(MemberOutcome::code)).collect();
        let query = self.query(&self.sql.join_add).bind(self.now()).bind(in_inbox);
        let query = query.bind(joins).bind(messages).bind(outcomes);
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
            .bind(list.before.map(JoinId::as_uuid))
            .bind(integer(list.limit.min(MAX_PAGE)));
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
            .bind(integer(limit.min(MAX_PAGE)));
        let rows = self.engine_rows("members", query).await?;
        let members: sqlx::Result<_> = rows.iter().map(member).collect();
        members.map_err(|error| classify("members", error))
    }

    pub(super) async fn end_join(&self, id: JoinId) -> Result<bool> {
        let query = self.query(&self.sql.join_cancel).bind(self.now()).bind(id.as_uuid());
        Ok(!self.engine_rows("cancel join", query).await?.is_empty())
    }

    /// Members first, because a join may have a million.
    pub(super) async fn purge_old_joins(&self, purge: &Purge, purged: &mut Purged) -> Result<()> {
        let Some(age) = purge.done.map(micros) else { return Ok(()) };
        for (statement, column) in
            [(&self.sql.purge_members, "members"), (&self.sql.purge_joins, "joins")]
        {
            let query = self.query(statement).bind(self.now()).bind(age);
            let rows = self.engine_rows("purge", query.bind(integer(purge.limit))).await?;
            let (deleted, more) = counted(&rows, column)?;
            purged.more |= more;
            purged.joins = deleted;
        }
        Ok(())
    }
}

fn sight(row: &PgRow, in_inbox: bool) -> sqlx::Result<Sight> {
    let join = match row.try_get("state")? {
        Some(state) => Some((state, counter(row, "expected")?, counter(row, "attached")?)),
        None => None,
    };
    let (member, standing) = (row.try_get("member_in_inbox")?, row.try_get("standing")?);
    Ok(Sight::of_codes(join, member, standing, in_inbox))
}

fn join_record(row: &PgRow) -> sqlx::Result<JoinRecord> {
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

fn member(row: &PgRow) -> sqlx::Result<JoinMember> {
    let outcome: Option<i16> = row.try_get("outcome")?;
    Ok(JoinMember {
        message: MessageId::from(row.try_get::<Uuid, _>("message_id")?),
        outcome: outcome.and_then(MemberOutcome::from_code),
    })
}

type PgQuery = sqlx::query::Query<'static, sqlx::Postgres, sqlx::postgres::PgArguments>;

/// The follow-ups of a join as parameters of `join_start.sql`.
struct FollowUps<'a>(Vec<(JoinState, &'a Message)>);

impl<'a> FollowUps<'a> {
    fn of(join: &'a Join) -> Self {
        let success = join.success().map(|message| (JoinState::Succeeded, message));
        let failure = join.failure().map(|message| (JoinState::Failed, message));
        Self(success.into_iter().chain(failure).collect())
    }

    fn column<T>(&self, of: impl Fn(&'a Message) -> T) -> Vec<T> {
        self.0.iter().map(|(_, message)| of(message)).collect()
    }

    /// In the order of the parameters, after those of the join itself.
    fn bind(&self, query: PgQuery) -> PgQuery {
        let states: Vec<_> = self.0.iter().map(|(state, _)| state.code()).collect();
        query
            .bind(states)
            .bind(self.column(|message| message.id().as_uuid()))
            .bind(self.column(|message| message.topic().as_str()))
            .bind(self.column(|message| message.payload().as_ref()))
            .bind(self.column(|message| {
                Some(message.content_type()).filter(|it| *it != Message::DEFAULT_CONTENT_TYPE)
            }))
            .bind(self.column(|message| message.headers().to_json()))
            .bind(self.column(|message| message.aggregate_type().map(AsRef::<str>::as_ref)))
            .bind(self.column(|message| message.aggregate_id().map(AsRef::<str>::as_ref)))
            .bind(self.column(|message| message.ordering_key().map(AsRef::<str>::as_ref)))
            .bind(self.column(|message| message.tenant_id().map(AsRef::<str>::as_ref)))
            .bind(self.column(|message| message.correlation_id().map(AsRef::<str>::as_ref)))
            .bind(self.column(|message| message.causation_id().map(AsRef::<str>::as_ref)))
            .bind(self.column(Message::priority))
            .bind(self.column(|message| message.lane().map(|lane| lane.slot)))
            .bind(self.column(|message| message.lane().map(|lane| lane.key_hash)))
            .bind(self.column(Message::tenant_hash))
            .bind(self.column(Message::topic_hash))
    }
}
