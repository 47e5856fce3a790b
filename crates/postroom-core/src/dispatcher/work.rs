//! The workers: run deliveries within their time, whatever the handler does.

use std::collections::{HashSet, VecDeque};
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use tokio::sync::{Mutex, mpsc};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::Engine;
use super::crew::{Bench, IDLE_LIMIT};
use super::left::LEFT_FOR;
use super::limits::{Admission, PUT_OFF, Turn};
use super::place::Place;
use crate::clock;
use crate::handler::without_panic;
use crate::ids::Lease;
use crate::lifecycle::{self, DeadReason, Outcome, Settlement};
use crate::observe::Took;
use crate::sink::{Call, Delivery, Right, Sink};
use crate::store::WorkItem;

/// An item on its way to a worker, with its place in this process.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) item: WorkItem,
    pub(super) place: Place,
    pub(super) cancelled: CancellationToken,
    /// When it came into this process.
    pub(super) since: Instant,
    pub(super) expires: Option<Instant>,
    /// Whether it came from a commit of this process rather than from a claim.
    pub(super) hot: bool,
    /// The hash of its ordering key, if it has one.
    pub(super) key: Option<i64>,
    /// The right to run, where its topic has limits.
    pub(super) turn: Option<Turn>,
}

/// Where the workers find jobs.
#[derive(Debug)]
pub(super) struct Queues {
    pub(super) hot: mpsc::Receiver<Job>,
    pub(super) cold: mpsc::Receiver<Job>,
    pub(super) turn: usize,
    /// What was passed over on the search for messages that share a call. Its turn is next.
    pub(super) aside: VecDeque<Job>,
}

// Hot jobs go first, but for one turn in so many, or cold ones would starve.
const COLD_EVERY: usize = 4;

// How many jobs may be passed over to fill a batch.
const MOST_ASIDE: usize = 64;

impl Queues {
    /// Jobs that share a call of the sink, as soon as there is one; none once there are no more.
    async fn take(&mut self, sink: &dyn Sink) -> Vec<Job> {
        let call = |job: &Job| sink.call(job.item.message.topic());
        let most = sink.max_batch().max(1);
        if self.aside.is_empty() {
            let jobs = self.receive(most).await;
            self.aside.extend(jobs);
        }
        let Some(first) = self.aside.pop_front() else { return Vec::new() };
        let Call { group, most } = call(&first);
        let mut batch = vec![first];
        let mut rest = std::mem::take(&mut self.aside).into_iter();
        while batch.len() < most && self.aside.len() < MOST_ASIDE {
            let Some(job) = rest.next().or_else(|| self.try_receive()) else { break };
            match call(&job).group == group {
                true => batch.push(job),
                false => self.aside.push_back(job),
            }
        }
        self.aside.extend(rest);
        batch
    }

    fn try_receive(&mut self) -> Option<Job> {
        self.hot.try_recv().or_else(|_| self.cold.try_recv()).ok()
    }

    /// Up to `most` jobs of one queue, as soon as there is one; none once both have ended.
    async fn receive(&mut self, most: usize) -> Vec<Job> {
        self.turn = self.turn.wrapping_add(1);
        let (first, second) = match self.turn.is_multiple_of(COLD_EVERY) {
            true => (&mut self.cold, &mut self.hot),
            false => (&mut self.hot, &mut self.cold),
        };
        let mut batch = Vec::with_capacity(most);
        poll_fn(|cx| match first.poll_recv_many(cx, &mut batch, most) {
            Poll::Ready(0) => second.poll_recv_many(cx, &mut batch, most),
            Poll::Ready(count) => Poll::Ready(count),
            Poll::Pending => match second.poll_recv_many(cx, &mut batch, most) {
                Poll::Ready(0) => Poll::Pending,
                answer => answer,
            },
        })
        .await;
        batch
    }
}

/// What became of an item; its place is free once that is settled.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) lease: Lease,
    pub(super) end: End,
    pub(super) place: Place,
    pub(super) key: Option<i64>,
}

/// What is left to do about an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The database is to be told this.
    Settle(Settlement),
    /// It is done, and the handler's own transaction has said so.
    Settled,
    /// The lease is lost: there is nothing to say.
    Lost,
}

/// What came of running a job.
enum Ran {
    Ended(Outcome),
    Settled,
    Lost,
}

impl Engine {
    /// Takes jobs until there are no more, or none for long. After a stop the rest is given back
    /// unstarted.
    pub(super) async fn work(self: Arc<Self>, bench: Bench) {
        loop {
            let batch = match timeout(IDLE_LIMIT, self.take(&bench.queues)).await {
                Ok(batch) if batch.is_empty() => return,
                Ok(batch) => batch,
                Err(_) if self.crew.leave() => return,
                Err(_) => continue,
            };
            if self.crew.begin() {
                self.call_worker(&bench);
            }
            let (mut batch, mut ended) = self.admit(batch);
            if self.sink.takes_runs() {
                self.add_runs(&mut batch);
            }
            ended.extend(self.deliver(batch).await);
            if !ended.is_empty() {
                self.done.add(&ended);
                // In one piece, so that it is settled in one. The settler outlives the workers.
                let _ = bench.finished.send(ended).await;
            }
            self.crew.end();
        }
    }

