//! Ends of a commit that nobody wants, with a dispatcher in the same process that would take the
//! message from memory.

use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use postroom_core::lifecycle::State;
use postroom_core::store::{AdminStore, Record};
use postroom_core::{
    Delivery, Dispatcher, DispatcherConfig, ErrorKind, Handlers, Message, MessageBuilder,
    MessageId, Outbox, OutboxTransaction, Running,
};
use postroom_stores::{MySqlStore, StoreConfig};
use postroom_testkit::Harness;
use tokio::sync::Barrier;
use uuid::Uuid;

use crate::mysql_support::{My, server, url};
use crate::own::rivals::{lock_row, number, with_contested_rows};

const LEASE: Duration = Duration::from_secs(1);

/// A store with a dispatcher that counts what it handles.
struct Shop {
    store: Arc<MySqlStore>,
    outbox: Outbox<MySqlStore>,
    running: Running,
    handled: Arc<Mutex<HashMap<MessageId, u32>>>,
}

impl Shop {
    fn open(store: Arc<MySqlStore>) -> Self {
        let handled: Arc<Mutex<HashMap<MessageId, u32>>> = Arc::default();
        let count = Arc::clone(&handled);
        let handlers = Handlers::new().all(move |delivery: Delivery| {
            *count.lock().expect("lock").entry(delivery.message().id()).or_default() += 1;
            async { Ok(()) }
        });
        let config = DispatcherConfig {
            lease: LEASE,
            handler_timeout: LEASE / 2,
            poll_interval: Duration::from_millis(50),
            ..DispatcherConfig::default()
        };
        let dispatcher = Dispatcher::new(Arc::clone(&store) as _, handlers).config(config);
        let running = dispatcher.start().expect("legal settings");
        Self { outbox: Outbox::new(Arc::clone(&store)), store, running, handled }
    }

    async fn begin(&self) -> OutboxTransaction<MySqlStore> {
        let begun = tokio::time::timeout(Duration::from_mins(1), self.outbox.begin()).await;
        begun.expect("the pool is whole").expect("begins")
    }

    fn runs(&self, id: MessageId) -> u32 {
        self.handled.lock().expect("lock").get(&id).copied().unwrap_or_default()
    }

    async fn record(&self, id: MessageId) -> Option<Record> {
        self.store.get(id).await.expect("get").map(|detail| detail.record)
    }

