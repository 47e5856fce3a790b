//! The staging handle: savepoints, hooks, flushes, and what is left after each kind of end.

use std::future::Future;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use postroom_core::{ErrorKind, Message, MessageBuilder};
use serde::ser::{Error as _, Serialize, Serializer};

use crate::harness::{Env, Harness, ids, plain};

type Case<H> = Arc<Env<H>>;

fn named(name: &str) -> MessageBuilder {
    Message::builder("t").payload(name.to_owned())
}

async fn names<H: Harness>(env: &Env<H>) -> Vec<String> {
    let items = env.claim(100).await.items;
    items.iter().map(|i| String::from_utf8_lossy(i.message.payload()).into_owned()).collect()
}

pub async fn pub_3_an_empty_transaction_commits<H: Harness>(env: Case<H>) {
    let mut tx = env.outbox.begin().await.expect("begin");
    env.harness.write_business_row(tx.conn(), 1).await;
    assert!(tx.commit().await.expect("commit").published.is_empty());
    assert_eq!(env.harness.business_rows().await, [1]);
}

pub async fn pub_3_a_rolled_back_savepoint_takes_its_messages_along<H: Harness>(env: Case<H>) {
    let mut tx = env.outbox.begin().await.expect("begin");
    tx.publish(named("outer")).expect("stage");
    let mut inner = tx.savepoint().await.expect("savepoint");
    env.harness.write_business_row(inner.conn(), 1).await;
    inner.publish(named("inner")).expect("stage");
    inner.rollback().await.expect("rollback");
    env.harness.write_business_row(tx.conn(), 2).await;
    tx.publish(named("after")).expect("stage");
    assert_eq!(tx.commit().await.expect("commit").published.len(), 2);
    assert_eq!(names(&env).await, ["outer", "after"]);
    assert_eq!(env.harness.business_rows().await, [2]);
}

pub async fn pub_3_a_released_savepoint_keeps_them<H: Harness>(env: Case<H>) {
    let mut tx = env.outbox.begin().await.expect("begin");
    let mut inner = tx.savepoint().await.expect("savepoint");
    env.harness.write_business_row(inner.conn(), 1).await;
    inner.publish(named("inner")).expect("stage");
    inner.release().await.expect("release");
    tx.commit().await.expect("commit");
    assert_eq!(names(&env).await, ["inner"]);
    assert_eq!(env.harness.business_rows().await, [1]);
}

pub async fn pub_3_a_dropped_savepoint_is_rolled_back<H: Harness>(env: Case<H>) {
    let mut tx = env.outbox.begin().await.expect("begin");
    let mut inner = tx.savepoint().await.expect("savepoint");
    env.harness.write_business_row(inner.conn(), 1).await;
    inner.publish(named("inner")).expect("stage");
    let _ = inner.flush().await.expect("written");
    drop(inner);
    tx.publish(named("outer")).expect("stage");
    env.harness.write_business_row(tx.conn(), 2).await;
    tx.commit().await.expect("commit");
    assert_eq!(names(&env).await, ["outer"]);
    assert_eq!(env.harness.business_rows().await, [2]);
}

pub async fn pub_3_savepoints_nest<H: Harness>(env: Case<H>) {
    let mut tx = env.outbox.begin().await.expect("begin");
    let mut one = tx.savepoint().await.expect("savepoint");
    one.publish(named("one")).expect("stage");
    let mut two = one.savepoint().await.expect("savepoint");
    two.publish(named("two")).expect("stage");
    two.release().await.expect("release");
    let mut three = one.savepoint().await.expect("savepoint");
    three.publish(named("three")).expect("stage");
    three.rollback().await.expect("rollback");
    one.release().await.expect("release");
    tx.commit().await.expect("commit");
    assert_eq!(names(&env).await, ["one", "two"]);
}

pub async fn pub_3_an_outer_rollback_takes_released_ones_along<H: Harness>(env: Case<H>) {
    let mut tx = env.outbox.begin().await.expect("begin");
    let mut one = tx.savepoint().await.expect("savepoint");
    let mut two = one.savepoint().await.expect("savepoint");
    two.publish(named("two")).expect("stage");
    two.release().await.expect("release");
    one.rollback().await.expect("rollback");
    tx.publish(named("outer")).expect("stage");
    tx.commit().await.expect("commit");
    assert_eq!(names(&env).await, ["outer"]);
}

