//! Claiming: who gets what, in which order, and what a lost lease costs.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use postroom_core::lifecycle::{DeadReason, Settlement, State};
use postroom_core::store::Claim;
use postroom_core::{ErrorKind, Message, OwnerToken, When};

use crate::harness::{Env, Harness, LEASE, ids, leases, plain};

type Case<H> = Arc<Env<H>>;

pub async fn wq_1_a_claim_leases_what_is_ready<H: Harness>(env: Case<H>) {
    let published = env.publish(plain()).await;
    let item = env.claim_one().await;
    assert_eq!(item.message.id(), published.id);
    assert_eq!((item.attempts, item.lost), (0, 0));
    assert_eq!(item.locked_until, env.clock.now().saturating_add(LEASE));
    assert_eq!(item.created_at, env.clock.now());
    let record = env.record(published.id).await;
    assert_eq!((record.state, record.owner), (State::Leased, Some(env.me)));
    assert_eq!(record.locked_until, Some(item.locked_until));
}

pub async fn wq_1_nothing_ready_is_an_empty_answer<H: Harness>(env: Case<H>) {
    let claimed = env.claim(10).await;
    assert!(claimed.items.is_empty() && claimed.dead == 0);
}

pub async fn wq_1_the_batch_is_a_limit<H: Harness>(env: Case<H>) {
    env.publish_many(5).await;
    assert_eq!(env.claim(2).await.items.len(), 2);
    assert_eq!(env.claim(10).await.items.len(), 3);
}

pub async fn wq_1_oldest_first<H: Harness>(env: Case<H>) {
    let published = env.publish_many(7).await;
    let mut got = ids(&env.claim(3).await.items);
    got.extend(ids(&env.claim(10).await.items));
    assert_eq!(got, published);
}

pub async fn wq_1_a_live_lease_is_not_given_twice<H: Harness>(env: Case<H>) {
    env.publish(plain()).await;
    env.claim_one().await;
    env.advance(LEASE - Duration::from_micros(1));
    assert!(env.claim(10).await.items.is_empty());
}

pub async fn dsp_9_the_next_due_time_is_known<H: Harness>(env: Case<H>) {
    let seconds = Duration::from_secs;
    assert_eq!(env.queue.store().next_due().await.expect("due"), None);
    for (due, priority) in [(9, 0), (7, 3), (8, -3), (30, 0)] {
        env.publish(plain().due_after(seconds(due)).priority(priority)).await;
    }
    env.publish(plain().due_after(seconds(5)).ordering_key("k")).await;
    for (passed, next) in [(0, 5), (1, 4), (4, 2), (2, 1), (1, 1), (1, 21)] {
        env.advance(seconds(passed));
        // What is due by now is not: it can be claimed.
        assert_eq!(env.queue.store().next_due().await.expect("due"), Some(seconds(next)));
    }
    env.advance(seconds(21));
    assert_eq!(env.queue.store().next_due().await.expect("due"), None);
}

pub async fn dsp_9_the_next_retry_is_known<H: Harness>(env: Case<H>) {
    env.publish(plain()).await;
    let (lease, delay) = (env.claim_one().await.lease, Duration::from_secs(7));
    let retry = Settlement::Retry { delay, counted: true, error: None };
    let settled = env.queue.settle(env.me, vec![(lease, retry)]).await.expect("settle");
    assert_eq!(settled.applied, 1);
    assert_eq!(env.queue.store().next_due().await.expect("due"), Some(delay));
}

async fn race<H: Harness>(env: &Env<H>, claimers: usize, messages: usize, batch: u32) {
    let published: HashSet<_> = env.publish_many(messages).await.into_iter().collect();
    let barrier = Arc::new(tokio::sync::Barrier::new(claimers));
    let racers = (0..claimers).map(|_| {
        let (queue, barrier) = (env.queue.clone(), Arc::clone(&barrier));
        tokio::spawn(async move {
            let owner = OwnerToken::random();
            barrier.wait().await;
            let mut mine = Vec::new();
            loop {
                let items = queue.claim(owner, LEASE, batch).await.expect("claim").items;
                if items.is_empty() {
                    return mine;
                }
                mine.extend(ids(&items));
            }
        })
    });
    let mut all = Vec::new();
    for racer in racers.collect::<Vec<_>>() {
        all.extend(racer.await.expect("racer"));
    }
    let distinct: HashSet<_> = all.iter().copied().collect();
    assert_eq!(all.len(), distinct.len(), "no message was claimed twice");
    // A racer may have met only locked rows and gone home: what is left is still ready.
    let rest = ids(&env.claim(10_000).await.items);
    let seen: HashSet<_> = distinct.into_iter().chain(rest).collect();
    assert_eq!(seen, published, "no message was lost");
}

