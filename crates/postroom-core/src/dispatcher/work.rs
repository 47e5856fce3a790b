//! The workers: run deliveries within their time, whatever the handler does.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

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

/// A claimed item on its way to a worker, with its place in this process.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) item: WorkItem,
    pub(super) place: OwnedSemaphorePermit,
    pub(super) cancelled: CancellationToken,
    pub(super) expires: Option<Instant>,
}

/// What became of an item; its place is free once that is settled.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) lease: Lease,
    /// None when the lease is lost: then there is nothing to say.
    pub(super) settlement: Option<Settlement>,
    pub(super) place: OwnedSemaphorePermit,
}

impl Engine {
    /// Takes jobs until there are no more. After a stop the rest is given back unstarted.
    pub(super) async fn work(
        self: Arc<Self>,
        jobs: Arc<Mutex<mpsc::Receiver<Job>>>,
        finished: mpsc::Sender<Finished>,
    ) {
        let most = self.sink.max_batch().max(1);
        loop {
            let mut batch = Vec::with_capacity(most);
            if jobs.lock().await.recv_many(&mut batch, most).await == 0 {
                return;
            }
            for done in self.deliver(batch).await {
                // The settler outlives the workers.
                let _ = finished.send(done).await;
            }
        }
    }

    async fn deliver(&self, jobs: Vec<Job>) -> Vec<Finished> {
        let mut finished = Vec::with_capacity(jobs.len());
        let mut started = Vec::with_capacity(jobs.len());
        for job in jobs {
            match self.unfit(&job) {
                Some(settlement) => finished.push(finish(job, Some(settlement))),
                None => started.push(job),
            }
        }
        if started.is_empty() {
            return finished;
        }
        self.running.fetch_add(started.len(), Ordering::Relaxed);
        let outcomes = self.run(&started).await;
        self.running.fetch_sub(started.len(), Ordering::Relaxed);
        self.pace.add(started.len());
        for (job, outcome) in started.into_iter().zip(outcomes) {
            let settlement = outcome.map(|outcome| self.decide(&job.item, outcome));
            finished.push(finish(job, settlement));
        }
        finished
    }

    /// Why a job is not started: it is time to stop, its time is up, or its lease is about to be.
    fn unfit(&self, job: &Job) -> Option<Settlement> {
        if self.stop.is_cancelled() || !self.is_current(job.item.lease) {
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

fn finish(job: Job, settlement: Option<Settlement>) -> Finished {
    Finished { lease: job.item.lease, settlement, place: job.place }
}