/// A flush inside a savepoint writes what the outer handle had staged as well; rolling the
/// savepoint back removes those rows, so they must be staged again.
pub async fn pub_3_a_flush_inside_a_rolled_back_savepoint_loses_nothing<H: Harness>(env: Case<H>) {
    let mut tx = env.outbox.begin().await.expect("begin");
    tx.publish(named("outer")).expect("stage");
    let mut inner = tx.savepoint().await.expect("savepoint");
    inner.publish(named("inner")).expect("stage");
    assert_eq!(inner.flush().await.expect("flush").len(), 2);
    inner.rollback().await.expect("rollback");
    assert_eq!(tx.commit().await.expect("commit").published.len(), 1);
    assert_eq!(names(&env).await, ["outer"]);
}

pub async fn pub_3_publish_order_holds_across_flushes_and_savepoints<H: Harness>(env: Case<H>) {
    let mut tx = env.outbox.begin().await.expect("begin");
    tx.publish(named("1")).expect("stage");
    let mut inner = tx.savepoint().await.expect("savepoint");
    inner.publish(named("2")).expect("stage");
    let _ = inner.flush().await.expect("flush");
    inner.publish(named("3")).expect("stage");
    inner.release().await.expect("release");
    tx.publish(named("4")).expect("stage");
    tx.commit().await.expect("commit");
    assert_eq!(names(&env).await, ["1", "2", "3", "4"]);
}

pub async fn pub_3_flush_tells_about_duplicates_before_the_commit<H: Harness>(env: Case<H>) {
    let keyed = || plain().idempotency_key(uuid::Uuid::from_u128(1));
    let first = env.publish(keyed()).await;
    let mut tx = env.outbox.begin().await.expect("begin");
    tx.publish(keyed()).expect("stage");
    let flushed = tx.flush().await.expect("flush").to_vec();
    assert_eq!((flushed[0].id, flushed[0].already_existed), (first.id, true));
    assert_eq!(tx.flush().await.expect("again").len(), 1, "nothing is written twice");
    tx.commit().await.expect("commit");
    assert_eq!(ids(&env.claim(10).await.items), [first.id]);
}

/// A flush is dropped after each number of steps; what was staged must be there all the same, once.
pub async fn pub_5_a_cancelled_flush_loses_nothing_and_writes_nothing_twice<H: Harness>(
    env: Case<H>,
) {
    for steps in 0..25_u128 {
        let mut tx = env.outbox.begin().await.expect("begin");
        let keyed = plain().idempotency_key(uuid::Uuid::from_u128(steps));
        let staged = [
            tx.publish(keyed).expect("stage"),
            tx.publish(plain()).expect("stage"),
            tx.publish(plain().priority(1)).expect("stage"),
        ];
        {
            let mut flush = std::pin::pin!(tx.flush());
            for _ in 0..steps {
                let step = |cx: &mut Context<'_>| Poll::Ready(flush.as_mut().poll(cx).is_ready());
                if std::future::poll_fn(step).await {
                    break;
                }
                // Lets the driver make some progress; how much does not matter.
                tokio::time::sleep(Duration::from_micros(100)).await;
            }
        }
        let committed = tx.commit().await.expect("commit");
        let said: Vec<_> = committed.published.iter().map(|published| published.id).collect();
        assert_eq!(said, staged, "after {steps} steps");
        let items = env.claim(10).await.items;
        let expected = [staged[2], staged[0], staged[1]];
        assert_eq!(ids(&items), expected, "after {steps} steps");
        let _ = env.queue.ack(env.me, &crate::harness::leases(&items)).await.expect("ack");
    }
}

/// A release that is dropped halfway leaves it open whether its rows stay: nothing may commit then.
pub async fn pub_3_a_cancelled_release_commits_all_or_nothing<H: Harness>(env: Case<H>) {
    for steps in 0..6_i64 {
        let before = env.harness.business_rows().await.len();
        let mut tx = env.outbox.begin().await.expect("begin");
        let mut inner = tx.savepoint().await.expect("savepoint");
        env.harness.write_business_row(inner.conn(), steps).await;
        inner.publish(plain()).expect("stage");
        {
            let mut release = std::pin::pin!(inner.release());
            for _ in 0..steps {
                let step = |cx: &mut Context<'_>| Poll::Ready(release.as_mut().poll(cx).is_ready());
                if std::future::poll_fn(step).await {
                    break;
                }
                tokio::time::sleep(Duration::from_micros(100)).await;
            }
        }
        let published = match tx.commit().await {
            Ok(committed) => committed.published.len(),
            Err(_) => 0,
        };
        let rows = env.harness.business_rows().await.len() - before;
        assert_eq!(rows, published, "after {steps} steps");
        let items = env.claim(10).await.items;
        assert_eq!(items.len(), published, "after {steps} steps");
        let _ = env.queue.ack(env.me, &crate::harness::leases(&items)).await.expect("ack");
    }
}

