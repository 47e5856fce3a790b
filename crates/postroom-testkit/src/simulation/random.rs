//! Chance that follows from a seed (splitmix64).

use std::ops::RangeInclusive;
use std::time::Duration;

#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A stream of its own, so that one actor's draws do not shift another's.
    pub(super) fn fork(&mut self) -> Self {
        Self(self.next())
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn within(&mut self, range: RangeInclusive<u64>) -> u64 {
        let (low, high) = range.into_inner();
        low + self.next() % (high - low + 1)
    }

    pub(super) fn index(&mut self, len: usize) -> usize {
        self.within(0..=(len as u64 - 1)) as usize
    }

    /// True so many times in a thousand.
    pub(super) fn per_mille(&mut self, chance: u64) -> bool {
        self.within(0..=999) < chance
    }

    pub(super) fn percent(&mut self, chance: u64) -> bool {
        self.per_mille(chance * 10)
    }

    pub(super) fn millis(&mut self, range: RangeInclusive<u64>) -> Duration {
        Duration::from_millis(self.within(range))
    }

    pub(super) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.index(choices.len())]
    }
}
