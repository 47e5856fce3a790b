//! Processes wake each other by notifications: after commits, few of them, and only who needs them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use postroom_core::store::{AdminStore, Silence, Store, TransactionalStore, Wakes};
use postroom_core::{Message, MessageBuilder, MessageId, Outbox, OwnerToken};
use postroom_stores::{PgStore, StoreConfig};
use postroom_testkit::Harness;
use sqlx::Connection;
use sqlx::postgres::{PgConnectOptions, PgListener, PgNotification, PgPoolOptions, PgSslMode};
use tokio::time::{sleep, timeout};

use crate::own::proxy::without_notifications;
use crate::postgres_support::{Pg, url};
use crate::wakes_support::{
    PATIENCE, claims, come_to_rest, counted, listening, polling, until_wakes,
};

fn plain() -> MessageBuilder {
    Message::builder("t")
}

impl Pg {
    /// The same box, as another process would open it.
    async fn again(&self) -> Arc<PgStore> {
        let config = StoreConfig { schema: self.schema.clone(), ..StoreConfig::default() };
        Arc::new(PgStore::connect(&url(), config).await.expect("the test server answers"))
    }

    /// Publishes without a word to anybody.
    async fn publish_quietly(&self) -> MessageId {
        let mut conn = self.connection().await;
        let mut tx = conn.begin().await.expect("begins");
        let published = Outbox::new(self.store()).publish_in(&mut tx, plain()).await;
        tx.commit().await.expect("commits");
        published.expect("publishes").id
    }

    /// The processes of the server that listen for this box.
    async fn listeners(&self) -> Vec<i32> {
        let sql = "select pid from pg_stat_activity where query like 'LISTEN %' || $1 || '%'";
        let pids = sqlx::query_scalar(sql).bind(self.store.channel()).fetch_all(&self.pool);
        pids.await.expect("selects")
    }

