//! Claims of ordered rows, by the rules of [`postroom_core::store::order`].

use std::time::Duration;

use postroom_core::store::order::{
    Slots, VISITS, Walk, fair_share, keys_wanted, renew_below, run_length,
};
use postroom_core::{Lane, OwnerToken, Timestamp};

use super::Bug;
use super::queue::Taking;
use super::state::{Row, State};

impl State {
    pub(super) fn has_ordered_work(&self, now: Timestamp) -> bool {
        self.queue.values().any(|row| row.lane.is_some())
            || self.parked.values().any(|row| row.lane.is_some() && row.is_ready(now))
    }

    pub(super) fn claim_ordered(&mut self, taking: &mut Taking<'_>) {
        if !self.has_ordered_work(taking.now) {
            return;
        }
        let slots = self.join(taking.claim.owner(), taking.claim.lease(), taking.now);
        // No row is leased for longer than its slot.
        let ends = slots.iter().map(|slot| self.slots[slot].1);
        let until = ends.fold(taking.now.saturating_add(taking.claim.lease()), Timestamp::min);
        let mut walk = Walk::behind(self.cursor);
        loop {
            self.unpark_ordered(taking.room as usize, taking.now);
            let last = self.stretch(walk.after(), &slots, until, taking);
            if !walk.go_on(last) || taking.room == 0 {
                break;
            }
        }
        self.cursor = walk.cursor(taking.room);
    }

    /// What came due takes its place, as ready: no more than a stretch has room for.
    fn unpark_ordered(&mut self, limit: usize, now: Timestamp) {
        let due = self.parked.iter().filter(|(_, row)| row.lane.is_some() && row.is_ready(now));
        let mut due: Vec<_> = due.map(|(seq, row)| (row.wake_at, *seq)).collect();
        due.sort_unstable();
        for (_, seq) in due.into_iter().take(limit) {
            if let Some(row) = self.parked.remove(&seq) {
                self.queue.insert(seq, Row { wake_at: None, ..row });
            }
        }
    }

    /// Gives an owner its fair share of the slots, and answers with those that it may use.
    fn join(&mut self, owner: OwnerToken, lease: Duration, now: Timestamp) -> Vec<i16> {
        let stale = now.saturating_add(renew_below(lease));
        let renewed = now.saturating_add(lease);
        let alive_until = self.nodes.entry(owner).or_insert(now);
        if *alive_until < stale {
            *alive_until = renewed;
        }
        let share = fair_share(self.nodes.values().filter(|until| **until > now).count());
        let is_mine =
            |(_, slot): &(&i16, &(OwnerToken, Timestamp))| slot.0 == owner && slot.1 > now;
        let mut mine: Vec<_> = self.slots.iter().filter(is_mine).map(|(slot, _)| *slot).collect();
        for slot in mine.split_off(share.min(mine.len())) {
            if !self.holds_in(owner, slot) {
                self.slots.remove(&slot);
            }
        }
        let is_free = |slot: &i16| self.slots.get(slot).is_none_or(|(_, until)| *until <= now);
        let free: Vec<_> = (0..Lane::SLOTS).filter(is_free).take(share - mine.len()).collect();
        for slot in &free {
            self.slots.insert(*slot, (owner, renewed));
        }
        for slot in &mine {
            let slot = self.slots.get_mut(slot).expect("it is mine");
            if slot.1 < stale {
                slot.1 = renewed;
            }
        }
        mine.extend(free);
        mine.sort_unstable();
        mine
    }

    fn holds_in(&self, owner: OwnerToken, slot: i16) -> bool {
        self.queue.values().any(|row| {
            row.lane.is_some_and(|lane| lane.slot == slot)
                && row.held.is_some_and(|held| held.owner == owner)
        })
    }

