//! What the in-memory store remembers, and how messages come in.

use postroom_core::lifecycle::DeadReason;
use postroom_core::store::tenants::{Rotation, tenant_of};
use postroom_core::store::{Appended, Attempt, AuditRecord, Birth, Entry, PauseRecord, id_taken};
use postroom_core::{
    JoinId, Lane, LeaseToken, Message, MessageId, OwnerToken, Result, Timestamp, WorkId,
};
use std::collections::{BTreeMap, HashMap, HashSet};

use super::Bug;
use super::join::{Counted, Group};
use super::watch::Known;

/// Everything: both boxes, and what the application keeps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Database {
    pub(crate) outbox: State,
    pub(crate) inbox: State,
    pub(crate) joins: BTreeMap<JoinId, Group>,
    /// Oldest first.
    pub(crate) audit: Vec<AuditRecord>,
    /// Rows of the application, for tests of atomicity.
    pub(crate) business: Vec<i64>,
}

/// Which of the boxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Outbox,
    Inbox,
}

impl Database {
    pub(crate) fn side(&mut self, side: Side) -> &mut State {
        match side {
            Side::Outbox => &mut self.outbox,
            Side::Inbox => &mut self.inbox,
        }
    }

    /// Takes back what was written since the mark, the last first.
    pub(crate) fn undo(&mut self, log: &mut Vec<Undo>, mark: usize) {
        for write in log.drain(mark..).rev() {
            match write {
                Undo::Write(side, write) => self.side(side).take_back(write),
                Undo::Business => drop(self.business.pop()),
                Undo::Everything(before) => *self = *before,
            }
        }
    }
}

/// All tables of one box.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub(crate) last_seq: i64,
    pub(crate) messages: BTreeMap<i64, Stored>,
    pub(crate) by_id: HashMap<MessageId, i64>,
    /// What can run now or is running.
    pub(crate) queue: BTreeMap<i64, Row>,
    /// What waits for its time.
    pub(crate) parked: BTreeMap<i64, Row>,
    pub(crate) settled: BTreeMap<i64, SettledRow>,
    pub(crate) attempts: HashMap<MessageId, Vec<Attempt>>,
    pub(crate) keys: HashMap<[u8; 32], Key>,
    pub(crate) undecodable: HashSet<i64>,
    /// Who may claim the ordered rows of which slot, and until when.
    pub(crate) slots: BTreeMap<i16, (OwnerToken, Timestamp)>,
    /// Until when who counts as alive.
    pub(crate) nodes: HashMap<OwnerToken, Timestamp>,
    /// What dispatchers said of themselves.
    pub(crate) dispatchers: HashMap<OwnerToken, Known>,
    /// Dead rows that stop their keys.
    pub(crate) halted: BTreeMap<i64, Lane>,
    /// By topic; none is the whole queue.
    pub(crate) pauses: BTreeMap<Option<String>, PauseRecord>,
    /// Where the last claim of ordered rows stopped, and whether the next claim begins with them.
    pub(crate) cursor: Option<Lane>,
    pub(crate) ordered_first: bool,
    /// The tenant behind which the next claim begins.
    pub(crate) rotation: Rotation,
    /// What happened to messages and is still to be counted by joins.
    pub(crate) counted: Vec<Counted>,
    pub(crate) bug: Option<Bug>,
}

#[derive(Clone, Debug)]
pub(crate) struct Stored {
    pub(crate) message: Message,
    pub(crate) created_at: Timestamp,
}

#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) attempts: u32,
    pub(crate) lost: u32,
    pub(crate) held: Option<Held>,
    /// When it may be tried: of a parked row, or of an ordered one that waits in the queue.
    pub(crate) wake_at: Option<Timestamp>,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) priority: i16,
    pub(crate) topic_hash: i64,
    /// See [`tenants`](postroom_core::store::tenants).
    pub(crate) tenant: i64,
    pub(crate) lane: Option<Lane>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) owner: OwnerToken,
    pub(crate) token: LeaseToken,
    pub(crate) until: Timestamp,
}

#[derive(Clone, Debug)]
pub(crate) struct SettledRow {
    pub(crate) reason: Option<DeadReason>,
    pub(crate) at: Timestamp,
    pub(crate) by: Option<OwnerToken>,
    pub(crate) attempts: u32,
    pub(crate) lost: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Key {
    pub(crate) message: MessageId,
    pub(crate) created_at: Timestamp,
    /// Set when the message was deleted at its acknowledgement.
    pub(crate) gone_at: Option<Timestamp>,
    /// What its message says, if it is known.
    pub(crate) content: Option<[u8; 32]>,
}

/// How to take back what a transaction did.
#[derive(Debug)]
pub(crate) enum Undo {
    Write(Side, Write),
    Business,
    /// All that was there before.
    Everything(Box<Database>),
}

/// A new row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Write {
    Message(i64),
    Key([u8; 32]),
}

