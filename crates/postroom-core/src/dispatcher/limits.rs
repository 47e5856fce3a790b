//! Limits: what may not start yet waits in a line of its topics, and is kept from being claimed
//! while that line is long.
//!
//! A job takes a *turn* to start, and gives it back when its delivery ends. Jobs that get none wait
//! in line with their lease and their place, as many as can be started in half a lease; further
//! ones are given back. Others are not held up by any of that.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::state::{InMemoryState, NotKeyed};
use governor::{Quota, RateLimiter};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep_until};

use super::topics::find;
use super::work::{Finished, Job};
use super::{DispatcherConfig, Engine, TopicConfig, pace::Pace};
use crate::lifecycle::Settlement;
use crate::message::Message;

// Topics of one pattern that claims can be told to leave out. Messages of further ones are put off
// when the line is full.
const MOST_TOPICS: usize = 1_000;

/// What is given back is claimed again at once, unless claims can be told to leave it out. Where
/// they can not, it waits a little, for everybody.
pub(super) const PUT_OFF: Settlement =
    Settlement::Retry { delay: Duration::from_secs(1), counted: false, error: None };

// How often what waits in line is looked at for pauses and lost leases.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The limits of all topics that have some.
#[derive(Debug)]
pub(super) struct Limits {
    configs: Vec<TopicConfig>,
    /// As long as `configs`; none where an entry has no limits.
    lines: Vec<Option<Line>>,
    /// Told when something in line may be able to start.
    changed: Notify,
    /// Told when topics may be claimed again.
    opened: Notify,
}

/// The line of one entry.
#[derive(Debug)]
struct Line {
    concurrency: usize,
    rate: Option<Metered>,
    /// How many jobs may wait if they can be started in time.
    longest: usize,
    half_lease: Duration,
    pace: Pace,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    running: usize,
    waiting: VecDeque<Job>,
    /// When the rate allows the next one, if that is what they wait for.
    next: Option<Instant>,
    /// Whether there are so many that claims leave these topics out.
    full: bool,
    /// No more: the dispatcher stops.
    closed: bool,
    topics: BTreeSet<i64>,
}

/// The right to be running, given back when dropped.
#[derive(Debug)]
pub(super) struct Turn {
    limits: Arc<Limits>,
    entry: usize,
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(line) = &self.limits.lines[self.entry] {
            line.lock().running -= 1;
            line.pace.add(1);
            self.limits.changed.notify_one();
        }
    }
}

/// What became of a job that wants to start.
#[derive(Debug)]
pub(super) enum Admission {
    Start(Job),
    Waits,
    Refused(Job, Settlement),
}

impl Limits {
    pub(super) fn new(config: &DispatcherConfig) -> Self {
        let limited = config.topics.iter().filter(|entry| entry.is_limited()).count();
        // All lines together leave half of the room to topics without limits.
        let longest = (config.cold_queue / (2 * limited.max(1))).max(1);
        let line = |entry: &TopicConfig| {
            entry.is_limited().then(|| Line {
                concurrency: entry.concurrency.unwrap_or(usize::MAX),
                rate: entry
                    .rate
                    .and_then(|rate| Some(Metered::new(rate.quota()?, rate.per_second_exact()))),
                longest,
                half_lease: config.lease / 2,
                pace: Pace::default(),
                state: Mutex::default(),
            })
        };
        Self {
            lines: config.topics.iter().map(line).collect(),
            configs: config.topics.clone(),
            changed: Notify::new(),
            opened: Notify::new(),
        }
    }

    fn line(&self, message: &Message) -> Option<(usize, &Line)> {
        let entry = find(&self.configs, message.topic().as_str())?;
        Some((entry, self.lines[entry].as_ref()?))
    }

    /// Whether there is anything to limit.
    fn any(&self) -> bool {
        self.lines.iter().any(Option::is_some)
    }

    /// Lets a job start, or wait in line, unless that is too long.
    pub(super) fn admit(self: &Arc<Self>, mut job: Job) -> Admission {
        if self.start(&mut job) {
            return Admission::Start(job);
        }
        let Some((_, line)) = self.line(&job.item.message) else { return Admission::Start(job) };
        let (mut state, topic) = (line.lock(), job.item.message.topic_hash());
        if state.topics.len() < MOST_TOPICS {
            state.topics.insert(topic);
        }
        let most = line.most_waiting();
        let refused = state.closed || state.waiting.len() >= most;
        state.full |= refused || 2 * (state.waiting.len() + 1) >= most;
        if refused {
            let left_out = state.topics.contains(&topic) || state.closed;
            let settlement = if left_out { Settlement::Release } else { PUT_OFF };
            return Admission::Refused(job, settlement);
        }
        state.waiting.push_back(job);
        self.changed.notify_one();
        Admission::Waits
    }

    /// Lets a job start if it need not wait; answers whether.
    pub(super) fn start(self: &Arc<Self>, job: &mut Job) -> bool {
        let Some((entry, line)) = self.line(&job.item.message) else { return true };
        if job.turn.is_some() {
            return true;
        }
        let mut state = line.lock();
        let starts = state.waiting.is_empty() && line.has_turn(&mut state);
        if starts {
            job.turn = Some(self.turn(entry, &mut state));
        }
        starts
    }

    fn turn(self: &Arc<Self>, entry: usize, state: &mut State) -> Turn {
        state.running += 1;
        Turn { limits: Arc::clone(self), entry }
    }

    /// The topics that claims leave out.
    pub(super) fn full_topics(&self) -> Vec<i64> {
        let states = self.lines.iter().flatten().map(Line::lock);
        states.filter(|state| state.full).flat_map(|state| state.topics.clone()).collect()
    }

