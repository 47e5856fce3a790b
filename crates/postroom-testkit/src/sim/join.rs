//! Joins in the in-memory store.
//!
//! A box takes note of what is settled and of what is replayed; after each change of a box the
//! database counts that, before anybody else can look.

use std::collections::BTreeMap;

use postroom_core::store::{
    Attach, Birth, Entry, JoinMember, JoinRecord, JoinState, ListJoins, MemberOutcome, Sight,
    Standing, admit_members, join_id_taken,
};
use postroom_core::{Join, JoinId, Message, MessageId, Result, Timestamp};

use super::state::{Database, Side, State};

/// The most rows of a page.
const MAX_PAGE: u32 = 500;

#[derive(Clone, Debug)]
pub(crate) struct Group {
    join: Join,
    record: JoinRecord,
    members: BTreeMap<MessageId, Member>,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    side: Side,
    outcome: Option<MemberOutcome>,
}

/// What happened to a message that may be a member.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    pub(crate) message: MessageId,
    /// None when it is live again.
    pub(crate) outcome: Option<MemberOutcome>,
    pub(crate) at: Timestamp,
}

impl Group {
    fn is_open(&self) -> bool {
        self.record.state == JoinState::Open
    }

    /// Ends it if all members are settled; answers with what is to be published.
    fn end(&mut self, now: Timestamp) -> Option<Message> {
        let JoinRecord { expected, done, dead, .. } = self.record;
        self.record.state = JoinState::of_counts(expected, done, dead);
        let follow_up = match self.record.state {
            JoinState::Succeeded => self.join.success(),
            JoinState::Failed => self.join.failure(),
            JoinState::Open | JoinState::Cancelled => return None,
        };
        self.record.ended_at = Some(now);
        self.record.follow_up = follow_up.map(Message::id);
        follow_up.cloned()
    }

    fn count(&mut self, outcome: Option<MemberOutcome>) {
        match outcome {
            Some(MemberOutcome::Done) => self.record.done += 1,
            Some(MemberOutcome::Dead) => self.record.dead += 1,
            None => {}
        }
    }
}

impl State {
    /// Takes note of an end, or of a new beginning.
    pub(super) fn note_end(&mut self, seq: i64, outcome: Option<MemberOutcome>, at: Timestamp) {
        if let Some(stored) = self.messages.get(&seq) {
            let message = stored.message.id();
            self.counted.push(Counted { message, outcome, at });
        }
    }

    fn standing(&self, id: MessageId) -> Standing {
        let Some(seq) = self.by_id.get(&id) else { return Standing::Gone };
        match self.settled.get(seq) {
            None => Standing::Live,
            Some(row) if row.reason.is_none() => Standing::Settled(MemberOutcome::Done),
            Some(_) => Standing::Settled(MemberOutcome::Dead),
        }
    }
}

impl Database {
    pub(super) fn start_join(&mut self, join: &Join, now: Timestamp) -> Result<bool> {
        if let Some(first) = self.joins.get(&join.id()) {
            return match first.join.content_hash() == join.content_hash() {
                true => Ok(false),
                false => Err(join_id_taken(join.id())),
            };
        }
        let record = JoinRecord {
            id: join.id(),
            state: JoinState::Open,
            expected: join.expected(),
            attached: 0,
            done: 0,
            dead: 0,
            created_at: now,
            ended_at: None,
            follow_up: None,
        };
        let group = Group { join: join.clone(), record, members: BTreeMap::new() };
        self.joins.insert(join.id(), group);
        Ok(true)
    }

    pub(super) fn attach(&mut self, side: Side, attaches: &[Attach], now: Timestamp) -> Result<()> {
        let sights: Vec<_> = attaches.iter().map(|attach| self.sight(side, attach)).collect();
        for member in admit_members(attaches, &sights)? {
            let Some(group) = self.joins.get_mut(&member.join) else { continue };
            group.members.insert(member.message, Member { side, outcome: member.outcome });
            group.record.attached += 1;
            group.count(member.outcome);
            let follow_up = group.end(now);
            self.publish(follow_up, now);
        }
        Ok(())
    }

