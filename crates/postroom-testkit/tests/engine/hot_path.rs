//! The hot path under paused time: from a confirmed commit to a worker of this process, and from
//! nothing else.
//!
//! Most tests make every claim fail, so that what is handled came by the hot path.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use postroom_core::lifecycle::{DeadReason, State};
use postroom_core::store::{AdminStore, Record, Store, StoreTransaction, TransactionalStore};
use postroom_core::{
    Delivery, Dispatcher, DispatcherConfig, ErrorKind, Handlers, Message, MessageBuilder,
    MessageId, Outbox, OutboxTransaction, Result, Running,
};
use postroom_testkit::{Call, Fault, SimConn, SimSavepoint, SimStore, SimTx};
use tokio::time::{Instant, sleep, timeout};

struct World {
    store: Arc<SimStore>,
    outbox: Outbox<SimStore>,
    /// How often each message was handled.
    seen: Arc<Mutex<HashMap<MessageId, u32>>>,
}

impl World {
    fn new() -> Self {
        let store = Arc::new(SimStore::default().ticking());
        Self { outbox: Outbox::new(Arc::clone(&store)), store, seen: Arc::default() }
    }

    /// A world in which nothing can be claimed.
    fn without_claims() -> Self {
        let world = Self::new();
        world.fail_claims(10_000);
        world
    }

    fn fail_claims(&self, times: usize) {
        for _ in 0..times {
            self.store.fail_next(Call::Claim, Fault::Unavailable);
        }
    }

    /// Starts a dispatcher whose handler takes so long.
    fn start(&self, work: Duration, config: DispatcherConfig) -> Running {
        let seen = Arc::clone(&self.seen);
        let handlers = Handlers::new().all(move |delivery: Delivery| {
            assert!(delivery.message().occurred_at().is_some(), "as a claimed one has it");
            *seen.lock().expect("lock").entry(delivery.message().id()).or_default() += 1;
            async move {
                if !work.is_zero() {
                    sleep(work).await;
                }
                Ok(())
            }
        });
        let store = Arc::clone(&self.store);
        Dispatcher::new(store, handlers).config(config).start().expect("legal settings")
    }

    async fn publish(&self, message: MessageBuilder) -> MessageId {
        self.outbox.publish(message).await.expect("publish").id
    }

    async fn publish_many(&self, n: usize) -> Vec<MessageId> {
        let published = self.outbox.publish_all((0..n).map(|_| plain())).await.expect("publish");
        published.into_iter().map(|published| published.id).collect()
    }

    /// A transaction that waits before and after COMMIT.
    async fn slow(&self, before: Duration, after: Duration) -> OutboxTransaction<SimStore, SlowTx> {
        let tx = self.store.begin().await.expect("begin");
        self.outbox.adopt(SlowTx { tx, before, after })
    }

    async fn record(&self, id: MessageId) -> Record {
        self.store.get(id).await.expect("get").expect("it is there").record
    }

    fn runs(&self, id: MessageId) -> u32 {
        self.seen.lock().expect("lock").get(&id).copied().unwrap_or_default()
    }

    fn handled(&self) -> usize {
        self.seen.lock().expect("lock").len()
    }

    /// Whether the whole hot queue of this size is free, told by using it.
    async fn assert_all_places_are_free(&self, running: &Running, size: usize) {
        let before = running.snapshot().counts.hot_dropped;
        let all = self.publish_many(size).await;
        assert_eq!(running.snapshot().counts.hot_dropped, before, "a place has leaked");
        sleep(Duration::from_millis(100)).await;
        for id in all {
            assert_eq!(self.runs(id), 1, "it came without a claim");
        }
    }

    async fn until_settled(&self) {
        loop {
            let stats = self.store.stats().await.expect("stats");
            if stats.ready + stats.waiting + stats.leased == 0 {
                return;
            }
            sleep(Duration::from_millis(10)).await;
        }
    }
}

struct SlowTx {
    tx: SimTx,
    before: Duration,
    after: Duration,
}

impl StoreTransaction for SlowTx {
    type Conn = SimConn;
    type Nested<'a> = SimSavepoint<'a>;

    fn conn(&mut self) -> &mut SimConn {
        self.tx.conn()
    }

    async fn check_open(&mut self, writes_follow: bool) -> Result<()> {
        self.tx.check_open(writes_follow).await
    }

