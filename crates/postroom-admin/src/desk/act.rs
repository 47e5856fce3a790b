//! What people do, each with its row in the audit log.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use postroom_core::store::{Act, Changed, Detail, List, Pause, Purge, Refusal};
use postroom_core::{Error, JoinId, Message, MessageId, Published, Timestamp, Topic};
use tokio::time::Instant;

use super::audit::{Hand, to_the_end};
use super::jobs::{Job, JobId, Pace, Task};
use super::{Desk, Queue, words};
use crate::access::{Person, Right};
use crate::problem::Problem;

/// The most messages that are changed in one call, and by a job in one transaction.
pub(crate) const MOST_IDS: usize = 500;
/// A dry run counts no further.
const MOST_PLANNED: u64 = 10_000;
/// Nor for longer.
const PLANNED_FOR: Duration = Duration::from_secs(4);
/// Victims of other transactions are tried so often.
const TRIES: u32 = 4;
const LONGEST_REASON: usize = 500;

/// What a dry run found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) matched: u64,
    /// Whether there are more that were not counted.
    pub(crate) more: bool,
    pub(crate) topics: BTreeMap<String, u64>,
    /// When the oldest of them was written.
    pub(crate) oldest: Option<Timestamp>,
}

/// What a purge could delete at most. Stores do not count by age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PurgePlan {
    pub(crate) done_at_most: u64,
    pub(crate) dead_at_most: u64,
}

/// What is different in a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Edit {
    pub(crate) payload: Option<Vec<u8>>,
    pub(crate) headers: Option<BTreeMap<String, String>>,
}

impl Desk {
    /// Does it to these messages.
    pub(crate) async fn act(
        &self,
        caller: &Person,
        queue: &Queue,
        act: Act,
        ids: &[MessageId],
        reason: Option<&str>,
    ) -> Result<Changed, Problem> {
        let hand = self.hand(caller, Right::Operate, queue)?;
        let reason = checked(reason)?;
        if ids.is_empty() || ids.len() > MOST_IDS {
            let got = ids.len();
            let told = format!("ids must be 1 to {MOST_IDS}, got {got}; use a filter for more");
            return Err(Problem::invalid(told));
        }
        let ids = ids.to_vec();
        to_the_end(async move {
            let changed = persistently(|| act.apply(&*hand.store, &ids)).await;
            let (outcome, count) = match &changed {
                Ok(changed) => (words::changed(act, changed), changed.applied.len()),
                Err(error) => (format!("failed: {error}"), 0),
            };
            let outcome = with_reason(outcome, reason.as_deref());
            hand.audit(act.as_str(), &words::ids(&ids), outcome, count as u64).await;
            Ok(changed?)
        })
        .await
    }

    /// Counts what [`begin`](Self::begin) would do it to, within bounds.
    pub(crate) async fn plan(&self, queue: &Queue, act: Act, list: &List) -> Result<Plan, Problem> {
        let mut list = complete(act, list.clone())?;
        let mut plan = Plan::default();
        let deadline = Instant::now() + PLANNED_FOR;
        loop {
            let page = queue.store.list(&list).await?;
            for record in page.records.iter().filter(|record| act.means(&list, record)) {
                plan.matched += 1;
                *plan.topics.entry(record.topic.clone()).or_default() += 1;
                plan.oldest = plan.oldest.into_iter().chain([record.created_at]).min();
            }
            let Some(next) = page.next else { return Ok(plan) };
            list.before = Some(next);
            if plan.matched >= MOST_PLANNED || Instant::now() >= deadline {
                plan.more = true;
                return Ok(plan);
            }
        }
    }

    /// Does it to everything that matches, in the background.
    pub(crate) fn begin(
        &self,
        caller: &Person,
        queue: &Queue,
        act: Act,
        list: List,
        pace: Pace,
        reason: Option<&str>,
    ) -> Result<JobId, Problem> {
        let hand = self.hand(caller, Right::Operate, queue)?;
        let Pace { limit, rate } = pace;
        if !(1..=Pace::MOST_RATE).contains(&rate) {
            let most = Pace::MOST_RATE;
            return Err(Problem::invalid(format!("rate must be 1 to {most}, got {rate}")));
        }
        if limit == Some(0) {
            return Err(Problem::invalid("limit must be at least 1; leave it out for all"));
        }
        let filter = Box::new(complete(act, list)?);
        let task = Task::Act { act, filter, pace };
        Ok(self.jobs.start(Job::new(queue, task, &hand, checked(reason)?), hand)?.id)
    }

