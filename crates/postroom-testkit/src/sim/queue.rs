//! Every rule of the queue, in plain Rust.
//!
//! This is the reference: the SQL stores are compared with it, operation by operation.

use std::time::Duration;

use postroom_core::lifecycle::{self, DeadReason, Settlement};
use postroom_core::store::{
    Attempt, Claim, Claimed, MemberOutcome, Paused, Purge, Purged, Reaped, Settled, WorkItem,
};
use postroom_core::{Lease, LeaseToken, OwnerToken, Timestamp, WorkId};

use super::Bug;
use super::state::{Held, Key, Row, SettledRow, State};

/// How a store was set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) keep_done: bool,
    pub(crate) halt: bool,
    pub(crate) fair_tenants: bool,
}

/// A claim at work.
pub(super) struct Taking<'a> {
    pub(super) claim: &'a Claim,
    paused: Paused,
    pub(super) rules: Rules,
    pub(super) now: Timestamp,
    pub(super) room: u32,
    pub(super) suspects: u32,
    token: LeaseToken,
    claimed: Claimed,
}

impl Taking<'_> {
    pub(super) fn excludes(&self, row: &Row) -> bool {
        self.claim.excluded_topics().contains(&row.topic_hash) || self.paused.covers(row.topic_hash)
    }

    pub(super) fn allow_suspect(&mut self) -> bool {
        let allowed = self.suspects > 0;
        self.suspects = self.suspects.saturating_sub(1);
        allowed
    }

    pub(super) fn note(&mut self, leased: Option<WorkItem>) {
        match leased {
            Some(item) => self.claimed.items.push(item),
            None => self.claimed.dead += 1,
        }
    }
}

impl State {
    pub(crate) fn claim(&mut self, claim: &Claim, rules: Rules, now: Timestamp) -> Claimed {
        let ahead = Duration::from_millis(1_500);
        let now = if self.has(Bug::EarlyTakeover) { now.saturating_add(ahead) } else { now };
        let reused = self.has(Bug::TokenReused).then(|| claim.owner().as_uuid().into());
        let mut taking = Taking {
            claim,
            paused: self.paused(),
            rules,
            now,
            room: claim.batch(),
            suspects: claim.max_suspects(),
            token: reused.unwrap_or_else(LeaseToken::random),
            claimed: Claimed::default(),
        };
        let ordered_first = claim.wants_ordered() && std::mem::take(&mut self.ordered_first);
        if taking.paused.all {
            return taking.claimed;
        }
        if ordered_first {
            self.claim_ordered(&mut taking);
            self.claim_unordered(&mut taking);
        } else {
            let ordered_work = claim.wants_ordered() && self.has_ordered_work(now);
            self.claim_unordered(&mut taking);
            if ordered_work && taking.room > 0 {
                self.claim_ordered(&mut taking);
            }
            self.ordered_first |= ordered_work;
        }
        taking.claimed
    }

    fn claim_unordered(&mut self, taking: &mut Taking<'_>) {
        if taking.rules.fair_tenants {
            return self.claim_in_turn(taking);
        }
        let until = taking.now.saturating_add(taking.claim.lease());
        for seq in self.eligible(taking) {
            if taking.room == 0 {
                return;
            }
            let suspect = self.queue.get(&seq).or_else(|| self.parked.get(&seq));
            if suspect.is_some_and(Row::is_suspect) && !taking.allow_suspect() {
                continue;
            }
            taking.room -= 1;
            let leased = self.lease(seq, until, taking);
            taking.note(leased);
        }
    }

    /// What may be claimed of the unordered rows, in claim order.
    pub(super) fn eligible(&self, taking: &Taking<'_>) -> Vec<i64> {
        let now = taking.now;
        let fits = |row: &Row| row.lane.is_none() && !taking.excludes(row);
        let ran_out = |row: &Row| row.lease_ran_out(now) && !self.has(Bug::NeverTakesOver);
        let queued =
            self.queue.iter().filter(|(_, row)| fits(row) && (row.is_ready(now) || ran_out(row)));
        let parked = self.parked.iter().filter(|(_, row)| fits(row) && row.is_ready(now));
        let mut all: Vec<_> = parked
            .map(|(seq, row)| (-row.priority, false, row.wake_at, *seq))
            .chain(queued.map(|(seq, row)| (-row.priority, true, None, *seq)))
            .collect();
        all.sort_unstable();
        all.into_iter().map(|(.., seq)| seq).collect()
    }

    pub(super) fn lease(
        &mut self,
        seq: i64,
        until: Timestamp,
        taking: &Taking<'_>,
    ) -> Option<WorkItem> {
        let &Taking { claim, rules, now, token, .. } = taking;
        let mut row = self.take(seq)?;
        let max = claim.attempts_limit();
        let lost = row.held.is_some() && self.lose_lease(seq, &mut row, max, now);
        row.wake_at = None;
        let reason = if row.has_expired(now) {
            Some(DeadReason::Expired)
        } else if lost {
            Some(DeadReason::LostLeases)
        } else {
            self.undecodable.contains(&seq).then_some(DeadReason::Undecodable)
        };
        if let Some(reason) = reason {
            self.bury(seq, &row, reason, Some(claim.owner()), rules, now);
            return None;
        }
        row.held = Some(Held { owner: claim.owner(), token, until });
        row.attempts += u32::from(self.has(Bug::ClaimCountsAttempt));
        let stored = &self.messages[&seq];
        let item = WorkItem {
            lease: Lease { work: WorkId::new(seq), token },
            message: stored.message.clone(),
            attempts: row.attempts,
            lost: row.lost,
            created_at: stored.created_at,
            claimed_at: now,
            locked_until: until,
        };
        self.queue.insert(seq, row);
        Some(item)
    }

