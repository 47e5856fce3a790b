//! Who becomes a member of a join, and who does not.

use std::collections::BTreeMap;
use std::sync::Arc;

use postroom_core::store::{AdminStore, JoinState, Purge, Store, TransactionalStore};
use postroom_core::{ErrorKind, Join, JoinId, Message, MessageId, Outbox, WorkQueue};

use super::{
    Case, DAY, ack, claimable, counts, join_of, joined, kill, one, record, refused, start,
};
use crate::harness::{Harness, LEASE, ids, leases, plain};

pub async fn join_1_starting_again_changes_nothing<H: Harness>(env: Case<H>) {
    let id = JoinId::new();
    let (join, _) = start(&env, join_of(2).id(id), vec![plain()]).await;
    assert_eq!(join, id);
    let mut conn = env.harness.connection().await;
    env.harness.begin(&mut conn).await;
    assert!(!env.outbox.start_join_in(&mut conn, join_of(2).id(id)).await.expect("the same"));
    let other = env.outbox.start_join_in(&mut conn, join_of(3).id(id)).await.expect_err("taken");
    assert_eq!(other.kind(), ErrorKind::IdTaken, "{other}");
    assert!(env.outbox.start_join_in(&mut conn, join_of(3)).await.expect("still usable"));
    env.harness.commit(&mut conn).await;
    drop(conn);
    assert_eq!(counts(&env, id).await, (JoinState::Open, 1, 0, 0));
}

pub async fn join_1_attaching_twice_counts_once<H: Harness>(env: Case<H>) {
    let (join, members) = joined(&env, 1).await;
    env.outbox.attach(join, &[members[0], members[0]]).await.expect("is one already");
    let item = env.claim_one().await;
    env.outbox.attach(join, &members).await.expect("is one already");
    ack(&env, &[item]).await;
    env.outbox.attach(join, &members).await.expect("also of a join that has ended");
    assert_eq!(counts(&env, join).await, (JoinState::Succeeded, 1, 1, 0));
    assert_eq!(claimable(&env).await, one("all.done"));
}

pub async fn join_1_what_is_settled_already_counts_at_once<H: Harness>(env: Case<H>) {
    let published = env.publish_many(3).await;
    let items = env.claim(10).await.items;
    ack(&env, &items[..1]).await;
    kill(&env, &items[1..2]).await;
    let (join, _) = start(&env, join_of(3), Vec::new()).await;
    env.outbox.attach(join, &published[..1]).await.expect("attach");
    assert_eq!(counts(&env, join).await, (JoinState::Open, 1, 1, 0));
    env.outbox.attach(join, &published[1..]).await.expect("attach");
    assert_eq!(counts(&env, join).await, (JoinState::Open, 3, 1, 1));
    ack(&env, &items[2..]).await;
    assert_eq!(claimable(&env).await, one("some.dead"));
    // All of them at once: the attach itself ends it.
    let (join, _) = start(&env, join_of(3), Vec::new()).await;
    env.outbox.attach(join, &published).await.expect("attach");
    assert_eq!(counts(&env, join).await, (JoinState::Failed, 3, 2, 1));
    assert_eq!(claimable(&env).await, one("some.dead"));
}

pub async fn join_1_a_duplicate_counts_as_its_first_message<H: Harness>(env: Case<H>) {
    let keyed = || plain().idempotency_key(uuid::Uuid::from_u128(7));
    let first = env.publish(keyed()).await.id;
    // The same key twice in one flush, and beside it one that is new.
    let (join, _) = start(&env, join_of(2), vec![keyed(), plain(), keyed()]).await;
    let members = env.store().join_members(join, None, 10).await.expect("members");
    assert_eq!((members.len(), members[0].message), (2, first));
    let items = env.claim(10).await.items;
    assert_eq!(items.len(), 2);
    ack(&env, &items).await;
    assert_eq!(counts(&env, join).await, (JoinState::Succeeded, 2, 2, 0));
    // After its delivery too.
    let (join, _) = start(&env, join_of(1), vec![keyed()]).await;
    assert_eq!(counts(&env, join).await, (JoinState::Succeeded, 1, 1, 0));
}

pub async fn join_1_an_ended_join_takes_no_more_members<H: Harness>(env: Case<H>) {
    let (done, _) = joined(&env, 1).await;
    ack(&env, &[env.claim_one().await]).await;
    let (cancelled, _) = start(&env, join_of(2), Vec::new()).await;
    assert!(env.store().cancel_join(cancelled).await.expect("cancel"));
    let late = env.publish(plain().due_after(DAY)).await.id;
    for (join, text) in [(done, "has succeeded"), (cancelled, "has been cancelled")] {
        refused(env.outbox.attach(join, &[late]).await.expect_err("ended"), text);
        assert!(env.store().join_members(join, None, 10).await.expect("members").len() < 2);
    }
}

pub async fn join_1_no_more_members_than_expected<H: Harness>(env: Case<H>) {
    let (join, members) = start(&env, join_of(2), vec![plain()]).await;
    let more = env.publish_many(2).await;
    let mut conn = env.harness.connection().await;
    env.harness.begin(&mut conn).await;
    env.harness.write_business_row(&mut conn, 1).await;
    let error = env.outbox.attach_in(&mut conn, join, &more).await.expect_err("one too many");
    refused(error, "expects 2 members");
    // Nothing of it was written, and the transaction goes on.
    env.outbox.attach_in(&mut conn, join, &more[..1]).await.expect("there is a place");
    env.harness.commit(&mut conn).await;
    drop(conn);
    assert_eq!(env.harness.business_rows().await, [1]);
    let there = env.store().join_members(join, None, 10).await.expect("members");
    let there: Vec<_> = there.iter().map(|member| member.message).collect();
    assert_eq!(there, [members[0], more[0]]);
}