    /// Waits until nothing is left to do; then whatever was to be sent from memory has been.
    async fn until_settled(&self) {
        let settled = async {
            loop {
                let stats = self.store.stats().await.expect("stats");
                if stats.ready + stats.waiting + stats.leased == 0 && self.running.is_idle() {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_mins(1), settled).await.expect("it ends");
    }
}

fn plain() -> MessageBuilder {
    Message::builder("order.placed").payload("{}")
}

fn keyed(n: u128) -> MessageBuilder {
    plain().idempotency_key(Uuid::from_u128(n))
}

/// Polls a future so many times, yielding to the runtime in between, then drops it.
pub(crate) async fn cut_after<F: Future>(polls: usize, future: F) {
    let mut future = pin!(future);
    for _ in 0..polls {
        let mut cx = Context::from_waker(Waker::noop());
        if future.as_mut().poll(&mut cx).is_ready() {
            return;
        }
        tokio::time::sleep(Duration::from_micros(300)).await;
    }
}

/// B07: in statements of the caller's, whose error it ignores.
#[tokio::test(flavor = "multi_thread")]
async fn pub_11_a_deadlock_victim_sends_nothing_and_the_survivor_is_delivered() {
    let my = with_contested_rows().await;
    let shop = Shop::open(my.store());
    let both = Barrier::new(2);
    let cross = async |first: i32, second: i32| {
        let mut tx = shop.begin().await;
        let id = tx.publish(plain()).expect("legal");
        lock_row(tx.conn(), first).await.expect("nobody has it");
        both.wait().await;
        let locked = lock_row(tx.conn(), second).await;
        let deadlock = locked.as_ref().is_err_and(|error| number(error) == Some(1213));
        assert!(locked.is_ok() || deadlock, "{locked:?}");
        (id, locked.is_ok(), tx.commit().await)
    };
    let (one, two) = tokio::join!(cross(1, 2), cross(2, 1));
    shop.until_settled().await;
    assert_ne!(one.1, two.1, "one of them is the victim");
    for (id, survived, answer) in [one, two] {
        if survived {
            answer.expect("commits");
        } else {
            let error = answer.expect_err("rolled back");
            let got = (error.kind(), error.is_transient());
            assert_eq!(got, (ErrorKind::RolledBack, true), "{error}");
        }
        assert_eq!(shop.runs(id), u32::from(survived));
        assert_eq!(shop.record(id).await.is_some(), survived);
    }
    assert!(shop.running.shutdown(LEASE).await);
    my.finish().await;
}

/// B07: in the write of the messages, which wait for each other's idempotency keys.
#[tokio::test(flavor = "multi_thread")]
async fn pub_11_a_deadlock_among_commits_is_transient_for_the_victim() {
    let my = My::on_database_time().await;
    let shop = Shop::open(my.store());
    let both = Barrier::new(2);
    let cross = async |first: u128, second: u128| {
        let mut tx = shop.begin().await;
        let one = tx.publish(keyed(first)).expect("legal");
        tx.flush().await.expect("nobody has it");
        both.wait().await;
        tx.publish(keyed(second)).expect("legal");
        (one, tx.commit().await)
    };
    let (one, two) = tokio::join!(cross(1, 2), cross(2, 1));
    shop.until_settled().await;
    assert_ne!(one.1.is_ok(), two.1.is_ok(), "one of them is the victim");
    for (id, answer) in [one, two] {
        let survived = answer.is_ok();
        if let Err(error) = answer {
            assert_eq!((error.kind(), error.is_transient()), (ErrorKind::RolledBack, true));
        }
        assert_eq!(shop.runs(id), u32::from(survived), "{id}");
    }
    let handled = shop.handled.lock().expect("lock").len();
    assert_eq!(handled, 2, "both of the survivor's, none of the victim's");
    assert!(shop.running.shutdown(LEASE).await);
    my.finish().await;
}

/// B08, H4: whatever is there afterwards is delivered once, what is not there never was.
#[tokio::test(flavor = "multi_thread")]
async fn pub_11_a_commit_that_is_dropped_sends_nothing_that_is_not_there() {
    let my = My::on_database_time().await;
    let shop = Shop::open(my.store());
    let mut all = Vec::new();
    for polls in 0..40 {
        let mut tx = shop.begin().await;
        all.push(tx.publish(plain()).expect("legal"));
        cut_after(polls % 10, tx.commit()).await;
    }
    // A dropped commit ends in the background.
    shop.until_settled().await;
    tokio::time::sleep(LEASE).await;
    shop.until_settled().await;
    let mut there = 0;
    for id in all {
        let record = shop.record(id).await;
        assert_eq!(shop.runs(id), u32::from(record.is_some()), "{record:?}");
        assert!(record.is_none_or(|record| record.state == State::Done && record.attempts == 0));
        there += shop.runs(id);
    }
    assert!(there < 40, "the cuts before the end cut something");
    assert!(shop.running.shutdown(LEASE).await);
    // Not closed: a commit that is cut while the driver prepares a statement may keep its
    // connection, and closing would wait for that.
    drop(my);
}

#[cfg(unix)]
mod cut_connections {
    use postroom_testkit::faults::{Cut, Proxy};

    use super::*;

    /// The same database through a proxy, with a dispatcher there.
    async fn through(my: &My) -> (Proxy, Shop) {
        let upstream = format!("{}:{}", server().get_host(), server().get_port());
        let proxy = Proxy::to(upstream.clone()).await;
        let direct = url(&my.database);
        let through = direct.replace(&upstream, &proxy.address().to_string());
        assert_ne!(through, direct, "the test server is known by host and port");
        let store = MySqlStore::connect(&through, StoreConfig::default()).await;
        (proxy, Shop::open(Arc::new(store.expect("the proxy answers"))))
    }

    async fn commit_unknown(shop: &Shop, message: MessageBuilder) -> MessageId {
        let mut tx = shop.begin().await;
        let id = tx.publish(message).expect("legal");
        let error = tx.commit().await.expect_err("no answer");
        let got = (error.kind(), error.is_transient());
        assert_eq!(got, (ErrorKind::CommitUnknown, false), "{error}");
        id
    }

    /// F03, from the side of the server that answered.
    #[tokio::test(flavor = "multi_thread")]
    async fn f03_a_commit_without_an_answer_is_delivered_once_after_its_lease() {
        let my = My::on_database_time().await;
        let (proxy, shop) = through(&my).await;
        proxy.cut_next(Cut::AfterCommit);
        let id = commit_unknown(&shop, plain()).await;
        assert!(shop.record(id).await.is_some(), "it was committed");
        shop.until_settled().await;
        let record = shop.record(id).await.expect("it is there");
        let came = (record.state, record.lost, record.attempts, shop.runs(id));
        assert_eq!(came, (State::Done, 1, 0, 1), "not from memory, but when its lease was over");
        assert!(shop.running.shutdown(LEASE).await);
        my.finish().await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn f03_a_commit_that_never_arrived_is_never_delivered() {
        let my = My::on_database_time().await;
        let (proxy, shop) = through(&my).await;
        proxy.cut_next(Cut::BeforeCommit);
        let id = commit_unknown(&shop, plain()).await;
        tokio::time::sleep(LEASE).await;
        let next = shop.outbox.publish(plain()).await.expect("the pool heals").id;
        shop.until_settled().await;
        assert_eq!((shop.runs(id), shop.runs(next)), (0, 1));
        assert!(shop.record(id).await.is_none(), "it was rolled back");
        assert!(shop.running.shutdown(LEASE).await);
        my.finish().await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn pub_11_with_a_key_an_unknown_commit_is_safely_run_again() {
        let my = My::on_database_time().await;
        let (proxy, shop) = through(&my).await;
        for (key, cut) in [(1, Cut::AfterCommit), (2, Cut::BeforeCommit)] {
            proxy.cut_next(cut);
            let first = commit_unknown(&shop, keyed(key)).await;
            let again = shop.outbox.publish(keyed(key)).await.expect("the retry is answered");
            let existed = cut == Cut::AfterCommit;
            assert_eq!((again.already_existed, again.id == first), (existed, existed));
            shop.until_settled().await;
            assert_eq!(shop.runs(again.id), 1, "{cut:?}");
        }
        assert_eq!(shop.handled.lock().expect("lock").len(), 2);
        assert!(shop.running.shutdown(LEASE).await);
        my.finish().await;
    }
}