    pub(super) fn take(&mut self, seq: i64) -> Option<Row> {
        self.queue.remove(&seq).or_else(|| self.parked.remove(&seq))
    }

    /// Counts a lease that ran out; answers whether that was once too often.
    fn lose_lease(&mut self, seq: i64, row: &mut Row, max: u32, now: Timestamp) -> bool {
        if self.has(Bug::LostNotCounted) {
            row.held = None;
            return false;
        }
        let after = lifecycle::after_lost_lease(row.attempts, row.lost, max);
        (row.attempts, row.lost) = (after.attempts, after.lost);
        let by = row.held.take().map(|held| held.owner);
        self.record(seq, Attempt { at: now, by, lease_lost: true, error: None });
        after.dead
    }

    fn record(&mut self, seq: i64, attempt: Attempt) {
        let id = self.messages[&seq].message.id();
        self.attempts.entry(id).or_default().push(attempt);
    }

    fn bury(
        &mut self,
        seq: i64,
        row: &Row,
        reason: DeadReason,
        by: Option<OwnerToken>,
        rules: Rules,
        at: Timestamp,
    ) {
        let (attempts, lost) = (row.attempts, row.lost);
        if let Some(lane) = row.lane.filter(|_| rules.halt && !self.has(Bug::HaltForgotten)) {
            self.halted.insert(seq, lane);
        }
        self.settled.insert(seq, SettledRow { reason: Some(reason), at, by, attempts, lost });
        self.note_end(seq, Some(MemberOutcome::Dead), at);
    }

    pub(crate) fn settle(
        &mut self,
        owner: OwnerToken,
        items: &[(Lease, Settlement)],
        rules: Rules,
        now: Timestamp,
    ) -> Settled {
        let mut settled = Settled::default();
        for (lease, settlement) in items {
            if *settlement == Settlement::Release && self.has(Bug::ReleaseIgnored) {
                settled.applied += 1;
            } else if self.holds(owner, *lease) {
                self.apply(owner, lease.work.seq(), settlement, rules, now);
                settled.applied += 1;
            } else {
                settled.lost.push(*lease);
            }
        }
        settled
    }

    fn holds(&self, owner: OwnerToken, lease: Lease) -> bool {
        let held = self.queue.get(&lease.work.seq()).and_then(|row| row.held);
        match self.bug {
            Some(Bug::NoFence) => held.is_some(),
            Some(Bug::FenceByOwner) => held.is_some_and(|held| held.owner == owner),
            _ => held.is_some_and(|held| held.owner == owner && held.token == lease.token),
        }
    }

    fn apply(
        &mut self,
        owner: OwnerToken,
        seq: i64,
        settlement: &Settlement,
        rules: Rules,
        now: Timestamp,
    ) {
        let Some(mut row) = self.queue.remove(&seq) else {
            return;
        };
        row.held = None;
        if *settlement == Settlement::Done {
            self.note_end(seq, Some(MemberOutcome::Done), now);
        }
        match settlement {
            Settlement::Done if rules.keep_done => {
                let (attempts, lost, by) = (row.attempts, row.lost, Some(owner));
                self.settled.insert(seq, SettledRow { reason: None, at: now, by, attempts, lost });
            }
            Settlement::Done => self.forget(seq, Some(now)),
            Settlement::Release => drop(self.queue.insert(seq, row)),
            Settlement::Retry { delay, counted, error } => {
                self.count_attempt(owner, seq, &mut row, *counted, error.as_ref(), now);
                row.wake_at = Some(now.saturating_add(*delay));
                let stays = row.lane.is_some() && !self.has(Bug::RetryLeavesQueue);
                let place = if stays { &mut self.queue } else { &mut self.parked };
                place.insert(seq, row);
            }
            Settlement::Dead { reason, counted, error } => {
                self.count_attempt(owner, seq, &mut row, *counted, error.as_ref(), now);
                self.bury(seq, &row, *reason, Some(owner), rules, now);
            }
        }
    }

    fn count_attempt(
        &mut self,
        owner: OwnerToken,
        seq: i64,
        row: &mut Row,
        counted: bool,
        error: Option<&String>,
        at: Timestamp,
    ) {
        if counted {
            row.attempts += 1;
            let error = error.cloned();
            self.record(seq, Attempt { at, by: Some(owner), lease_lost: false, error });
        }
    }

