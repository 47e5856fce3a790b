//! Tenants that take turns in one store.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use postroom_core::lifecycle::{Settlement, State};
use postroom_core::store::{AdminStore, Claim, Pause, WorkItem};
use postroom_core::{Message, MessageBuilder, MessageId, OwnerToken, Topic};

use crate::harness::{Env, Harness, LEASE, ids, leases};

type Case<H> = Arc<Env<H>>;

fn of(tenant: &str) -> MessageBuilder {
    Message::builder("t").payload("{}").tenant_id(tenant)
}

async fn publish<H: Harness>(env: &Env<H>, tenant: &str, n: usize) -> Vec<MessageId> {
    let published = env.outbox.publish_all((0..n).map(|_| of(tenant))).await.expect("publish");
    published.into_iter().map(|published| published.id).collect()
}

/// How many items each tenant has; messages without one are `-`.
fn counts(items: &[WorkItem]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for item in items {
        let tenant = item.message.tenant_id().map_or("-", |tenant| tenant.as_str());
        *counts.entry(tenant.to_owned()).or_default() += 1;
    }
    counts
}

fn expected(counts: &[(&str, usize)]) -> BTreeMap<String, usize> {
    counts.iter().map(|(tenant, count)| ((*tenant).to_owned(), *count)).collect()
}

/// The items of one tenant, in the order of the claim.
fn items_of(items: &[WorkItem], tenant: &str) -> Vec<MessageId> {
    let mine = |item: &&WorkItem| item.message.tenant_id().is_some_and(|id| id.as_str() == tenant);
    items.iter().filter(mine).map(|item| item.message.id()).collect()
}

async fn pause<H: Harness>(env: &Env<H>, name: &str) {
    let pause = Pause { topic: Some(Topic::new(name).expect("legal")), ..Pause::default() };
    assert!(env.store().pause(&pause).await.expect("pause"));
}

/// Lets items come again at once, as a retry would.
async fn retry<H: Harness>(env: &Env<H>, items: &[WorkItem], delay: Duration) {
    let again =
        |item: &WorkItem| (item.lease, Settlement::Retry { delay, counted: true, error: None });
    let settled = env.queue.settle(env.me, items.iter().map(again).collect()).await;
    assert_eq!(settled.expect("settle").applied as usize, items.len());
}

pub async fn fleet_6_a_large_tenant_does_not_make_a_small_one_wait<H: Harness>(env: Case<H>) {
    let large = publish(&env, "large", 300).await;
    let small = publish(&env, "small", 1).await;
    let items = env.claim(20).await.items;
    assert_eq!(items_of(&items, "small"), small, "in the first claim, behind 300 others");
    assert_eq!(items_of(&items, "large"), large[..19], "what it does not need is the other's");
}

pub async fn fleet_6_tenants_share_equally_whatever_they_have<H: Harness>(env: Case<H>) {
    for (tenant, messages) in [("a", 200), ("b", 60), ("c", 40)] {
        publish(&env, tenant, messages).await;
    }
    for _ in 0..3 {
        let items = env.claim(30).await.items;
        assert_eq!(counts(&items), expected(&[("a", 10), ("b", 10), ("c", 10)]));
    }
    // What can not be divided goes round.
    let mut all = Vec::new();
    for _ in 0..3 {
        all.extend(env.claim(10).await.items);
    }
    assert_eq!(counts(&all), expected(&[("a", 10), ("b", 10), ("c", 10)]));
    assert_eq!(counts(&env.claim(30).await.items), expected(&[("a", 15), ("b", 15)]));
    assert_eq!(counts(&env.claim(30).await.items), expected(&[("a", 25), ("b", 5)]));
}

pub async fn fleet_6_one_tenant_alone_has_the_whole_batch<H: Harness>(env: Case<H>) {
    let all = publish(&env, "only", 50).await;
    assert_eq!(ids(&env.claim(40).await.items), all[..40], "and in its order");
    assert_eq!(ids(&env.claim(40).await.items), all[40..]);
    assert!(env.claim(40).await.items.is_empty());
}

