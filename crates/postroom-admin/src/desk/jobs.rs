//! Work on everything that matches a filter: in the background, in chunks, not too fast, seen and
//! stopped by whoever may.
//!
//! A job goes through the messages once, newest first, and never back: what it replayed and what
//! died again lies behind it. What was written or died after it began is left alone. Jobs live in
//! the memory of this process.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::StatusCode;
use postroom_core::store::{Act, AdminStore, List, Purge, Record, Store};
use postroom_core::{Error, MessageId, Timestamp, WorkQueue};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;

use super::act::{persistently, refusals, with_reason};
use super::audit::Hand;
use super::{Queue, words};
use crate::problem::Problem;

/// How many are remembered.
const MOST_JOBS: usize = 50;
/// How long a job may take to end when its database is gone.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Which job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct JobId(Uuid);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl FromStr for JobId {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Self, Problem> {
        let told = |_| Problem::invalid("job id must be a UUID");
        Uuid::parse_str(text).map(Self).map_err(told)
    }
}

/// What a job does.
#[derive(Clone, Debug)]
pub(crate) enum Task {
    Act { act: Act, filter: Box<List>, pace: Pace },
    Purge(Purge),
}

impl Task {
    pub(crate) fn action(&self) -> &'static str {
        match self {
            Self::Act { act, .. } => act.as_str(),
            Self::Purge(_) => "purge",
        }
    }
}

/// How many messages, and how fast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pace {
    /// At most so many; nothing means all.
    pub(crate) limit: Option<u64>,
    /// So many per second.
    pub(crate) rate: u32,
}

impl Pace {
    pub(crate) const RATE: u32 = 1_000;
    pub(crate) const MOST_RATE: u32 = 100_000;
}

impl Default for Pace {
    fn default() -> Self {
        Self { limit: None, rate: Self::RATE }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobState {
    Running,
    Done,
    Cancelled,
    Failed,
}

impl JobState {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
        }
    }
}

/// How far a job is.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    pub(crate) state: JobState,
    /// Messages that were changed or deleted.
    pub(crate) applied: u64,
    /// Messages that others had changed meanwhile, by reason.
    pub(crate) refused: BTreeMap<&'static str, u64>,
    /// Messages that match, but were written or died after the job began.
    pub(crate) too_new: u64,
    pub(crate) ended_at: Option<Timestamp>,
    /// What a failed one died of.
    pub(crate) error: Option<String>,
}

/// One job.
pub(crate) struct Job {
    pub(crate) id: JobId,
    pub(crate) database: String,
    pub(crate) kind: &'static str,
    pub(crate) task: Task,
    /// Who began it.
    pub(crate) by: String,
    pub(crate) reason: Option<String>,
    pub(crate) began_at: Timestamp,
    progress: Mutex<Progress>,
    stop: CancellationToken,
    /// When its database is not here any more.
    gone: CancellationToken,
}

impl Job {
    pub(super) fn new(queue: &Queue, task: Task, hand: &Hand, reason: Option<String>) -> Self {
        Self {
            id: JobId(Uuid::new_v4()),
            database: queue.database.clone(),
            kind: queue.kind,
            task,
            by: hand.actor.clone(),
            reason,
            began_at: Timestamp::host_now(),
            progress: Mutex::new(Progress {
                state: JobState::Running,
                applied: 0,
                refused: BTreeMap::new(),
                too_new: 0,
                ended_at: None,
                error: None,
            }),
            stop: CancellationToken::new(),
            gone: queue.gone.clone(),
        }
    }

