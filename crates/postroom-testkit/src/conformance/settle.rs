//! Settling: fenced by owner and token, mixed in one call, honest about what was lost.

use std::sync::Arc;
use std::time::Duration;

use postroom_core::lifecycle::{DeadReason, Settlement, State};
use postroom_core::{Backoff, ErrorKind, Lease, LeaseToken, OwnerToken, Retry, WorkId, WorkQueue};

use crate::harness::{Env, Harness, LEASE, ids, leases, plain};

type Case<H> = Arc<Env<H>>;

pub async fn wq_3_ack_makes_it_done<H: Harness>(env: Case<H>) {
    let item = env.leased(plain()).await;
    env.advance(Duration::from_secs(1));
    let settled = env.queue.ack(env.me, &[item.lease]).await.expect("ack");
    assert_eq!((settled.applied, settled.lost.len()), (1, 0));
    let record = env.record(item.message.id()).await;
    assert_eq!(record.state, State::Done);
    assert_eq!((record.processed_at, record.processed_by), (Some(env.clock.now()), Some(env.me)));
    assert_eq!((record.owner, record.locked_until, record.next_attempt_at), (None, None, None));
}

pub async fn wq_3_ack_clears_the_error_and_keeps_the_history<H: Harness>(env: Case<H>) {
    let item = env.leased(plain()).await;
    let delay = Duration::from_secs(1);
    let _ = env.queue.abandon_for(env.me, &[item.lease], delay, "boom").await.expect("abandon");
    assert_eq!(env.record(item.message.id()).await.last_error.as_deref(), Some("boom"));
    env.advance(delay);
    let again = env.claim_one().await;
    assert_eq!(again.attempts, 1);
    let _ = env.queue.ack(env.me, &[again.lease]).await.expect("ack");
    let detail = crate::conformance::get(&env, item.message.id()).await.expect("there");
    assert_eq!((detail.record.last_error, detail.record.attempts), (None, 1));
    assert_eq!(detail.history.len(), 1);
    assert_eq!(detail.history[0].error.as_deref(), Some("boom"));
}

pub async fn wq_3_what_is_not_mine_is_ignored_and_reported<H: Harness>(env: Case<H>) {
    let item = env.leased(plain()).await;
    let foreign = OwnerToken::random();
    let unknown = Lease { work: WorkId::new(987_654_321), token: item.lease.token };
    let wrong_token = Lease { token: LeaseToken::random(), ..item.lease };
    let settled = env.queue.ack(foreign, &[item.lease]).await.expect("ack");
    assert_eq!((settled.applied, settled.lost), (0, vec![item.lease]));
    let settled = env.queue.ack(env.me, &[unknown, wrong_token]).await.expect("ack");
    assert_eq!((settled.applied, settled.lost), (0, vec![unknown, wrong_token]));
    assert_eq!(env.record(item.message.id()).await.state, State::Leased);
}

pub async fn wq_3_a_second_ack_is_ignored<H: Harness>(env: Case<H>) {
    let item = env.leased(plain()).await;
    assert_eq!(env.queue.ack(env.me, &[item.lease]).await.expect("ack").applied, 1);
    let again = env.queue.ack(env.me, &[item.lease]).await.expect("ack");
    assert_eq!((again.applied, again.lost), (0, vec![item.lease]));
    let failed = env.queue.fail(env.me, &[item.lease], "late").await.expect("fail");
    assert_eq!(failed.applied, 0);
    assert_eq!(env.record(item.message.id()).await.state, State::Done, "done is final");
}

pub async fn wq_3_repeated_items_count_once<H: Harness>(env: Case<H>) {
    let item = env.leased(plain()).await;
    let twice = [item.lease, item.lease];
    let settled = env.queue.ack(env.me, &twice).await.expect("ack");
    assert_eq!((settled.applied, settled.lost.len()), (1, 0));
}

