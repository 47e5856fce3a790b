//! The people's half of the in-memory store.

use std::fmt::Display;

use postroom_core::lifecycle;
use postroom_core::store::{
    AdminStore, AuditEntry, AuditRecord, BlockedKey, BoxFuture, Changed, Detail, Failing,
    JoinMember, JoinRecord, List, ListJoins, Migrated, Node, Page, Pause, PauseRecord, Record,
    Stats, Store, TopicStats,
};
use postroom_core::{JoinId, Message, MessageId, Result, TenantId, Timestamp, Topic, WorkId};

use super::SimStore;
use super::state::{Row, State};

impl AdminStore for SimStore {
    fn list<'a>(&'a self, list: &'a List) -> BoxFuture<'a, Result<Page>> {
        Box::pin(async move {
            let state = self.state().await;
            let mut records: Vec<_> = state
                .messages
                .keys()
                .filter_map(|seq| Some((record(&state, *seq)?, &state.messages[seq].message)))
                .filter(|(record, stored)| matches(record, stored, list))
                .map(|(record, _)| record)
                .filter(|record| is_older(&state, record, list))
                .collect();
            match list.follows_queue() {
                true => records.sort_by_key(|record| std::cmp::Reverse(record.work.seq())),
                false => records.sort_by_key(|record| std::cmp::Reverse(record.id)),
            }
            records.truncate(list.limit as usize);
            for record in &mut records {
                record.message = record.message.as_ref().map(Message::without_payload);
            }
            let full = records.len() == list.limit as usize;
            let next = records.last().map(|record| list.place_of(record)).filter(|_| full);
            Ok(Page { records, next })
        })
    }

    fn get(&self, id: MessageId) -> BoxFuture<'_, Result<Option<Detail>>> {
        Box::pin(async move {
            let state = self.state().await;
            let record = state.by_id.get(&id).and_then(|seq| record(&state, *seq));
            let history = state.attempts.get(&id).cloned().unwrap_or_default();
            Ok(record.map(|record| Detail { record, history }))
        })
    }

    fn stats(&self) -> BoxFuture<'_, Result<Stats>> {
        Box::pin(async move {
            self.looked().await?;
            let state = self.state().await;
            Ok(stats(&state, self.now()))
        })
    }

    fn replay<'a>(&'a self, ids: &'a [MessageId]) -> BoxFuture<'a, Result<Changed>> {
        Box::pin(async move {
            let changed = self.change(|state| state.replay(ids, self.now())).await;
            self.wake();
            Ok(changed)
        })
    }

    fn discard<'a>(&'a self, ids: &'a [MessageId]) -> BoxFuture<'a, Result<Changed>> {
        Box::pin(async move {
            let changed = self.change(|state| state.discard(ids, self.now())).await;
            self.wake();
            Ok(changed)
        })
    }

    fn pause<'a>(&'a self, pause: &'a Pause) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move { Ok(self.state().await.pause(pause, self.now())) })
    }

    fn resume<'a>(&'a self, topic: Option<&'a Topic>) -> BoxFuture<'a, Result<bool>> {
        Box::pin(async move {
            let resumed = self.state().await.resume(topic);
            self.wake();
            Ok(resumed)
        })
    }

    fn pauses(&self) -> BoxFuture<'_, Result<Vec<PauseRecord>>> {
        Box::pin(async {
            self.looked().await?;
            Ok(self.state().await.pauses.values().cloned().collect())
        })
    }

    fn join(&self, id: JoinId) -> BoxFuture<'_, Result<Option<JoinRecord>>> {
        Box::pin(async move { Ok(self.database.lock().await.join_record(id)) })
    }

    fn joins<'a>(&'a self, list: &'a ListJoins) -> BoxFuture<'a, Result<Vec<JoinRecord>>> {
        Box::pin(async move { Ok(self.database.lock().await.join_records(list)) })
    }

    fn join_members(
        &self,
        id: JoinId,
        after: Option<MessageId>,
        limit: u32,
    ) -> BoxFuture<'_, Result<Vec<JoinMember>>> {
        Box::pin(async move { Ok(self.database.lock().await.join_members(id, after, limit)) })
    }

    fn cancel_join(&self, id: JoinId) -> BoxFuture<'_, Result<bool>> {
        Box::pin(async move { Ok(self.database.lock().await.cancel_join(id, self.now())) })
    }

    fn nodes(&self) -> BoxFuture<'_, Result<Vec<Node>>> {
        Box::pin(async {
            self.looked().await?;
            Ok(self.state().await.known_nodes(self.now()))
        })
    }

    fn topics(&self, limit: u32) -> BoxFuture<'_, Result<Vec<TopicStats>>> {
        Box::pin(async move {
            self.looked().await?;
            Ok(self.state().await.topic_stats(limit))
        })
    }

    fn failing(&self, limit: u32) -> BoxFuture<'_, Result<Vec<Failing>>> {
        Box::pin(async move {
            self.looked().await?;
            Ok(self.state().await.failing(limit))
        })
    }

    fn blocked_keys(&self, limit: u32) -> BoxFuture<'_, Result<Vec<BlockedKey>>> {
        Box::pin(async move {
            self.looked().await?;
            Ok(self.state().await.blocked_keys(limit, self.now()))
        })
    }

    fn write_audit<'a>(&'a self, entry: &'a AuditEntry) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            self.database.lock().await.write_audit(entry, self.now());
            Ok(())
        })
    }

    fn audit(&self, before: Option<i64>, limit: u32) -> BoxFuture<'_, Result<Vec<AuditRecord>>> {
        Box::pin(async move { Ok(self.database.lock().await.audit_log(before, limit)) })
    }

    fn migrate(&self) -> BoxFuture<'_, Result<Migrated>> {
        Box::pin(async { Ok(Migrated { from: 1, to: 1 }) })
    }

    fn check_schema(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }
}

