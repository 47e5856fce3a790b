//! Random operations on a real store and on the reference, compared step by step.
//!
//! A history is a list of small operations; leases are chosen by index from all that were ever
//! given out, so stale and settled ones are used again and again. Everything the store answers must
//! equal what [`SimStore`] answers. A failing history is shrunk before it is shown.

mod history;

use std::sync::Arc;
use std::time::Duration;

use postroom_core::lifecycle::{DeadReason, Settlement};
use postroom_core::store::{
    AdminStore, Attempt, Claim, List, Pause, Purge, Record, Settled, Store, TransactionalStore,
};
use postroom_core::{Lease, ManualClock, Message, MessageId, Outbox, OwnerToken, Topic, WorkQueue};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::conformance::watch;
use crate::harness::{Harness, Options};
use crate::sim::SimStore;
use history::{Draft, End, Kind, Op, Terms, found_before, op, options};

/// Runs `cases` random histories on fresh stores.
///
/// # Panics
/// When an answer differs from the reference's, with the shortest history that shows it.
pub fn compare_with_reference<H: Harness>(cases: u32) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let history = (options(), vec(op(), 1..40));
    for (options, ops) in found_before() {
        runtime.block_on(compare::<H>(options, &ops));
    }
    let outcome = TestRunner::new(config).run(&history, |(options, ops)| {
        runtime.block_on(compare::<H>(options, &ops));
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

async fn compare<H: Harness>(options: Options, ops: &[Op]) {
    let mut pair = Pair::<H>::fresh(options).await;
    for op in ops {
        pair.step(op).await;
    }
    pair.compare_all().await;
    pair.harness.finish().await;
}

/// A store and the reference, under one clock.
struct Pair<H: Harness> {
    harness: H,
    real: WorkQueue,
    outbox: Outbox<H::Store>,
    sim: SimStore,
    sim_queue: WorkQueue,
    sim_outbox: Outbox<SimStore>,
    clock: ManualClock,
    owners: [OwnerToken; 2],
    /// Every lease ever given out: the store's and the reference's.
    leases: Vec<(Lease, Lease)>,
    messages: Vec<Message>,
}

impl<H: Harness> Pair<H> {
    async fn fresh(options: Options) -> Self {
        let clock = ManualClock::default();
        let harness = H::fresh(clock.clone(), options).await;
        let store = harness.store();
        let sim = SimStore::new(clock.clone());
        let sim = sim.keep_done(options.keep_done).halt(options.halt);
        let sim = sim.fair_tenants(options.fair_tenants);
        Self {
            real: WorkQueue::new(Arc::clone(&store) as Arc<dyn Store>),
            outbox: Outbox::new(store),
            sim_queue: WorkQueue::new(Arc::new(sim.clone())),
            sim_outbox: Outbox::new(Arc::new(sim.clone())),
            harness,
            sim,
            clock,
            owners: [OwnerToken::random(), OwnerToken::random()],
            leases: Vec::new(),
            messages: Vec::new(),
        }
    }

    async fn step(&mut self, op: &Op) {
        match op {
            Op::Publish(drafts, end) => self.publish(drafts, *end).await,
            Op::Claim { owner, batch, suspects, max_attempts, terms } => {
                let claim = Claim::new(self.owners[*owner], Duration::from_secs(10), *batch)
                    .expect("legal")
                    .suspects(*suspects)
                    .max_attempts(*max_attempts);
                self.claim(&with_terms(claim, *terms)).await;
            }
            Op::Leave { owner } => {
                self.harness.store().leave(self.owners[*owner]).await.expect("leave");
                self.sim.leave(self.owners[*owner]).await.expect("leave");
            }
            Op::Settle { owner, items } => self.settle(self.owners[*owner], items).await,
            Op::Renew { owner, items, secs } => {
                let lease = Duration::from_secs(*secs);
                self.renew(self.owners[*owner], items, lease).await;
            }
            Op::Reap { limit, max_attempts } => {
                let store = self.harness.store();
                let real = store.reap(*limit, *max_attempts).await.expect("reap");
                let sim = self.sim.reap(*limit, *max_attempts).await.expect("reap");
                assert_eq!(real, sim, "{op:?}");
            }
            Op::Purge { done, dead, keys } => self.purge(*done, *dead, *keys).await,
            Op::Replay(which) => self.replay(which).await,
            Op::Discard(which) => self.discard(which).await,
            Op::Pause(topic) => {
                let pause = Pause { topic: topic.map(named), ..Pause::default() };
                let real = self.harness.store().pause(&pause).await.expect("pause");
                assert_eq!(real, self.sim.pause(&pause).await.expect("pause"), "{op:?}");
            }
            Op::Resume(topic) => {
                let topic = topic.map(named);
                let real = self.harness.store().resume(topic.as_ref()).await.expect("resume");
                let sim = self.sim.resume(topic.as_ref()).await.expect("resume");
                assert_eq!(real, sim, "{op:?}");
            }
            Op::Advance(secs) => self.clock.advance(Duration::from_secs(*secs)),
        }
        self.compare_stats(op).await;
    }

    async fn publish(&mut self, drafts: &[Draft], end: End) {
        let messages: Vec<_> = drafts.iter().map(|draft| self.message(draft)).collect();
        let real = publish(&self.outbox, &messages, end).await;
        let sim = publish(&self.sim_outbox, &messages, end).await;
        assert_eq!(real, sim, "{drafts:?}");
        self.messages.extend(messages);
    }

    fn message(&self, draft: &Draft) -> Message {
        if let Some(repeat) = draft.repeat.filter(|_| !self.messages.is_empty()) {
            return repeat.get(&self.messages).clone();
        }
        let topic = if draft.is_x { "x" } else { "t" };
        let mut builder = Message::builder(topic).priority(draft.priority);
        if let Some(key) = draft.key {
            builder = builder.idempotency_key(uuid::Uuid::from_u128(key));
        }
        if let Some(tenant) = draft.tenant {
            builder = builder.tenant_id(if tenant { "a" } else { "b" });
        }
        if let Some(secs) = draft.due {
            builder = builder.due_after(Duration::from_secs(secs));
        }
        if let Some(secs) = draft.expires {
            builder = builder.expires_after(Duration::from_secs(secs));
        }
        if let Some(key) = draft.ordering_key {
            builder = builder.ordering_key(key.to_string());
        }
        builder.build().expect("legal")
    }

    async fn claim(&mut self, claim: &Claim) {
        let real = self.real.claim_with(claim).await.expect("claim");
        let sim = self.sim_queue.claim_with(claim).await.expect("claim");
        let show = |items: &[postroom_core::store::WorkItem]| -> Vec<_> {
            let each = items.iter();
            each.map(|i| (i.message.id(), i.attempts, i.lost, i.locked_until)).collect()
        };
        assert_eq!(show(&real.items), show(&sim.items), "{claim:?}");
        assert_eq!(real.dead, sim.dead, "{claim:?}");
        let pairs = real.items.iter().zip(&sim.items);
        self.leases.extend(pairs.map(|(real, sim)| (real.lease, sim.lease)));
    }

    async fn settle(&self, owner: OwnerToken, items: &[(prop::sample::Index, Kind)]) {
        if self.leases.is_empty() {
            return;
        }
        let (mut real, mut sim) = (Vec::new(), Vec::new());
        for (index, kind) in items {
            let (mine, its) = *index.get(&self.leases);
            real.push((mine, settlement(kind)));
            sim.push((its, settlement(kind)));
        }
        let real = self.real.settle(owner, real).await.expect("settle");
        let sim = self.sim_queue.settle(owner, sim).await.expect("settle");
        self.compare_settled(&real, &sim);
    }

    async fn renew(&self, owner: OwnerToken, items: &[prop::sample::Index], lease: Duration) {
        if self.leases.is_empty() {
            return;
        }
        let (real, sim): (Vec<_>, Vec<_>) =
            items.iter().map(|index| *index.get(&self.leases)).unzip();
        let real = self.real.renew(owner, &real, lease).await.expect("renew");
        let sim = self.sim_queue.renew(owner, &sim, lease).await.expect("renew");
        self.compare_settled(&real, &sim);
    }

    fn compare_settled(&self, real: &Settled, sim: &Settled) {
        let theirs =
            |lease: &Lease| self.leases.iter().find(|(mine, _)| mine == lease).map(|(_, its)| *its);
        let lost: Vec<_> = real.lost.iter().filter_map(theirs).collect();
        assert_eq!((real.applied, &lost), (sim.applied, &sim.lost));
    }

    async fn purge(&self, done: Option<u64>, dead: Option<u64>, keys: Option<u64>) {
        let age = |secs: Option<u64>| secs.map(Duration::from_secs);
        let purge = Purge { done: age(done), dead: age(dead), keys: age(keys), limit: 1_000 };
        let real = self.real.purge(&purge).await.expect("purge");
        let sim = self.sim_queue.purge(&purge).await.expect("purge");
        assert_eq!(real, sim, "{purge:?}");
    }

    async fn replay(&self, which: &[prop::sample::Index]) {
        let ids = self.chosen(which);
        let real = self.harness.store().replay(&ids).await.expect("replay");
        assert_eq!(real, self.sim.replay(&ids).await.expect("replay"), "{ids:?}");
    }

    async fn discard(&self, which: &[prop::sample::Index]) {
        let ids = self.chosen(which);
        let real = self.harness.store().discard(&ids).await.expect("discard");
        assert_eq!(real, self.sim.discard(&ids).await.expect("discard"), "{ids:?}");
    }

    /// Some of the messages so far, which may never have been committed.
    fn chosen(&self, which: &[prop::sample::Index]) -> Vec<MessageId> {
        let some = which.iter().filter(|_| !self.messages.is_empty());
        some.map(|index| index.get(&self.messages).id()).collect()
    }

    async fn compare_stats(&self, after: &Op) {
        let real = self.harness.store().stats().await.expect("stats");
        let sim = self.sim.stats().await.expect("stats");
        assert_eq!(real, sim, "after {after:?}");
    }

    async fn compare_all(&self) {
        let pauses = self.harness.store().pauses().await.expect("pauses");
        assert_eq!(pauses, self.sim.pauses().await.expect("pauses"));
        let list = List { limit: 500, ..List::default() };
        let real = self.harness.store().list(&list).await.expect("list").records;
        let sim = self.sim.list(&list).await.expect("list").records;
        let show = |records: &[Record]| -> Vec<String> { records.iter().map(describe).collect() };
        assert_eq!(show(&real), show(&sim));
        for record in &sim {
            let detail = async |store: &dyn AdminStore| -> (String, Vec<Attempt>) {
                let detail = store.get(record.id).await.expect("get").expect("it is there");
                (describe(&detail.record), detail.history)
            };
            let store = self.harness.store();
            assert_eq!(detail(&*store).await, detail(&self.sim).await, "{}", record.id);
        }
        watch::assert_equal(&*self.harness.store(), &self.sim).await;
    }
}

fn with_terms(claim: Claim, terms: Terms) -> Claim {
    let build = |builder: postroom_core::MessageBuilder| builder.build().expect("legal");
    let x = build(Message::builder("x")).topic_hash();
    let claim = claim.ordered(terms.ordered).except_topics(if terms.without_x {
        vec![x]
    } else {
        Vec::new()
    });
    let Some(key) = terms.holding else { return claim };
    let key = build(Message::builder("t").ordering_key(key.to_string()));
    claim.holding(key.lane().map(|lane| lane.key_hash).into_iter().collect())
}

fn named(topic: &str) -> Topic {
    Topic::new(topic).expect("legal")
}

fn settlement(kind: &Kind) -> Settlement {
    let error = Some("boom".to_owned());
    match kind {
        Kind::Done => Settlement::Done,
        Kind::Release => Settlement::Release,
        Kind::Retry { secs, counted } => {
            Settlement::Retry { delay: Duration::from_secs(*secs), counted: *counted, error }
        }
        Kind::Dead => Settlement::Dead { reason: DeadReason::Permanent, counted: true, error },
    }
}

/// What a transaction published, or the kind of its error.
async fn publish<S: TransactionalStore>(
    outbox: &Outbox<S>,
    messages: &[Message],
    end: End,
) -> Result<Vec<(MessageId, bool)>, postroom_core::ErrorKind> {
    let mut tx = outbox.begin().await.expect("begin");
    for message in messages {
        tx.publish(message).expect("stage");
    }
    let published = match end {
        End::Commit => tx.commit().await.map_err(|error| error.kind())?.published,
        End::Rollback => {
            let flushed = tx.flush().await.map_err(|error| error.kind())?.to_vec();
            tx.rollback().await.expect("rollback");
            flushed
        }
    };
    Ok(published.into_iter().map(|p| (p.id, p.already_existed)).collect())
}

/// Everything about a record but its place in the queue, which stores number as they like.
fn describe(record: &Record) -> String {
    let Record { work: _, message, .. } = record;
    let content = message.as_ref().map(Message::content_hash);
    format!(
        "{} {:?} {:?} attempts {} lost {} next {:?} until {:?} owner {:?} error {:?} at {:?} \
         by {:?} created {:?} {content:?}",
        record.id,
        record.state,
        record.reason,
        record.attempts,
        record.lost,
        record.next_attempt_at,
        record.locked_until,
        record.owner,
        record.last_error,
        record.processed_at,
        record.processed_by,
        record.created_at,
    )
}