pub async fn fleet_6_what_one_does_not_use_goes_to_the_others<H: Harness>(env: Case<H>) {
    for (tenant, messages) in [("a", 100), ("b", 3), ("c", 12), ("d", 1)] {
        publish(&env, tenant, messages).await;
    }
    let items = env.claim(40).await.items;
    assert_eq!(counts(&items), expected(&[("a", 24), ("b", 3), ("c", 12), ("d", 1)]));
}

pub async fn fleet_6_more_tenants_than_a_round_visits_all_have_their_turn<H: Harness>(
    env: Case<H>,
) {
    let tenants: Vec<_> = (0..150).map(|n| format!("tenant {n}")).collect();
    let messages = (0..4).flat_map(|_| tenants.iter().map(|tenant| of(tenant)));
    env.outbox.publish_all(messages).await.expect("publish");
    for _ in 0..4 {
        let mut seen = Vec::new();
        for _ in 0..3 {
            seen.extend(env.claim(50).await.items);
        }
        let counts = counts(&seen);
        assert_eq!(counts.len(), 150, "everybody has one before anybody has two");
        assert!(counts.values().all(|count| *count == 1), "{counts:?}");
    }
    assert!(env.claim(50).await.items.is_empty());
}

pub async fn fleet_6_a_claim_is_filled_from_many_small_tenants<H: Harness>(env: Case<H>) {
    let messages = (0..200).map(|n| of(&format!("tenant {n}")));
    env.outbox.publish_all(messages).await.expect("publish");
    assert_eq!(env.claim(150).await.items.len(), 150);
    assert_eq!(env.claim(150).await.items.len(), 50);
}

pub async fn fleet_6_a_batch_of_one_goes_round<H: Harness>(env: Case<H>) {
    for tenant in ["a", "b", "c"] {
        publish(&env, tenant, 4).await;
    }
    for _ in 0..4 {
        let mut three = Vec::new();
        for _ in 0..3 {
            three.extend(env.claim(1).await.items);
        }
        assert_eq!(counts(&three), expected(&[("a", 1), ("b", 1), ("c", 1)]));
    }
}

pub async fn fleet_6_the_first_of_each_tenant_come_before_the_second<H: Harness>(env: Case<H>) {
    for (tenant, messages) in [("a", 9), ("b", 2), ("c", 9)] {
        publish(&env, tenant, messages).await;
    }
    let items = env.claim(6).await.items;
    for pass in items.chunks(3) {
        assert_eq!(counts(pass), expected(&[("a", 1), ("b", 1), ("c", 1)]));
    }
}

pub async fn fleet_6_messages_without_a_tenant_are_one_tenant<H: Harness>(env: Case<H>) {
    env.publish_many(100).await;
    publish(&env, "a", 100).await;
    publish(&env, "b", 100).await;
    let items = env.claim(30).await.items;
    assert_eq!(counts(&items), expected(&[("-", 10), ("a", 10), ("b", 10)]));
}

pub async fn fleet_6_priority_orders_the_messages_of_one_tenant<H: Harness>(env: Case<H>) {
    let plain = publish(&env, "a", 20).await;
    let low = env.publish(of("a").priority(-5)).await.id;
    let high = env.publish(of("a").priority(5)).await.id;
    let urgent = (0..20).map(|_| of("b").priority(100));
    env.outbox.publish_all(urgent).await.expect("publish");
    let items = env.claim(20).await.items;
    let mine = items_of(&items, "a");
    assert_eq!(mine.len(), 10, "another tenant's priority is its own business");
    assert_eq!((mine[0], &mine[1..]), (high, &plain[..9]));
    let rest = items_of(&env.claim(100).await.items, "a");
    assert_eq!((rest.len(), rest.last()), (12, Some(&low)));
}

