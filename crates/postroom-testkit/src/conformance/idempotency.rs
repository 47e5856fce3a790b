//! Publishing the same thing twice: one row, no error, no harm to the caller's transaction.

use std::sync::Arc;
use std::time::Duration;

use postroom_core::{ErrorKind, IdempotencyKey, Message, MessageBuilder, MessageId};

use crate::harness::{Env, Harness, ids, leases, plain};

type Case<H> = Arc<Env<H>>;

fn key(n: u128) -> IdempotencyKey {
    uuid::Uuid::from_u128(n).into()
}

fn keyed(n: u128) -> MessageBuilder {
    plain().idempotency_key(key(n))
}

pub async fn pub_6_a_duplicate_is_success_with_the_first_id<H: Harness>(env: Case<H>) {
    let first = env.publish(keyed(1)).await;
    let second = env.publish(keyed(1).payload("other")).await;
    assert!(!first.already_existed && second.already_existed);
    assert_eq!((second.id, second.work), (first.id, None));
    assert_eq!(crate::conformance::stats(&env).await.ready, 1);
}

pub async fn pub_6_the_same_key_of_another_tenant_is_a_new_message<H: Harness>(env: Case<H>) {
    let a = env.publish(keyed(1).tenant_id("a")).await;
    let b = env.publish(keyed(1).tenant_id("b")).await;
    assert!(!a.already_existed && !b.already_existed);
    assert_ne!(a.id, b.id);
}

pub async fn pub_6_no_tenant_is_a_scope_of_its_own<H: Harness>(env: Case<H>) {
    assert!(!env.publish(keyed(1)).await.already_existed);
    assert!(!env.publish(keyed(1).tenant_id("a")).await.already_existed);
    assert!(env.publish(keyed(1)).await.already_existed);
    assert!(env.publish(keyed(1).tenant_id("a")).await.already_existed);
    assert_eq!(crate::conformance::stats(&env).await.ready, 2);
}

pub async fn pub_6_a_duplicate_does_not_poison_the_transaction<H: Harness>(env: Case<H>) {
    let first = env.publish(keyed(1)).await;
    let mut conn = env.harness.connection().await;
    env.harness.begin(&mut conn).await;
    env.harness.write_business_row(&mut conn, 1).await;
    let again = env.outbox.publish_in(&mut conn, keyed(1)).await.expect("no error");
    assert_eq!((again.id, again.already_existed), (first.id, true));
    env.harness.write_business_row(&mut conn, 2).await;
    let other = env.outbox.publish_in(&mut conn, keyed(2)).await.expect("still usable");
    env.harness.commit(&mut conn).await;
    drop(conn);
    assert_eq!(env.harness.business_rows().await, [1, 2]);
    assert_eq!(ids(&env.claim(10).await.items), [first.id, other.id]);
}

pub async fn pub_6_racing_publishers_leave_one_row<H: Harness>(env: Case<H>) {
    let racers = (0..16).map(|i: u32| {
        let outbox = env.outbox.clone();
        tokio::spawn(async move {
            loop {
                // A database may pick a victim; publishing again with the key is safe.
                match outbox.publish(keyed(1).payload(i.to_string())).await {
                    Err(error) if error.is_transient() => {}
                    answer => return answer.expect("publish"),
                }
            }
        })
    });
    let mut published = Vec::new();
    for racer in racers.collect::<Vec<_>>() {
        published.push(racer.await.expect("racer"));
    }
    assert_eq!(published.iter().filter(|p| !p.already_existed).count(), 1);
    assert!(published.iter().all(|p| p.id == published[0].id));
    assert_eq!(crate::conformance::stats(&env).await.ready, 1);
}

pub async fn pub_6_duplicates_within_one_flush<H: Harness>(env: Case<H>) {
    let mut tx = env.outbox.begin().await.expect("begin");
    let first = tx.publish(keyed(1)).expect("stage");
    tx.publish(keyed(2)).expect("stage");
    tx.publish(keyed(1)).expect("stage");
    let published = tx.commit().await.expect("commit").published;
    let existed: Vec<_> = published.iter().map(|p| p.already_existed).collect();
    assert_eq!(existed, [false, false, true]);
    assert_eq!(published[2].id, first);
    assert_eq!(crate::conformance::stats(&env).await.ready, 2);
}

pub async fn pub_6_duplicates_across_the_chunks_of_a_bulk<H: Harness>(env: Case<H>) {
    let messages = (0..1_500).map(|i| keyed(i % 1_200));
    let published = env.outbox.publish_all(messages).await.expect("publish");
    assert_eq!(published.iter().filter(|p| p.already_existed).count(), 300);
    assert_eq!(published[1_499].id, published[299].id);
    assert_eq!(crate::conformance::stats(&env).await.ready, 1_200);
}

pub async fn pub_6_a_key_that_was_rolled_back_is_free<H: Harness>(env: Case<H>) {
    let mut tx = env.outbox.begin().await.expect("begin");
    tx.publish(keyed(1)).expect("stage");
    let _ = tx.flush().await.expect("flush");
    tx.rollback().await.expect("rollback");
    assert!(!env.publish(keyed(1)).await.already_existed);
}

