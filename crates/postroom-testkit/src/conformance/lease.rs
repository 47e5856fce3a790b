//! Renewing and reaping: how leases live on, and how they end.

use std::sync::Arc;
use std::time::Duration;

use postroom_core::lifecycle::{DeadReason, State};
use postroom_core::store::Claim;
use postroom_core::{ErrorKind, Lease, LeaseToken, OwnerToken, Retry, WorkQueue};

use crate::harness::{Env, Harness, LEASE, ids, leases, plain};

type Case<H> = Arc<Env<H>>;

pub async fn wq_7_renew_extends_a_lease<H: Harness>(env: Case<H>) {
    let item = env.leased(plain()).await;
    env.advance(LEASE / 2);
    let renewed = env.queue.renew(env.me, &[item.lease], LEASE).await.expect("renew");
    assert_eq!((renewed.applied, renewed.lost.len()), (1, 0));
    env.advance(LEASE * 3 / 4);
    assert!(env.claim(10).await.items.is_empty(), "the lease lives");
    let until = env.record(item.message.id()).await.locked_until.expect("leased");
    assert_eq!(until.since(env.clock.now()), LEASE / 4);
}

pub async fn wq_7_an_expired_lease_is_not_renewed<H: Harness>(env: Case<H>) {
    let item = env.leased(plain()).await;
    env.advance(LEASE);
    let renewed = env.queue.renew(env.me, &[item.lease], LEASE).await.expect("renew");
    assert_eq!((renewed.applied, renewed.lost), (0, vec![item.lease]));
    assert_eq!(env.claim(10).await.items.len(), 1, "it can be taken over");
}

pub async fn wq_7_foreign_and_stale_leases_are_not_renewed<H: Harness>(env: Case<H>) {
    let item = env.leased(plain()).await;
    let stranger = OwnerToken::random();
    assert_eq!(env.queue.renew(stranger, &[item.lease], LEASE).await.expect("renew").applied, 0);
    let stale = Lease { token: LeaseToken::random(), ..item.lease };
    let renewed = env.queue.renew(env.me, &[stale, item.lease], LEASE).await.expect("renew");
    assert_eq!((renewed.applied, renewed.lost), (1, vec![stale]));
}

