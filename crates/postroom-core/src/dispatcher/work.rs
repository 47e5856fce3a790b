//! The workers: run deliveries within their time, whatever the handler does.

use std::collections::HashSet;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use tokio::sync::{Mutex, OwnedSemaphorePermit, mpsc};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::Engine;
use crate::handler::without_panic;
use crate::ids::Lease;
use crate::lifecycle::{self, DeadReason, Outcome, Settlement};
use crate::sink::Delivery;
use crate::store::WorkItem;
use crate::{clock, observe};

/// An item on its way to a worker, with its place in this process.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) item: WorkItem,
    pub(super) place: OwnedSemaphorePermit,
    pub(super) cancelled: CancellationToken,
    pub(super) expires: Option<Instant>,
    /// Whether it came from a commit of this process rather than from a claim.
    pub(super) hot: bool,
    /// The hash of its ordering key, if it has one.
    pub(super) key: Option<i64>,
}

/// Where the workers find jobs.
#[derive(Debug)]
pub(super) struct Queues {
    pub(super) hot: mpsc::Receiver<Job>,
    pub(super) cold: mpsc::Receiver<Job>,
    pub(super) turn: usize,
}

// Hot jobs go first, but for one turn in so many, or cold ones would starve.
const COLD_EVERY: usize = 4;

impl Queues {
    /// Up to `most` jobs of one queue, as soon as there is one; none once both have ended.
    async fn take(&mut self, most: usize) -> Vec<Job> {
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
    /// None when the lease is lost: then there is nothing to say.
    pub(super) settlement: Option<Settlement>,
    pub(super) place: OwnedSemaphorePermit,
    pub(super) key: Option<i64>,
}

impl Engine {
    /// Takes jobs until there are no more. After a stop the rest is given back unstarted.
    pub(super) async fn work(
        self: Arc<Self>,
        queues: Arc<Mutex<Queues>>,
        finished: mpsc::Sender<Vec<Finished>>,
    ) {
        let most = self.sink.max_batch().max(1);
        loop {
            let mut batch = self.take(&queues, most).await;
            if batch.is_empty() {
                return;
            }
            if self.sink.takes_runs() {
                self.add_runs(&mut batch, most);
            }
            // In one piece, so that it is settled in one. The settler outlives the workers.
            let _ = finished.send(self.deliver(batch).await).await;
        }
    }

    /// Fills a batch with what waits behind its ordered items.
    fn add_runs(&self, batch: &mut Vec<Job>, most: usize) {
        let keys: Vec<_> = batch.iter().filter_map(|job| job.key).collect();
        for key in keys {
            let room = most - batch.len();
            batch.extend(self.keys.more(key, room));
        }
    }

    async fn take(&self, queues: &Mutex<Queues>, most: usize) -> Vec<Job> {
        let mut queues = queues.lock().await;
        tokio::select! {
            biased;
            () = self.kill.cancelled() => {
                // A commit that is still under way keeps the queue open, but not beyond this.
                queues.hot.close();
                queues.take(most).await
            }
            batch = queues.take(most) => batch,
        }
    }

    async fn deliver(&self, jobs: Vec<Job>) -> Vec<Finished> {
        let mut finished = Vec::with_capacity(jobs.len());
        let mut started = Vec::with_capacity(jobs.len());
        // Behind the first item of a key that does not end as done, nothing of it counts.
        let mut cut = HashSet::new();
        for job in jobs {
            if job.key.is_some_and(|key| cut.contains(&key)) {
                finished.push(finish(job, Some(Settlement::Release)));
            } else if let Some(settlement) = self.unfit(&job) {
                cut.extend(job.key);
                finished.push(finish(job, Some(settlement)));
            } else {
                started.push(job);
            }
        }
        if started.is_empty() {
            return finished;
        }
        self.running.fetch_add(started.len(), Ordering::Relaxed);
        let outcomes = self.run(&started).await;
        self.running.fetch_sub(started.len(), Ordering::Relaxed);
        // How much to claim depends on how fast claimed work goes.
        let cold = started.iter().filter(|job| !job.hot).count();
        if cold > 0 {
            self.pace.add(cold);
        }
        let mut cut = HashSet::new();
        for (job, outcome) in started.into_iter().zip(outcomes) {
            if job.key.is_some_and(|key| cut.contains(&key)) {
                finished.push(finish(job, Some(Settlement::Release)));
                continue;
            }
            let settlement = outcome.map(|outcome| self.decide(&job.item, outcome));
            if settlement != Some(Settlement::Done) {
                cut.extend(job.key);
            }
            finished.push(finish(job, settlement));
        }
        finished
    }

