//! Effects that commit with the mark of their message.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use postroom_core::lifecycle::State;
use postroom_core::store::{AdminStore, JoinState, TransactionalStore};
use postroom_core::{HandlerError, Join, Message, OwnerToken};

use super::{Case, Tx, handle, new, number, queue_of, state, stats, writes};
use crate::harness::{Harness, LEASE, ids, plain};

/// I2.
pub async fn inb_3_effect_and_mark_commit_together<H: Harness>(env: Case<H>) {
    let inbox = env.inbox("billing");
    for n in 0..20 {
        new(inbox.receive("shop", n.to_string(), number(n)).await.expect("receive"));
    }
    handle::<H>(&inbox, writes(&env, &inbox)).await;
    let mut rows = env.harness.business_rows().await;
    rows.sort_unstable();
    assert_eq!(rows, (0..20).collect::<Vec<_>>());
    assert_eq!(stats::<H>(&inbox).await.done, 20);
}

/// I3, B42: the mark is rolled back too, so the next try is no duplicate of itself.
pub async fn inb_3_an_error_rolls_back_effect_and_mark<H: Harness>(env: Case<H>) {
    let inbox = env.inbox("billing");
    let id = new(inbox.receive("shop", "1", number(1)).await.expect("receive"));
    let tries = Arc::new(AtomicU32::new(0));
    let failing = |how: fn(u32) -> Result<(), HandlerError>| {
        let (env, tries) = (Arc::clone(&env), Arc::clone(&tries));
        inbox.handlers().topic("order.placed", move |_, mut tx: Tx<H>| {
            let (env, tries) = (Arc::clone(&env), Arc::clone(&tries));
            async move {
                env.harness.write_business_row(tx.conn(), 1).await;
                tx.publish(Message::builder("invoice.created"))?;
                how(tries.fetch_add(1, Ordering::Relaxed))?;
                Ok(tx)
            }
        })
    };
    handle::<H>(&inbox, failing(|_| Err(HandlerError::retry("no luck")))).await;
    assert_eq!(state::<H>(&inbox, id).await, State::Ready);
    env.advance(Duration::from_mins(2));
    handle::<H>(&inbox, failing(|_| panic!("on purpose"))).await;
    assert!(env.harness.business_rows().await.is_empty());
    assert_eq!(crate::conformance::stats(&env).await.ready, 0, "nothing was published");
    env.advance(Duration::from_mins(2));
    handle::<H>(&inbox, failing(|_| Ok(()))).await;
    assert_eq!(env.harness.business_rows().await, [1]);
    assert_eq!(tries.load(Ordering::Relaxed), 3);
    assert_eq!(state::<H>(&inbox, id).await, State::Done);
}

/// I7.
pub async fn inb_5_what_a_handler_publishes_commits_with_it<H: Harness>(env: Case<H>) {
    let inbox = env.inbox("billing");
    new(inbox.receive("shop", "1", number(1)).await.expect("receive"));
    let handlers = inbox.handlers().topic("order.placed", |delivery, mut tx: Tx<H>| async move {
        let cause = delivery.message().id().to_string();
        tx.publish(Message::builder("invoice.created").causation_id(cause))?;
        let mut attempt = tx.savepoint().await?;
        attempt.publish(Message::builder("coupon.used"))?;
        attempt.rollback().await?;
        Ok(tx)
    });
    handle::<H>(&inbox, handlers).await;
    let published = env.claim(10).await.items;
    let topics: Vec<_> = published.iter().map(|item| item.message.topic().as_str()).collect();
    assert_eq!(topics, ["invoice.created"]);
    assert!(published[0].message.causation_id().is_some());
}

/// The handler's own transaction settles the last member, so the follow-up is a part of it.
pub async fn join_1_a_mark_counts_for_a_join<H: Harness>(env: Case<H>) {
    let inbox = env.inbox("billing");
    let mut tx = env.outbox.begin().await.expect("begin");
    let join = Join::expecting(2).on_success(Message::builder("all.billed"));
    let join = tx.start_join(join).expect("legal");
    tx.commit().await.expect("commit");
    let mut members = Vec::new();
    for n in 0..2 {
        members.push(new(inbox.receive("shop", n.to_string(), number(n)).await.expect("receive")));
    }
    inbox.attach(join, &members).await.expect("attach");
    let queue = queue_of::<H>(&inbox);
    let items = queue.claim(env.me, LEASE, 10).await.expect("claim").items;
    assert_eq!(queue.ack(env.me, &[items[0].lease]).await.expect("ack").applied, 1);
    let mut tx = env.outbox.begin().await.expect("begin");
    assert!(inbox.store().settle_in(tx.conn(), env.me, items[1].lease).await.expect("settle"));
    tx.rollback().await.expect("rollback");
    let state = async || env.store().join(join).await.expect("join").expect("there").state;
    assert_eq!(state().await, JoinState::Open);
    assert_eq!(queue.release(env.me, &[items[1].lease]).await.expect("release").applied, 1);
    handle::<H>(&inbox, writes(&env, &inbox)).await;
    assert_eq!(state().await, JoinState::Succeeded);
    let published = env.claim(10).await.items;
    assert_eq!(published.len(), 1);
    assert_eq!(published[0].message.topic().as_str(), "all.billed");
}