pub async fn wq_3_an_empty_list_touches_nothing<H: Harness>(env: Case<H>) {
    env.leased(plain()).await;
    assert_eq!(env.queue.ack(env.me, &[]).await.expect("ack").applied, 0);
    assert_eq!(env.queue.renew(env.me, &[], LEASE).await.expect("renew").applied, 0);
    assert_eq!(crate::conformance::stats(&env).await.leased, 1);
}

pub async fn wq_4_a_stale_token_can_not_settle_even_for_the_same_owner<H: Harness>(env: Case<H>) {
    let first = env.leased(plain()).await;
    env.expire_leases();
    let second = env.claim_one().await;
    for settlement in [
        Settlement::Done,
        Settlement::Release,
        Settlement::Retry { delay: LEASE, counted: true, error: None },
        Settlement::Dead { reason: DeadReason::Permanent, counted: true, error: None },
    ] {
        let items = vec![(first.lease, settlement)];
        let settled = env.queue.settle(env.me, items).await.expect("settle");
        assert_eq!((settled.applied, settled.lost), (0, vec![first.lease]));
    }
    assert_eq!(env.queue.ack(env.me, &[second.lease]).await.expect("ack").applied, 1);
}

/// Found by random histories: the fence is the pair, not the item.
pub async fn wq_4_a_stale_and_a_current_lease_of_one_item_in_one_call<H: Harness>(env: Case<H>) {
    let stale = env.leased(plain()).await.lease;
    env.expire_leases();
    let current = env.claim_one().await;
    let retry = Settlement::Retry { delay: LEASE, counted: true, error: None };
    let items = vec![(stale, retry), (current.lease, Settlement::Done)];
    let settled = env.queue.settle(env.me, items).await.expect("settle");
    assert_eq!((settled.applied, settled.lost), (1, vec![stale]));
    let record = env.record(current.message.id()).await;
    assert_eq!((record.state, record.attempts), (State::Done, 0));
}

pub async fn wq_4_an_expired_lease_that_nobody_took_still_settles<H: Harness>(env: Case<H>) {
    let item = env.leased(plain()).await;
    env.advance(LEASE * 10);
    assert_eq!(env.queue.ack(env.me, &[item.lease]).await.expect("ack").applied, 1);
}

pub async fn wq_5_abandon_counts_and_waits_by_the_policy<H: Harness>(env: Case<H>) {
    let item = env.leased(plain()).await;
    let fixed = Retry { backoff: Backoff::Fixed(Duration::from_secs(7)), max_attempts: 3 };
    let queue = env.queue.clone().retry(fixed);
    let id = item.message.id();
    let _ = queue.abandon(env.me, &[item], "boom").await.expect("abandon");
    let record = env.record(id).await;
    let due = env.clock.now().saturating_add(Duration::from_secs(7));
    assert_eq!((record.state, record.attempts), (State::Ready, 1));
    assert_eq!((record.next_attempt_at, record.owner), (Some(due), None));
    assert_eq!(record.last_error.as_deref(), Some("boom"));
    env.advance(Duration::from_micros(6_999_999));
    assert!(env.claim(10).await.items.is_empty());
    env.advance(Duration::from_micros(1));
    assert_eq!(env.claim_one().await.attempts, 1);
}

pub async fn wq_5_the_default_policy_backs_off_exponentially<H: Harness>(env: Case<H>) {
    env.publish(plain()).await;
    for k in 1..=4_u32 {
        let item = env.claim_one().await;
        let id = item.message.id();
        let _ = env.queue.abandon(env.me, &[item], "boom").await.expect("abandon");
        let next = env.record(id).await.next_attempt_at.expect("waits");
        let wait = next.since(env.clock.now());
        let middle = Duration::from_millis(200) * 2_u32.pow(k - 1);
        assert!(wait >= middle / 2 && wait <= middle * 3 / 2, "attempt {k} waits {wait:?}");
        env.advance(wait);
    }
}