pub async fn pub_6_a_key_outlives_the_delivery_of_its_message<H: Harness>(env: Case<H>) {
    let first = env.publish(keyed(1)).await;
    let items = env.claim(10).await.items;
    let _ = env.queue.ack(env.me, &leases(&items)).await.expect("ack");
    env.advance(Duration::from_secs(86_400));
    let again = env.publish(keyed(1)).await;
    assert_eq!((again.id, again.already_existed), (first.id, true));
    assert!(env.claim(10).await.items.is_empty());
}

pub async fn pub_6_the_same_message_again_already_existed<H: Harness>(env: Case<H>) {
    let message = plain().build().expect("legal");
    assert!(!env.publish(&message).await.already_existed);
    let again = env.publish(&message).await;
    assert_eq!((again.id, again.already_existed), (message.id(), true));
    assert_eq!(crate::conformance::stats(&env).await.ready, 1);
}

fn with_id(id: MessageId, payload: &'static str) -> MessageBuilder {
    Message::builder("t").id(id).payload(payload)
}

pub async fn pub_6_an_id_with_other_content_is_taken<H: Harness>(env: Case<H>) {
    let id = MessageId::new();
    env.publish(with_id(id, "one")).await;
    let mut conn = env.harness.connection().await;
    env.harness.begin(&mut conn).await;
    let error = env.outbox.publish_in(&mut conn, with_id(id, "two")).await.expect_err("taken");
    assert_eq!(error.kind(), ErrorKind::IdTaken);
    assert!(error.to_string().contains(&id.to_string()));
    env.outbox.publish_in(&mut conn, plain()).await.expect("the transaction is usable");
    env.harness.commit(&mut conn).await;
    drop(conn);
    assert_eq!(crate::conformance::stats(&env).await.ready, 2);
    let record = env.record(id).await.message.expect("decodes");
    assert_eq!(record.payload().as_ref(), b"one");
}

pub async fn pub_6_an_id_is_taken_across_tenants<H: Harness>(env: Case<H>) {
    let id = MessageId::new();
    env.publish(with_id(id, "one").tenant_id("a")).await;
    let error = env.outbox.publish(with_id(id, "one").tenant_id("b")).await.expect_err("taken");
    assert_eq!(error.kind(), ErrorKind::IdTaken);
}

pub async fn pub_6_a_taken_id_in_a_bulk_writes_nothing_of_it<H: Harness>(env: Case<H>) {
    let id = MessageId::new();
    env.publish(with_id(id, "one")).await;
    let mut conn = env.harness.connection().await;
    env.harness.begin(&mut conn).await;
    let bulk = [keyed(1), with_id(id, "two"), keyed(2).due_after(Duration::from_secs(9))];
    let error = env.outbox.publish_all_in(&mut conn, bulk).await.expect_err("taken");
    assert_eq!(error.kind(), ErrorKind::IdTaken);
    env.harness.commit(&mut conn).await;
    drop(conn);
    let stats = crate::conformance::stats(&env).await;
    assert_eq!((stats.ready, stats.waiting), (1, 0));
    assert!(!env.publish(keyed(1)).await.already_existed, "its key was given back");
}

pub async fn pub_6_a_taken_id_gives_its_own_key_back<H: Harness>(env: Case<H>) {
    let id = MessageId::new();
    env.publish(with_id(id, "one")).await;
    let clash = with_id(id, "two").idempotency_key(key(5));
    let error = env.outbox.publish(clash).await.expect_err("taken");
    assert_eq!(error.kind(), ErrorKind::IdTaken);
    assert!(!env.publish(keyed(5)).await.already_existed);
}

pub async fn pub_6_the_key_decides_before_the_id<H: Harness>(env: Case<H>) {
    let first = env.publish(keyed(1)).await;
    let id = MessageId::new();
    let again = env.publish(keyed(1).id(id)).await;
    assert_eq!((again.id, again.already_existed), (first.id, true));
    assert!(!env.publish(with_id(id, "new")).await.already_existed, "the id stayed free");
}

pub async fn pub_11_with_a_key_a_retry_after_an_unknown_commit_is_safe<H: Harness>(env: Case<H>) {
    // The commit happened but its answer was lost: the caller publishes the very same message
    // again.
    let message = keyed(1).build().expect("legal");
    env.publish(&message).await;
    let retried = env.publish(&message).await;
    assert_eq!((retried.id, retried.already_existed), (message.id(), true));
    assert_eq!(ids(&env.claim(10).await.items), [message.id()]);
}

pub async fn pub_6_a_duplicate_of_what_this_transaction_wrote<H: Harness>(env: Case<H>) {
    let mut tx = env.outbox.begin().await.expect("begin");
    let first = tx.publish(keyed(1)).expect("stage");
    let _ = tx.flush().await.expect("flush");
    tx.publish(keyed(1)).expect("stage");
    let published = tx.commit().await.expect("commit").published;
    assert_eq!((published[1].id, published[1].already_existed), (first, true));
    assert_eq!(crate::conformance::stats(&env).await.ready, 1);
}
