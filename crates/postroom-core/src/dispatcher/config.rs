//! Settings of a dispatcher.

use std::time::Duration;

use super::TopicConfig;
use super::topics::find;
use crate::error::{Error, ErrorKind, Result};
use crate::retry::Retry;
use crate::store::{Claim, Purge, check_lease};
use crate::text::Topic;

/// Settings of a [`Dispatcher`](super::Dispatcher). Every one has a default that works.
#[derive(Clone, Debug)]
pub struct DispatcherConfig {
    /// What people see it by, at most 255 bytes. Default: the host and the process, as in
    /// `web-1/4711`.
    pub name: Option<String>,
    /// Deliveries at the same time. Default: twice the cores, at least 4.
    pub workers: usize,
    /// Items per claim at most. Default 200.
    pub batch: u32,
    /// How long an item is held before somebody else may take it; renewed while it is worked on.
    /// Default 30 s.
    pub lease: Duration,
    /// Claimed items in this process, waiting or running, at most. Default 1,000.
    pub cold_queue: usize,
    /// Messages on their way from a commit in this process to its own workers, waiting or running,
    /// at most; further ones wait for a claim. 0 turns that way off. Default 1,000.
    pub hot_queue: usize,
    /// The wait after an empty claim. It grows while nothing comes; wake-ups cut it short. Default
    /// 1 s.
    pub poll_interval: Duration,
    /// What that wait grows to, at most 1 h. Default: five times `poll_interval`.
    pub idle_interval: Option<Duration>,
    /// How long one delivery may take; less than the lease. Default 25 s.
    pub handler_timeout: Duration,
    /// When to try again, and when to stop.
    pub retry: Retry,
    /// Settings of single topics.
    pub topics: Vec<TopicConfig>,
    /// What is deleted because it is old, about once an hour; nothing with `None`. Default: what
    /// was done 30 days ago; dead letters are kept.
    pub purge: Option<Purge>,
}

impl Default for DispatcherConfig {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        Self {
            name: None,
            workers: (2 * cores).max(4),
            batch: 200,
            lease: Duration::from_secs(30),
            cold_queue: 1_000,
            hot_queue: 1_000,
            poll_interval: Duration::from_secs(1),
            idle_interval: None,
            handler_timeout: Duration::from_secs(25),
            retry: Retry::default(),
            topics: Vec::new(),
            purge: Some(Purge::default()),
        }
    }
}

impl DispatcherConfig {
    /// Checks all settings.
    ///
    /// # Errors
    /// `Invalid`, naming every setting that is out of bounds.
    pub fn validate(&self) -> Result<()> {
        let mut problems = Vec::new();
        let mut require = |fine: bool, problem: &str| {
            if !fine {
                problems.push(problem.to_owned());
            }
        };
        require((1..=10_000).contains(&self.workers), "workers must be 1 to 10000");
        let batches = 1..=Claim::MAX_BATCH;
        require(batches.contains(&self.batch), "batch must be 1 to 10000");
        require((1..=1_000_000).contains(&self.cold_queue), "cold_queue must be 1 to 1000000");
        require(self.hot_queue <= 1_000_000, "hot_queue must be 0 to 1000000");
        require(check_lease(self.lease).is_ok(), "lease must be more than 0 and at most 24 h");
        let hour = Duration::from_hours(1);
        let poll = !self.poll_interval.is_zero() && self.poll_interval <= hour;
        require(poll, "poll_interval must be more than 0 and at most 1 h");
        let idle =
            self.idle_interval.is_none_or(|idle| (self.poll_interval..=hour).contains(&idle));
        require(idle, "idle_interval must be at least poll_interval and at most 1 h");
        let timeout = !self.handler_timeout.is_zero() && self.handler_timeout < self.lease;
        require(timeout, "handler_timeout must be more than 0 and less than the lease");
        require(self.retry.max_attempts > 0, "retry.max_attempts must be at least 1");
        problems.extend(self.topics.iter().flat_map(TopicConfig::problems));
        if problems.is_empty() {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Invalid, problems.join("; ")))
    }

    /// The retry policy of a topic.
    pub(super) fn retry_of(&self, topic: &Topic) -> &Retry {
        let own = || self.topics[find(&self.topics, topic.as_str())?].retry.as_ref();
        own().unwrap_or(&self.retry)
    }

    /// The most attempts that any topic has: a claim knows only one number.
    pub(super) fn most_attempts(&self) -> u32 {
        let own = self.topics.iter().filter_map(|topic| topic.retry.as_ref());
        own.chain([&self.retry]).map(|retry| retry.max_attempts).max().unwrap_or_default()
    }

    /// The longest wait of an idle poller.
    pub(super) fn longest_wait(&self) -> Duration {
        self.idle_interval.unwrap_or(self.poll_interval * 5)
    }

    /// How long what can wait waits for the poller's next look at the database.
    pub(super) fn visit_wait(&self) -> Duration {
        self.longest_wait().min(Duration::from_secs(30))
    }

    /// How long before its end a lease counts as over: time for the answer to reach the database.
    pub(super) fn margin(&self) -> Duration {
        self.lease / 10
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatcher::Rate;

    #[test]
    fn defaults_are_those_of_the_specification() {
        let config = DispatcherConfig::default();
        config.validate().expect("legal");
        assert_eq!((config.batch, config.cold_queue, config.hot_queue), (200, 1_000, 1_000));
        assert!(config.workers >= 4);
    }

    #[test]
    fn every_problem_is_named_at_once() {
        let config = DispatcherConfig {
            workers: 0,
            batch: 0,
            hot_queue: 1_000_001,
            handler_timeout: Duration::from_secs(30),
            topics: vec![TopicConfig::new("mail.*").concurrency(0).rate(Rate::per_second(0))],
            ..DispatcherConfig::default()
        };
        let error = config.validate().expect_err("six problems").to_string();
        for part in ["workers", "batch", "hot_queue", "handler_timeout", "concurrency", "rate"] {
            assert!(error.contains(part), "{error}");
        }
    }
}