    async fn savepoint(&mut self) -> Result<SimSavepoint<'_>> {
        self.tx.savepoint().await
    }

    async fn commit(self) -> Result<()> {
        sleep(self.before).await;
        self.tx.commit().await?;
        sleep(self.after).await;
        Ok(())
    }

    async fn rollback(self) -> Result<()> {
        self.tx.rollback().await
    }
}

fn plain() -> MessageBuilder {
    Message::builder("t")
}

fn secs(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

const NOW: Duration = Duration::ZERO;

fn small() -> DispatcherConfig {
    DispatcherConfig {
        workers: 4,
        lease: secs(10.0),
        handler_timeout: secs(8.0),
        poll_interval: secs(1.0),
        ..DispatcherConfig::default()
    }
}

fn tiny() -> DispatcherConfig {
    DispatcherConfig { hot_queue: 1, ..small() }
}

/// H1, B02: born leased to the dispatcher that handles it.
#[tokio::test(start_paused = true)]
async fn dsp_2_a_commit_is_handled_without_a_claim_under_a_lease_of_its_own() {
    let world = World::without_claims();
    let running = world.start(secs(1.0), small());
    let began = Instant::now();
    let id = world.publish(plain()).await;
    let record = world.record(id).await;
    assert_eq!((record.state, record.owner), (State::Leased, Some(running.owner())));
    timeout(secs(0.5), world.store.woken()).await.expect_err("no claim is asked for");
    assert_eq!(world.runs(id), 1);
    world.until_settled().await;
    assert!(began.elapsed() < secs(1.1), "{:?}", began.elapsed());
    let many = world.publish_many(300).await;
    world.until_settled().await;
    assert!(running.shutdown(secs(1.0)).await);
    for id in many.into_iter().chain([id]) {
        let record = world.record(id).await;
        assert_eq!((record.state, record.attempts, record.lost), (State::Done, 0, 0));
        assert_eq!(world.runs(id), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn h4_an_end_that_is_not_a_confirmed_commit_sends_nothing_and_returns_the_place() {
    let world = World::without_claims();
    let running = world.start(NOW, tiny());
    for (round, (call, fault)) in [
        (Call::Append, Fault::Unavailable),
        (Call::Append, Fault::Contention),
        (Call::Append, Fault::ReplyLost),
        (Call::Commit, Fault::Refused),
        (Call::Commit, Fault::Contention),
        (Call::Commit, Fault::Unavailable),
        (Call::Commit, Fault::ReplyLost),
    ]
    .into_iter()
    .enumerate()
    {
        let mut tx = world.outbox.begin().await.expect("begin");
        tx.publish(plain()).expect("legal");
        world.store.fail_next(call, fault);
        tx.commit().await.expect_err("a fault");
        sleep(secs(1.0)).await;
        assert_eq!(world.handled(), round, "{call:?} {fault:?}");
        world.assert_all_places_are_free(&running, 1).await;
    }
    let mut tx = world.outbox.begin().await.expect("begin");
    tx.publish(plain()).expect("legal");
    tx.rollback().await.expect("rollback");
    let mut tx = world.outbox.begin().await.expect("begin");
    tx.publish(plain()).expect("legal");
    drop(tx);
    sleep(secs(1.0)).await;
    assert_eq!(world.handled(), 7);
    world.assert_all_places_are_free(&running, 1).await;
}

/// In a transaction of its own, a message that was chosen as a victim is published again, once.
#[tokio::test(start_paused = true)]
async fn wq_9_a_victim_is_published_again_and_sent_once() {
    let world = World::without_claims();
    let running = world.start(NOW, tiny());
    for (round, call) in [Call::Append, Call::Commit].into_iter().enumerate() {
        world.store.fail_next(call, Fault::Contention);
        let id = world.outbox.publish(plain()).await.expect("runs again").id;
        sleep(secs(1.0)).await;
        assert_eq!((world.runs(id), world.handled()), (1, 2 * round + 1), "{call:?}");
        world.assert_all_places_are_free(&running, 1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn h4_a_cancelled_commit_sends_nothing_and_returns_the_place() {
    let world = World::without_claims();
    let running = world.start(NOW, tiny());
    // Cut before COMMIT was sent, and after it took effect.
    for (before, after) in [(secs(5.0), NOW), (NOW, secs(5.0))] {
        let handled = world.handled();
        let mut tx = world.slow(before, after).await;
        let id = tx.publish(plain()).expect("legal");
        timeout(secs(1.0), tx.commit()).await.expect_err("cut");
        sleep(secs(1.0)).await;
        assert_eq!((world.runs(id), world.handled()), (0, handled));
        world.assert_all_places_are_free(&running, 1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn pub_11_an_unknown_commit_is_delivered_once_after_its_lease() {
    let world = World::new();
    let running = world.start(NOW, tiny());
    world.store.fail_next(Call::Commit, Fault::ReplyLost);
    let message = plain().build().expect("legal");
    let error = world.outbox.publish(message.clone()).await.expect_err("no answer");
    assert_eq!(error.kind(), ErrorKind::CommitUnknown);
    world.assert_all_places_are_free(&running, 1).await;
    sleep(secs(9.0)).await;
    assert_eq!(world.runs(message.id()), 0, "it may not have been committed");
    world.until_settled().await;
    running.shutdown(secs(1.0)).await;
    let record = world.record(message.id()).await;
    assert_eq!((record.state, record.attempts, record.lost), (State::Done, 0, 1));
    assert_eq!(world.runs(message.id()), 1);
}

/// B06: every combination of ends of three nested savepoints.
#[tokio::test(start_paused = true)]
async fn h5_a_savepoint_that_was_rolled_back_sends_nothing() {
    let world = World::without_claims();
    let running = world.start(NOW, DispatcherConfig { hot_queue: 4, ..small() });
    for ends in 0..8_u32 {
        let released = |level: u32| ends & (1 << level) != 0;
        world.seen.lock().expect("lock").clear();
        let mut tx = world.outbox.begin().await.expect("begin");
        tx.publish(plain()).expect("legal");
        let mut one = tx.savepoint().await.expect("savepoint");
        one.publish(plain()).expect("legal");
        let mut two = one.savepoint().await.expect("savepoint");
        two.publish(plain()).expect("legal");
        let mut three = two.savepoint().await.expect("savepoint");
        three.publish(plain()).expect("legal");
        if released(2) { three.release().await } else { three.rollback().await }.expect("ends");
        if released(1) { two.release().await } else { two.rollback().await }.expect("ends");
        if released(0) { one.release().await } else { one.rollback().await }.expect("ends");
        let committed = tx.commit().await.expect("commit");
        let depth = (0..3).take_while(|level| released(*level)).count();
        assert_eq!(committed.published.len(), 1 + depth);
        sleep(secs(0.1)).await;
        assert_eq!(world.handled(), 1 + depth, "ends {ends:03b}");
        assert!(committed.published.iter().all(|published| world.runs(published.id) == 1));
    }
    world.assert_all_places_are_free(&running, 4).await;
}

#[tokio::test(start_paused = true)]
async fn dsp_3_without_a_place_a_message_is_born_ready_and_counted() {
    let world = World::new();
    world.fail_claims(1);
    let running = world.start(secs(0.1), DispatcherConfig { hot_queue: 2, ..small() });
    sleep(secs(0.01)).await;
    let all = world.publish_many(10).await;
    sleep(secs(0.01)).await;
    let stats = world.store.stats().await.expect("stats");
    assert_eq!((stats.leased, stats.ready, running.snapshot().counts.hot_dropped), (2, 8, 8));
    world.until_settled().await;
    for id in all {
        assert_eq!((world.record(id).await.state, world.runs(id)), (State::Done, 1));
    }
    // They are woken for: the next ones do not wait for the poll.
    sleep(secs(60.0)).await;
    let began = Instant::now();
    world.publish_many(10).await;
    world.until_settled().await;
    assert!(began.elapsed() < secs(0.5), "{:?}", began.elapsed());
    assert_eq!(running.snapshot().counts.hot_dropped, 16);
    running.shutdown(secs(1.0)).await;
}

#[tokio::test(start_paused = true)]
async fn dsp_2_order_and_times_and_early_writes_are_left_to_the_claim() {
    let world = World::without_claims();
    let nobody = world.publish(plain()).await;
    let running = world.start(NOW, tiny());
    let far = Duration::from_hours(1);
    let mut ready = vec![nobody];
    ready.push(world.publish(plain().ordering_key("k")).await);
    ready.push(world.publish(plain().due_after(far)).await);
    ready.push(world.publish(plain().due_at(std::time::UNIX_EPOCH)).await);
    ready.push(world.publish(plain().expires_at(std::time::UNIX_EPOCH + far * 1_000_000)).await);
    let mut tx = world.outbox.begin().await.expect("begin");
    ready.push(tx.publish(plain()).expect("legal"));
    tx.flush().await.expect("flush");
    tx.commit().await.expect("commit");
    let mut conn = world.store.connection();
    conn.begin().await;
    ready.push(world.outbox.publish_in(&mut conn, plain()).await.expect("publish").id);
    conn.commit();
    sleep(secs(0.5)).await;
    assert_eq!((world.handled(), running.snapshot().counts.hot_dropped), (0, 0));
    for id in ready {
        assert_eq!(world.record(id).await.state, State::Ready);
    }
    world.assert_all_places_are_free(&running, 1).await;
    running.shutdown(secs(1.0)).await;
    let after = world.publish(plain()).await;
    assert_eq!(world.record(after).await.state, State::Ready, "nobody is here any more");
    let off = world.start(NOW, DispatcherConfig { hot_queue: 0, ..small() });
    let after = world.publish(plain()).await;
    assert_eq!(world.record(after).await.state, State::Ready, "it is turned off");
    assert_eq!(off.snapshot().counts.hot_dropped, 0);
}

#[tokio::test(start_paused = true)]
async fn pub_6_a_duplicate_is_not_sent() {
    let world = World::without_claims();
    let running = world.start(NOW, DispatcherConfig { hot_queue: 2, ..small() });
    let keyed = |n: u128| plain().idempotency_key(uuid::Uuid::from_u128(n));
    let first = world.publish(keyed(1)).await;
    world.until_settled().await;
    let messages = [keyed(1), keyed(2), keyed(2), keyed(1)];
    let published = world.outbox.publish_all(messages).await.expect("publish");
    world.until_settled().await;
    assert_eq!((published[0].id, published[3].id), (first, first));
    assert_eq!((world.handled(), world.runs(first), world.runs(published[1].id)), (2, 1, 1));
    world.assert_all_places_are_free(&running, 2).await;
}

/// H3: the deadline counts from before the write, not from the commit.
#[tokio::test(start_paused = true)]
async fn dsp_3_a_commit_that_comes_too_late_is_given_back_at_once() {
    let world = World::new();
    world.fail_claims(1);
    let config = DispatcherConfig { poll_interval: secs(15.0), ..tiny() };
    let running = world.start(NOW, config);
    sleep(secs(0.01)).await;
    let mut tx = world.slow(secs(9.5), NOW).await;
    let id = tx.publish(plain()).expect("legal");
    tx.commit().await.expect("commit");
    sleep(secs(0.1)).await;
    let record = world.record(id).await;
    assert_eq!((world.runs(id), record.state, record.owner), (0, State::Ready, None));
    world.until_settled().await;
    let record = world.record(id).await;
    assert_eq!((record.state, record.attempts, record.lost), (State::Done, 0, 0));
    assert_eq!(world.runs(id), 1);
    // The claim comes at once when the poller can claim.
    sleep(secs(300.0)).await;
    let mut tx = world.slow(secs(9.5), NOW).await;
    let id = tx.publish(plain()).expect("legal");
    tx.commit().await.expect("commit");
    sleep(secs(0.1)).await;
    assert_eq!(world.runs(id), 1, "told that it is ready");
    running.shutdown(secs(1.0)).await;
}

#[tokio::test(start_paused = true)]
async fn h8_what_waits_in_the_hot_queue_keeps_its_lease() {
    let world = World::without_claims();
    let running = world.start(secs(7.0), DispatcherConfig { workers: 1, ..small() });
    let all = world.publish_many(5).await;
    world.until_settled().await;
    running.shutdown(secs(1.0)).await;
    for id in all {
        let record = world.record(id).await;
        assert_eq!((record.state, record.lost, world.runs(id)), (State::Done, 0, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn dsp_11_shutdown_gives_back_queued_hot_messages_at_once() {
    let world = World::without_claims();
    let running = world.start(secs(5.0), DispatcherConfig { workers: 1, ..small() });
    world.publish_many(10).await;
    sleep(secs(1.0)).await;
    let down = tokio::spawn(running.shutdown(secs(30.0)));
    sleep(secs(0.1)).await;
    let stats = world.store.stats().await.expect("stats");
    assert_eq!((stats.ready, stats.leased), (9, 1), "they do not wait for the one that runs");
    assert!(down.await.expect("no panic"), "nothing was cut");
    let stats = world.store.stats().await.expect("stats");
    assert_eq!((stats.done, stats.ready, stats.leased, stats.failed), (1, 9, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn dsp_11_what_is_committed_during_a_shutdown_is_given_back() {
    // Within the grace time, and after it.
    for (commit, grace, clean) in [(2.0, 30.0, true), (5.0, 1.0, false)] {
        let world = World::without_claims();
        let running = world.start(NOW, small());
        let mut tx = world.slow(secs(commit), NOW).await;
        let id = tx.publish(plain()).expect("legal");
        let publisher = tokio::spawn(tx.commit());
        sleep(secs(0.5)).await;
        let began = Instant::now();
        assert_eq!(running.shutdown(secs(grace)).await, clean);
        assert!(began.elapsed() < secs(grace + 0.1), "a commit holds it no longer than that");
        publisher.await.expect("no panic").expect("commit");
        sleep(secs(0.1)).await;
        let record = world.record(id).await;
        assert_eq!((record.state, record.owner, record.attempts), (State::Ready, None, 0));
        assert_eq!(world.handled(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn dsp_1_cold_work_is_not_starved_by_hot() {
    let world = World::new();
    let cold = world.publish_many(20).await;
    let running = world.start(secs(0.01), DispatcherConfig { workers: 1, ..small() });
    let stream = tokio::spawn({
        let outbox = world.outbox.clone();
        async move {
            loop {
                outbox.publish(plain()).await.expect("publish");
                sleep(secs(0.005)).await;
            }
        }
    });
    sleep(secs(1.0)).await;
    let done = cold.iter().filter(|id| world.runs(**id) > 0).count();
    assert_eq!(
        (done, running.snapshot().counts.hot_dropped),
        (20, 0),
        "a turn in four of a hundred"
    );
    stream.abort();
    running.shutdown(secs(1.0)).await;
}

/// B29: whatever a settle comes to, the place is free after it.
#[tokio::test(start_paused = true)]
async fn h2_places_come_back_whatever_the_settle_comes_to() {
    let world = World::without_claims();
    let running = world.start(NOW, DispatcherConfig { hot_queue: 4, ..small() });
    for fault in [Fault::Unavailable, Fault::Contention, Fault::ReplyLost, Fault::Refused] {
        for times in 1..8 {
            for _ in 0..times {
                world.store.fail_next(Call::Settle, fault);
            }
            world.publish_many(4).await;
            sleep(secs(30.0)).await;
            world.assert_all_places_are_free(&running, 4).await;
            sleep(secs(30.0)).await;
        }
    }
    assert_eq!(running.snapshot().counts.hot_dropped, 0);
}

#[tokio::test(start_paused = true)]
async fn dsp_2_of_two_dispatchers_the_second_takes_over_from_the_first() {
    let world = World::without_claims();
    let one = world.start(secs(1.0), small());
    let two = world.start(secs(1.0), small());
    let id = world.publish(plain()).await;
    assert_eq!(world.record(id).await.owner, Some(one.owner()));
    one.shutdown(secs(5.0)).await;
    let id = world.publish(plain()).await;
    assert_eq!(world.record(id).await.owner, Some(two.owner()));
    drop(two);
    let id = world.publish(plain()).await;
    assert_eq!(world.record(id).await.state, State::Ready);
}

#[tokio::test(start_paused = true)]
async fn wq_1_a_message_that_expires_in_the_hot_queue_is_not_started() {
    let world = World::without_claims();
    let running = world.start(secs(5.0), DispatcherConfig { workers: 1, ..small() });
    world.publish(plain()).await;
    let id = world.publish(plain().expires_after(secs(4.0))).await;
    world.until_settled().await;
    running.shutdown(secs(1.0)).await;
    let record = world.record(id).await;
    assert_eq!((record.state, record.reason), (State::Dead, Some(DeadReason::Expired)));
    assert_eq!((record.attempts, world.runs(id)), (0, 0));
}
