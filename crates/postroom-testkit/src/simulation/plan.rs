//! What a seed decides before the run: settings, faults, and how each message fares.

use std::time::Duration;

use postroom_core::{Backoff, DispatcherConfig, Rate, Retry, TopicConfig};

use super::random::Random;

pub(super) const LEASE: Duration = Duration::from_secs(2);

/// The world of one seed.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Nothing fails but handlers: every message is then handled exactly once.
    pub(super) faultless: bool,
    pub(super) processes: usize,
    pub(super) producers: usize,
    pub(super) keys: u64,
    pub(super) halt: bool,
    pub(super) reaps: bool,
    pub(super) max_batch: usize,
    pub(super) takes_runs: bool,
    /// Handlers take long, so that things wait for each other.
    pub(super) sluggish: bool,
    /// The sink answers for messages that it has not looked at.
    pub(super) careless: bool,
    pub(super) weather: Weather,
    pub(super) config: DispatcherConfig,
    /// When what happens to which process.
    pub(super) blows: Vec<(Duration, Blow)>,
    /// When faults end.
    pub(super) heal: Duration,
}

/// What calls to the database suffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weather {
    /// The usual wait on each side of an effect, at most.
    pub(super) latency: u64,
    /// So many calls in a thousand take seconds, and so many settles, which harms nobody.
    pub(super) slow: u64,
    pub(super) slow_settles: u64,
    /// So many calls in a thousand fail.
    pub(super) faults: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Blow {
    /// It is gone from one moment to the next.
    Crash,
    /// It is cut off for a while, and then goes on as if nothing had happened.
    Stall(Duration),
    /// The database does not answer it for a while; its handlers go on.
    Outage(Duration),
    /// The same for settles only: leases are renewed meanwhile, so none is lost.
    NoSettles(Duration),
    /// It is told to stop, with so much time to do it.
    Stop(Duration),
    /// The database's clock jumps.
    Jump(Duration),
}

/// How one delivery of a message goes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Act {
    Done(Duration),
    Fail(Duration),
    Permanent,
    NotNow,
    Panic,
    /// Never answers.
    Hang,
    /// Takes its process with it.
    Kill,
}

impl Plan {
    pub(super) fn new(random: &mut Random) -> Self {
        let faultless = random.percent(20);
        let batches = random.percent(40);
        let heal = random.millis(5_000..=12_000);
        let mut plan = Self {
            faultless,
            processes: random.within(1..=3) as usize,
            producers: random.within(1..=3) as usize,
            keys: random.within(1..=4),
            halt: random.percent(25),
            reaps: random.percent(30),
            max_batch: if batches { random.within(2..=4) as usize } else { 1 },
            takes_runs: batches && random.percent(60),
            sluggish: random.percent(25),
            careless: random.percent(30),
            weather: Weather {
                latency: random.pick(&[0, 2, 20]),
                slow: 0,
                slow_settles: random.pick(&[0, 30]),
                faults: 0,
            },
            config: config(random),
            blows: Vec::new(),
            heal,
        };
        if !faultless {
            plan.weather = Weather {
                latency: random.pick(&[0, 2, 20, 80]),
                slow: random.pick(&[0, 0, 5, 30]),
                slow_settles: random.pick(&[0, 30]),
                faults: random.pick(&[0, 10, 50, 150]),
            };
        }
        let rough = !faultless && random.percent(30);
        if rough {
            plan.make_rough(random);
        }
        let blows = match (faultless, rough) {
            (true, _) => random.within(0..=1),
            (_, true) => random.within(6..=15),
            _ => random.within(0..=5),
        };
        for _ in 0..blows {
            let at = random.millis(100..=heal.as_millis() as u64);
            plan.blows.push((at, blow(faultless, rough, random)));
        }
        plan.blows.sort_by_key(|(at, _)| *at);
        plan
    }

    /// Rivals that are quick to take over, work that is slow and waits, one blow after the other:
    /// where a lease that is used for too long is seen.
    fn make_rough(&mut self, random: &mut Random) {
        self.processes = self.processes.max(2);
        (self.max_batch, self.takes_runs, self.sluggish) = (1, false, true);
        self.weather.slow = random.pick(&[0, 30, 150]);
        self.config.workers = random.within(1..=2) as usize;
        self.config.cold_queue = 20;
        self.config.poll_interval = Duration::from_millis(40);
        self.config.handler_timeout = Duration::from_millis(1_800);
    }
}

fn blow(faultless: bool, rough: bool, random: &mut Random) -> Blow {
    match random.within(0..=9) {
        0..=7 if rough => match random.percent(50) {
            true => Blow::Outage(random.millis(500..=5_000)),
            false => Blow::Jump(random.millis(1_500..=3_000)),
        },
        _ if faultless => Blow::Stop(random.millis(0..=1_500)),
        0..=1 => Blow::Crash,
        2..=3 => Blow::Stall(random.millis(200..=7_000)),
        4 => Blow::Outage(random.millis(500..=5_000)),
        5 => Blow::NoSettles(random.millis(500..=5_000)),
        6 => Blow::Stop(random.millis(0..=1_500)),
        _ => Blow::Jump(random.millis(50..=5_000)),
    }
}

fn config(random: &mut Random) -> DispatcherConfig {
    let base = random.millis(50..=300);
    DispatcherConfig {
        workers: random.within(1..=4) as usize,
        batch: random.within(1..=10) as u32,
        lease: LEASE,
        cold_queue: random.within(1..=20) as usize,
        hot_queue: random.pick(&[0, 1, 3, 10]),
        poll_interval: random.millis(100..=800),
        handler_timeout: random.millis(800..=1_800),
        retry: Retry {
            backoff: Backoff::Exponential { base, cap: Duration::from_secs(1) },
            max_attempts: random.within(2..=5) as u32,
        },
        topics: if random.percent(25) { vec![limits(random)] } else { Vec::new() },
        ..DispatcherConfig::default()
    }
}

fn limits(random: &mut Random) -> TopicConfig {
    let all = TopicConfig::new("*");
    match random.within(0..=2) {
        0 => all.concurrency(random.within(1..=2) as usize),
        1 => all.rate(Rate::per_second(random.within(10..=50) as u32)),
        _ => all.concurrency(1).rate(Rate::per_second(random.within(10..=50) as u32).burst(3)),
    }
}

/// The first deliveries of a message; whatever comes after them is fine.
pub(super) fn acts(plan: &Plan, random: &mut Random) -> Vec<Act> {
    let quick = |random: &mut Random| match random.percent(40) {
        _ if plan.sluggish => random.millis(200..=1_200),
        true => Duration::ZERO,
        false => random.millis(1..=60),
    };
    let first = match random.within(0..=99) {
        0..=64 => Act::Done(quick(random)),
        65..=72 => Act::Done(random.millis(300..=1_500)),
        73..=80 => Act::Fail(quick(random)),
        81..=84 => Act::Permanent,
        85..=88 => Act::NotNow,
        89..=91 => Act::Panic,
        92..=94 => Act::Hang,
        95..=97 if !plan.faultless => Act::Kill,
        _ => Act::Fail(random.millis(100..=900)),
    };
    let again = if random.percent(20) { random.within(2..=6) as usize } else { 1 };
    vec![first; again]
}