    pub(crate) fn progress(&self) -> Progress {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_running(&self) -> bool {
        self.lock().state == JobState::Running
    }

    /// Answers whether it was running.
    pub(super) fn cancel(&self) -> bool {
        self.stop.cancel();
        self.is_running()
    }

    async fn run(&self, hand: &Hand) {
        let target = words::task(&self.task);
        let ended = tokio::select! {
            ended = self.work(hand, &target) => ended,
            () = self.is_abandoned() => Ok(JobState::Cancelled),
        };
        self.end(ended, hand, &target).await;
    }

    async fn work(&self, hand: &Hand, target: &str) -> Result<JobState, Error> {
        // Whoever finds a half-done job after a crash finds out here who began it.
        let outcome = with_reason(format!("job {} began", self.id), self.reason.as_deref());
        hand.audit(self.task.action(), target, outcome, 0).await;
        match &self.task {
            Task::Act { act, filter, pace } => {
                let (store, began) = (&*hand.store, began(&*hand.store).await);
                let walk = Walk { job: self, store, act: *act, filter, began };
                walk.run(pace.limit.unwrap_or(u64::MAX), pace.rate).await
            }
            Task::Purge(purge) => self.purge(Arc::clone(&hand.store) as _, purge).await,
        }
    }

    /// Resolves when its database is gone and what is under way there does not end.
    async fn is_abandoned(&self) {
        self.gone.cancelled().await;
        self.stop.cancel();
        sleep(LAST_WORDS).await;
    }

    async fn purge(&self, store: Arc<dyn Store>, purge: &Purge) -> Result<JobState, Error> {
        let queue = WorkQueue::new(store);
        while !self.stop.is_cancelled() {
            let chunk = queue.purge(purge).await?;
            self.lock().applied += u64::from(chunk.messages);
            if !chunk.more {
                return Ok(JobState::Done);
            }
            tokio::task::yield_now().await;
        }
        Ok(JobState::Cancelled)
    }

    async fn end(&self, ended: Result<JobState, Error>, hand: &Hand, target: &str) {
        let mut progress = self.progress();
        progress.state = *ended.as_ref().unwrap_or(&JobState::Failed);
        progress.error = ended.err().map(|error| {
            tracing::warn!(%error, job = %self.id, "a job failed");
            Problem::from(error).message
        });
        if self.gone.is_cancelled() && progress.state != JobState::Done {
            progress.state = JobState::Failed;
            progress.error = Some("its database is not here any more".into());
        }
        progress.ended_at = Some(Timestamp::host_now());
        let outcome = match &self.task {
            Task::Act { act, .. } => words::outcome(*act, progress.applied, &progress.refused),
            Task::Purge(_) => format!("{} deleted", progress.applied),
        };
        let outcome = match (progress.state, &progress.error) {
            (JobState::Cancelled, _) => format!("{outcome}; stopped before the end"),
            (_, Some(error)) => format!("{outcome}; failed: {error}"),
            _ => outcome,
        };
        let outcome = with_reason(format!("job {}: {outcome}", self.id), self.reason.as_deref());
        let audit = hand.audit(self.task.action(), target, outcome, progress.applied);
        match self.gone.is_cancelled() {
            false => audit.await,
            true => timeout(LAST_WORDS, audit).await.unwrap_or_default(),
        }
        // Last, so that who sees it ended finds it in the audit log.
        *self.lock() = progress;
    }
}

/// Ends a job that could not end itself: by a panic, or because the runtime stopped.
struct Ending(Arc<Job>);

impl Drop for Ending {
    fn drop(&mut self) {
        let mut progress = self.0.lock();
        if progress.state == JobState::Running {
            progress.state = JobState::Failed;
            progress.ended_at = Some(Timestamp::host_now());
            progress.error = Some("it was interrupted".into());
        }
    }
}

/// When the job began, by the database's clock: that of the audit row just written.
async fn began(store: &dyn AdminStore) -> Timestamp {
    let newest = store.audit(None, 1).await.ok().and_then(|rows| rows.first().map(|row| row.at));
    newest.unwrap_or_else(Timestamp::host_now)
}

/// Whether a message was written, and died if it is dead, before the job began.
fn was_there(record: &Record, began: Timestamp) -> bool {
    record.created_at <= began && record.processed_at.is_none_or(|settled| settled <= began)
}

/// Through all messages that a filter finds, once.
struct Walk<'a> {
    job: &'a Job,
    store: &'a dyn AdminStore,
    act: Act,
    filter: &'a List,
    began: Timestamp,
}