pub async fn wq_2_a_renewal_for_no_time_is_refused<H: Harness>(env: Case<H>) {
    let item = env.leased(plain()).await;
    let error = env.queue.renew(env.me, &[item.lease], Duration::ZERO).await.expect_err("zero");
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

pub async fn wq_8_reap_returns_expired_leases_to_ready<H: Harness>(env: Case<H>) {
    let item = env.leased(plain()).await;
    env.expire_leases();
    let reaped = env.queue.reap(10).await.expect("reap");
    assert_eq!((reaped.released, reaped.dead, reaped.more), (1, 0, false));
    let record = env.record(item.message.id()).await;
    assert_eq!((record.state, record.attempts, record.lost), (State::Ready, 0, 1));
    assert_eq!((record.owner, record.locked_until), (None, None));
}

pub async fn wq_8_reap_leaves_live_leases_and_settled_items_alone<H: Harness>(env: Case<H>) {
    env.publish_many(2).await;
    let items = env.claim(2).await.items;
    let _ = env.queue.ack(env.me, &[items[0].lease]).await.expect("ack");
    let _ = env.queue.fail(env.me, &[items[1].lease], "no").await.expect("fail");
    env.advance(LEASE * 5);
    env.leased(plain()).await;
    let reaped = env.queue.reap(10).await.expect("reap");
    assert_eq!((reaped.released, reaped.dead), (0, 0));
    let stats = crate::conformance::stats(&env).await;
    assert_eq!((stats.done, stats.dead, stats.leased), (1, 1, 1));
}

pub async fn wq_8_reaped_past_the_maximum_is_dead<H: Harness>(env: Case<H>) {
    let id = env.publish(plain()).await.id;
    let queue = WorkQueue::new(env.store()).retry(Retry { max_attempts: 2, ..Retry::default() });
    for _ in 0..2 {
        env.claim_one().await;
        env.expire_leases();
        assert_eq!(queue.reap(10).await.expect("reap").released, 1);
    }
    env.claim_one().await;
    env.expire_leases();
    let reaped = queue.reap(10).await.expect("reap");
    assert_eq!((reaped.released, reaped.dead), (0, 1));
    let record = env.record(id).await;
    assert_eq!((record.state, record.reason), (State::Dead, Some(DeadReason::LostLeases)));
    assert_eq!((record.attempts, record.lost, record.processed_by), (2, 3, None));
}

pub async fn wq_8_reap_works_in_bounded_batches<H: Harness>(env: Case<H>) {
    env.publish_many(5).await;
    let _ = env.claim(5).await;
    env.expire_leases();
    let one = env.queue.reap(3).await.expect("reap");
    assert_eq!((one.released, one.more), (3, true));
    let two = env.queue.reap(3).await.expect("reap");
    assert_eq!((two.released, two.more), (2, false));
}

pub async fn wq_1_reap_makes_expired_messages_dead<H: Harness>(env: Case<H>) {
    let ready = env.publish(plain().expires_after(Duration::from_secs(1))).await.id;
    let later = plain().due_after(Duration::from_secs(60)).expires_after(Duration::from_secs(1));
    let waiting = env.publish(later).await.id;
    env.advance(Duration::from_secs(1));
    let reaped = env.queue.reap(10).await.expect("reap");
    assert_eq!((reaped.released, reaped.dead), (0, 2));
    for id in [ready, waiting] {
        let record = env.record(id).await;
        assert_eq!((record.state, record.reason), (State::Dead, Some(DeadReason::Expired)));
    }
}

pub async fn wq_4_a_reaped_lease_can_not_settle<H: Harness>(env: Case<H>) {
    let item = env.leased(plain()).await;
    env.expire_leases();
    let _ = env.queue.reap(10).await.expect("reap");
    let settled = env.queue.ack(env.me, &[item.lease]).await.expect("ack");
    assert_eq!((settled.applied, settled.lost), (0, vec![item.lease]));
    assert_eq!(env.record(item.message.id()).await.state, State::Ready);
}

pub async fn wq_8_a_lost_lease_is_counted_once<H: Harness>(env: Case<H>) {
    env.leased(plain()).await;
    env.expire_leases();
    let _ = env.queue.reap(10).await.expect("reap");
    let _ = env.queue.reap(10).await.expect("nothing left to reap");
    let item = env.claim_one().await;
    assert_eq!((item.attempts, item.lost), (0, 1), "the claim does not count it again");
}

pub async fn wq_8_reaped_items_are_suspects<H: Harness>(env: Case<H>) {
    env.publish_many(4).await;
    let _ = env.claim(4).await;
    env.expire_leases();
    let _ = env.queue.reap(10).await.expect("reap");
    assert_eq!(env.claim(10).await.items.len(), 1);
    let claim = Claim::new(env.me, LEASE, 10).expect("legal").suspects(9);
    assert_eq!(env.queue.claim_with(&claim).await.expect("claim").items.len(), 3);
}

pub async fn wq_2_reap_and_purge_need_a_limit<H: Harness>(env: Case<H>) {
    let error = env.queue.reap(0).await.expect_err("zero");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let none = postroom_core::store::Purge { limit: 0, ..Default::default() };
    assert_eq!(env.queue.purge(&none).await.expect_err("zero").kind(), ErrorKind::Invalid);
}

/// River's rescuer reopened jobs that completed between its read and its write (B10).
pub async fn wq_8_reaping_and_settling_at_once_never_reopen_a_done_item<H: Harness>(env: Case<H>) {
    let published = env.publish_many(200).await;
    let items = env.claim(200).await.items;
    assert_eq!(ids(&items), published);
    env.expire_leases();
    let (reaper, acker) = (env.queue.clone(), env.queue.clone());
    let (owner, all) = (env.me, leases(&items));
    let reaping = tokio::spawn(async move {
        while reaper.reap(7).await.expect("reap").more {
            tokio::task::yield_now().await;
        }
    });
    let acking = tokio::spawn(async move {
        let mut applied = 0;
        for chunk in all.chunks(7) {
            applied += acker.ack(owner, chunk).await.expect("ack").applied;
        }
        applied
    });
    reaping.await.expect("reaper");
    let applied = acking.await.expect("acker") as u64;
    let _ = env.queue.reap(1_000).await.expect("reap");
    let stats = crate::conformance::stats(&env).await;
    assert_eq!((stats.done, stats.ready), (applied, 200 - applied));
}