    pub(crate) fn leave(&mut self, owner: OwnerToken) {
        self.nodes.remove(&owner);
        self.dispatchers.remove(&owner);
        for slot in 0..Lane::SLOTS {
            let mine = self.slots.get(&slot).is_some_and(|(whose, _)| *whose == owner);
            if mine && !self.holds_in(owner, slot) {
                self.slots.remove(&slot);
            }
        }
    }

    /// Visits keys until enough are open, then takes their runs. Answers with the last key, or
    /// none when there is no further one.
    fn stretch(
        &mut self,
        after: Option<Lane>,
        slots: &[i16],
        until: Timestamp,
        taking: &mut Taking<'_>,
    ) -> Option<Lane> {
        let wanted = keys_wanted(taking.room);
        let (mut open, mut visits, mut last) = (Vec::new(), 0, None);
        let mut stretch = Slots::for_keys(wanted);
        for lane in self.keys(after, slots) {
            if open.len() as u32 == wanted || visits == VISITS || !stretch.admits(lane) {
                break;
            }
            visits += 1;
            last = Some(lane);
            if self.is_open(lane, taking) {
                open.push(lane);
            }
        }
        let is_end = (open.len() as u32) < wanted && visits < VISITS;
        let (claim, open_keys) = (taking.claim, open.len() as u32);
        let longest = run_length(taking.room, claim.most_held(), open_keys, claim.held_count());
        for lane in open {
            self.take_run(lane, longest, until, taking);
            if taking.room == 0 {
                return Some(lane);
            }
        }
        if is_end { stretch.end() } else { last }
    }

    fn keys(&self, after: Option<Lane>, slots: &[i16]) -> Vec<Lane> {
        let lanes = self.queue.values().filter_map(|row| row.lane);
        let mut keys: Vec<_> =
            lanes.filter(|lane| Some(*lane) > after && slots.contains(&lane.slot)).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    fn rows_of(&self, key: Lane) -> impl Iterator<Item = (i64, &Row)> {
        let all = self.queue.iter().filter(move |(_, row)| row.lane == Some(key));
        all.map(|(seq, row)| (*seq, row))
    }

    fn is_open(&self, key: Lane, taking: &mut Taking<'_>) -> bool {
        let now = taking.now;
        let is_held = match taking.claim.held_keys() {
            Some(keys) => keys.contains(&key.key_hash),
            None => self.rows_of(key).any(|(_, row)| row.held.is_some() && !row.lease_ran_out(now)),
        };
        if is_held || self.halted.values().any(|halted| *halted == key) {
            return false;
        }
        if self.has(Bug::HeadIgnored) {
            return self.rows_of(key).any(|(_, row)| row.is_ready(now));
        }
        let Some((_, head)) = self.rows_of(key).next() else { return false };
        if !(head.is_ready(now) || head.lease_ran_out(now)) || taking.excludes(head) {
            return false;
        }
        !head.is_suspect() || taking.allow_suspect()
    }

    fn take_run(&mut self, key: Lane, longest: u32, until: Timestamp, taking: &mut Taking<'_>) {
        let now = taking.now;
        let mut run = Vec::new();
        let passed = |row: &Row| self.has(Bug::HeadIgnored) && !row.is_ready(now);
        let rows = self.rows_of(key).filter(|(_, row)| !passed(row));
        for (place, (seq, row)) in rows.take(longest as usize).enumerate() {
            // The first one was looked at when the key was found open.
            let fine = row.is_ready(now) && !row.is_suspect() && !taking.excludes(row);
            if place > 0 && !fine {
                break;
            }
            run.push((seq, row.is_suspect()));
            if row.is_suspect() && !self.has(Bug::SuspectInRun) {
                break;
            }
        }
        for (seq, _) in run {
            if taking.room == 0 {
                return;
            }
            taking.room -= 1;
            let decodes = !self.undecodable.contains(&seq);
            let leased = self.lease(seq, until, taking);
            let died = leased.is_none();
            taking.note(leased);
            if died && (taking.rules.halt || !decodes) {
                return;
            }
        }
    }
}
