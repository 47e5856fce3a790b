//! What must hold whatever happens to processes.

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use postroom_core::lifecycle::{DeadReason, State};
use postroom_core::store::{AdminStore, Record, TransactionalStore};
use postroom_core::{Message, MessageBuilder, MessageId, Outbox};
use tokio::task::JoinHandle;

use super::ledger::{Explanation, History};
use super::order::assert_in_order;
use super::processes::{PATIENCE, Worker, Workers, wait_for};
use super::worker::{GRACE, MAX_ATTEMPTS, PLACES, failures};

/// Where a scenario plays.
#[derive(Debug)]
pub struct Site<S> {
    /// The store, migrated and empty.
    pub store: Arc<S>,
    /// Where a worker process finds it.
    pub address: String,
    /// A folder of its own.
    pub folder: PathBuf,
    /// The test that calls [`work`](super::work) when there are orders.
    pub entry: &'static str,
}

/// Short, so that a test ends in seconds; long, so that a busy machine renews in time.
pub(super) const LEASE: Duration = Duration::from_millis(1_500);

impl<S: TransactionalStore + AdminStore> Site<S> {
    pub(super) fn workers(&self, lease: Duration) -> Workers {
        Workers::new(self.entry, &self.address, &self.folder, lease)
    }

    pub(super) fn history(&self) -> History {
        History::read(&self.folder)
    }

    async fn publish(&self, message: MessageBuilder) -> MessageId {
        Outbox::new(Arc::clone(&self.store)).publish(message).await.expect("publish").id
    }

    pub(super) async fn record(&self, id: MessageId) -> Record {
        self.store.get(id).await.expect("get").expect("it is there").record
    }

    /// Lets everybody through who waits in `hold` for this name, or one of them: name, dot, worker.
    pub(super) fn open_gate(&self, name: &str) {
        fs::write(self.folder.join(name), "").expect("the gate opens");
    }

    async fn until_handled(&self, messages: usize) {
        wait_for("messages to be handled", || self.history().handled().len() >= messages).await;
    }

    /// Waits until somebody runs the handler of this message; tells who.
    pub(super) async fn until_held(&self, id: MessageId) -> String {
        let holder = || self.history().runs_of(id).next().map(|run| run.worker.clone());
        wait_for("a holder", || holder().is_some()).await;
        holder().expect("there is one")
    }

