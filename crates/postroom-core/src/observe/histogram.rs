//! How long things take: counts by duration, in buckets whose bounds grow by a quarter.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::Latency;

// Four buckets per doubling, from a microsecond to beyond a day.
const PER_DOUBLING: u32 = 4;
const BUCKETS: usize = 160;

/// Durations since the process began.
#[derive(Debug)]
pub(super) struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    longest: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: [const { AtomicU64::new(0) }; BUCKETS], longest: AtomicU64::new(0) }
    }
}

impl Histogram {
    pub(super) fn record(&self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.buckets[bucket(micros)].fetch_add(1, Ordering::Relaxed);
        self.longest.fetch_max(micros, Ordering::Relaxed);
    }

    pub(super) fn latency(&self) -> Latency {
        let counts: Vec<u64> =
            self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect();
        let count: u64 = counts.iter().sum();
        let longest = self.longest.load(Ordering::Relaxed);
        let at = |share: f64| {
            let rank = ((count as f64 * share).ceil() as u64).max(1);
            let mut seen = 0;
            let found = counts.iter().position(|count| {
                seen += count;
                seen >= rank
            });
            let micros = found.map_or(0, |bucket| upper(bucket).min(longest));
            Duration::from_micros(micros)
        };
        Latency {
            count,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            longest: Duration::from_micros(longest),
        }
    }
}

fn bucket(micros: u64) -> usize {
    // The two bits behind the leading one say which quarter of the doubling it is.
    let value = micros.max(1);
    let doubling = value.ilog2();
    let quarter =
        if doubling >= 2 { (value >> (doubling - 2)) & 3 } else { value << (2 - doubling) & 3 };
    ((doubling * PER_DOUBLING) as usize + quarter as usize).min(BUCKETS - 1)
}

/// The largest number of microseconds in a bucket.
fn upper(bucket: usize) -> u64 {
    let (doubling, quarter) = (bucket as u32 / PER_DOUBLING, bucket as u64 % 4);
    let next = u128::from(5 + quarter) << doubling;
    u64::try_from((next / 4).max(2) - 1).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn obs_3_quantiles_of_a_thousand_known_durations() {
        let histogram = Histogram::default();
        (1..=1_000).for_each(|millis| histogram.record(Duration::from_millis(millis)));
        let latency = histogram.latency();
        assert_eq!((latency.count, latency.longest.as_millis()), (1_000, 1_000));
        for (got, exact) in [(latency.p50, 500.0), (latency.p90, 900.0), (latency.p99, 990.0)] {
            let ratio = got.as_secs_f64() * 1_000.0 / exact;
            assert!((1.0..=1.25).contains(&ratio), "{got:?} for {exact} ms");
        }
        assert_eq!(Histogram::default().latency(), Latency::default());
    }

    proptest! {
        #[test]
        fn obs_3_a_bucket_holds_its_durations_and_is_a_quarter_wide(micros in 1_u64..1 << 39) {
            let upper = upper(bucket(micros));
            prop_assert!(upper >= micros, "{micros} in a bucket up to {upper}");
            let most = micros + micros.div_ceil(4);
            prop_assert!(upper <= most, "{micros} in a bucket up to {upper}");
        }
    }
}