struct Unserialisable;

impl Serialize for Unserialisable {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(S::Error::custom("not today"))
    }
}

pub async fn pub_5_an_item_that_does_not_serialise_leaves_the_others_staged<H: Harness>(
    env: Case<H>,
) {
    let mut tx = env.outbox.begin().await.expect("begin");
    tx.publish(named("1")).expect("stage");
    let error = tx.publish(Message::builder("t").json(&Unserialisable)).expect_err("reported");
    assert_eq!(error.kind(), ErrorKind::Codec);
    tx.publish(named("3")).expect("stage");
    let _ = tx.flush().await.expect("flush");
    let _ = tx.flush().await.expect("a second flush writes nothing twice");
    assert_eq!(tx.commit().await.expect("commit").published.len(), 2);
    assert_eq!(names(&env).await, ["1", "3"]);
}

pub async fn pub_3_hooks_run_after_a_commit<H: Harness>(env: Case<H>) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let rolled_back = Arc::new(AtomicU32::new(0));
    let mut tx = env.outbox.begin().await.expect("begin");
    let id = tx.publish(plain()).expect("stage");
    let (sink, counter) = (Arc::clone(&seen), Arc::clone(&rolled_back));
    tx.after_commit(move |committed| {
        sink.lock().expect("lock").extend(committed.published.iter().map(|p| p.id));
    });
    tx.after_rollback(move || {
        counter.fetch_add(1, Ordering::SeqCst);
    });
    assert!(seen.lock().expect("lock").is_empty(), "not before the commit");
    tx.commit().await.expect("commit");
    assert_eq!(*seen.lock().expect("lock"), [id]);
    assert_eq!(rolled_back.load(Ordering::SeqCst), 0);
}

pub async fn pub_3_hooks_run_after_a_rollback_and_after_a_drop<H: Harness>(env: Case<H>) {
    let (committed, rolled_back) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    for explicit in [true, false] {
        let mut tx = env.outbox.begin().await.expect("begin");
        let (yes, no) = (Arc::clone(&committed), Arc::clone(&rolled_back));
        tx.after_commit(move |_| {
            yes.fetch_add(1, Ordering::SeqCst);
        });
        tx.after_rollback(move || {
            no.fetch_add(1, Ordering::SeqCst);
        });
        if explicit {
            tx.rollback().await.expect("rollback");
        } else {
            drop(tx);
        }
    }
    assert_eq!((committed.load(Ordering::SeqCst), rolled_back.load(Ordering::SeqCst)), (0, 2));
}

pub async fn pub_3_hooks_of_a_savepoint_share_its_fate<H: Harness>(env: Case<H>) {
    let (committed, rolled_back) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let mut tx = env.outbox.begin().await.expect("begin");
    for keep in [true, false] {
        let mut inner = tx.savepoint().await.expect("savepoint");
        let (yes, no) = (Arc::clone(&committed), Arc::clone(&rolled_back));
        inner.after_commit(move |_| {
            yes.fetch_add(1, Ordering::SeqCst);
        });
        inner.after_rollback(move || {
            no.fetch_add(1, Ordering::SeqCst);
        });
        if keep {
            inner.release().await.expect("release");
        } else {
            inner.rollback().await.expect("rollback");
        }
    }
    assert_eq!(rolled_back.load(Ordering::SeqCst), 1, "at once, not with the outer end");
    tx.commit().await.expect("commit");
    assert_eq!((committed.load(Ordering::SeqCst), rolled_back.load(Ordering::SeqCst)), (1, 1));
}

pub async fn pub_10_publishing_needs_no_dispatcher<H: Harness>(env: Case<H>) {
    for _ in 0..50 {
        env.publish(plain()).await;
    }
    assert_eq!(crate::conformance::stats(&env).await.ready, 50);
}