    /// Deletes a message. Its key stays, and its retention starts at `gone_at` if that is given.
    fn forget(&mut self, seq: i64, gone_at: Option<Timestamp>) {
        let Some(stored) = self.messages.remove(&seq) else {
            return;
        };
        let id = stored.message.id();
        self.by_id.remove(&id);
        self.attempts.remove(&id);
        self.settled.remove(&seq);
        self.halted.remove(&seq);
        let key = stored.message.unique_key();
        if let Some(key) = key.and_then(|key| self.keys.get_mut(&key)) {
            key.gone_at = gone_at.or(key.gone_at);
        }
    }

    pub(crate) fn renew(
        &mut self,
        owner: OwnerToken,
        leases: &[Lease],
        lease: Duration,
        now: Timestamp,
    ) -> Settled {
        let mut renewed = Settled::default();
        for item in leases {
            if self.renew_one(owner, *item, now, now.saturating_add(lease)) {
                renewed.applied += 1;
            } else {
                renewed.lost.push(*item);
            }
        }
        renewed
    }

    fn renew_one(
        &mut self,
        owner: OwnerToken,
        lease: Lease,
        now: Timestamp,
        until: Timestamp,
    ) -> bool {
        let renews_expired = self.has(Bug::RenewsExpired);
        let alive = |until: Timestamp| until > now || renews_expired;
        let Some(row) = self.queue.get_mut(&lease.work.seq()) else { return false };
        let Some(held) = &mut row.held else { return false };
        if held.owner != owner || held.token != lease.token || !alive(held.until) {
            return false;
        }
        if let Some(lane) = row.lane {
            let slot = self.slots.get_mut(&lane.slot);
            let Some(slot) = slot.filter(|slot| slot.0 == owner && alive(slot.1)) else {
                return false;
            };
            slot.1 = slot.1.max(until);
            // Who has left does not come back by finishing what it holds.
            if let Some(alive_until) = self.nodes.get_mut(&owner) {
                *alive_until = until.max(*alive_until);
            }
        }
        held.until = until;
        true
    }

    pub(crate) fn reap(
        &mut self,
        limit: u32,
        max_attempts: u32,
        rules: Rules,
        now: Timestamp,
    ) -> Reaped {
        let limit = limit as usize;
        let first = |rows: Vec<i64>| rows.into_iter().take(limit).collect::<Vec<_>>();
        let ran_out = first(self.unordered(|row| row.lease_ran_out(now)));
        let expired = first(self.unordered(|row| row.held.is_none() && row.has_expired(now)));
        let more = ran_out.len() == limit || expired.len() == limit;
        let mut reaped = Reaped { more, ..Reaped::default() };
        for seq in ran_out {
            let Some(mut row) = self.take(seq) else {
                continue;
            };
            if self.lose_lease(seq, &mut row, max_attempts, now) {
                self.bury(seq, &row, DeadReason::LostLeases, None, rules, now);
                reaped.dead += 1;
            } else {
                self.queue.insert(seq, row);
                reaped.released += 1;
            }
        }
        for seq in expired {
            let Some(row) = self.take(seq) else { continue };
            self.bury(seq, &row, DeadReason::Expired, None, rules, now);
            reaped.dead += 1;
        }
        reaped
    }

    fn unordered(&self, which: impl Fn(&Row) -> bool) -> Vec<i64> {
        let rows = self.queue.iter().chain(&self.parked);
        rows.filter(|(_, row)| row.lane.is_none() && which(row)).map(|(seq, _)| *seq).collect()
    }

    pub(crate) fn purge(&mut self, purge: &Purge, now: Timestamp) -> Purged {
        let old = |row: &SettledRow| {
            let is_over = matches!(row.reason, None | Some(DeadReason::Discarded));
            let age = if is_over { purge.done } else { purge.dead };
            age.is_some_and(|age| row.at <= now.saturating_sub(age))
        };
        let limit = purge.limit as usize;
        let ripe = self.settled.iter().filter(|(_, row)| old(row)).map(|(seq, _)| *seq);
        let ripe: Vec<_> = ripe.take(limit).collect();
        let mut purged = Purged { more: ripe.len() == limit, ..Purged::default() };
        for seq in ripe {
            let at = self.settled[&seq].at;
            self.forget(seq, Some(at));
            purged.messages += 1;
        }
        let keys = self.ripe_keys(purge, now);
        purged.more |= keys.len() == limit;
        for key in keys {
            self.keys.remove(&key);
            purged.keys += 1;
        }
        purged
    }

    /// Keys of done messages, or of messages that are gone, settled long enough ago.
    fn ripe_keys(&self, purge: &Purge, now: Timestamp) -> Vec<[u8; 32]> {
        let Some(age) = purge.keys else {
            return Vec::new();
        };
        let horizon = now.saturating_sub(age);
        let settled_at = |key: &Key| match self.by_id.get(&key.message) {
            None => Some(key.gone_at.unwrap_or(key.created_at)),
            Some(seq) => self.settled.get(seq).filter(|row| row.reason.is_none()).map(|row| row.at),
        };
        let ripe =
            self.keys.iter().filter(|(_, key)| settled_at(key).is_some_and(|at| at <= horizon));
        ripe.map(|(hash, _)| *hash).take(purge.limit as usize).collect()
    }
}