pub async fn dsp_7_the_last_attempt_makes_it_dead<H: Harness>(env: Case<H>) {
    env.publish(plain()).await;
    let fixed = Retry { backoff: Backoff::Fixed(Duration::from_secs(1)), max_attempts: 3 };
    let queue = WorkQueue::new(env.store()).retry(fixed);
    let mut id = None;
    for _ in 0..3 {
        let item = env.claim_one().await;
        id = Some(item.message.id());
        let _ = queue.abandon(env.me, &[item], "boom").await.expect("abandon");
        env.advance(Duration::from_secs(1));
    }
    let record = env.record(id.expect("three runs")).await;
    assert_eq!((record.state, record.reason), (State::Dead, Some(DeadReason::Attempts)));
    assert_eq!((record.attempts, record.last_error.as_deref()), (3, Some("boom")));
    assert!(env.claim(10).await.items.is_empty());
}

pub async fn wq_5_a_given_delay_must_be_more_than_zero<H: Harness>(env: Case<H>) {
    let item = env.leased(plain()).await;
    let zero = env.queue.abandon_for(env.me, &[item.lease], Duration::ZERO, "x").await;
    assert_eq!(zero.expect_err("zero").kind(), ErrorKind::Invalid);
    assert_eq!(env.record(item.message.id()).await.state, State::Leased);
}

pub async fn wq_5_release_costs_nothing<H: Harness>(env: Case<H>) {
    let item = env.leased(plain()).await;
    assert_eq!(env.queue.release(env.me, &[item.lease]).await.expect("release").applied, 1);
    let record = env.record(item.message.id()).await;
    assert_eq!((record.state, record.attempts, record.lost), (State::Ready, 0, 0));
    assert_eq!((record.owner, record.next_attempt_at), (None, None));
    assert_eq!(env.claim_one().await.attempts, 0);
}

pub async fn wq_5_a_released_suspect_stays_one<H: Harness>(env: Case<H>) {
    env.leased(plain()).await;
    env.expire_leases();
    let item = env.claim_one().await;
    let _ = env.queue.release(env.me, &[item.lease]).await.expect("release");
    let again = env.claim_one().await;
    assert_eq!((again.attempts, again.lost), (0, 1));
}

pub async fn wq_6_fail_makes_it_dead_with_its_error<H: Harness>(env: Case<H>) {
    let item = env.leased(plain()).await;
    let _ = env.queue.fail(env.me, &[item.lease], "no such account").await.expect("fail");
    let record = env.record(item.message.id()).await;
    assert_eq!((record.state, record.reason), (State::Dead, Some(DeadReason::Permanent)));
    assert_eq!(record.last_error.as_deref(), Some("no such account"));
    assert_eq!((record.attempts, record.processed_by), (1, Some(env.me)));
}

pub async fn wq_6_errors_are_cut_at_a_character_boundary<H: Harness>(env: Case<H>) {
    let item = env.leased(plain()).await;
    let long = "\u{1f4a5}".repeat(2_001);
    let _ = env.queue.fail(env.me, &[item.lease], &long).await.expect("fail");
    let error = env.record(item.message.id()).await.last_error.expect("kept");
    assert_eq!(error, "\u{1f4a5}".repeat(2_000));
}

pub async fn wq_6_an_empty_error_is_none_and_nul_is_no_trouble<H: Harness>(env: Case<H>) {
    env.publish_many(2).await;
    let items = env.claim(2).await.items;
    let _ = env.queue.fail(env.me, &[items[0].lease], "").await.expect("fail");
    let _ = env.queue.fail(env.me, &[items[1].lease], "a\0b").await.expect("fail");
    assert_eq!(env.record(items[0].message.id()).await.last_error, None);
    let error = env.record(items[1].message.id()).await.last_error;
    assert_eq!(error.as_deref(), Some("a\u{fffd}b"));
}

