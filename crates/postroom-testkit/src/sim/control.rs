//! Replay, discard and pause in the in-memory store.

use postroom_core::lifecycle::{self, DeadReason};
use postroom_core::store::tenants::tenant_of;
use postroom_core::store::{Changed, MemberOutcome, Pause, PauseRecord, Paused, Refusal};
use postroom_core::{MessageId, Timestamp, Topic};

use super::state::{Row, SettledRow, State};

impl State {
    pub(super) fn replay(&mut self, ids: &[MessageId], now: Timestamp) -> Changed {
        let changed = Changed::each(ids, |id| {
            let decodes = self.by_id.get(&id).is_some_and(|seq| !self.undecodable.contains(seq));
            Refusal::of_replay(self.state_of(id), decodes)
        });
        for id in &changed.applied {
            self.replay_one(self.by_id[id], now);
        }
        changed
    }

    fn replay_one(&mut self, seq: i64, now: Timestamp) {
        self.settled.remove(&seq);
        self.halted.remove(&seq);
        self.note_end(seq, None, now);
        let message = &self.messages[&seq].message;
        let wake_at = message.due().map(|due| due.resolve(now)).filter(|due| *due > now);
        let row = Row {
            attempts: 0,
            lost: 0,
            held: None,
            wake_at,
            expires_at: None,
            priority: message.priority(),
            topic_hash: message.topic_hash(),
            tenant: tenant_of(message.tenant_hash()),
            lane: message.lane(),
        };
        let place = if wake_at.is_some() { &mut self.parked } else { &mut self.queue };
        place.insert(seq, row);
    }

    pub(super) fn discard(&mut self, ids: &[MessageId], now: Timestamp) -> Changed {
        use lifecycle::State::{Dead, Ready};
        let changed = Changed::each(ids, |id| match self.state_of(id) {
            Some(Ready | Dead) => None,
            other => Some(Refusal::of_discard(other)),
        });
        for id in &changed.applied {
            self.discard_one(self.by_id[id], now);
        }
        changed
    }

    fn discard_one(&mut self, seq: i64, at: Timestamp) {
        self.halted.remove(&seq);
        let reason = Some(DeadReason::Discarded);
        if let Some(row) = self.take(seq) {
            let (attempts, lost) = (row.attempts, row.lost);
            self.settled.insert(seq, SettledRow { reason, at, by: None, attempts, lost });
            self.note_end(seq, Some(MemberOutcome::Dead), at);
        } else if let Some(dead) = self.settled.get_mut(&seq).filter(|row| row.reason != reason) {
            (dead.reason, dead.at) = (reason, at);
        }
    }

    pub(super) fn pause(&mut self, pause: &Pause, now: Timestamp) -> bool {
        let topic = pause.topic.as_ref().map(Topic::to_string);
        let is_new = !self.pauses.contains_key(&topic);
        let (by, reason) = (pause.by.clone(), pause.reason.clone());
        let record = PauseRecord { topic: topic.clone(), since: now, by, reason };
        self.pauses.entry(topic).or_insert(record);
        is_new
    }

    pub(super) fn resume(&mut self, topic: Option<&Topic>) -> bool {
        self.pauses.remove(&topic.map(Topic::to_string)).is_some()
    }

    pub(super) fn paused(&self) -> Paused {
        let hash = |topic: &String| Topic::new(topic.as_str()).expect("it was one").hash64();
        Paused::of(self.pauses.keys().map(|topic| topic.as_ref().map(hash)))
    }
}