pub async fn wq_1_two_claimers_get_disjoint_batches<H: Harness>(env: Case<H>) {
    race(&env, 2, 400, 25).await;
}

pub async fn wq_1_sixteen_claimers_get_disjoint_batches<H: Harness>(env: Case<H>) {
    race(&env, 16, 1_000, 10).await;
}

pub async fn wq_1_done_and_dead_are_never_claimed<H: Harness>(env: Case<H>) {
    env.publish_many(2).await;
    let items = env.claim(10).await.items;
    let _ = env.queue.ack(env.me, &[items[0].lease]).await.expect("ack");
    let _ = env.queue.fail(env.me, &[items[1].lease], "no").await.expect("fail");
    env.advance(Duration::from_secs(999_999));
    assert!(env.claim(10).await.items.is_empty());
}

pub async fn wq_2_bad_arguments_are_refused<H: Harness>(env: Case<H>) {
    env.publish(plain()).await;
    for (lease, batch, field) in [
        (LEASE, 0, "batch"),
        (LEASE, Claim::MAX_BATCH + 1, "batch"),
        (Duration::ZERO, 1, "lease"),
        (Duration::from_nanos(1), 1, "lease"),
        (Claim::MAX_LEASE + Duration::from_secs(1), 1, "lease"),
    ] {
        let error = env.queue.claim(env.me, lease, batch).await.expect_err(field);
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().starts_with(field), "{error}");
    }
    assert_eq!(env.claim(10).await.items.len(), 1, "nothing was touched");
}

pub async fn wq_8_an_expired_lease_is_taken_over<H: Harness>(env: Case<H>) {
    let first = env.leased(plain()).await;
    env.advance(LEASE);
    let second = env.claim_one().await;
    assert_eq!(second.lease.work, first.lease.work);
    assert_ne!(second.lease.token, first.lease.token);
}

pub async fn wq_8_the_first_lost_lease_counts_no_attempt_and_the_second_does<H: Harness>(
    env: Case<H>,
) {
    env.leased(plain()).await;
    let mut counters = Vec::new();
    for _ in 0..3 {
        env.expire_leases();
        let item = env.claim_one().await;
        counters.push((item.attempts, item.lost));
    }
    assert_eq!(counters, [(0, 1), (1, 2), (2, 3)]);
}

pub async fn wq_8_a_killer_is_dead_after_max_plus_one_runs<H: Harness>(env: Case<H>) {
    let id = env.publish(plain()).await.id;
    let claim = Claim::new(env.me, LEASE, 10).expect("legal").max_attempts(3);
    let mut runs = 0;
    loop {
        let claimed = env.queue.claim_with(&claim).await.expect("claim");
        if claimed.items.is_empty() {
            assert_eq!(claimed.dead, 1);
            break;
        }
        runs += 1;
        env.expire_leases();
    }
    assert_eq!(runs, 4);
    let record = env.record(id).await;
    assert_eq!((record.state, record.reason), (State::Dead, Some(DeadReason::LostLeases)));
    assert_eq!((record.attempts, record.lost), (3, 4));
}

pub async fn wq_8_a_claim_takes_one_suspect_unless_asked_for_more<H: Harness>(env: Case<H>) {
    env.publish_many(5).await;
    assert_eq!(env.claim(10).await.items.len(), 5);
    env.expire_leases();
    assert_eq!(env.claim(10).await.items.len(), 1);
    let claim = Claim::new(env.me, LEASE, 10).expect("legal").suspects(3);
    assert_eq!(env.queue.claim_with(&claim).await.expect("claim").items.len(), 3);
    let claim = Claim::new(env.me, LEASE, 10).expect("legal").suspects(0);
    assert!(env.queue.claim_with(&claim).await.expect("claim").items.is_empty());
    assert_eq!(env.claim(10).await.items.len(), 1);
}