    /// Those that may start now. Of the others some wait in line, and some are given back.
    fn admit(&self, batch: Vec<Job>) -> (Vec<Job>, Vec<Finished>) {
        let (mut start, mut refused) = (Vec::with_capacity(batch.len()), Vec::new());
        for job in batch {
            match self.limits.admit(job) {
                Admission::Start(job) => start.push(job),
                Admission::Waits => self.freed.notify_one(),
                Admission::Refused(job, settlement) => {
                    refused.push(finish(job, End::Settle(settlement)));
                }
            }
        }
        (start, refused)
    }

    /// Fills a batch with what waits behind its ordered items, as far as it shares their call.
    fn add_runs(&self, batch: &mut Vec<Job>) {
        let call = |job: &Job| self.sink.call(job.item.message.topic());
        let Some(Call { group, most }) = batch.first().map(call) else { return };
        let keys: Vec<_> = batch.iter().filter_map(|job| job.key).collect();
        for key in keys {
            while batch.len() < most {
                let Some(mut next) = self.keys.more(key) else { break };
                if call(&next).group != group || !self.limits.start(&mut next) {
                    self.keys.put_back(key, next);
                    break;
                }
                batch.push(next);
            }
        }
    }

    async fn take(&self, queues: &Mutex<Queues>) -> Vec<Job> {
        let mut queues = queues.lock().await;
        tokio::select! {
            biased;
            batch = queues.take(&*self.sink) => batch,
            () = self.kill.cancelled() => {
                // A commit that is still under way keeps the queue open, but not beyond this.
                queues.hot.close();
                queues.take(&*self.sink).await
            }
        }
    }

    async fn deliver(&self, jobs: Vec<Job>) -> Vec<Finished> {
        let mut finished = Vec::with_capacity(jobs.len());
        let mut started = Vec::with_capacity(jobs.len());
        // Behind the first item of a key that does not end as done, nothing of it counts.
        let mut cut = HashSet::new();
        for job in jobs {
            if job.key.is_some_and(|key| cut.contains(&key)) {
                finished.push(finish(job, End::Settle(Settlement::Release)));
            } else if let Some(settlement) = self.unfit(&job) {
                cut.extend(job.key);
                finished.push(self.turn_away(job, settlement));
            } else {
                started.push(job);
            }
        }
        if started.is_empty() {
            return finished;
        }
        self.load.running.fetch_add(started.len(), Ordering::Relaxed);
        let begun = Instant::now();
        let outcomes = self.run(&started).await;
        let handler = begun.elapsed();
        self.load.running.fetch_sub(started.len(), Ordering::Relaxed);
        // How much to claim depends on how fast claimed work goes.
        let cold = started.iter().filter(|job| !job.hot).count();
        if cold > 0 {
            self.pace.add(cold);
        }
        let mut cut = HashSet::new();
        for (job, ran) in started.into_iter().zip(outcomes) {
            if job.key.is_some_and(|key| cut.contains(&key)) {
                finished.push(finish(job, End::Settle(Settlement::Release)));
                continue;
            }
            let total = job.item.claimed_at.since(job.item.created_at) + job.since.elapsed();
            let took = Took { handler, total };
            let end = match ran {
                Ran::Lost => End::Lost,
                Ran::Settled => {
                    self.observer().succeeded(&job.item.message, took);
                    End::Settled
                }
                Ran::Ended(outcome) => End::Settle(self.decide(&job.item, outcome, took)),
            };
            if !matches!(end, End::Settled | End::Settle(Settlement::Done)) {
                cut.extend(job.key);
            }
            finished.push(finish(job, end));
        }
        finished
    }

    /// Why a job is not started: it was handled before, it is time to stop, it is paused or
    /// somebody else's, its time is up, or its lease is about to be.
    pub(super) fn unfit(&self, job: &Job) -> Option<Settlement> {
        let message = &job.item.message;
        if job.item.lost > 0 && self.done.contains(job.item.lease.work) {
            return Some(Settlement::Done);
        }
        let lease = job.item.lease;
        if self.stop.is_cancelled() || !self.is_current(lease) || self.is_paused(job) {
            return Some(Settlement::Release);
        }
        if !self.sink.takes(message.topic()) {
            let Some(new) = self.left.note(message) else { return Some(PUT_OFF) };
            if new {
                self.observer().left(message.topic(), LEFT_FOR.as_secs());
            }
            return Some(Settlement::Release);
        }
        let dead = |reason| Some(Settlement::Dead { reason, counted: false, error: None });
        if job.expires.is_some_and(|expires| expires <= Instant::now()) {
            return dead(DeadReason::Expired);
        }
        // The claim knows only the most attempts of all topics.
        let item = &job.item;
        let used_up = item.attempts >= self.config.retry_of(message.topic()).max_attempts;
        if item.lost > 0 && used_up { dead(DeadReason::LostLeases) } else { None }
    }