impl Walk<'_> {
    async fn run(&self, limit: u64, rate: u32) -> Result<JobState, Error> {
        let start = Instant::now();
        let mut list = self.filter.clone();
        let mut taken = 0;
        loop {
            let page = persistently(|| self.store.list(&list)).await?;
            let mut ids = self.choose(&page.records);
            ids.truncate(usize::try_from(limit - taken).unwrap_or(usize::MAX));
            for chunk in ids.chunks(list.limit.min(rate) as usize) {
                if self.must_stop(start, taken, rate).await {
                    return Ok(JobState::Cancelled);
                }
                self.apply(chunk).await?;
                taken += chunk.len() as u64;
            }
            match page.next {
                Some(next) if taken < limit => list.before = Some(next),
                _ => return Ok(JobState::Done),
            }
            if self.job.stop.is_cancelled() {
                return Ok(JobState::Cancelled);
            }
        }
    }

    /// Those that were there when the job began.
    fn choose(&self, records: &[Record]) -> Vec<MessageId> {
        let is_old = |record: &&Record| was_there(record, self.began);
        let meant = records.iter().filter(|record| self.act.means(self.filter, record));
        let (old, new): (Vec<_>, Vec<_>) = meant.partition(is_old);
        self.job.lock().too_new += new.len() as u64;
        old.into_iter().map(|record| record.id).collect()
    }

    /// Waits for the turn of the next chunk.
    async fn must_stop(&self, start: Instant, taken: u64, rate: u32) -> bool {
        let turn = start + Duration::from_secs_f64(taken as f64 / f64::from(rate));
        tokio::select! {
            biased;
            () = self.job.stop.cancelled() => true,
            () = sleep_until(turn) => false,
        }
    }

    async fn apply(&self, ids: &[MessageId]) -> Result<(), Error> {
        let changed = persistently(|| self.act.apply(self.store, ids)).await?;
        let mut progress = self.job.lock();
        progress.applied += changed.applied.len() as u64;
        for (why, count) in refusals(&changed) {
            *progress.refused.entry(why).or_default() += count;
        }
        Ok(())
    }
}

/// The jobs of this process, newest first. All stop when this is dropped.
pub(crate) struct Jobs {
    jobs: Mutex<VecDeque<Arc<Job>>>,
    stop: CancellationToken,
    _guard: DropGuard,
}

impl Jobs {
    pub(super) fn new(stop: &CancellationToken) -> Self {
        let stop = stop.child_token();
        Self { jobs: Mutex::default(), _guard: stop.clone().drop_guard(), stop }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<Job>>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts it in the background, unless its box has one that runs.
    pub(super) fn start(&self, job: Job, hand: Hand) -> Result<Arc<Job>, Problem> {
        let job = self.add(job)?;
        let ending = Ending(Arc::clone(&job));
        tokio::spawn(async move { ending.0.run(&hand).await });
        Ok(job)
    }

    fn add(&self, mut job: Job) -> Result<Arc<Job>, Problem> {
        let mut jobs = self.lock();
        let same_box = |other: &&Arc<Job>| {
            other.is_running() && (&other.database, other.kind) == (&job.database, job.kind)
        };
        if let Some(running) = jobs.iter().find(same_box) {
            let id = running.id;
            let told = format!("job {id} is still running for this box; wait, or cancel it");
            return Err(Problem::new(StatusCode::CONFLICT, "job_running", told).job(id));
        }
        job.stop = self.stop.child_token();
        let job = Arc::new(job);
        jobs.push_front(Arc::clone(&job));
        if jobs.len() > MOST_JOBS
            && let Some(oldest) = jobs.iter().rposition(|job| !job.is_running())
        {
            jobs.remove(oldest);
        }
        Ok(job)
    }

    pub(crate) fn all(&self) -> Vec<Arc<Job>> {
        self.lock().iter().cloned().collect()
    }

    pub(crate) fn get(&self, id: JobId) -> Result<Arc<Job>, Problem> {
        let found = self.lock().iter().find(|job| job.id == id).cloned();
        found.ok_or_else(|| Problem::not_found(format!("there is no job {id}, or no longer")))
    }
}

#[cfg(test)]
mod tests {
    use postroom_core::WorkId;
    use postroom_core::lifecycle::State;

    use super::*;

    #[test]
    fn x16_what_was_written_or_died_after_the_job_began_is_too_new() {
        let time = Timestamp::from_micros;
        let was_there = |created, settled: Option<i64>| {
            let record = Record {
                message: None,
                payload_bytes: 0,
                id: MessageId::new(),
                work: WorkId::new(1),
                topic: "t".into(),
                tenant_id: None,
                state: State::Dead,
                reason: None,
                created_at: time(created),
                attempts: 0,
                lost: 0,
                next_attempt_at: None,
                locked_until: None,
                owner: None,
                last_error: None,
                processed_at: settled.map(time),
                processed_by: None,
            };
            was_there(&record, time(5))
        };
        assert!(was_there(1, None) && was_there(5, Some(5)));
        assert!(!was_there(6, None) && !was_there(1, Some(6)));
    }
}