impl Row {
    pub(crate) fn is_ready(&self, now: Timestamp) -> bool {
        self.held.is_none() && self.wake_at.is_none_or(|at| at <= now)
    }

    pub(crate) fn lease_ran_out(&self, now: Timestamp) -> bool {
        self.held.is_some_and(|held| held.until <= now)
    }

    /// Whether a lease of it ran out, now or before.
    pub(crate) fn is_suspect(&self) -> bool {
        self.lost > 0 || self.held.is_some()
    }

    pub(crate) fn has_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }
}

impl State {
    pub(crate) fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    /// Adds what it wrote to `written`; after an error that is nothing.
    pub(crate) fn append(
        &mut self,
        entries: &[Entry],
        now: Timestamp,
        written: &mut Vec<Write>,
    ) -> Result<Vec<Appended>> {
        let mut answers = Vec::with_capacity(entries.len());
        for entry in entries {
            match self.append_one(entry, now, written) {
                Ok(appended) => answers.push(appended),
                Err(error) => {
                    written.drain(..).rev().for_each(|write| self.take_back(write));
                    return Err(error);
                }
            }
        }
        Ok(answers)
    }

    /// Takes note of a key without a message.
    pub(crate) fn admit(&mut self, key: [u8; 32], now: Timestamp) -> Option<Write> {
        if self.keys.contains_key(&key) {
            return None;
        }
        let (message, gone_at) = (MessageId::new(), Some(now));
        self.keys.insert(key, Key { message, created_at: now, gone_at, content: None });
        Some(Write::Key(key))
    }

    fn append_one(
        &mut self,
        entry: &Entry,
        now: Timestamp,
        written: &mut Vec<Write>,
    ) -> Result<Appended> {
        let message = &entry.message;
        let (id, content) = (message.id(), message.content_hash());
        let key = message.unique_key().filter(|_| !self.has(Bug::KeysIgnored));
        let first = key.and_then(|key| self.keys.get(&key)).copied();
        if let Some(first) = first.filter(|first| first.message != id) {
            let same_content = first.content.is_none_or(|said| said == content);
            return Ok(Appended::Existed { id: first.message, same_content });
        }
        let stored = self.by_id.get(&id).map(|seq| &self.messages[seq].message);
        if stored.is_some_and(|stored| stored.content_hash() != content) {
            return Err(id_taken(id));
        }
        if stored.is_some() || first.is_some() {
            return Ok(Appended::Existed { id, same_content: true });
        }
        if let Some(key) = key {
            let content = Some(content);
            self.keys.insert(key, Key { message: id, created_at: now, gone_at: None, content });
            written.push(Write::Key(key));
        }
        Ok(self.insert(entry, now, written))
    }

    fn insert(&mut self, entry: &Entry, now: Timestamp, written: &mut Vec<Write>) -> Appended {
        let message = &entry.message;
        self.last_seq += 1;
        let seq = self.last_seq;
        written.push(Write::Message(seq));
        let due = message.due().map(|due| due.resolve(now)).filter(|due| *due > now);
        let lane = message.lane();
        let held = match entry.birth {
            Birth::Leased { owner, token, lease }
                if due.is_none()
                    && lane.is_none()
                    && !self.paused().covers(message.topic_hash()) =>
            {
                Some(Held { owner, token, until: now.saturating_add(lease) })
            }
            _ => None,
        };
        let row = Row {
            attempts: 0,
            lost: 0,
            held: held.filter(|_| !self.has(Bug::BornReady)),
            wake_at: due,
            expires_at: message.expires().map(|at| at.resolve(now)),
            priority: message.priority(),
            topic_hash: message.topic_hash(),
            tenant: tenant_of(message.tenant_hash()),
            lane,
        };
        if due.is_some() {
            self.parked.insert(seq, row)
        } else {
            self.queue.insert(seq, row)
        };
        self.by_id.insert(message.id(), seq);
        self.messages.insert(seq, Stored { message: message.as_written(now), created_at: now });
        Appended::New { work: WorkId::new(seq), leased: held.is_some() }
    }

    fn take_back(&mut self, write: Write) {
        match write {
            Write::Key(key) => drop(self.keys.remove(&key)),
            Write::Message(seq) => {
                self.queue.remove(&seq);
                self.parked.remove(&seq);
                if let Some(stored) = self.messages.remove(&seq) {
                    self.by_id.remove(&stored.message.id());
                }
            }
        }
    }
}