    /// Why a job is not started: it is time to stop, it is paused, its time is up, or its lease is
    /// about to be.
    fn unfit(&self, job: &Job) -> Option<Settlement> {
        let lease = job.item.lease;
        if self.stop.is_cancelled() || !self.is_current(lease) || self.is_paused(job) {
            return Some(Settlement::Release);
        }
        let expired = job.expires.is_some_and(|expires| expires <= Instant::now());
        expired.then_some(Settlement::Dead {
            reason: DeadReason::Expired,
            counted: false,
            error: None,
        })
    }

    /// One outcome per job; none where the lease was lost meanwhile.
    async fn run(&self, jobs: &[Job]) -> Vec<Option<Outcome>> {
        let limit = self.config.handler_timeout;
        let deadline = Instant::now() + limit;
        let deliveries: Vec<_> = jobs
            .iter()
            .map(|job| {
                let attempt = job.item.attempts + 1;
                observe::handling(&job.item.message, attempt);
                let message = job.item.message.clone();
                Delivery::new(message, attempt, deadline, job.cancelled.clone())
            })
            .collect();
        let call = timeout(limit, without_panic(async { self.sink.deliver(&deliveries).await }));
        let answer = tokio::select! {
            biased;
            () = self.kill.cancelled() => vec![Outcome::Unstarted; jobs.len()],
            () = self.all_lost(jobs) => return vec![None; jobs.len()],
            answer = call => match answer {
                Ok(Ok(outcomes)) => outcomes,
                Ok(Err(panic)) => {
                    vec![Outcome::Failed(format!("sink panicked: {panic}")); jobs.len()]
                }
                Err(_) => vec![Outcome::Failed(format!("timed out after {limit:?}")); jobs.len()],
            },
        };
        let missing = || Outcome::Failed("the sink gave no answer for this message".to_owned());
        let answers = answer.into_iter().chain(std::iter::repeat_with(missing));
        jobs.iter().zip(answers).map(|(_, outcome)| Some(outcome)).collect()
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

    fn decide(&self, item: &WorkItem, outcome: Outcome) -> Settlement {
        let (retry, unit) = (&self.config.retry, clock::random_unit());
        let decide = || lifecycle::settle(outcome, item.attempts, retry, unit);
        // A custom backoff is somebody else's code.
        let settlement = catch_unwind(AssertUnwindSafe(decide)).unwrap_or(Settlement::Retry {
            delay: self.config.lease,
            counted: true,
            error: Some("the retry policy panicked".to_owned()),
        });
        let (message, attempt) = (&item.message, item.attempts + 1);
        match &settlement {
            Settlement::Done => observe::succeeded(message),
            Settlement::Release => {}
            Settlement::Retry { error, .. } => {
                let error = error.as_deref().unwrap_or_default();
                observe::failed(message, attempt, retry.max_attempts, error);
            }
            Settlement::Dead { reason, error, .. } => {
                observe::died(message, *reason, error.as_deref().unwrap_or_default());
            }
        }
        settlement
    }
}

pub(super) fn finish(job: Job, settlement: Option<Settlement>) -> Finished {
    Finished { lease: job.item.lease, settlement, place: job.place, key: job.key }
}