pub async fn wq_8_suspects_do_not_starve_the_others<H: Harness>(env: Case<H>) {
    env.publish_many(50).await;
    let _ = env.claim(50).await;
    env.expire_leases();
    let fresh = env.publish_many(20).await;
    let items = env.claim(10).await.items;
    assert_eq!(items.len(), 10);
    assert_eq!(items.iter().filter(|item| item.lost > 0).count(), 1);
    assert!(items.iter().all(|item| item.lost > 0 || fresh.contains(&item.message.id())));
}

pub async fn wq_8_a_suspect_that_failed_is_still_a_suspect<H: Harness>(env: Case<H>) {
    env.publish_many(3).await;
    let _ = env.claim(3).await;
    env.expire_leases();
    let claim = Claim::new(env.me, LEASE, 10).expect("legal").suspects(3);
    let items = env.queue.claim_with(&claim).await.expect("claim").items;
    let delay = Duration::from_secs(1);
    let _ = env.queue.abandon_for(env.me, &leases(&items), delay, "boom").await.expect("abandon");
    env.advance(delay);
    let items = env.claim(10).await.items;
    assert_eq!(items.len(), 1, "one suspect per claim");
    assert_eq!((items[0].attempts, items[0].lost), (1, 1));
}

pub async fn wq_8_a_takeover_is_in_the_history<H: Harness>(env: Case<H>) {
    let id = env.leased(plain()).await.message.id();
    env.expire_leases();
    let other = OwnerToken::random();
    let _ = env.queue.claim(other, LEASE, 10).await.expect("claim");
    let history = crate::conformance::get(&env, id).await.expect("there").history;
    assert_eq!(history.len(), 1);
    assert!(history[0].lease_lost && history[0].error.is_none());
    assert_eq!((history[0].by, history[0].at), (Some(env.me), env.clock.now()));
}

pub async fn priority_higher_first_then_oldest<H: Harness>(env: Case<H>) {
    for (name, priority) in [("a", 0), ("b", -1), ("c", 5), ("d", 0), ("e", 100), ("f", 5)] {
        env.publish(Message::builder(name).priority(priority)).await;
    }
    let items = env.claim(10).await.items;
    let topics: Vec<_> = items.iter().map(|item| item.message.topic().as_str()).collect();
    assert_eq!(topics, ["e", "c", "f", "a", "d", "b"]);
}

pub async fn priority_holds_within_a_small_batch<H: Harness>(env: Case<H>) {
    for priority in [-5, 0, 3, 9, 0, -1] {
        env.publish(Message::builder(format!("p{priority}")).priority(priority)).await;
    }
    let mut topics = Vec::new();
    for _ in 0..3 {
        let items = env.claim(2).await.items;
        topics.extend(items.iter().map(|item| item.message.topic().to_string()));
    }
    assert_eq!(topics, ["p9", "p3", "p0", "p0", "p-1", "p-5"]);
}

pub async fn priority_counts_for_what_came_due_too<H: Harness>(env: Case<H>) {
    env.publish(Message::builder("ready").priority(1)).await;
    for (name, priority, secs) in [("low", -1, 1), ("zero", 0, 2), ("high", 7, 3)] {
        let due = Duration::from_secs(secs);
        env.publish(Message::builder(name).priority(priority).due_after(due)).await;
    }
    env.publish(Message::builder("plain")).await;
    env.advance(Duration::from_secs(3));
    let items = env.claim(10).await.items;
    let topics: Vec<_> = items.iter().map(|item| item.message.topic().as_str()).collect();
    assert_eq!(topics, ["high", "ready", "zero", "plain", "low"]);
}

/// Found by random histories: what waited longest must not push out what is more urgent.
pub async fn priority_of_what_came_due_holds_within_a_small_batch<H: Harness>(env: Case<H>) {
    for (priority, secs) in [(1, 1), (9, 3), (-9, 1), (-1, 3), (5, 2)] {
        let due = Duration::from_secs(secs);
        env.publish(Message::builder(format!("p{priority}")).priority(priority).due_after(due))
            .await;
    }
    env.advance(Duration::from_secs(3));
    let mut topics = Vec::new();
    for _ in 0..5 {
        let items = env.claim(1).await.items;
        topics.extend(items.iter().map(|item| item.message.topic().to_string()));
    }
    assert_eq!(topics, ["p9", "p5", "p1", "p-1", "p-9"]);
}

