//! Settings of single topics: retries, and limits on how much of them runs.

use std::num::NonZeroU32;
use std::time::Duration;

use governor::Quota;

use crate::pattern::matches;
use crate::retry::Retry;

/// Settings of a topic, or of all topics that fit a pattern.
///
/// A topic has the settings of the first entry that names it, else of the first whose pattern it
/// fits. Limits are per process. All topics of one entry share its limits: for limits of their own
/// give them entries of their own.
///
/// ```
/// use postroom_core::{DispatcherConfig, Rate, Retry, TopicConfig};
///
/// let config = DispatcherConfig {
///     topics: vec![
///         TopicConfig::new("mail.*").concurrency(2).rate(Rate::per_second(10)),
///         TopicConfig::new("payment").retry(Retry { max_attempts: 30, ..Retry::default() }),
///     ],
///     ..DispatcherConfig::default()
/// };
/// assert!(config.validate().is_ok());
/// ```
#[derive(Clone, Debug)]
pub struct TopicConfig {
    pub(super) topics: String,
    pub(super) retry: Option<Retry>,
    pub(super) concurrency: Option<usize>,
    pub(super) rate: Option<Rate>,
}

impl TopicConfig {
    /// For this topic, or for those that fit this pattern, in which `*` stands for any characters.
    #[must_use]
    pub fn new(topics: impl Into<String>) -> Self {
        Self { topics: topics.into(), retry: None, concurrency: None, rate: None }
    }

    /// When to try again, and when to stop, instead of the dispatcher's setting.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = Some(retry);
        self
    }

    /// At most so many deliveries at the same time.
    #[must_use]
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = Some(concurrency);
        self
    }

    /// At most so many deliveries in a time.
    #[must_use]
    pub fn rate(mut self, rate: Rate) -> Self {
        self.rate = Some(rate);
        self
    }

    pub(super) fn is_limited(&self) -> bool {
        self.concurrency.is_some() || self.rate.is_some()
    }

    /// What is wrong with it, if anything.
    pub(super) fn problems(&self) -> Vec<String> {
        let topics = &self.topics;
        let mut problems = Vec::new();
        if topics.is_empty() {
            problems.push("topics must name a topic or a pattern".to_owned());
        }
        if self.retry.as_ref().is_some_and(|retry| retry.max_attempts == 0) {
            problems.push(format!("retry.max_attempts of {topics:?} must be at least 1"));
        }
        if self.concurrency == Some(0) {
            let instead = "to stop a topic, pause it";
            problems.push(format!("concurrency of {topics:?} must be at least 1; {instead}"));
        }
        if self.rate.is_some_and(|rate| rate.quota().is_none()) {
            let bounds = "at least 1 in at least a microsecond each, and at most a day";
            problems.push(format!("rate of {topics:?} must be {bounds}"));
        }
        problems
    }
}

/// The entry for a topic, if there is one.
pub(super) fn find(configs: &[TopicConfig], topic: &str) -> Option<usize> {
    let exact = configs.iter().position(|config| config.topics == topic);
    exact.or_else(|| configs.iter().position(|config| matches(&config.topics, topic)))
}

/// So many in a time, evenly spread.
///
/// What is due in a tenth of a second, and at least one, may come at once; [`burst`](Self::burst)
/// changes that. What was not used is not saved up beyond that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    count: u32,
    per: Duration,
    burst: Option<u32>,
}

impl Rate {
    /// So many per second.
    #[must_use]
    pub const fn per_second(count: u32) -> Self {
        Self::every(count, Duration::from_secs(1))
    }

    /// So many per minute.
    #[must_use]
    pub const fn per_minute(count: u32) -> Self {
        Self::every(count, Duration::from_mins(1))
    }

    /// So many in each such time.
    #[must_use]
    pub const fn every(count: u32, per: Duration) -> Self {
        Self { count, per, burst: None }
    }

    /// So many may come at once after a quiet time.
    #[must_use]
    pub const fn burst(mut self, burst: u32) -> Self {
        self.burst = Some(burst);
        self
    }

    pub(super) fn per_second_exact(self) -> f64 {
        f64::from(self.count) / self.per.as_secs_f64()
    }

    /// None when it is out of bounds.
    pub(super) fn quota(self) -> Option<Quota> {
        let each = self.per.checked_div(self.count)?;
        let bounds = Duration::from_micros(1)..=Duration::from_hours(24);
        let in_a_tenth = (self.per_second_exact() / 10.0) as u32;
        let burst = NonZeroU32::new(self.burst.unwrap_or(in_a_tenth.max(1)))?;
        let quota = bounds.contains(&each).then(|| Quota::with_period(each)).flatten()?;
        Some(quota.allow_burst(burst))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dsp_10_a_topic_s_own_entry_comes_before_patterns() {
        let configs = ["a.*", "a.b", "*", "a.c*"].map(TopicConfig::new);
        let found: Vec<_> =
            ["a.b", "a.c", "b", "a.*"].iter().map(|topic| find(&configs, topic)).collect();
        assert_eq!(found, [Some(1), Some(0), Some(2), Some(0)]);
        assert_eq!(find(&configs[..2], "b"), None);
    }

    #[test]
    fn dsp_10_rates_out_of_bounds_are_refused() {
        let year = Duration::from_hours(24 * 366);
        for rate in [
            Rate::per_second(0),
            Rate::per_second(2_000_000),
            Rate::per_second(1).burst(0),
            Rate::every(1, year),
            Rate::every(1, Duration::ZERO),
        ] {
            assert_eq!(rate.quota(), None, "{rate:?}");
        }
        let burst = |rate: Rate| rate.quota().expect("legal").burst_size().get();
        assert_eq!((burst(Rate::per_second(1_000)), burst(Rate::per_minute(1))), (100, 1));
        assert_eq!(burst(Rate::per_second(1_000).burst(7)), 7);
    }
}