    /// Deletes what is old, in the background.
    pub(crate) fn purge(
        &self,
        caller: &Person,
        queue: &Queue,
        purge: Purge,
        reason: Option<&str>,
    ) -> Result<JobId, Problem> {
        let hand = self.hand(caller, Right::Administer, queue)?;
        let task = Task::Purge(purge);
        Ok(self.jobs.start(Job::new(queue, task, &hand, checked(reason)?), hand)?.id)
    }

    /// What a purge could delete at most, as of the last sample.
    pub(crate) async fn plan_purge(&self, queue: &Queue, purge: &Purge) -> PurgePlan {
        let sample = queue.sampler.latest().await;
        let stats = sample.seen.as_ref().map(|seen| seen.stats).unwrap_or_default();
        PurgePlan {
            done_at_most: purge.done.map_or(0, |_| stats.done),
            dead_at_most: purge.dead.or(purge.done).map_or(0, |_| stats.dead),
        }
    }

    /// The jobs of this process, newest first.
    pub(crate) fn jobs(&self) -> Vec<Arc<Job>> {
        self.jobs.all()
    }

    pub(crate) fn job(&self, id: JobId) -> Result<Arc<Job>, Problem> {
        self.jobs.get(id)
    }

    /// Stops a job between two chunks. Answers whether it was running.
    pub(crate) async fn cancel(&self, caller: &Person, id: JobId) -> Result<bool, Problem> {
        let job = self.jobs.get(id)?;
        let queue = self.queues().find(Some(&job.database), Some(job.kind))?;
        let hand = self.hand(caller, Right::Operate, &queue)?;
        to_the_end(async move {
            let was_running = job.cancel();
            let outcome = if was_running { "will stop" } else { "it had ended" };
            hand.audit("cancel", &format!("job {id}"), outcome.into(), 0).await;
            Ok(was_running)
        })
        .await
    }

    /// Pauses a topic, or the whole box. Answers whether that is new.
    pub(crate) async fn pause(
        &self,
        caller: &Person,
        queue: &Queue,
        topic: Option<&str>,
        reason: Option<&str>,
    ) -> Result<bool, Problem> {
        let hand = self.hand(caller, Right::Operate, queue)?;
        let pause = Pause {
            topic: topic.map(Topic::new).transpose()?,
            by: Some(hand.actor.clone()),
            reason: checked(reason)?,
        };
        to_the_end(async move {
            let is_new = persistently(|| hand.store.pause(&pause)).await?;
            let outcome = if is_new { "paused" } else { "was paused already" };
            let outcome = with_reason(outcome.into(), pause.reason.as_deref());
            hand.audit("pause", &words::topic(pause.topic.as_ref()), outcome, 0).await;
            Ok(is_new)
        })
        .await
    }

    /// Ends a pause. Answers whether there was one.
    pub(crate) async fn resume(
        &self,
        caller: &Person,
        queue: &Queue,
        topic: Option<&str>,
        reason: Option<&str>,
    ) -> Result<bool, Problem> {
        let hand = self.hand(caller, Right::Operate, queue)?;
        let (topic, reason) = (topic.map(Topic::new).transpose()?, checked(reason)?);
        to_the_end(async move {
            let was_paused = persistently(|| hand.store.resume(topic.as_ref())).await?;
            let outcome = if was_paused { "resumed" } else { "was not paused" };
            let outcome = with_reason(outcome.into(), reason.as_deref());
            hand.audit("resume", &words::topic(topic.as_ref()), outcome, 0).await;
            Ok(was_paused)
        })
        .await
    }

    /// Publishes a message, for trying out.
    pub(crate) async fn publish(
        &self,
        caller: &Person,
        queue: &Queue,
        message: Message,
    ) -> Result<Published, Problem> {
        let hand = self.hand(caller, Right::Operate, queue)?;
        let target = format!("message {} of {}", message.id(), message.topic());
        write(hand, queue, "publish", target, message).await
    }

    /// Publishes a new message that says what an old one said, but for the edit. The old one stays
    /// as it is, and is named as the cause of the new one.
    pub(crate) async fn edit_as_copy(
        &self,
        caller: &Person,
        queue: &Queue,
        id: MessageId,
        edit: Edit,
    ) -> Result<Published, Problem> {
        let hand = self.hand(caller, Right::Operate, queue)?;
        let Detail { record, .. } = self.find(queue, id).await?;
        let old = record.message.ok_or_else(|| {
            Problem::new(StatusCode::CONFLICT, "undecodable", "this message can not be decoded")
        })?;
        let copy = copy(&old, edit)?;
        let target = format!("copy of {id} as {}", copy.id());
        write(hand, queue, "copy", target, copy).await
    }