    async fn until_listeners(&self, wanted: usize) {
        let waiting = async {
            while self.listeners().await.len() != wanted {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(PATIENCE, waiting).await.expect("they come and go");
    }
}

async fn until_done(pg: &Pg, messages: u64) {
    let waiting = async {
        while pg.store.stats().await.expect("stats").done < messages {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, waiting).await.expect("everything is handled");
}

/// Somebody who hears every ring for a box.
struct Rings(PgListener);

impl Rings {
    async fn of(pg: &Pg) -> Self {
        let mut listener = PgListener::connect(&url()).await.expect("the test server answers");
        listener.listen(pg.store.channel()).await.expect("listens");
        Self(listener)
    }

    async fn next(&mut self) -> PgNotification {
        let next = timeout(PATIENCE, self.0.recv()).await;
        next.expect("somebody rings").expect("the connection holds")
    }

    /// What was committed until now; notifications come in the order of commits.
    async fn so_far(&mut self, pg: &Pg) -> Vec<PgNotification> {
        let end = sqlx::query("select pg_notify($1, 'end')").bind(pg.store.channel());
        end.execute(&pg.pool).await.expect("notifies");
        let mut rings = Vec::new();
        loop {
            match self.next().await {
                ring if ring.payload() == "end" => return rings,
                // Not for dispatchers.
                ring if ring.payload().starts_with("probe ") => {}
                ring => rings.push(ring),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dsp_9_a_commit_wakes_dispatchers_of_other_processes() {
    let pg = Pg::on_database_time().await;
    let there = pg.again().await;
    let mut dispatcher = listening(&there);
    until_wakes(&*there, Wakes::Listening).await;
    let outbox = Outbox::new(pg.store());
    for n in 0..5 {
        let message = if n % 2 == 0 { plain() } else { plain().ordering_key("k") };
        let published = outbox.publish(message).await.expect("publishes");
        assert_eq!(dispatcher.next().await, published.id);
    }
    dispatcher.shutdown().await;
    pg.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pub_4_a_plain_transaction_and_a_wake_are_heard_by_other_processes() {
    let pg = Pg::on_database_time().await;
    let there = pg.again().await;
    let mut dispatcher = listening(&there);
    until_wakes(&*there, Wakes::Listening).await;
    for _ in 0..3 {
        let id = pg.publish_quietly().await;
        pg.store.wake();
        assert_eq!(dispatcher.next().await, id);
    }
    dispatcher.shutdown().await;
    pg.finish().await;
}

/// Whoever writes messages without us may ring with whatever payload.
#[tokio::test(flavor = "multi_thread")]
async fn pub_8_other_languages_ring_themselves() {
    let pg = Pg::on_database_time().await;
    let there = pg.again().await;
    let mut dispatcher = listening(&there);
    until_wakes(&*there, Wakes::Listening).await;
    for payload in ["", "hello"] {
        let id = pg.publish_quietly().await;
        let ring = sqlx::query("select pg_notify($1, $2)").bind(pg.store.channel()).bind(payload);
        ring.execute(&pg.pool).await.expect("notifies");
        assert_eq!(dispatcher.next().await, id);
    }
    dispatcher.shutdown().await;
    pg.finish().await;
}

/// A commit of a bare transaction says nothing, and one of our own handle speaks on another
/// connection than the one that wrote.
#[tokio::test]
async fn dsp_9_nobody_rings_inside_a_business_transaction() {
    let pg = Pg::on_database_time().await;
    let mut rings = Rings::of(&pg).await;
    pg.publish_quietly().await;
    assert_eq!(rings.so_far(&pg).await.len(), 0, "a bare transaction rings for nobody");
    let mut tx = Outbox::new(pg.store()).begin().await.expect("begins");
    let pid = sqlx::query_scalar::<_, i32>("select pg_backend_pid()").fetch_one(tx.conn());
    let pid = u32::try_from(pid.await.expect("selects")).expect("a process id");
    tx.publish(plain()).expect("legal");
    tx.commit().await.expect("commits");
    assert_ne!(rings.next().await.process_id(), pid);
    pg.finish().await;
}

#[tokio::test]
async fn dsp_9_a_duplicate_and_a_rollback_ring_for_nobody() {
    let pg = Pg::on_database_time().await;
    let message = plain().build().expect("legal");
    Outbox::new(pg.store()).publish(&message).await.expect("publishes");
    pg.store.close().await;
    let mut rings = Rings::of(&pg).await;
    let store = pg.again().await;
    let outbox = Outbox::new(Arc::clone(&store));
    assert!(outbox.publish(&message).await.expect("publishes").already_existed);
    let mut tx = outbox.begin().await.expect("begins");
    tx.publish(plain()).expect("legal");
    tx.rollback().await.expect("rolls back");
    store.close().await;
    assert_eq!(rings.so_far(&pg).await.len(), 0);
    pg.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dsp_9_rows_born_leased_ring_for_nobody() {
    let pg = Pg::on_database_time().await;
    let mut rings = Rings::of(&pg).await;
    let mut dispatcher = listening(&pg.store);
    let outbox = Outbox::new(pg.store());
    for _ in 0..50 {
        let published = outbox.publish(plain()).await.expect("publishes");
        assert_eq!(dispatcher.next().await, published.id);
    }
    assert_eq!(dispatcher.running.snapshot().counts.hot_dropped, 0);
    until_done(&pg, 50).await;
    pg.store.close().await;
    assert_eq!(rings.so_far(&pg).await.len(), 0);
    dispatcher.shutdown().await;
    pg.finish().await;
}

/// One thread, so nothing runs in the background before all of them were asked for.
#[tokio::test]
async fn dsp_9_many_wakes_are_one_notification() {
    let pg = Pg::on_database_time().await;
    let mut rings = Rings::of(&pg).await;
    for _ in 0..10_000 {
        pg.store.wake();
    }
    rings.next().await;
    // Time for one too many.
    sleep(Duration::from_millis(100)).await;
    assert_eq!(rings.so_far(&pg).await.len(), 0);
    pg.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn b44_commits_ring_at_most_every_millisecond() {
    let pg = Pg::on_database_time().await;
    let mut rings = Rings::of(&pg).await;
    let began = Instant::now();
    let publishers = (0..8).map(|_| {
        let outbox = Outbox::new(pg.store());
        tokio::spawn(async move {
            for _ in 0..50 {
                outbox.publish(plain()).await.expect("publishes");
            }
        })
    });
    for publisher in publishers.collect::<Vec<_>>() {
        publisher.await.expect("publishes");
    }
    pg.store.close().await;
    let most = began.elapsed().as_millis() + 2;
    let rung = rings.so_far(&pg).await.len();
    assert!(rung >= 1 && rung as u128 <= most, "{rung} rings where {most} are allowed");
    pg.finish().await;
}

/// It was woken in process already: a claim for each wake-up is enough.
#[tokio::test(flavor = "multi_thread")]
async fn dsp_9_a_process_ignores_its_own_rings() {
    let pg = Pg::on_database_time().await;
    let mut rings = Rings::of(&pg).await;
    let counted = counted(&pg.store);
    let dispatcher = listening(&counted);
    until_wakes(&*pg.store, Wakes::Listening).await;
    let before = claims(&counted);
    for _ in 0..20 {
        pg.store.wake();
        while rings.next().await.payload().starts_with("probe ") {}
        // Time for a claim too many.
        sleep(Duration::from_millis(20)).await;
    }
    let claimed = claims(&counted) - before;
    // A few are still to come from the start.
    assert!(claimed <= 25, "{claimed} claims for 20 wake-ups");
    dispatcher.shutdown().await;
    pg.finish().await;
}

/// What one process gives back another one takes at once.
#[tokio::test]
async fn dsp_9_an_owner_that_leaves_rings() {
    let pg = Pg::on_database_time().await;
    let mut rings = Rings::of(&pg).await;
    pg.store.leave(OwnerToken::random()).await.expect("leaves");
    rings.next().await;
    pg.finish().await;
}

#[tokio::test]
async fn dsp_9_what_an_admin_lets_go_on_is_rung_for() {
    let pg = Pg::on_database_time().await;
    let mut rings = Rings::of(&pg).await;
    pg.store.resume(None).await.expect("resumes");
    let first = rings.next().await;
    let replayed = pg.store.replay(&[]).await.expect("replays");
    assert!(replayed.applied.is_empty());
    assert_eq!(rings.next().await.payload(), first.payload(), "it names who rings");
    pg.finish().await;
}

#[tokio::test]
async fn dsp_9_boxes_do_not_wake_each_other() {
    let pg = Pg::on_database_time().await;
    let mut rings = Rings::of(&pg).await;
    let prefix = StoreConfig { prefix: "x_".to_owned(), ..StoreConfig::default() };
    for config in [StoreConfig { schema: pg.schema.clone(), ..prefix }, StoreConfig::default()] {
        let other = PgStore::connect(&url(), config).await.expect("the test server answers");
        other.wake();
        other.close().await;
    }
    assert_eq!(rings.so_far(&pg).await.len(), 0);
    pg.finish().await;
}

/// Behind it a LISTEN goes well and nothing ever comes.
#[tokio::test(flavor = "multi_thread")]
async fn dsp_9_behind_a_pooler_it_polls_and_says_so() {
    let pg = Pg::on_database_time().await;
    let options: PgConnectOptions = url().parse().expect("POSTROOM_TEST_PG_URL is a URL");
    let server = format!("{}:{}", options.get_host(), options.get_port());
    let options = options.host("127.0.0.1").port(without_notifications(server).await);
    let pool = PgPoolOptions::new().connect_lazy_with(options.ssl_mode(PgSslMode::Disable));
    let config = StoreConfig { schema: pg.schema.clone(), ..StoreConfig::default() };
    let store = Arc::new(PgStore::new(pool, config).expect("legal names"));
    let mut dispatcher = polling(&store, Duration::from_millis(50));
    until_wakes(&*store, Wakes::PollOnly { why: Silence::Undelivered }).await;
    for _ in 0..3 {
        let published = Outbox::new(pg.store()).publish(plain()).await.expect("publishes");
        assert_eq!(dispatcher.next().await, published.id);
    }
    dispatcher.shutdown().await;
    pg.finish().await;
}

/// The message was never rung for, so what finds it is the wake-up after listening again.
#[tokio::test(flavor = "multi_thread")]
async fn b43_a_lost_connection_listens_again_and_wakes() {
    let pg = Pg::on_database_time().await;
    let there = pg.again().await;
    let mut dispatcher = listening(&there);
    until_wakes(&*there, Wakes::Listening).await;
    let outbox = Outbox::new(pg.store());
    let published = outbox.publish(plain()).await.expect("publishes");
    assert_eq!(dispatcher.next().await, published.id);
    for _ in 0..2 {
        let quiet = pg.publish_quietly().await;
        let kill = "select pg_terminate_backend(pid) from unnest($1::int[]) pid";
        let lost = pg.listeners().await;
        assert_eq!(lost.len(), 1);
        sqlx::query(kill).bind(&lost).execute(&pg.pool).await.expect("terminates");
        assert_eq!(dispatcher.next().await, quiet);
        let another = async {
            while !matches!(*pg.listeners().await, [pid] if pid != lost[0]) {
                sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(PATIENCE, another).await.expect("another one listens");
        until_wakes(&*there, Wakes::Listening).await;
        let published = outbox.publish(plain()).await.expect("publishes");
        assert_eq!(dispatcher.next().await, published.id);
    }
    dispatcher.shutdown().await;
    pg.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dsp_9_only_who_waits_for_work_listens() {
    let pg = Pg::on_database_time().await;
    Outbox::new(pg.store()).publish(plain()).await.expect("publishes");
    drop(pg.store.begin().await.expect("begins"));
    assert_eq!((pg.listeners().await.len(), pg.store.wakes()), (0, Wakes::InProcess));
    let there = pg.again().await;
    let mut dispatcher = listening(&there);
    dispatcher.next().await;
    pg.until_listeners(1).await;
    dispatcher.shutdown().await;
    drop(there);
    pg.until_listeners(0).await;
    let closed = pg.again().await;
    let dispatcher = listening(&closed);
    pg.until_listeners(1).await;
    dispatcher.shutdown().await;
    closed.close().await;
    pg.until_listeners(0).await;
    pg.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p11_idle_dispatchers_of_two_processes_come_to_rest() {
    let pg = Pg::on_database_time().await;
    let stores = [pg.store(), pg.again().await];
    let [here, there] = stores.each_ref().map(counted);
    let dispatchers = [listening(&here), listening(&there)];
    for store in &stores {
        until_wakes(&**store, Wakes::Listening).await;
    }
    let outbox = Outbox::new(pg.again().await);
    for _ in 0..20 {
        outbox.publish(plain()).await.expect("publishes");
    }
    let later = plain().ordering_key("later").due_after(Duration::from_hours(1));
    outbox.publish(later).await.expect("publishes");
    until_done(&pg, 20).await;
    come_to_rest([&here, &there]).await;
    for dispatcher in dispatchers {
        dispatcher.shutdown().await;
    }
    pg.finish().await;
}
