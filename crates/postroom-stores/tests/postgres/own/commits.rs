//! Ends of a commit that nobody wants, with a dispatcher in the same process that would take the
//! message from memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use postroom_core::lifecycle::State;
use postroom_core::store::{AdminStore, Record};
use postroom_core::{
    Delivery, Dispatcher, DispatcherConfig, ErrorKind, Handlers, Message, MessageBuilder,
    MessageId, Outbox, OutboxTransaction, Running,
};
use postroom_stores::{PgStore, StoreConfig};
use postroom_testkit::Harness;
use sqlx::postgres::PgConnectOptions;
use tokio::sync::Barrier;
use uuid::Uuid;

use crate::own::transactions::cut_after;
use crate::postgres_support::{Pg, run, url};

const LEASE: Duration = Duration::from_secs(1);

/// A store with a dispatcher that counts what it handles.
struct Shop {
    store: Arc<PgStore>,
    outbox: Outbox<PgStore>,
    running: Running,
    handled: Arc<Mutex<HashMap<MessageId, u32>>>,
}

impl Shop {
    fn open(store: Arc<PgStore>) -> Self {
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

    async fn begin(&self) -> OutboxTransaction<PgStore> {
        self.outbox.begin().await.expect("begins")
    }

    fn runs(&self, id: MessageId) -> u32 {
        self.handled.lock().expect("lock").get(&id).copied().unwrap_or_default()
    }

    async fn record(&self, id: MessageId) -> Option<Record> {
        self.store.get(id).await.expect("get").map(|detail| detail.record)
    }

    /// Waits until nothing is left to do; then whatever was to be sent from memory has been.
    async fn until_settled(&self) {
        loop {
            let stats = self.store.stats().await.expect("stats");
            if stats.ready + stats.waiting + stats.leased == 0 && self.running.is_idle() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

fn plain() -> MessageBuilder {
    Message::builder("order.placed").payload("{}")
}

fn keyed(n: u128) -> MessageBuilder {
    plain().idempotency_key(Uuid::from_u128(n))
}

async fn lock_row(tx: &mut OutboxTransaction<PgStore>, pg: &Pg, row: i64) -> sqlx::Result<()> {
    let sql = "select set_config('search_path', $1, true)";
    sqlx::query(sql).bind(&pg.schema).execute(&mut *tx.conn()).await?;
    let lock = sqlx::query("select row from business where row = $1 for update").persistent(false);
    lock.bind(row).execute(&mut *tx.conn()).await.map(drop)
}

/// B07: in statements of the caller's, whose error it ignores.
#[tokio::test(flavor = "multi_thread")]
async fn pub_11_a_deadlock_victim_sends_nothing_and_the_survivor_is_delivered() {
    let pg = Pg::on_database_time().await;
    run(&pg.pool, "insert into business values (1), (2)").await;
    let shop = Shop::open(pg.store());
    let both = Barrier::new(2);
    let cross = async |first: i64, second: i64| {
        let mut tx = shop.begin().await;
        let id = tx.publish(plain()).expect("legal");
        lock_row(&mut tx, &pg, first).await.expect("nobody has it");
        both.wait().await;
        let locked = lock_row(&mut tx, &pg, second).await;
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
            assert_eq!(error.kind(), ErrorKind::RolledBack, "{error}");
        }
        assert_eq!(shop.runs(id), u32::from(survived));
        assert_eq!(shop.record(id).await.is_some(), survived);
    }
    assert!(shop.running.shutdown(LEASE).await);
    pg.finish().await;
}

/// B07: in the write of the messages, which wait for each other's idempotency keys.
#[tokio::test(flavor = "multi_thread")]
async fn pub_11_a_deadlock_among_commits_is_transient_for_the_victim() {
    let pg = Pg::on_database_time().await;
    let shop = Shop::open(pg.store());
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
    pg.finish().await;
}

/// B08, H4: whatever is there afterwards is delivered once, what is not there never was.
#[tokio::test(flavor = "multi_thread")]
async fn pub_11_a_commit_that_is_dropped_sends_nothing_that_is_not_there() {
    let pg = Pg::on_database_time().await;
    let shop = Shop::open(pg.store());
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
    pg.finish().await;
}

#[cfg(unix)]
mod cut_connections {
    use postroom_testkit::faults::{Cut, Proxy};

    use super::*;

    /// The same database through a proxy, with a dispatcher there.
    async fn through(pg: &Pg) -> (Proxy, Shop) {
        let direct: PgConnectOptions = url().parse().expect("a URL");
        let upstream = format!("{}:{}", direct.get_host(), direct.get_port());
        let proxy = Proxy::to(upstream.clone()).await;
        let through = url().replace(&upstream, &proxy.address().to_string());
        assert_ne!(through, url(), "the test server is known by host and port");
        let config = StoreConfig { schema: pg.schema.clone(), ..StoreConfig::default() };
        let store = PgStore::connect(&through, config).await.expect("the proxy answers");
        (proxy, Shop::open(Arc::new(store)))
    }

    async fn commit_unknown(shop: &Shop) -> MessageId {
        let mut tx = shop.begin().await;
        let id = tx.publish(plain()).expect("legal");
        let error = tx.commit().await.expect_err("no answer");
        assert_eq!(error.kind(), ErrorKind::CommitUnknown, "{error}");
        id
    }

    /// F03, from the side of the server that answered.
    #[tokio::test(flavor = "multi_thread")]
    async fn f03_a_commit_without_an_answer_is_delivered_once_after_its_lease() {
        let pg = Pg::on_database_time().await;
        let (proxy, shop) = through(&pg).await;
        proxy.cut_next(Cut::AfterCommit);
        let id = commit_unknown(&shop).await;
        assert!(shop.record(id).await.is_some(), "it was committed");
        shop.until_settled().await;
        let record = shop.record(id).await.expect("it is there");
        let came = (record.state, record.lost, record.attempts, shop.runs(id));
        assert_eq!(came, (State::Done, 1, 0, 1), "not from memory, but when its lease was over");
        assert!(shop.running.shutdown(LEASE).await);
        pg.finish().await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn f03_a_commit_that_never_arrived_is_never_delivered() {
        let pg = Pg::on_database_time().await;
        let (proxy, shop) = through(&pg).await;
        proxy.cut_next(Cut::BeforeCommit);
        let id = commit_unknown(&shop).await;
        tokio::time::sleep(LEASE).await;
        let next = shop.outbox.publish(plain()).await.expect("the pool heals").id;
        shop.until_settled().await;
        assert_eq!((shop.runs(id), shop.runs(next)), (0, 1));
        assert!(shop.record(id).await.is_none(), "it was rolled back");
        assert!(shop.running.shutdown(LEASE).await);
        pg.finish().await;
    }
}