impl State {
    pub(super) fn state_of(&self, id: MessageId) -> Option<lifecycle::State> {
        self.by_id.get(&id).and_then(|seq| record(self, *seq)).map(|record| record.state)
    }
}

fn record(state: &State, seq: i64) -> Option<Record> {
    let stored = state.messages.get(&seq)?;
    let settled = state.settled.get(&seq);
    let row = state.queue.get(&seq).or_else(|| state.parked.get(&seq));
    let held = row.and_then(|row| row.held);
    let id = stored.message.id();
    let counters = settled.map(|row| (row.attempts, row.lost));
    let (attempts, lost) = counters.or(row.map(|row| (row.attempts, row.lost)))?;
    let status = match settled {
        Some(row) if row.reason.is_none() => lifecycle::State::Done,
        Some(_) => lifecycle::State::Dead,
        None if held.is_some() => lifecycle::State::Leased,
        None => lifecycle::State::Ready,
    };
    let last = state.attempts.get(&id).and_then(|attempts| attempts.last());
    Some(Record {
        message: (!state.undecodable.contains(&seq)).then(|| stored.message.clone()),
        payload_bytes: stored.message.payload().len() as u64,
        id,
        work: WorkId::new(seq),
        topic: stored.message.topic().to_string(),
        tenant_id: stored.message.tenant_id().map(TenantId::to_string),
        state: status,
        reason: settled.and_then(|row| row.reason),
        created_at: stored.created_at,
        attempts,
        lost,
        next_attempt_at: row.and_then(|row| row.wake_at),
        locked_until: held.map(|held| held.until),
        owner: held.map(|held| held.owner),
        last_error: last
            .filter(|_| status != lifecycle::State::Done)
            .and_then(|attempt| attempt.error.clone()),
        processed_at: settled.map(|row| row.at),
        processed_by: settled.and_then(|row| row.by),
    })
}

fn matches(record: &Record, stored: &Message, list: &List) -> bool {
    fn is<T: PartialEq>(wanted: &Option<T>, have: Option<T>) -> bool {
        wanted.is_none() || *wanted == have
    }
    let text = |text: Option<&dyn Display>| text.map(ToString::to_string);
    list.status.is_none_or(|status| status.contains(record))
        && is(&list.topic, Some(record.topic.clone()))
        && list.topic_prefix.as_ref().is_none_or(|start| record.topic.starts_with(start))
        && is(&list.tenant, record.tenant_id.clone())
        && is(&list.aggregate_type, text(stored.aggregate_type().map(|t| t as _)))
        && is(&list.aggregate_id, text(stored.aggregate_id().map(|t| t as _)))
        && is(&list.ordering_key, text(stored.ordering_key().map(|t| t as _)))
        && list.since.is_none_or(|since| record.created_at >= since)
        && list.until.is_none_or(|until| record.created_at < until)
        && list.error.as_ref().is_none_or(|part| {
            record.last_error.as_ref().is_some_and(|error| error.contains(part.as_str()))
        })
        && list.min_attempts.is_none_or(|least| record.attempts >= least)
        && is(&list.reason, record.reason)
}

/// Whether it comes behind the place where the page before ended.
fn is_older(state: &State, record: &Record, list: &List) -> bool {
    let Some(before) = list.before else { return true };
    if !list.follows_queue() {
        return record.id < before.id;
    }
    match before.work {
        Some(work) => record.work.seq() < work.seq(),
        None => {
            // The message, or if it is gone the next older one.
            let known = state.by_id.iter().filter(|(id, _)| **id <= before.id);
            known.max_by_key(|(id, _)| **id).is_some_and(|(id, seq)| {
                record.work.seq() < *seq || (*id < before.id && record.work.seq() == *seq)
            })
        }
    }
}

fn stats(state: &State, now: Timestamp) -> Stats {
    let is_due = |row: &Row| row.wake_at.is_none_or(|at| at <= now);
    let mut stats = Stats::default();
    let mut oldest = None;
    for (seq, row) in state.queue.iter().chain(&state.parked) {
        if row.held.is_some() {
            stats.leased += 1;
            continue;
        }
        stats.failed += u64::from(row.attempts > 0);
        if is_due(row) {
            stats.ready += 1;
            let created = state.messages[seq].created_at;
            oldest = Some(oldest.map_or(created, |at: Timestamp| at.min(created)));
        } else {
            stats.waiting += 1;
        }
    }
    stats.dead = state.settled.values().filter(|row| row.reason.is_some()).count() as u64;
    stats.done = state.settled.len() as u64 - stats.dead;
    stats.oldest_ready = oldest.map(|at| now.since(at));
    stats
}