    pub(super) async fn until_settled(&self) {
        let until = Instant::now() + PATIENCE;
        loop {
            let stats = self.store.stats().await.expect("stats");
            if stats.ready + stats.waiting + stats.leased == 0 {
                return;
            }
            assert!(Instant::now() < until, "never settled: {stats:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Stops a process, but not inside a transaction: one that holds SQLite's only write lock stops
    /// everybody, and nothing is taken over.
    pub(super) async fn stop(&self, worker: &Worker) {
        loop {
            worker.stop().await;
            let write = tokio::time::timeout(LEASE / 5, self.store.begin());
            if matches!(write.await, Ok(Ok(_))) {
                return;
            }
            worker.resume();
            tokio::time::sleep(LEASE / 5).await;
        }
    }

    /// Ends the processes well and checks what must always hold; `committed` was published by the
    /// test itself.
    async fn assert_nothing_is_lost_or_explained_by_nothing(
        &self,
        crowd: Vec<Worker>,
        committed: &[MessageId],
    ) -> History {
        self.until_settled().await;
        for worker in crowd {
            let (status, _) = worker.terminate().await;
            assert!(status.success(), "{status}");
        }
        let history = self.history();
        let (stats, handled) = (self.store.stats().await.expect("stats"), history.handled());
        assert_eq!((stats.dead, stats.done as usize), (0, handled.len()), "conserved");
        let lost = committed.iter().chain(&history.committed).find(|id| !handled.contains(id));
        assert_eq!(lost, None, "committed and not handled");
        let mut settled = HashSet::new();
        assert!(history.settled.iter().all(|(_, work, _)| settled.insert(work)), "settled twice");
        let mut late = 0;
        let repeated = history.repeated(|run| match run.key.as_str() {
            "-" => 0,
            _ => failures(run.n),
        });
        for id in repeated.keys() {
            let work = self.record(*id).await.work.seq();
            let explanation = history.explanation(*id, work);
            let runs: Vec<_> = history.runs_of(*id).collect();
            assert!(explanation.is_some(), "came again without a reason: {runs:?}");
            late += usize::from(explanation == Some(Explanation::Late));
        }
        // A place is free only after the settle, so a process has no more in hand than it has
        // places, although more than it has workers: what ended waits for its settle.
        let hits = history.hits().count();
        assert!(repeated.len() <= hits * 2 * PLACES, "{} came again", repeated.len());
        assert!(late <= hits * 4, "{late} began after a stop");
        history
    }
}

fn quick() -> MessageBuilder {
    Message::builder("quick")
}

pub(super) fn take(crowd: &mut Vec<Worker>, name: &str) -> Worker {
    let at = crowd.iter().position(|worker| worker.name == name).expect("it is alive");
    crowd.swap_remove(at)
}

/// Publishes plain and ordered messages, some of which fail at first, until it is told to stop.
struct Producer {
    stop: Arc<AtomicBool>,
    task: JoinHandle<Vec<MessageId>>,
}

impl Producer {
    fn start<S: TransactionalStore>(outbox: Outbox<S>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let task = tokio::spawn(async move {
            let mut committed = Vec::new();
            for n in 0.. {
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                let ordered = (0..20).map(|key| {
                    let builder = Message::builder("flaky").ordering_key(key.to_string());
                    builder.payload(n.to_string())
                });
                let all = ordered.chain((0..20).map(|n| quick().payload(n.to_string())));
                let published = outbox.publish_all(all).await.expect("publish");
                committed.extend(published.into_iter().map(|published| published.id));
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            committed
        });
        Self { stop, task }
    }

    async fn stop(self) -> Vec<MessageId> {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.expect("the producer")
    }
}

/// Three processes under load from all sides. One is killed and replaced, one is stopped until its
/// lease is over and goes on.
///
/// # Panics
/// When a message is lost, is settled twice, comes again without a reason or before an earlier one
/// of its key, or when the stopped process can settle what was taken from it.
pub async fn three_processes_survive<S>(site: &Site<S>)
where
    S: TransactionalStore + AdminStore,
{
    let mut workers = site.workers(LEASE).publishing();
    let mut crowd = vec![workers.start().await, workers.start().await, workers.start().await];
    let producer = Producer::start(Outbox::new(Arc::clone(&site.store)));
    site.until_handled(200).await;

    let killed = site.publish(Message::builder("hold").payload("killed")).await;
    let victim = take(&mut crowd, &site.until_held(killed).await);
    victim.kill();
    site.open_gate("killed");
    crowd.push(workers.start().await);

    let stopped = site.publish(Message::builder("hold").payload("stopped")).await;
    let zombie = take(&mut crowd, &site.until_held(stopped).await);
    site.stop(&zombie).await;
    wait_for("a successor", || site.history().runs_of(stopped).count() > 1).await;
    // Who has the message now is not done with it: the token alone keeps the zombie out.
    site.open_gate(&format!("stopped.{}", zombie.name));
    zombie.resume();
    let refused = (zombie.name.clone(), site.record(stopped).await.work.seq());
    wait_for("a refusal", || site.history().refused.contains(&refused)).await;
    let record = site.record(stopped).await;
    assert_eq!(record.state, State::Leased, "{record:?}");
    site.open_gate("stopped");
    crowd.push(zombie);

    let before = site.history().handled().len();
    site.until_handled(before + 200).await;
    let mut committed = producer.stop().await;
    site.open_gate("quiet");
    committed.extend([killed, stopped]);
    let history = site.assert_nothing_is_lost_or_explained_by_nothing(crowd, &committed).await;
    assert_in_order(&history);
    for id in [killed, stopped] {
        let record = site.record(id).await;
        assert!(record.lost > 0, "its lease ran out");
        assert_eq!((record.state, record.attempts), (State::Done, record.lost - 1));
        let first = history.runs_of(id).next().map(|run| history.owners[&run.worker]);
        assert_ne!(record.processed_by, first, "not by who was hit with it");
    }
}

/// `messages` on 100 keys over three processes. Handlers fail, two processes are killed and one is
/// stopped, each in the middle of an ordered message.
///
/// # Panics
/// When anything of a key begins before all that is earlier has ended well, or beside another one;
/// when a message is lost or comes again without a reason.
pub async fn order_survives<S>(site: &Site<S>, messages: usize)
where
    S: TransactionalStore + AdminStore,
{
    const KEYS: usize = 100;
    let rounds = messages / KEYS;
    let holds = [rounds / 4, rounds / 2, rounds * 3 / 4];
    let outbox = Outbox::new(Arc::clone(&site.store));
    let (mut committed, mut held) = (Vec::new(), Vec::new());
    for n in 0..rounds {
        let round = (0..KEYS).map(|key| {
            let topic = if key == 7 && holds.contains(&n) { "hold" } else { "flaky" };
            Message::builder(topic).ordering_key(key.to_string()).payload(n.to_string())
        });
        let published = outbox.publish_all(round).await.expect("publish");
        held.extend(holds.contains(&n).then(|| published[7].id));
        committed.extend(published.into_iter().map(|published| published.id));
    }
    let mut workers = site.workers(LEASE);
    let mut crowd = vec![workers.start().await, workers.start().await, workers.start().await];
    for (turn, (n, id)) in holds.into_iter().zip(held).enumerate() {
        let victim = take(&mut crowd, &site.until_held(id).await);
        if turn == 1 {
            site.stop(&victim).await;
            site.open_gate(&n.to_string());
            wait_for("a successor", || site.history().handled().contains(&id)).await;
            victim.resume();
            crowd.push(victim);
        } else {
            victim.kill();
            site.open_gate(&n.to_string());
            crowd.push(workers.start().await);
        }
    }
    let history = site.assert_nothing_is_lost_or_explained_by_nothing(crowd, &committed).await;
    assert_in_order(&history);
    assert_eq!(history.handled().len(), rounds * KEYS);
}

/// A message whose handler takes the process with it, among forty that are fine, and somebody who
/// starts the process again each time.
///
/// # Panics
/// When it runs more than once more than it may, does not end as dead, or when another one is not
/// delivered or pays an attempt.
pub async fn a_killer_dies_alone<S>(site: &Site<S>)
where
    S: TransactionalStore + AdminStore,
{
    let mut neighbours = Vec::new();
    for n in 0..20 {
        neighbours.push(site.publish(quick().payload(n.to_string())).await);
    }
    let killer = site.publish(Message::builder("killer")).await;
    for n in 0..20 {
        neighbours.push(site.publish(quick().payload(n.to_string())).await);
    }
    let mut workers = site.workers(LEASE);
    let mut worker = workers.start().await;
    let until = Instant::now() + PATIENCE;
    while site.record(killer).await.state != State::Dead {
        assert!(Instant::now() < until, "it is not dead yet");
        if !worker.is_alive() {
            worker.until_it_falls().await;
            worker = workers.start().await;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    site.until_settled().await;
    assert!(worker.terminate().await.0.success());
    let history = site.history();
    let record = site.record(killer).await;
    assert_eq!(record.reason, Some(DeadReason::LostLeases));
    let runs = history.runs_of(killer).count();
    assert!(runs <= MAX_ATTEMPTS as usize + 1, "{runs} runs");
    for id in neighbours {
        let record = site.record(id).await;
        assert_eq!(record.state, State::Done, "{record:?}");
        // A machine that is too busy takes leases too, but nobody may pay for the killer.
        assert!(record.attempts == 0 || !history.stalls.is_empty(), "{record:?}");
    }
}

/// SIGTERM while a process is busy with its own and with claimed messages, under a lease that
/// nobody wants to wait for.
///
/// # Panics
/// When it does not end in time, cuts or repeats anything, or leaves a lease behind.
pub async fn a_terminated_process_leaves_nothing_behind<S>(site: &Site<S>)
where
    S: TransactionalStore + AdminStore,
{
    let lease = Duration::from_secs(600);
    let mut committed = Vec::new();
    for _ in 0..40 {
        committed.push(site.publish(Message::builder("slow")).await);
    }
    let mut workers = site.workers(lease).publishing();
    let worker = workers.start().await;
    site.until_handled(8).await;
    let (status, took) = worker.terminate().await;
    assert!(status.success(), "{status}");
    assert!(took < GRACE + Duration::from_secs(1), "{took:?}");
    let history = site.history();
    assert!(history.runs.iter().all(|run| run.end.is_some()), "what ran has finished");
    let stats = site.store.stats().await.expect("stats");
    assert_eq!((stats.leased, stats.waiting), (0, 0), "and the rest is given back");
    assert_eq!(stats.done as usize, history.handled().len());
    assert!(stats.ready > 0, "there was a rest");
    // Far less than the lease.
    workers.hush();
    let worker = workers.start().await;
    site.until_settled().await;
    assert!(worker.terminate().await.0.success());
    let history = site.history();
    let handled = history.handled();
    assert!(
        committed.iter().chain(&history.committed).all(|id| handled.contains(id)),
        "nothing lost"
    );
    assert_eq!(history.runs.len(), handled.len(), "and nothing twice");
}