pub async fn fleet_6_what_came_due_is_shared_too<H: Harness>(env: Case<H>) {
    let soon = Duration::from_secs(1);
    let due = (0..100).map(|_| of("large").due_after(soon));
    env.outbox.publish_all(due).await.expect("publish");
    let urgent = env.publish(of("large").due_after(soon).priority(3)).await.id;
    publish(&env, "later", 1).await;
    retry(&env, &env.claim(10).await.items, Duration::from_secs(60)).await;
    env.advance(Duration::from_millis(500));
    let last = env.publish(of("small").due_after(soon)).await.id;
    let queued = publish(&env, "other", 40).await;
    env.advance(soon);
    let items = env.claim(30).await.items;
    let (large, other) = (items_of(&items, "large"), items_of(&items, "other"));
    assert_eq!(large.len() + other.len(), 29);
    assert!(large.len().abs_diff(other.len()) == 1, "each the half of what is left");
    assert_eq!(items_of(&items, "small"), [last]);
    assert_eq!(large[0], urgent);
    assert_eq!(other, queued[..other.len()]);
    env.advance(Duration::from_secs(60));
    assert_eq!(items_of(&env.claim(30).await.items, "later").len(), 1, "it came due");
}

pub async fn fleet_6_within_a_tenant_what_waited_comes_before_what_did_not<H: Harness>(
    env: Case<H>,
) {
    let retried = publish(&env, "a", 3).await;
    retry(&env, &env.claim(3).await.items, Duration::from_secs(5)).await;
    let fresh = publish(&env, "a", 3).await;
    publish(&env, "b", 10).await;
    env.advance(Duration::from_secs(5));
    let mine = items_of(&env.claim(10).await.items, "a");
    assert_eq!((&mine[..3], &mine[3..]), (&retried[..], &fresh[..2]));
}

pub async fn fleet_6_suspects_run_alone_and_their_neighbours_pay_nothing<H: Harness>(env: Case<H>) {
    let suspects = publish(&env, "a", 5).await;
    let _ = env.claim(5).await;
    env.expire_leases();
    let fresh = publish(&env, "a", 10).await;
    publish(&env, "b", 10).await;
    let items = env.claim(10).await.items;
    let mine = items_of(&items, "a");
    assert_eq!((mine[0], &mine[1..]), (suspects[0], &fresh[..4]), "one of them and no more");
    let none = Claim::new(env.me, LEASE, 4).expect("legal").suspects(0);
    let items = env.queue.claim_with(&none).await.expect("claim").items;
    assert_eq!(counts(&items), expected(&[("a", 2), ("b", 2)]));
    assert_eq!(items_of(&items, "a"), fresh[4..6]);
    let many = Claim::new(env.me, LEASE, 20).expect("legal").suspects(20);
    let items = env.queue.claim_with(&many).await.expect("claim").items;
    assert_eq!(items_of(&items, "a")[..4], suspects[1..]);
    assert_eq!(items.len(), 4 + 4 + 3);
}

pub async fn fleet_6_suspects_of_many_tenants_are_limited_together<H: Harness>(env: Case<H>) {
    let mut all = Vec::new();
    for tenant in ["a", "b", "c"] {
        all.extend(publish(&env, tenant, 2).await);
    }
    let _ = env.claim(6).await;
    env.expire_leases();
    let two = Claim::new(env.me, LEASE, 10).expect("legal").suspects(2);
    let mut seen = HashSet::new();
    for _ in 0..3 {
        let items = env.queue.claim_with(&two).await.expect("claim").items;
        assert_eq!(items.len(), 2);
        assert!(items.iter().all(|item| item.lost == 1));
        seen.extend(ids(&items));
    }
    assert_eq!(seen.len(), 6);
}