pub async fn due_what_waited_longest_comes_first<H: Harness>(env: Case<H>) {
    for (name, secs) in [("late", 9), ("early", 1), ("middle", 5)] {
        env.publish(Message::builder(name).due_after(Duration::from_secs(secs))).await;
    }
    env.advance(Duration::from_secs(9));
    let items = env.claim(10).await.items;
    let topics: Vec<_> = items.iter().map(|item| item.message.topic().as_str()).collect();
    assert_eq!(topics, ["early", "middle", "late"]);
}

pub async fn wq_1_an_expired_message_is_dead_and_never_returned<H: Harness>(env: Case<H>) {
    let id = env.publish(plain().expires_after(Duration::from_secs(10))).await.id;
    let other = env.publish(plain()).await.id;
    env.advance(Duration::from_secs(10));
    let claimed = env.claim(10).await;
    assert_eq!((ids(&claimed.items), claimed.dead), (vec![other], 1));
    let record = env.record(id).await;
    assert_eq!((record.state, record.reason), (State::Dead, Some(DeadReason::Expired)));
    assert_eq!((record.processed_at, record.processed_by), (Some(env.clock.now()), Some(env.me)));
}

pub async fn wq_1_expiry_is_exact<H: Harness>(env: Case<H>) {
    let expires = env.clock.now().saturating_add(Duration::from_secs(10));
    env.publish(plain().expires(When::At(expires))).await;
    env.advance(Duration::from_micros(9_999_999));
    assert_eq!(env.claim(10).await.items.len(), 1);
}

pub async fn wq_1_what_expires_while_it_waits_is_dead_too<H: Harness>(env: Case<H>) {
    let wait = plain().due_after(Duration::from_secs(5)).expires_after(Duration::from_secs(3));
    let id = env.publish(wait).await.id;
    env.advance(Duration::from_secs(6));
    let claimed = env.claim(10).await;
    assert!(claimed.items.is_empty());
    assert_eq!(env.record(id).await.reason, Some(DeadReason::Expired));
}

pub async fn wq_1_a_live_lease_is_not_ended_by_expiry<H: Harness>(env: Case<H>) {
    let item = env.leased(plain().expires_after(Duration::from_secs(1))).await;
    env.advance(Duration::from_secs(2));
    assert_eq!(env.claim(10).await.dead, 0);
    assert_eq!(env.queue.ack(env.me, &[item.lease]).await.expect("ack").applied, 1);
}

pub async fn wq_1_an_undecodable_row_dies_alone<H: Harness>(env: Case<H>) {
    let before = env.publish(plain()).await.id;
    let broken = env.publish(plain()).await.id;
    let after = env.publish(plain()).await.id;
    env.harness.make_undecodable(broken).await;
    let claimed = env.claim(10).await;
    assert_eq!((ids(&claimed.items), claimed.dead), (vec![before, after], 1));
    let record = env.record(broken).await;
    assert_eq!((record.state, record.reason), (State::Dead, Some(DeadReason::Undecodable)));
    assert!(record.message.is_none());
}

pub async fn wq_1_each_claim_has_a_token_of_its_own<H: Harness>(env: Case<H>) {
    env.publish_many(4).await;
    let (one, two) = (env.claim(2).await.items, env.claim(2).await.items);
    assert_eq!(one[0].lease.token, one[1].lease.token);
    assert_ne!(one[0].lease.token, two[0].lease.token);
}

pub async fn wq_11_the_same_backlog_is_claimed_in_full_by_small_batches<H: Harness>(env: Case<H>) {
    env.publish_many(300).await;
    let mut seen = HashSet::new();
    loop {
        let items = env.claim(7).await.items;
        if items.is_empty() {
            break;
        }
        let _ = env.queue.ack(env.me, &leases(&items)).await.expect("ack");
        seen.extend(ids(&items));
    }
    assert_eq!(seen.len(), 300);
    let stats = crate::conformance::stats(&env).await;
    assert_eq!((stats.done, stats.ready, stats.leased), (300, 0, 0));
}