pub async fn inb_3_several_handlers_share_one_transaction<H: Harness>(env: Case<H>) {
    let inbox = env.inbox("billing");
    let (first, second) = (Arc::clone(&env), Arc::clone(&env));
    new(inbox.receive("shop", "1", number(1)).await.expect("receive"));
    let handlers = inbox
        .handlers()
        .pattern("order.*", move |_, mut tx: Tx<H>| {
            let env = Arc::clone(&second);
            async move {
                env.harness.write_business_row(tx.conn(), 2).await;
                Err::<Tx<H>, _>(HandlerError::dead("no"))
            }
        })
        .topic("order.placed", move |_, mut tx: Tx<H>| {
            let env = Arc::clone(&first);
            async move {
                env.harness.write_business_row(tx.conn(), 1).await;
                Ok(tx)
            }
        });
    handle::<H>(&inbox, handlers).await;
    assert!(env.harness.business_rows().await.is_empty(), "the second one failed");
    assert_eq!(stats::<H>(&inbox).await.dead, 1);
}

pub async fn inb_3_a_mark_is_fenced_like_any_settle<H: Harness>(env: Case<H>) {
    let inbox = env.inbox("billing");
    let (store, queue) = (inbox.store(), queue_of::<H>(&inbox));
    new(inbox.receive("shop", "1", plain()).await.expect("receive"));
    let mine = queue.claim(env.me, LEASE, 1).await.expect("claim").items.remove(0);
    env.expire_leases();
    let rival = OwnerToken::random();
    let theirs = queue.claim(rival, LEASE, 1).await.expect("claim").items.remove(0);
    let mut tx = env.outbox.begin().await.expect("begin");
    for (owner, lease) in [(env.me, mine.lease), (env.me, theirs.lease), (rival, mine.lease)] {
        assert!(!store.settle_in(tx.conn(), owner, lease).await.expect("settle"), "not held");
    }
    env.harness.write_business_row(tx.conn(), 1).await;
    assert!(store.settle_in(tx.conn(), rival, theirs.lease).await.expect("settle"));
    assert!(!store.settle_in(tx.conn(), rival, theirs.lease).await.expect("settle"), "settled");
    tx.commit().await.expect("the transaction stayed usable");
    assert_eq!(state::<H>(&inbox, mine.message.id()).await, State::Done);
}

pub async fn inb_3_a_mark_goes_with_its_transaction<H: Harness>(env: Case<H>) {
    let inbox = env.inbox("billing");
    let queue = queue_of::<H>(&inbox);
    let id = new(inbox.receive("shop", "1", plain()).await.expect("receive"));
    let item = queue.claim(env.me, LEASE, 1).await.expect("claim").items.remove(0);
    let mut tx = env.outbox.begin().await.expect("begin");
    assert!(inbox.store().settle_in(tx.conn(), env.me, item.lease).await.expect("settle"));
    tx.rollback().await.expect("rollback");
    assert_eq!(state::<H>(&inbox, id).await, State::Leased);
    assert_eq!(queue.ack(env.me, &[item.lease]).await.expect("ack").applied, 1);
}

pub async fn ord_1_a_mark_lets_the_next_of_its_key_go<H: Harness>(env: Case<H>) {
    let inbox = env.inbox("billing");
    let queue = queue_of::<H>(&inbox);
    for id in ["1", "2"] {
        new(inbox.receive("shop", id, plain().ordering_key("k")).await.expect("receive"));
    }
    let claim = || async { queue.claim(env.me, LEASE, 1).await.expect("claim").items };
    let first = claim().await.remove(0);
    let mut tx = env.outbox.begin().await.expect("begin");
    assert!(inbox.store().settle_in(tx.conn(), env.me, first.lease).await.expect("settle"));
    tx.commit().await.expect("commit");
    let second = claim().await;
    assert_eq!(second[0].message.origin().expect("received").message_id.as_str(), "2");
    assert_ne!(ids(&second), [first.message.id()]);
}
