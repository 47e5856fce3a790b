//! What people look at in the in-memory store.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use postroom_core::lifecycle::DeadReason;
use postroom_core::store::{
    AuditEntry, AuditRecord, Block, BlockedKey, Failing, Heartbeat, Node, TopicStats,
};
use postroom_core::{Lane, Timestamp};

use super::state::{Database, State};

/// For so long a dispatcher that fell silent is remembered.
const REMEMBERED: Duration = Duration::from_hours(24);

/// The most entries of the audit log at once.
const MAX_PAGE: u32 = 500;

/// What a dispatcher said of itself.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    last: Heartbeat,
    started_at: Timestamp,
    seen_at: Timestamp,
}

impl Database {
    pub(super) fn write_audit(&mut self, entry: &AuditEntry, at: Timestamp) {
        let number = self.audit.last().map_or(1, |last| last.number + 1);
        self.audit.push(AuditRecord { number, at, entry: entry.cut() });
    }

    pub(super) fn audit_log(&self, before: Option<i64>, limit: u32) -> Vec<AuditRecord> {
        let older = |record: &&AuditRecord| before.is_none_or(|before| record.number < before);
        let newest_first = self.audit.iter().rev().filter(older);
        newest_first.take(limit.min(MAX_PAGE) as usize).cloned().collect()
    }
}

impl State {
    pub(super) fn report(&mut self, heartbeat: &Heartbeat, now: Timestamp) {
        let recent = now.saturating_sub(REMEMBERED);
        let owner = heartbeat.owner;
        self.dispatchers.retain(|other, known| *other == owner || known.seen_at >= recent);
        let before = self.dispatchers.get(&owner).map(|known| known.started_at);
        let started_at = before.unwrap_or_else(|| now.saturating_sub(heartbeat.running_for));
        let known = Known { last: heartbeat.cut(), started_at, seen_at: now };
        self.dispatchers.insert(owner, known);
    }

    pub(super) fn known_nodes(&self, now: Timestamp) -> Vec<Node> {
        let held = self.queue.values().filter_map(|row| row.held).filter(|held| held.until > now);
        let holders: Vec<_> = held.map(|held| held.owner).collect();
        let node = |known: &Known| {
            let Known { last, started_at, seen_at } = known;
            let owns = |(owner, until): &&(_, Timestamp)| *owner == last.owner && *until > now;
            Node {
                owner: last.owner,
                name: last.name.clone(),
                version: last.version.clone(),
                started_at: *started_at,
                seen_at: *seen_at,
                is_live: seen_at.saturating_add(last.valid_for) > now,
                draining: last.draining,
                leases: holders.iter().filter(|owner| **owner == last.owner).count() as u64,
                slots: u32::try_from(self.slots.values().filter(owns).count()).unwrap_or_default(),
            }
        };
        let recent = now.saturating_sub(REMEMBERED);
        let known = self.dispatchers.values().filter(|known| known.seen_at >= recent);
        let mut nodes: Vec<_> = known.map(node).collect();
        nodes.sort_by_key(|node| (!node.is_live, node.started_at, node.owner));
        nodes
    }

    pub(super) fn topic_stats(&self, limit: u32) -> Vec<TopicStats> {
        let mut topics = BTreeMap::<String, TopicStats>::new();
        let mut of = |seq: &i64, count: fn(&mut TopicStats)| {
            let topic = self.messages[seq].message.topic().to_string();
            let fresh = TopicStats { topic: topic.clone(), live: 0, failed: 0, dead: 0 };
            count(topics.entry(topic).or_insert(fresh));
        };
        for (seq, row) in self.queue.iter().chain(&self.parked) {
            of(seq, |topic| topic.live += 1);
            if row.held.is_none() && row.attempts > 0 {
                of(seq, |topic| topic.failed += 1);
            }
        }
        for (seq, _) in self.settled.iter().filter(|(_, row)| is_letter(row.reason)) {
            of(seq, |topic| topic.dead += 1);
        }
        let mut topics: Vec<_> = topics.into_values().collect();
        topics.sort_by_key(|topic| Reverse(topic.live + topic.dead));
        topics.truncate(limit as usize);
        topics
    }

    pub(super) fn failing(&self, limit: u32) -> Vec<Failing> {
        let limit = limit as usize;
        let letters = self.settled.iter().filter(|(_, row)| is_letter(row.reason));
        let mut dead: Vec<_> = letters.map(|(seq, row)| (row.at, *seq)).collect();
        dead.sort_unstable_by_key(|dead| Reverse(*dead));
        let live = self.queue.iter().chain(&self.parked);
        let waits = live.filter(|(_, row)| row.held.is_none() && row.attempts > 0);
        let mut waiting: Vec<_> = waits.map(|(seq, _)| *seq).collect();
        waiting.sort_unstable_by_key(|seq| Reverse(*seq));
        let newest_dead = dead.iter().take(limit).map(|(_, seq)| *seq);
        let newest = newest_dead.chain(waiting.into_iter().take(limit));
        let mut failing: Vec<_> = newest.map(|seq| self.failing_one(seq)).collect();
        failing.sort_by_key(|failing| Reverse((failing.at, failing.id)));
        failing
    }

    fn failing_one(&self, seq: i64) -> Failing {
        let stored = &self.messages[&seq];
        let id = stored.message.id();
        let last = self.attempts.get(&id).and_then(|attempts| attempts.last());
        let settled = self.settled.get(&seq);
        let row = self.queue.get(&seq).or_else(|| self.parked.get(&seq));
        let attempts = settled.map(|row| row.attempts).or(row.map(|row| row.attempts));
        let at = settled.map(|row| row.at).or(last.map(|last| last.at));
        Failing {
            id,
            topic: stored.message.topic().to_string(),
            reason: settled.and_then(|row| row.reason),
            attempts: attempts.unwrap_or_default(),
            error: last.and_then(|last| last.error.clone()),
            at: at.unwrap_or(stored.created_at),
        }
    }

    pub(super) fn blocked_keys(&self, limit: u32, now: Timestamp) -> Vec<BlockedKey> {
        let mut seen = HashSet::new();
        // In the order of their places, so that the first of a key counts.
        let halted = self.halted.iter().map(|(seq, lane)| (*seq, *lane, Some(Block::Halted)));
        let waiting = self.queue.iter().filter_map(|(seq, row)| {
            let until = row.wake_at.filter(|until| row.held.is_none() && *until > now);
            Some((*seq, row.lane?, until.map(|until| Block::Retry { until })))
        });
        let firsts = halted.chain(waiting).filter(|(_, lane, _)| seen.insert(*lane));
        let blocked = firsts.filter_map(|(seq, lane, block)| self.blocked_key(seq, lane, block?));
        blocked.take(limit as usize).collect()
    }

    fn blocked_key(&self, seq: i64, lane: Lane, block: Block) -> Option<BlockedKey> {
        let message = &self.messages.get(&seq)?.message;
        let behind =
            self.queue.iter().filter(|(other, row)| **other != seq && row.lane == Some(lane));
        Some(BlockedKey {
            ordering_key: message.ordering_key().map(ToString::to_string),
            tenant_id: message.tenant_id().map(ToString::to_string),
            by: message.id(),
            topic: message.topic().to_string(),
            block,
            behind: u32::try_from(behind.count()).unwrap_or(u32::MAX).min(BlockedKey::MOST_BEHIND),
        })
    }
}

/// A dead letter that nobody has discarded.
fn is_letter(reason: Option<DeadReason>) -> bool {
    reason.is_some_and(|reason| reason != DeadReason::Discarded)
}
