//! Time and randomness enter the crate here and nowhere else.
//!
//! A store reads the database's clock at statement time. Tests hand it a [`ManualClock`] instead,
//! and then every comparison and every written time comes from that.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A point in time in whole microseconds, as all stores keep it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// Further away than any lease, retry or expiry (year 9999): for what never comes by itself.
    pub const FAR_FUTURE: Self = Self(253_402_300_799_000_000);

    /// From microseconds since the Unix epoch.
    #[must_use]
    pub fn from_micros(micros: i64) -> Self {
        Self(micros.min(Self::FAR_FUTURE.0))
    }

    /// Microseconds since the Unix epoch.
    #[must_use]
    pub fn as_micros(self) -> i64 {
        self.0
    }

    /// The host's clock. Stores use it only where the database has no clock of its own (SQLite).
    #[must_use]
    pub fn host_now() -> Self {
        #[expect(clippy::disallowed_methods, reason = "the one place that reads the host's clock")]
        Self::from(SystemTime::now())
    }

    /// Later by `duration`, at most [`FAR_FUTURE`](Self::FAR_FUTURE).
    #[must_use]
    pub fn saturating_add(self, duration: Duration) -> Self {
        Self::from_micros(self.0.saturating_add(micros(duration)))
    }

    /// Earlier by `duration`.
    #[must_use]
    pub fn saturating_sub(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(micros(duration)))
    }

    /// How long after `earlier` this is; zero when it is not.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// A duration in whole microseconds that fits every database; longer ones saturate.
#[must_use]
pub fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX).min(Timestamp::FAR_FUTURE.0)
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Self::from_micros(micros(after)),
            Err(before) => Self(-micros(before.duration())),
        }
    }
}

impl From<Timestamp> for SystemTime {
    fn from(time: Timestamp) -> Self {
        let distance = Duration::from_micros(time.0.unsigned_abs());
        if time.0 < 0 { UNIX_EPOCH - distance } else { UNIX_EPOCH + distance }
    }
}

/// Where a store reads the time.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// The database server's clock at statement time.
    #[default]
    Database,
    /// A clock that a test moves by hand.
    Manual(ManualClock),
}

impl Clock {
    /// The time to use instead of the database's, if any.
    #[must_use]
    pub fn overridden(&self) -> Option<Timestamp> {
        match self {
            Self::Database => None,
            Self::Manual(clock) => Some(clock.now()),
        }
    }

    /// The time for a store without a clock of its own.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.overridden().unwrap_or_else(Timestamp::host_now)
    }
}

/// A clock for tests: it stands still until it is moved. Clones share the time.
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<AtomicI64>);

impl ManualClock {
    /// A clock that shows `start`.
    #[must_use]
    pub fn starting_at(start: Timestamp) -> Self {
        Self(Arc::new(AtomicI64::new(start.0)))
    }

    /// The time it shows.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }

    /// Moves it forward.
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(micros(by), Ordering::SeqCst);
    }
}

impl Default for ManualClock {
    /// Starts at the host's present time.
    fn default() -> Self {
        Self::starting_at(Timestamp::host_now())
    }
}

/// UUIDv7: time-ordered, monotonic within the process.
pub(crate) fn ordered_uuid() -> Uuid {
    #[expect(clippy::disallowed_methods, reason = "the one place that makes ordered ids")]
    Uuid::now_v7()
}

thread_local! {
    static SEEDED: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Makes everything random on this thread follow from a seed, until it is taken away. Only for
/// simulators: tokens can be foreseen then.
pub fn seed_randomness(seed: Option<u64>) {
    SEEDED.set(seed);
}

/// The next number of a seeded thread (splitmix64).
fn seeded() -> Option<u64> {
    let state = SEEDED.get()?.wrapping_add(0x9e37_79b9_7f4a_7c15);
    SEEDED.set(Some(state));
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    Some(mixed ^ (mixed >> 31))
}

/// UUIDv4: the source of owner and lease tokens.
pub(crate) fn random_uuid() -> Uuid {
    match (seeded(), seeded()) {
        (Some(high), Some(low)) => {
            let bytes = (u128::from(high) << 64 | u128::from(low)).to_be_bytes();
            uuid::Builder::from_random_bytes(bytes).into_uuid()
        }
        _ => Uuid::new_v4(),
    }
}

/// A number in `[0, 1)` for the jitter of a retry.
pub fn random_unit() -> f64 {
    let (high, _) = random_uuid().as_u64_pair();
    // 44 of the bits are random and lie outside the version nibble: plenty for a jitter.
    f64::from(u32::try_from(high >> 32).unwrap_or(0)) / (f64::from(u32::MAX) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_survive_the_round_trip_in_whole_microseconds() {
        for micros in [0, 1, -1, 1_700_000_000_123_456, -86_400_000_000] {
            let time = Timestamp::from_micros(micros);
            assert_eq!(Timestamp::from(SystemTime::from(time)), time);
        }
    }

    #[test]
    fn arithmetic_saturates_instead_of_overflowing() {
        assert_eq!(Timestamp::from_micros(1).saturating_add(Duration::MAX), Timestamp::FAR_FUTURE);
        assert_eq!(Timestamp::from_micros(5).since(Timestamp::from_micros(9)), Duration::ZERO);
    }

    #[test]
    fn a_seed_repeats_what_is_random() {
        let draw = || (random_uuid(), random_unit().to_bits(), random_uuid());
        seed_randomness(Some(7));
        let first = draw();
        seed_randomness(Some(7));
        assert_eq!(draw(), first);
        assert_ne!(draw(), first);
        seed_randomness(None);
        assert_ne!(draw(), draw());
        assert_eq!(first.0.get_version_num(), 4);
    }

    #[test]
    fn jitter_is_a_unit_fraction() {
        assert!((0..1_000).map(|_| random_unit()).all(|unit| (0.0..1.0).contains(&unit)));
    }
}