pub async fn fleet_6_paused_and_excluded_topics_are_left_out<H: Harness>(env: Case<H>) {
    let quiet = |tenant: &str| Message::builder("quiet").tenant_id(tenant);
    env.outbox.publish_all((0..20).map(|_| quiet("a"))).await.expect("publish");
    env.outbox.publish_all((0..20).map(|_| quiet("b"))).await.expect("publish");
    let of_b = publish(&env, "b", 20).await;
    let topic = Topic::new("quiet").expect("legal").hash64();
    let claim = Claim::new(env.me, LEASE, 6).expect("legal").except_topics(vec![topic]);
    let items = env.queue.claim_with(&claim).await.expect("claim").items;
    assert_eq!(ids(&items), of_b[..6], "a tenant without anything to take has no part");
    pause(&env, "quiet").await;
    assert_eq!(ids(&env.claim(6).await.items), of_b[6..12]);
    pause(&env, "t").await;
    assert!(env.claim(6).await.items.is_empty());
}

pub async fn fleet_6_expired_messages_of_a_tenant_are_dead<H: Harness>(env: Case<H>) {
    let soon = Duration::from_secs(1);
    let expired = env.publish(of("a").expires_after(soon)).await.id;
    let live = publish(&env, "a", 1).await;
    publish(&env, "b", 1).await;
    env.advance(soon);
    let claimed = env.claim(10).await;
    assert_eq!((claimed.items.len(), claimed.dead), (2, 1));
    assert_eq!(items_of(&claimed.items, "a"), live);
    assert_eq!(env.record(expired).await.state, State::Dead);
}

pub async fn fleet_6_ordered_messages_go_by_their_keys<H: Harness>(env: Case<H>) {
    let keyed = |tenant: &str, n: usize| of(tenant).ordering_key(format!("{n}"));
    env.outbox.publish_all((0..8).map(|n| keyed("a", n % 2))).await.expect("publish");
    publish(&env, "a", 4).await;
    publish(&env, "b", 4).await;
    let items = env.claim(16).await.items;
    assert_eq!(items.len(), 16);
    let plain = items.iter().filter(|item| item.message.ordering_key().is_none()).cloned();
    assert_eq!(counts(&plain.collect::<Vec<_>>()), expected(&[("a", 4), ("b", 4)]));
}

pub async fn fleet_6_what_is_released_comes_again<H: Harness>(env: Case<H>) {
    let all = publish(&env, "a", 10).await;
    publish(&env, "b", 10).await;
    let items = env.claim(10).await.items;
    let released = env.queue.release(env.me, &leases(&items)).await.expect("release");
    assert_eq!(released.applied, 10);
    let items = env.claim(10).await.items;
    assert_eq!(items_of(&items, "a"), all[..5]);
}

pub async fn fleet_6_rivals_never_take_the_same_message<H: Harness>(env: Case<H>) {
    let messages = (0..600).map(|n| of(["a", "b", "c", "d", "e"][n % 5]));
    let published = env.outbox.publish_all(messages).await.expect("publish");
    let barrier = Arc::new(tokio::sync::Barrier::new(4));
    let rivals = (0..4).map(|_| {
        let (queue, barrier) = (env.queue.clone(), Arc::clone(&barrier));
        tokio::spawn(async move {
            barrier.wait().await;
            let (owner, mut mine) = (OwnerToken::random(), Vec::new());
            loop {
                let items = queue.claim(owner, LEASE, 23).await.expect("claim").items;
                if items.is_empty() {
                    return mine;
                }
                mine.extend(ids(&items));
            }
        })
    });
    let mut all = Vec::new();
    for rival in rivals.collect::<Vec<_>>() {
        all.extend(rival.await.expect("rival"));
    }
    // A rival may have met only locked rows and gone home: what is left is still ready.
    all.extend(ids(&env.claim(1_000).await.items));
    let distinct: HashSet<_> = all.iter().copied().collect();
    assert_eq!((all.len(), distinct.len()), (published.len(), published.len()));
}