pub async fn wq_10_mixed_outcomes_settle_in_one_call<H: Harness>(env: Case<H>) {
    env.publish_many(6).await;
    let items = env.claim(6).await.items;
    let delay = Duration::from_secs(5);
    let error = Some("boom".to_owned());
    let lost = Lease { token: LeaseToken::random(), ..items[5].lease };
    let settlements = vec![
        (items[0].lease, Settlement::Done),
        (items[1].lease, Settlement::Retry { delay, counted: true, error: error.clone() }),
        (items[2].lease, Settlement::Dead { reason: DeadReason::Permanent, counted: true, error }),
        (items[3].lease, Settlement::Release),
        (items[4].lease, Settlement::Retry { delay, counted: false, error: None }),
        (lost, Settlement::Done),
    ];
    let settled = env.queue.settle(env.me, settlements).await.expect("settle");
    assert_eq!((settled.applied, settled.lost), (5, vec![lost]));
    let mut got = Vec::new();
    for item in &items {
        let record = env.record(item.message.id()).await;
        got.push((record.state, record.attempts));
    }
    assert_eq!(
        got,
        [
            (State::Done, 0),
            (State::Ready, 1),
            (State::Dead, 1),
            (State::Ready, 0),
            (State::Ready, 0),
            (State::Leased, 0)
        ]
    );
}

pub async fn dsp_5_an_uncounted_retry_waits_without_an_attempt<H: Harness>(env: Case<H>) {
    let item = env.leased(plain()).await;
    let delay = Duration::from_secs(5);
    let retry = Settlement::Retry { delay, counted: false, error: Some("busy".to_owned()) };
    let _ = env.queue.settle(env.me, vec![(item.lease, retry)]).await.expect("settle");
    assert!(env.claim(10).await.items.is_empty());
    env.advance(delay);
    assert_eq!(env.claim_one().await.attempts, 0);
    let detail = crate::conformance::get(&env, item.message.id()).await.expect("there");
    assert!(detail.history.is_empty());
}

pub async fn wq_5_a_retry_keeps_priority_and_expiry<H: Harness>(env: Case<H>) {
    let item = env.leased(plain().priority(9).expires_after(Duration::from_secs(60))).await;
    let other = env.publish(plain()).await.id;
    let wait = Duration::from_secs(1);
    let _ = env.queue.abandon_for(env.me, &[item.lease], wait, "boom").await.expect("abandon");
    env.advance(wait);
    let items = env.claim(10).await.items;
    assert_eq!(ids(&items), [item.message.id(), other]);
    let _ = env.queue.abandon_for(env.me, &[items[0].lease], wait, "boom").await.expect("again");
    env.advance(Duration::from_secs(60));
    assert_eq!(env.claim(10).await.dead, 1, "it expired while it waited");
}

pub async fn wq_5_history_has_one_row_per_bad_attempt<H: Harness>(env: Case<H>) {
    let id = env.publish(plain()).await.id;
    for error in ["one", "two", "three"] {
        let item = env.claim_one().await;
        let wait = Duration::from_secs(1);
        let _ = env.queue.abandon_for(env.me, &[item.lease], wait, error).await.expect("abandon");
        env.advance(wait);
    }
    let history = crate::conformance::get(&env, id).await.expect("there").history;
    let errors: Vec<_> = history.iter().filter_map(|attempt| attempt.error.as_deref()).collect();
    assert_eq!(errors, ["one", "two", "three"]);
    assert!(history.iter().all(|attempt| attempt.by == Some(env.me) && !attempt.lease_lost));
}

pub async fn wq_10_a_thousand_settle_in_one_call<H: Harness>(env: Case<H>) {
    env.publish_many(1_000).await;
    let items = env.claim(1_000).await.items;
    let settled = env.queue.ack(env.me, &leases(&items)).await.expect("ack");
    assert_eq!(settled.applied, 1_000);
    assert_eq!(crate::conformance::stats(&env).await.done, 1_000);
}

pub async fn wq_4_sixteen_rivals_settle_an_item_once<H: Harness>(env: Case<H>) {
    let item = env.leased(plain()).await;
    let rivals = (0..16).map(|_| {
        let (queue, owner, lease) = (env.queue.clone(), env.me, item.lease);
        tokio::spawn(async move { queue.ack(owner, &[lease]).await.expect("ack").applied })
    });
    let mut applied = 0;
    for rival in rivals.collect::<Vec<_>>() {
        applied += rival.await.expect("rival");
    }
    assert_eq!(applied, 1);
}