pub async fn join_1_what_is_not_there_is_refused<H: Harness>(env: Case<H>) {
    let (join, _) = start(&env, join_of(2), Vec::new()).await;
    let never = MessageId::new();
    let error = env.outbox.attach(join, &[never]).await.expect_err("never was");
    refused(error, &format!("can not have {never} as a member: no such message"));
    let item = env.leased(plain()).await;
    ack(&env, std::slice::from_ref(&item)).await;
    env.advance(DAY * 31);
    let purged = env.queue.purge(&Purge::default()).await.expect("purge");
    assert_eq!(purged.messages, 1);
    let error = env.outbox.attach(join, &[item.message.id()]).await.expect_err("purged");
    refused(error, "no such message");
    let (live, nobody) = (env.publish(plain()).await.id, JoinId::new());
    let error = env.outbox.attach(nobody, &[live]).await.expect_err("no join");
    refused(error, &format!("join {nobody} does not exist"));
    assert_eq!(counts(&env, join).await, (JoinState::Open, 0, 0, 0));
}

pub async fn join_1_it_needs_a_transaction<H: Harness>(env: Case<H>) {
    let live = env.publish(plain()).await.id;
    let mut conn = env.harness.connection().await;
    let started = env.outbox.start_join_in(&mut conn, join_of(1)).await.expect_err("none");
    let attached = env.outbox.attach_in(&mut conn, JoinId::new(), &[live]).await;
    for error in [started, attached.expect_err("none")] {
        assert_eq!(error.kind(), ErrorKind::NotInTransaction, "{error}");
    }
}

pub async fn join_1_a_message_may_be_in_many_joins<H: Harness>(env: Case<H>) {
    let (first, members) = joined(&env, 1).await;
    let (second, _) = start(&env, join_of(2), Vec::new()).await;
    let other = env.publish(plain()).await.id;
    env.outbox.attach(second, &[members[0], other]).await.expect("attach");
    let items = env.claim(10).await.items;
    ack(&env, &items).await;
    assert_eq!(counts(&env, first).await, (JoinState::Succeeded, 1, 1, 0));
    assert_eq!(counts(&env, second).await, (JoinState::Succeeded, 2, 2, 0));
    assert_eq!(claimable(&env).await, BTreeMap::from([("all.done".to_owned(), 2)]));
}

pub async fn join_1_a_follow_up_may_be_a_member_too<H: Harness>(env: Case<H>) {
    let (last, _) = start(&env, join_of(1), Vec::new()).await;
    let middle = Message::builder("middle").build().expect("legal");
    let (first, _) = start(&env, Join::expecting(1).on_success(&middle), vec![plain()]).await;
    ack(&env, &[env.claim_one().await]).await;
    assert_eq!(counts(&env, first).await.0, JoinState::Succeeded);
    env.outbox.attach(last, &[middle.id()]).await.expect("it is in the outbox");
    ack(&env, &[env.claim_one().await]).await;
    assert_eq!(claimable(&env).await, one("all.done"));
}

pub async fn join_1_messages_of_both_boxes_are_members<H: Harness>(env: Case<H>) {
    let inbox = Arc::new(env.store().inbox());
    let arrivals = Outbox::new(Arc::clone(&inbox));
    // The same id in both boxes: two different messages.
    let shared = MessageId::new();
    arrivals.publish(plain().id(shared)).await.expect("publish");
    let arrived = arrivals.publish(plain()).await.expect("publish").id;
    let (join, _) = start(&env, join_of(2), vec![plain().id(shared)]).await;
    arrivals.attach(join, &[arrived]).await.expect("attach");
    let error = arrivals.attach(join, &[shared]).await.expect_err("a member from the outbox");
    refused(error, "from the other box");
    refused(env.outbox.attach(join, &[arrived]).await.expect_err("not of this box"), "other box");
    let queue = WorkQueue::new(Arc::clone(&inbox) as Arc<dyn Store>);
    let items = queue.claim(env.me, LEASE, 10).await.expect("claim").items;
    assert_eq!(ids(&items), [shared, arrived]);
    assert_eq!(queue.ack(env.me, &leases(&items)).await.expect("ack").applied, 2);
    assert_eq!(counts(&env, join).await, (JoinState::Open, 2, 1, 0));
    ack(&env, &[env.claim_one().await]).await;
    assert_eq!(inbox.join(join).await.expect("join"), Some(record(&env, join).await));
    assert_eq!(claimable(&env).await, one("all.done"), "into the outbox");
    // The last member may be in the inbox, and the follow-up goes out all the same.
    let (join, _) = start(&env, join_of(1), Vec::new()).await;
    let last = arrivals.publish(plain()).await.expect("publish").id;
    arrivals.attach(join, &[last]).await.expect("attach");
    let items = queue.claim(env.me, LEASE, 10).await.expect("claim").items;
    assert_eq!(queue.fail(env.me, &leases(&items), "no").await.expect("fail").applied, 1);
    assert_eq!(claimable(&env).await, one("some.dead"));
    assert_eq!(inbox.stats().await.expect("stats").ready, 0);
}