    /// Ends an open join without a follow-up. Answers whether it was open.
    pub(crate) async fn cancel_join(
        &self,
        caller: &Person,
        queue: &Queue,
        id: JoinId,
        reason: Option<&str>,
    ) -> Result<bool, Problem> {
        let hand = self.hand(caller, Right::Operate, queue)?;
        let reason = checked(reason)?;
        to_the_end(async move {
            let was_open = persistently(|| hand.store.cancel_join(id)).await?;
            if !was_open && hand.store.join(id).await?.is_none() {
                return Err(Problem::not_found(format!("there is no join {id}")));
            }
            let outcome = if was_open { "cancelled" } else { "had ended already" };
            let outcome = with_reason(outcome.into(), reason.as_deref());
            hand.audit("cancel join", &format!("join {id}"), outcome, 0).await;
            Ok(was_open)
        })
        .await
    }

    /// One message with its history.
    pub(crate) async fn find(&self, queue: &Queue, id: MessageId) -> Result<Detail, Problem> {
        let found = queue.store.get(id).await?;
        found.ok_or_else(|| Problem::not_found(format!("there is no message {id} in {queue}")))
    }
}

async fn write(
    hand: Hand,
    queue: &Queue,
    action: &'static str,
    target: String,
    message: Message,
) -> Result<Published, Problem> {
    if queue.kind != "outbox" {
        return Err(Problem::invalid("only an outbox takes messages; an inbox receives them"));
    }
    let publish = Arc::clone(&queue.publish);
    to_the_end(async move {
        let published = publish(message).await;
        let (outcome, count) = match &published {
            Ok(published) if published.already_existed => ("was there already".to_owned(), 0),
            Ok(_) => ("published".to_owned(), 1),
            Err(error) => (format!("failed: {error}"), 0),
        };
        hand.audit(action, &target, outcome, count).await;
        Ok(published?)
    })
    .await
}

/// The filter with what goes without saying, in pages as large as they may be.
fn complete(act: Act, mut list: List) -> Result<List, Problem> {
    list.status = Some(act.status(list.status)?);
    list.limit = MOST_IDS as u32;
    Ok(list)
}

fn copy(old: &Message, edit: Edit) -> Result<Message, Error> {
    let mut new = Message::builder(old.topic().as_str())
        .content_type(old.content_type())
        .priority(old.priority())
        .causation_id(old.id().to_string())
        .correlation_id(old.correlation_id().map_or("", |id| id.as_str()));
    new = match edit.payload {
        Some(payload) => new.payload(payload),
        None => new.payload(old.payload().clone()),
    };
    if let Some(kind) = old.aggregate_type() {
        new = new.aggregate_type(kind.as_str());
    }
    if let Some(id) = old.aggregate_id() {
        new = new.aggregate_id(id.as_str());
    }
    if let Some(key) = old.ordering_key() {
        new = new.ordering_key(key.as_str());
    }
    if let Some(tenant) = old.tenant_id() {
        new = new.tenant_id(tenant.as_str());
    }
    let kept = || old.headers().iter().map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
    for (name, value) in edit.headers.unwrap_or_else(kept) {
        new = new.header(name, value);
    }
    new.build()
}

/// A call that lost against another transaction is made again.
pub(crate) async fn persistently<T, F>(mut call: impl FnMut() -> F) -> Result<T, Error>
where
    F: Future<Output = Result<T, Error>>,
{
    for pause in (1..TRIES).map(|n| Duration::from_millis(25) * (1 << n)) {
        match call().await {
            Err(error) if error.is_transient() => tokio::time::sleep(pause).await,
            answer => return answer,
        }
    }
    call().await
}

/// Why somebody does it; nothing when that says nothing.
fn checked(reason: Option<&str>) -> Result<Option<String>, Problem> {
    let reason = reason.map(str::trim).filter(|reason| !reason.is_empty());
    match reason.map_or(0, |reason| reason.chars().count()) {
        0..=LONGEST_REASON if !reason.is_some_and(|reason| reason.contains('\0')) => {
            Ok(reason.map(ToOwned::to_owned))
        }
        0..=LONGEST_REASON => Err(Problem::invalid("reason must be free of NUL characters")),
        length => {
            let told = format!("reason must be at most {LONGEST_REASON} characters, got {length}");
            Err(Problem::invalid(told))
        }
    }
}

pub(crate) fn with_reason(outcome: String, reason: Option<&str>) -> String {
    match reason {
        None => outcome,
        Some(reason) => format!("{outcome}; reason given: {reason}"),
    }
}

/// How often each refusal was met.
pub(crate) fn refusals(changed: &Changed) -> BTreeMap<&'static str, u64> {
    let mut counts = BTreeMap::new();
    for why in changed.refused.iter().map(|(_, why): &(_, Refusal)| why.as_str()) {
        *counts.entry(why).or_default() += 1;
    }
    counts
}