    /// Ends a job that is [unfit](Self::unfit).
    pub(super) fn turn_away(&self, job: Job, settlement: Settlement) -> Finished {
        let message = &job.item.message;
        match &settlement {
            Settlement::Dead { reason, .. } => self.observer().died(message, *reason, ""),
            _ if !self.is_current(job.item.lease) => self.observer().skipped(message),
            _ => {}
        }
        finish(job, End::Settle(settlement))
    }

    /// One answer per job.
    async fn run(&self, jobs: &[Job]) -> Vec<Ran> {
        let limit = self.config.handler_timeout;
        let deadline = Instant::now() + limit;
        let deliveries = self.deliveries(jobs, deadline);
        let call = timeout(limit, without_panic(self.intercepted(&deliveries)));
        let mut answer = tokio::select! {
            biased;
            // First, because a handler that need not wait is done before anybody sets a timer.
            answer = call => match answer {
                Ok(Ok(outcomes)) => outcomes,
                Ok(Err(panic)) => {
                    vec![Outcome::Failed(format!("sink panicked: {panic}")); jobs.len()]
                }
                Err(_) => vec![Outcome::Failed(format!("timed out after {limit:?}")); jobs.len()],
            },
            () = self.kill.cancelled() => vec![Outcome::Unstarted; jobs.len()],
            () = self.all_lost(jobs) => {
                let lost = |delivery: &Delivery| match delivery.is_settled() {
                    true => Ran::Settled,
                    false => Ran::Lost,
                };
                return deliveries.iter().map(lost).collect();
            }
        };
        for (delivery, outcome) in deliveries.iter().zip(&mut answer) {
            // Whatever cut the call short came after the commit.
            if delivery.is_settled() {
                *outcome = Outcome::Done;
            }
        }
        self.after(&deliveries, &answer).await;
        let ran = |(outcome, delivery): (Outcome, &Delivery)| match delivery.is_settled() {
            true => Ran::Settled,
            false => Ran::Ended(outcome),
        };
        answer.into_iter().zip(&deliveries).map(ran).collect()
    }

    /// What the sink is called with: the same span for all, since it is one call.
    fn deliveries(&self, jobs: &[Job], deadline: Instant) -> Vec<Delivery> {
        let observer = self.observer();
        let attempt = |job: &Job| job.item.attempts + 1;
        for job in jobs {
            observer.handling(&job.item.message, attempt(job));
        }
        let span = match jobs {
            [job] => observer.span(&job.item.message, attempt(job)),
            jobs => observer.span_of_many(jobs.iter().map(|job| &job.item.message)),
        };
        let delivery = |job: &Job| {
            let right = Right { owner: self.owner, lease: job.item.lease };
            let (message, cancelled) = (job.item.message.clone(), job.cancelled.clone());
            Delivery::new(message, attempt(job), deadline, cancelled, span.clone(), right)
        };
        jobs.iter().map(delivery).collect()
    }

    /// Ends when no lease of these is left: lost to somebody, or over by this process's clock,
    /// which is before it is over by the database's.
    async fn all_lost(&self, jobs: &[Job]) {
        for job in jobs {
            while let Some(deadline) = self.leases.deadline(job.item.lease) {
                if deadline <= Instant::now() {
                    break;
                }
                // A renewal moves the deadline, so look again when it comes.
                tokio::select! {
                    biased;
                    () = job.cancelled.cancelled() => break,
                    () = sleep_until(deadline) => {}
                }
            }
        }
    }

    fn decide(&self, item: &WorkItem, outcome: Outcome, took: Took) -> Settlement {
        let retry = self.config.retry_of(item.message.topic());
        let unit = clock::random_unit();
        let decide = || lifecycle::settle(outcome, item.attempts, retry, unit);
        // A custom backoff is somebody else's code.
        let settlement = catch_unwind(AssertUnwindSafe(decide)).unwrap_or(Settlement::Retry {
            delay: self.config.lease,
            counted: true,
            error: Some("the retry policy panicked".to_owned()),
        });
        let (message, attempt, observer) = (&item.message, item.attempts + 1, self.observer());
        match &settlement {
            Settlement::Done => observer.succeeded(message, took),
            Settlement::Release => {}
            Settlement::Retry { error, .. } => {
                let error = error.as_deref().unwrap_or_default();
                observer.failed(message, attempt, retry.max_attempts, error, took);
            }
            Settlement::Dead { reason, error, .. } => {
                observer.died(message, *reason, error.as_deref().unwrap_or_default());
            }
        }
        settlement
    }
}

pub(super) fn finish(job: Job, end: End) -> Finished {
    Finished { lease: job.item.lease, end, place: job.place, key: job.key }
}
