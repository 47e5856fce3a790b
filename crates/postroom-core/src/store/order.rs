//! Order: the arithmetic that every store shares.
//!
//! A message with an ordering key lies in one of [`SLOTS`](Lane::SLOTS) slots. Slots are leased to
//! owners, and only the owner of a slot claims what lies in it, so there is one claimer per key. An
//! owner joins when there is ordered work, takes free slots up to its [fair share](fair_share), and
//! gives back what it has beyond that once it holds nothing in it. An ordered item is never leased
//! for longer than any slot of its owner: when a slot changes hands, no lease of the owner before
//! is alive.
//!
//! A claim visits keys in turn, from where the one before stopped. From each open key it takes a
//! [run](run_length): its first items, to be handled one after the other. A key is closed while its
//! first item waits for a retry or is leased, while the owner holds another item of it (one that
//! committed late may have come in front), and while it is halted. A suspect is taken alone.

use std::time::Duration;

use crate::message::Lane;

/// The shortest run that a claim cuts a key off at.
pub const RUN: u32 = 4;

/// The most keys that one statement visits.
pub const VISITS: u32 = 1_000;

/// How many slots each of so many live owners may have.
#[must_use]
pub fn fair_share(owners: usize) -> usize {
    usize::from(Lane::SLOTS.unsigned_abs()).div_ceil(owners.max(1))
}

/// How many open keys a claim looks for when it has room for so many items.
#[must_use]
pub fn keys_wanted(room: u32) -> u32 {
    room.div_ceil(RUN)
}

/// The slots of one stretch: no more than there are keys wanted, and never many, because servers
/// lock them. Where it ends decides when what came due is moved, so all stores have the same end.
#[derive(Debug)]
pub struct Slots {
    most: usize,
    seen: Vec<i16>,
}

impl Slots {
    /// For a stretch that looks for so many open keys.
    #[must_use]
    pub fn for_keys(wanted: u32) -> Self {
        Self { most: wanted.min(64) as usize, seen: Vec::new() }
    }

    /// Whether a key, in the order of slots, still belongs to the stretch.
    pub fn admits(&mut self, key: Lane) -> bool {
        if self.seen.last() == Some(&key.slot) {
            return true;
        }
        let has_room = self.seen.len() < self.most;
        if has_room {
            self.seen.push(key.slot);
        }
        has_room
    }

    /// Where the next stretch begins when every key of this one was visited: behind its last slot,
    /// or nowhere when there were fewer slots than it could have had.
    #[must_use]
    pub fn end(&self) -> Option<Lane> {
        let last = self.seen.last().filter(|_| self.seen.len() == self.most)?;
        Some(Lane { slot: *last, key_hash: i64::MAX })
    }
}

/// How many items of each of `open` keys are taken at most: enough to fill the `room`, but no more
/// than its part of what the owner [can hold](crate::store::Claim::capacity), of which `held` keys
/// want theirs as well. Otherwise a few keys would fill the process with runs that take long, one
/// item after the other, while the others wait for room.
#[must_use]
pub fn run_length(room: u32, capacity: u32, open: u32, held: u32) -> u32 {
    let part = capacity.max(room).div_ceil(open.saturating_add(held).max(1));
    room.div_ceil(open.max(1)).min(part).max(RUN)
}

/// A slot, or an owner's sign of life, is renewed when less than this is left of its lease: seldom
/// enough to cost nothing, often enough that an item is leased for two thirds of the time asked
/// for.
#[must_use]
pub fn renew_below(lease: Duration) -> Duration {
    lease / 3 * 2
}

/// One claim's way around the keys, which are in the order of slot and hash.
#[derive(Clone, Copy, Debug)]
pub struct Walk {
    start: Option<Lane>,
    after: Option<Lane>,
    wrapped: bool,
}

impl Walk {
    /// Starts behind this key; at the first one without it.
    #[must_use]
    pub fn behind(start: Option<Lane>) -> Self {
        Self { start, after: start, wrapped: start.is_none() }
    }

    /// The key behind which the next stretch begins.
    #[must_use]
    pub fn after(&self) -> Option<Lane> {
        self.after
    }

    /// Takes note of the last key of a stretch, none when it was the last of all. Answers whether
    /// there is more to see.
    pub fn go_on(&mut self, last: Option<Lane>) -> bool {
        self.after = last;
        if last.is_none() {
            return !std::mem::replace(&mut self.wrapped, true);
        }
        !self.wrapped || self.start.is_none() || last < self.start
    }

    /// Where the next claim starts. One that had room left has seen every key.
    #[must_use]
    pub fn cursor(&self, room: u32) -> Option<Lane> {
        self.after.filter(|_| room == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(slot: i16) -> Lane {
        Lane { slot, key_hash: 0 }
    }

    #[test]
    fn ord_1_a_walk_goes_around_once() {
        let mut walk = Walk::behind(Some(lane(5)));
        assert!(walk.go_on(Some(lane(7))) && walk.go_on(None), "the first ones are still to come");
        assert!(walk.go_on(Some(lane(3))));
        assert!(!walk.go_on(Some(lane(5))), "here it began");
        let mut walk = Walk::behind(None);
        assert!(walk.go_on(Some(lane(5))));
        assert!(!walk.go_on(None), "it began at the first one");
    }

    #[test]
    fn ord_1_the_shares_of_all_owners_cover_every_slot() {
        for owners in 1..300 {
            assert!(fair_share(owners) * owners >= 256, "{owners}");
        }
        assert_eq!(
            (fair_share(0), fair_share(1), fair_share(2), fair_share(3)),
            (256, 256, 128, 86)
        );
    }

    #[test]
    fn ord_1_runs_of_the_wanted_keys_fill_the_room() {
        for room in 1..2_000 {
            for keys in [1, keys_wanted(room)] {
                assert!(keys * run_length(room, 0, keys, 0) >= room, "{room} {keys}");
            }
        }
        let run = |capacity, open, held| run_length(500, capacity, open, held);
        let runs = [run(0, 125, 0), run(0, 1, 0), run(0, 1, 9)];
        assert_eq!((keys_wanted(500), runs), (125, [4, 500, 50]));
        let runs = [run(2_000, 125, 0), run(2_000, 1, 0), run(2_000, 1, 9), run(2_000, 10, 90)];
        assert_eq!(runs, [4, 500, 200, 20], "what others do not hold is shared as well");
    }
}