    /// Whether a message would have to wait behind many.
    pub(super) fn is_full_for(&self, message: &Message) -> bool {
        self.line(message).is_some_and(|(_, line)| line.lock().full)
    }

    /// How many claimed jobs wait in line.
    pub(super) fn waiting(&self) -> usize {
        let cold = |line: &Line| line.lock().waiting.iter().filter(|job| !job.hot).count();
        self.lines.iter().flatten().map(cold).sum()
    }

    pub(super) async fn opened(&self) {
        self.opened.notified().await;
    }

    /// Those in line that can start now, and those that can not start any more.
    fn sort_out(self: &Arc<Self>, unfit: impl Fn(&Job) -> bool) -> (Vec<Job>, Vec<Job>) {
        let (mut ready, mut out) = (Vec::new(), Vec::new());
        for (entry, line) in self.lines.iter().enumerate() {
            let Some(line) = line else { continue };
            let mut state = line.lock();
            let waiting = std::mem::take(&mut state.waiting).into_iter();
            let (unfit, fit): (VecDeque<_>, _) = waiting.partition(&unfit);
            state.waiting = fit;
            out.extend(unfit);
            while !state.waiting.is_empty() && line.has_turn(&mut state) {
                let Some(mut job) = state.waiting.pop_front() else { break };
                job.turn = Some(self.turn(entry, &mut state));
                ready.push(job);
            }
            if state.full && state.waiting.len() <= line.most_waiting() / 4 {
                state.full = false;
                self.opened.notify_one();
            }
        }
        (ready, out)
    }

    /// When the rates allow the next one, and that only if somebody waits for it.
    fn next(&self) -> Option<Instant> {
        let states = self.lines.iter().flatten().map(Line::lock);
        states.filter(|state| !state.waiting.is_empty()).filter_map(|state| state.next).min()
    }

    /// Everything in line; from now on nobody gets in.
    fn close(&self) -> Vec<Job> {
        let lines = self.lines.iter().flatten().map(Line::lock);
        let close = |mut state: MutexGuard<'_, State>| {
            state.closed = true;
            std::mem::take(&mut state.waiting)
        };
        lines.flat_map(close).collect()
    }
}

impl Line {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a turn off the rate, if there is one.
    fn has_turn(&self, state: &mut State) -> bool {
        if state.running >= self.concurrency {
            state.next = None;
            return false;
        }
        state.next = self.rate.as_ref().and_then(|rate| rate.take().err());
        state.next.is_none()
    }

    /// As many as can be started in half a lease; at least as many as run at the same time.
    fn most_waiting(&self) -> usize {
        let per_second = match &self.rate {
            Some(rate) => Some(rate.per_second),
            None => self.pace.per_second(),
        };
        let at_once = self.concurrency.min(self.longest);
        let sustained = per_second.map_or(at_once.saturating_mul(4), |per_second| {
            (per_second * self.half_lease.as_secs_f64()) as usize
        });
        let least = if self.rate.is_some() { 1 } else { at_once };
        sustained.clamp(least, self.longest)
    }
}

impl Engine {
    /// Starts what waits in line when its time has come, until it is time to stop.
    pub(super) async fn start_waiting(
        self: Arc<Self>,
        queues: [mpsc::WeakSender<Job>; 2],
        finished: mpsc::Sender<Vec<Finished>>,
    ) {
        if !self.limits.any() {
            return;
        }
        while !self.stop.is_cancelled() {
            let (ready, mut unfit) = self.limits.sort_out(|job| self.unfit(job).is_some());
            for job in ready {
                let queue = queues[usize::from(job.hot)].upgrade();
                // There is room: a job has its place.
                let refused = match queue {
                    Some(queue) => queue.try_send(job).err().map(|refused| refused.into_inner()),
                    None => Some(job),
                };
                unfit.extend(refused);
            }
            self.give_back(unfit, &finished).await;
            let look = Instant::now() + LOOK_EVERY;
            let until = self.limits.next().map_or(look, |next| next.min(look));
            tokio::select! {
                biased;
                () = self.stop.cancelled() => {}
                () = self.limits.changed.notified() => {}
                () = sleep_until(until) => {}
            }
        }
        self.give_back(self.limits.close(), &finished).await;
    }

    async fn give_back(&self, jobs: Vec<Job>, finished: &mpsc::Sender<Vec<Finished>>) {
        if !jobs.is_empty() {
            let settle = |job: Job| {
                let settlement = self.unfit(&job).unwrap_or(Settlement::Release);
                self.turn_away(job, settlement)
            };
            let _ = finished.send(jobs.into_iter().map(settle).collect()).await;
        }
    }
}

/// A rate by tokio's clock, so that it runs under paused time.
struct Metered {
    limiter: RateLimiter<NotKeyed, InMemoryState, Since, NoOpMiddleware<Duration>>,
    began: Instant,
    per_second: f64,
}

impl Metered {
    fn new(quota: Quota, per_second: f64) -> Self {
        let began = Instant::now();
        let limiter = RateLimiter::direct_with_clock(quota, Since(began));
        Self { limiter, began, per_second }
    }

    /// Takes one, or says when there will be one.
    fn take(&self) -> Result<(), Instant> {
        let taken = self.limiter.check();
        taken.map_err(|not_until| self.began + not_until.earliest_possible())
    }
}

impl std::fmt::Debug for Metered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Metered").field("per_second", &self.per_second).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Since(Instant);

impl Clock for Since {
    type Instant = Duration;

    fn now(&self) -> Duration {
        self.0.elapsed()
    }
}