    fn sight(&mut self, side: Side, attach: &Attach) -> Sight {
        let group = self.joins.get(&attach.join);
        let join = group.map(|group| {
            let JoinRecord { state, expected, attached, .. } = group.record;
            (state, expected, attached)
        });
        let member = group.and_then(|group| group.members.get(&attach.message));
        let member = member.map(|member| member.side == side);
        Sight { join, member, message: self.side(side).standing(attach.message) }
    }

    /// Counts what a box took note of; answers whether a follow-up was published.
    pub(super) fn count_joins(&mut self, side: Side) -> bool {
        let mut published = false;
        for counted in std::mem::take(&mut self.side(side).counted) {
            for follow_up in self.count_one(side, counted) {
                published |= self.publish(Some(follow_up), counted.at);
            }
        }
        published
    }

    fn count_one(&mut self, side: Side, counted: Counted) -> Vec<Message> {
        let mut follow_ups = Vec::new();
        for group in self.joins.values_mut().filter(|group| group.is_open()) {
            let Some(member) = group.members.get_mut(&counted.message) else { continue };
            let was = member.outcome;
            if member.side != side || was.is_some() == counted.outcome.is_some() {
                continue;
            }
            member.outcome = counted.outcome;
            if was == Some(MemberOutcome::Dead) && counted.outcome.is_none() {
                group.record.dead -= 1;
            }
            group.count(counted.outcome);
            follow_ups.extend(group.end(counted.at));
        }
        follow_ups
    }

    fn publish(&mut self, follow_up: Option<Message>, now: Timestamp) -> bool {
        let Some(message) = follow_up else { return false };
        // Whoever used its id for a message has published that.
        if self.outbox.by_id.contains_key(&message.id()) {
            return false;
        }
        let entry = Entry { message, birth: Birth::Ready };
        self.outbox.append(&[entry], now, &mut Vec::new()).is_ok()
    }

    pub(super) fn join_records(&self, list: &ListJoins) -> Vec<JoinRecord> {
        let newest_first = self.joins.values().rev().map(|group| &group.record);
        newest_first
            .filter(|record| list.state.is_none_or(|state| record.state == state))
            .filter(|record| list.before.is_none_or(|before| record.id < before))
            .take(list.limit.min(MAX_PAGE) as usize)
            .cloned()
            .collect()
    }

    pub(super) fn join_record(&self, id: JoinId) -> Option<JoinRecord> {
        self.joins.get(&id).map(|group| group.record.clone())
    }

    pub(super) fn join_members(
        &self,
        id: JoinId,
        after: Option<MessageId>,
        limit: u32,
    ) -> Vec<JoinMember> {
        let Some(group) = self.joins.get(&id) else { return Vec::new() };
        let members = group.members.iter().filter(|(id, _)| after.is_none_or(|it| **id > it));
        members
            .take(limit.min(MAX_PAGE) as usize)
            .map(|(message, member)| JoinMember { message: *message, outcome: member.outcome })
            .collect()
    }

    pub(super) fn cancel_join(&mut self, id: JoinId, now: Timestamp) -> bool {
        let Some(group) = self.joins.get_mut(&id).filter(|group| group.is_open()) else {
            return false;
        };
        group.record.state = JoinState::Cancelled;
        group.record.ended_at = Some(now);
        true
    }

    /// Deletes members of joins that ended before, then joins without any; how many of each.
    pub(super) fn purge_joins(&mut self, horizon: Timestamp, limit: u32) -> (u32, u32) {
        let mut ripe: Vec<_> = self
            .joins
            .iter()
            .filter_map(|(id, group)| Some((group.record.ended_at?, *id)))
            .filter(|(ended_at, _)| *ended_at <= horizon)
            .collect();
        ripe.sort_unstable();
        let (mut members, mut joins) = (0, 0);
        for (_, id) in ripe {
            let Some(group) = self.joins.get_mut(&id) else { continue };
            while members < limit && group.members.pop_first().is_some() {
                members += 1;
            }
            if joins < limit && group.members.is_empty() {
                self.joins.remove(&id);
                joins += 1;
            }
        }
        (members, joins)
    }
}
