//! Order: one at a time per key, in the order of publishing, across owners, retries and deaths.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use postroom_core::lifecycle::{DeadReason, State};
use postroom_core::store::{Claim, Claimed, Store, WorkItem};
use postroom_core::{Message, MessageBuilder, MessageId, OwnerToken};

use super::get;
use crate::harness::{Env, Harness, LEASE, ids, leases, plain};

type Case<H> = Arc<Env<H>>;

fn of(key: &str) -> MessageBuilder {
    plain().ordering_key(key)
}

async fn publish_of<H: Harness>(env: &Env<H>, key: &str, n: usize) -> Vec<MessageId> {
    let published = env.outbox.publish_all((0..n).map(|_| of(key))).await.expect("publish");
    published.into_iter().map(|published| published.id).collect()
}

async fn claim_as<H: Harness>(env: &Env<H>, owner: OwnerToken, batch: u32) -> Claimed {
    env.queue.claim(owner, LEASE, batch).await.expect("claim")
}

async fn ack<H: Harness>(env: &Env<H>, items: &[WorkItem]) {
    let settled = env.queue.ack(env.me, &leases(items)).await.expect("ack");
    assert_eq!(settled.applied, items.len());
}

fn key_of(item: &WorkItem) -> String {
    item.message.ordering_key().map_or_else(String::new, ToString::to_string)
}

pub async fn ord_1_a_key_is_claimed_in_publish_order<H: Harness>(env: Case<H>) {
    let published = publish_of(&env, "a", 7).await;
    assert_eq!(ids(&env.claim(10).await.items), published);
}

pub async fn ord_1_a_key_in_hand_is_not_claimed_again<H: Harness>(env: Case<H>) {
    let published = publish_of(&env, "a", 5).await;
    let first = env.claim(2).await.items;
    assert_eq!(ids(&first), published[..2]);
    assert!(env.claim(10).await.items.is_empty(), "two are held");
    ack(&env, &first[..1]).await;
    assert!(env.claim(10).await.items.is_empty(), "one is held");
    ack(&env, &first[1..]).await;
    assert_eq!(ids(&env.claim(10).await.items), published[2..]);
}

pub async fn ord_1_keys_run_in_parallel<H: Harness>(env: Case<H>) {
    for key in ["a", "b", "c"] {
        publish_of(&env, key, 20).await;
    }
    let items = env.claim(12).await.items;
    let mut runs: BTreeMap<String, usize> = BTreeMap::new();
    items.iter().for_each(|item| *runs.entry(key_of(item)).or_default() += 1);
    assert_eq!(runs.into_values().collect::<Vec<_>>(), [4, 4, 4]);
}

pub async fn ord_1_one_key_alone_fills_the_batch<H: Harness>(env: Case<H>) {
    let published = publish_of(&env, "a", 120).await;
    assert_eq!(ids(&env.claim(100).await.items), published[..100]);
}

pub async fn ord_1_keys_take_turns<H: Harness>(env: Case<H>) {
    for key in 0..9 {
        publish_of(&env, &key.to_string(), 3).await;
    }
    let mut turns = Vec::new();
    for _ in 0..9 {
        let items = env.claim(1).await.items;
        turns.push(key_of(&items[0]));
        ack(&env, &items).await;
    }
    let keys: HashSet<_> = turns.iter().collect();
    assert_eq!(keys.len(), 9, "each key once before any twice: {turns:?}");
}

pub async fn ord_1_a_claim_is_filled_from_many_keys<H: Harness>(env: Case<H>) {
    let messages = (0..300).map(|key| of(&key.to_string()));
    env.outbox.publish_all(messages).await.expect("publish");
    assert_eq!(env.claim(250).await.items.len(), 250);
    assert_eq!(env.claim(250).await.items.len(), 50);
}

pub async fn ord_1_tenants_have_their_own_keys<H: Harness>(env: Case<H>) {
    env.publish(of("a").tenant_id("x")).await;
    env.publish(of("a").tenant_id("y")).await;
    let first = env.claim(1).await.items;
    let second = env.claim(1).await.items;
    assert_eq!((first.len(), second.len()), (1, 1));
    assert_ne!(first[0].message.tenant_id(), second[0].message.tenant_id());
}

pub async fn ord_1_a_key_spans_topics<H: Harness>(env: Case<H>) {
    let first = env.publish(Message::builder("x").ordering_key("a")).await.id;
    env.publish(Message::builder("y").ordering_key("a")).await;
    assert_eq!(ids(&env.claim(1).await.items), [first]);
    assert!(env.claim(10).await.items.is_empty());
}

pub async fn ord_1_priority_never_reorders_a_key<H: Harness>(env: Case<H>) {
    let first = env.publish(of("a").priority(-5)).await.id;
    let second = env.publish(of("a").priority(50)).await.id;
    assert_eq!(ids(&env.claim(10).await.items), [first, second]);
}

pub async fn ord_1_a_slot_has_one_owner<H: Harness>(env: Case<H>) {
    publish_of(&env, "a", 3).await;
    let first = env.claim(1).await.items;
    let other = OwnerToken::random();
    assert!(claim_as(&env, other, 10).await.items.is_empty());
    ack(&env, &first).await;
    assert!(claim_as(&env, other, 10).await.items.is_empty(), "the slot is still mine");
}

pub async fn ord_1_owners_share_the_slots<H: Harness>(env: Case<H>) {
    let other = OwnerToken::random();
    let messages = (0..400).map(|key| of(&(key % 200).to_string()));
    env.outbox.publish_all(messages).await.expect("publish");
    let mine = env.claim(10).await.items;
    assert!(claim_as(&env, other, 500).await.items.is_empty(), "all slots are mine");
    ack(&env, &mine).await;
    let mine = env.claim(500).await.items;
    let theirs = claim_as(&env, other, 500).await.items;
    assert!(theirs.len() > 100 && mine.len() > 100, "{} and {}", mine.len(), theirs.len());
    assert_eq!(mine.len() + theirs.len(), 390);
    let keys = |items: &[WorkItem]| items.iter().map(key_of).collect::<HashSet<_>>();
    assert!(keys(&mine).is_disjoint(&keys(&theirs)));
}

pub async fn ord_1_a_slot_is_not_handed_over_while_something_in_it_is_held<H: Harness>(
    env: Case<H>,
) {
    let publish = async |keys: std::ops::Range<u32>| {
        let messages = keys.map(|key| of(&key.to_string()));
        env.outbox.publish_all(messages).await.expect("publish");
    };
    let slot = |item: &WorkItem| item.message.lane().expect("ordered").slot;
    publish(0..200).await;
    let mine = env.claim(500).await.items;
    // The slots beyond a fair share are the last ones: in these something is held.
    let (held, rest): (Vec<_>, Vec<_>) = mine.into_iter().partition(|item| slot(item) >= 200);
    assert!(!held.is_empty());
    ack(&env, &rest).await;
    publish(200..800).await;
    let other = OwnerToken::random();
    assert!(claim_as(&env, other, 1).await.items.is_empty(), "all slots are mine");
    assert_eq!(env.claim(1).await.items.len(), 1, "and with this the others are free");
    let theirs = claim_as(&env, other, 1_000).await.items;
    let held: HashSet<_> = held.iter().map(slot).collect();
    assert!(theirs.iter().any(|item| slot(item) >= 128), "they have a share");
    assert!(theirs.iter().all(|item| !held.contains(&slot(item))), "but none in which I hold one");
}

pub async fn ord_1_leaving_gives_the_slots_back_at_once<H: Harness>(env: Case<H>) {
    let published = publish_of(&env, "a", 3).await;
    let other = OwnerToken::random();
    let items = env.claim(1).await.items;
    env.store().leave(env.me).await.expect("leave");
    assert!(claim_as(&env, other, 10).await.items.is_empty(), "one is still held");
    ack(&env, &items).await;
    env.store().leave(env.me).await.expect("leave");
    assert_eq!(ids(&claim_as(&env, other, 10).await.items), published[1..]);
}

pub async fn ord_1_a_dead_owners_slots_are_taken_at_expiry<H: Harness>(env: Case<H>) {
    let published = publish_of(&env, "a", 3).await;
    let held = env.claim(10).await.items;
    let other = OwnerToken::random();
    env.advance(LEASE - Duration::from_micros(1));
    assert!(claim_as(&env, other, 10).await.items.is_empty());
    env.advance(Duration::from_micros(1));
    let taken = claim_as(&env, other, 10).await.items;
    assert_eq!(ids(&taken), published[..1], "a suspect is leased alone");
    assert_eq!((taken[0].lost, taken[0].attempts), (1, 0));
    let late = env.queue.ack(env.me, &leases(&held[..1])).await.expect("ack");
    assert_eq!(late.applied, 0, "the fence holds");
    assert!(claim_as(&env, other, 10).await.items.is_empty(), "and nothing behind it");
}

pub async fn ord_1_a_suspect_is_leased_without_what_lies_behind_it<H: Harness>(env: Case<H>) {
    let published = publish_of(&env, "a", 3).await;
    assert_eq!(ids(&env.claim(1).await.items), published[..1]);
    env.advance(LEASE);
    let suspect = env.claim(10).await.items;
    assert_eq!(
        ids(&suspect),
        published[..1],
        "the others were never leased, and wait all the same"
    );
    ack(&env, &suspect).await;
    assert_eq!(ids(&env.claim(10).await.items), published[1..]);
}

pub async fn wq_4_an_expired_ordered_lease_that_nobody_took_still_settles<H: Harness>(
    env: Case<H>,
) {
    let published = publish_of(&env, "a", 2).await;
    let held = env.claim(1).await.items;
    env.advance(LEASE * 2);
    ack(&env, &held).await;
    assert_eq!(ids(&env.claim(10).await.items), published[1..]);
}

pub async fn wq_8_an_ordered_killer_is_dead_after_max_plus_one_runs<H: Harness>(env: Case<H>) {
    let published = publish_of(&env, "a", 2).await;
    let mut runs = 0;
    let claim = Claim::new(env.me, LEASE, 10).expect("legal").max_attempts(3);
    loop {
        let items = env.queue.claim_with(&claim).await.expect("claim").items;
        if items.first().is_some_and(|item| item.message.id() == published[1]) {
            break;
        }
        runs += usize::from(!items.is_empty());
        env.advance(LEASE);
        assert!(runs < 10, "it never dies");
    }
    assert_eq!(runs, 4, "max + 1");
    let detail = get(&env, published[0]).await.expect("kept");
    assert_eq!(detail.record.reason, Some(DeadReason::LostLeases));
}

pub async fn wq_8_reap_leaves_ordered_items_to_their_slot<H: Harness>(env: Case<H>) {
    let id = publish_of(&env, "a", 1).await[0];
    let _ = env.claim(1).await;
    env.advance(LEASE * 2);
    let reaped = env.queue.reap(100).await.expect("reap");
    assert_eq!((reaped.released, reaped.dead), (0, 0));
    assert_eq!(env.record(id).await.state, State::Leased);
}

pub async fn wq_7_renewing_keeps_the_slot_too<H: Harness>(env: Case<H>) {
    publish_of(&env, "a", 3).await;
    let held = env.claim(1).await.items;
    env.advance(LEASE / 2);
    let renewed = env.queue.renew(env.me, &leases(&held), LEASE).await.expect("renew");
    assert_eq!(renewed.applied, 1);
    env.advance(LEASE - Duration::from_micros(1));
    assert!(claim_as(&env, OwnerToken::random(), 10).await.items.is_empty());
    ack(&env, &held).await;
    assert!(claim_as(&env, OwnerToken::random(), 10).await.items.is_empty());
    assert_eq!(env.claim(10).await.items.len(), 2);
}

pub async fn wq_7_an_ordered_item_is_leased_no_longer_than_its_slot<H: Harness>(env: Case<H>) {
    publish_of(&env, "a", 1).await;
    publish_of(&env, "b", 1).await;
    let first = env.claim(1).await.items;
    env.advance(LEASE / 4);
    let second = env.claim(1).await.items;
    assert_eq!(second[0].claimed_at, env.clock.now());
    assert_eq!(second[0].locked_until, first[0].locked_until, "the slot's lease is fresh enough");
    env.advance(LEASE / 4);
    env.publish(of("c")).await;
    let third = env.claim(1).await.items;
    assert_eq!(third[0].locked_until, env.clock.now().saturating_add(LEASE));
}

pub async fn ord_2_a_retry_stops_its_key_alone<H: Harness>(env: Case<H>) {
    let (a, b) = (publish_of(&env, "a", 3).await, publish_of(&env, "b", 2).await);
    let items = env.claim(10).await.items;
    let (of_a, of_b): (Vec<_>, Vec<_>) = items.into_iter().partition(|item| key_of(item) == "a");
    let delay = Duration::from_secs(5);
    let abandoned = env.queue.abandon_for(env.me, &leases(&of_a[..1]), delay, "boom").await;
    assert_eq!(abandoned.expect("abandon").applied, 1);
    let _ = env.queue.release(env.me, &leases(&of_a[1..])).await.expect("release");
    ack(&env, &of_b).await;
    assert_eq!(b.len(), of_b.len());
    env.advance(delay - Duration::from_micros(1));
    assert!(env.claim(10).await.items.is_empty(), "the first one waits");
    env.advance(Duration::from_micros(1));
    let again = env.claim(10).await.items;
    assert_eq!(ids(&again), a, "in order, nothing overtook");
    assert_eq!(again[0].attempts, 1);
}

pub async fn ord_2_skip_a_dead_message_lets_the_others_pass<H: Harness>(env: Case<H>) {
    let published = publish_of(&env, "a", 3).await;
    let items = env.claim(1).await.items;
    let _ = env.queue.fail(env.me, &leases(&items), "never").await.expect("fail");
    assert_eq!(ids(&env.claim(10).await.items), published[1..]);
}

pub async fn wq_5_a_released_run_comes_again_in_order<H: Harness>(env: Case<H>) {
    let published = publish_of(&env, "a", 4).await;
    let items = env.claim(10).await.items;
    let _ = env.queue.release(env.me, &leases(&items)).await.expect("release");
    let again = env.claim(10).await.items;
    assert_eq!(ids(&again), published);
    assert!(again.iter().all(|item| (item.attempts, item.lost) == (0, 0)));
}

pub async fn due_later_blocks_nothing_and_takes_its_place_when_due<H: Harness>(env: Case<H>) {
    let later = env.publish(of("a").due_after(Duration::from_secs(10))).await.id;
    let now = publish_of(&env, "a", 2).await;
    let held = env.claim(1).await.items;
    assert_eq!(ids(&held), now[..1]);
    env.advance(Duration::from_secs(10));
    assert!(env.claim(10).await.items.is_empty(), "one of the key is held");
    ack(&env, &held).await;
    assert_eq!(ids(&env.claim(10).await.items), [later, now[1]]);
}

pub async fn wq_1_an_expired_head_is_dead_and_the_next_goes<H: Harness>(env: Case<H>) {
    let first = env.publish(of("a").expires_after(Duration::from_secs(5))).await.id;
    let second = env.publish(of("a")).await.id;
    env.advance(Duration::from_secs(5));
    let claimed = env.claim(10).await;
    assert_eq!((ids(&claimed.items), claimed.dead), (vec![second], 1));
    assert_eq!(env.record(first).await.reason, Some(DeadReason::Expired));
}

pub async fn wq_1_an_undecodable_ordered_row_dies_alone<H: Harness>(env: Case<H>) {
    let published = publish_of(&env, "a", 3).await;
    env.harness.make_undecodable(published[1]).await;
    let claimed = env.claim(10).await;
    assert_eq!((ids(&claimed.items), claimed.dead), (vec![published[0]], 1));
    assert_eq!(env.record(published[1]).await.reason, Some(DeadReason::Undecodable));
    assert_eq!(env.record(published[2]).await.state, State::Ready);
    ack(&env, &claimed.items).await;
    assert_eq!(ids(&env.claim(10).await.items), published[2..]);
}

pub async fn ord_3_both_kinds_take_turns<H: Harness>(env: Case<H>) {
    env.publish_many(20).await;
    publish_of(&env, "a", 20).await;
    let mut ordered = Vec::new();
    for _ in 0..4 {
        let items = env.claim(4).await.items;
        assert_eq!(items.len(), 4);
        ordered.push(items.iter().filter(|item| item.message.lane().is_some()).count());
        ack(&env, &items).await;
    }
    ordered.sort_unstable();
    assert_eq!(ordered, [0, 0, 4, 4]);
}

pub async fn ord_3_room_that_one_kind_leaves_is_the_others<H: Harness>(env: Case<H>) {
    for _ in 0..2 {
        env.publish_many(3).await;
        publish_of(&env, "a", 5).await;
        let items = env.claim(100).await.items;
        assert_eq!(items.len(), 8);
        ack(&env, &items).await;
    }
}

pub async fn ord_1_an_owner_may_want_no_ordered_items<H: Harness>(env: Case<H>) {
    publish_of(&env, "a", 2).await;
    let plain = env.publish(plain()).await.id;
    let claim = Claim::new(env.me, LEASE, 10).expect("legal").ordered(false);
    for expected in [vec![plain], vec![]] {
        let items = env.queue.claim_with(&claim).await.expect("claim").items;
        assert_eq!(ids(&items), expected);
    }
    assert_eq!(claim_as(&env, OwnerToken::random(), 10).await.items.len(), 2, "it took no slot");
}

pub async fn dsp_10_an_excluded_topic_stops_its_keys_alone<H: Harness>(env: Case<H>) {
    let builder = |topic: &str, key: &str| Message::builder(topic).ordering_key(key);
    env.publish(builder("x", "a")).await;
    env.publish(builder("y", "a")).await;
    let fine = env.publish(builder("y", "b")).await.id;
    env.publish(builder("x", "b")).await;
    env.publish(Message::builder("x")).await;
    let plain = env.publish(Message::builder("y")).await.id;
    let x = Message::builder("x").build().expect("legal").topic_hash();
    let claim = Claim::new(env.me, LEASE, 10).expect("legal").except_topics(vec![x]);
    let items = env.queue.claim_with(&claim).await.expect("claim").items;
    let got: HashSet<_> = ids(&items).into_iter().collect();
    assert_eq!(got, HashSet::from([fine, plain]));
}

pub async fn ord_1_keys_that_the_owner_says_it_holds_are_left_out<H: Harness>(env: Case<H>) {
    publish_of(&env, "a", 5).await;
    let b = publish_of(&env, "b", 1).await;
    let lane = of("a").build().expect("legal").lane().expect("ordered");
    let claim = |held: Vec<i64>| Claim::new(env.me, LEASE, 2).expect("legal").holding(held);
    let items = env.queue.claim_with(&claim(vec![lane.key_hash])).await.expect("claim").items;
    assert_eq!(ids(&items), b);
    let items = env.queue.claim_with(&claim(Vec::new())).await.expect("claim").items;
    assert_eq!(items.len(), 2);
    let more = env.queue.claim_with(&claim(Vec::new())).await.expect("claim").items;
    assert!(more.is_empty(), "a first item that is leased stops its key in any case");
}

pub async fn ord_1_a_run_leaves_room_for_the_keys_in_hand<H: Harness>(env: Case<H>) {
    let published = publish_of(&env, "a", 120).await;
    let claim = Claim::new(env.me, LEASE, 100).expect("legal").holding((1..10).collect());
    let items = env.queue.claim_with(&claim).await.expect("claim").items;
    assert_eq!(ids(&items), published[..10], "a tenth: nine keys more will want theirs");
}

pub async fn ord_1_rivals_never_hold_a_key_at_the_same_time<H: Harness>(env: Case<H>) {
    const KEYS: usize = 40;
    const EACH: usize = 12;
    for _ in 0..EACH {
        let messages = (0..KEYS).map(|key| of(&key.to_string()).payload(key.to_string()));
        env.outbox.publish_all(messages).await.expect("publish");
    }
    let log = Arc::new(std::sync::Mutex::new(Vec::new()));
    // Two by two they share an owner, as the workers of one process may.
    let owners = [(); 4].map(|()| OwnerToken::random());
    let rivals = (0..8).map(|rival| {
        let owner = owners[rival / 2];
        let (env, log) = (Arc::clone(&env), Arc::clone(&log));
        tokio::spawn(async move { drain_logging(&env, owner, &log, KEYS * EACH).await })
    });
    for rival in rivals.collect::<Vec<_>>() {
        rival.await.expect("a rival that does not panic");
    }
    let log = log.lock().expect("not poisoned");
    let mut last: BTreeMap<&str, i64> = BTreeMap::new();
    for (key, seq) in log.iter() {
        assert!(last.insert(key, *seq) < Some(*seq), "{key} went back");
    }
    assert_eq!(log.len(), KEYS * EACH);
}

type Log = std::sync::Mutex<Vec<(String, i64)>>;

/// Claims and acknowledges one by one until all rivals together have handled everything.
async fn drain_logging<H: Harness>(env: &Env<H>, owner: OwnerToken, log: &Log, all: usize) {
    let mut idle = 0;
    while log.lock().expect("not poisoned").len() < all {
        let items = claim_as(env, owner, 8).await.items;
        idle = if items.is_empty() { idle + 1 } else { 0 };
        assert!(idle < 5_000, "nobody gets the rest");
        for item in &items {
            log.lock().expect("not poisoned").push((key_of(item), item.lease.work.seq()));
            let settled = env.queue.ack(owner, &[item.lease]).await.expect("ack");
            assert_eq!(settled.applied, 1);
        }
        tokio::task::yield_now().await;
    }
}

/// For stores in which a dead message stops its key.
pub mod halt {
    use super::*;

    pub async fn ord_2_halt_a_dead_message_stops_its_key_alone<H: Harness>(env: Case<H>) {
        assert!(env.store().halts());
        publish_of(&env, "a", 3).await;
        let b = publish_of(&env, "b", 1).await;
        let mut items = env.claim(10).await.items;
        items.sort_by_key(key_of);
        let _ = env.queue.fail(env.me, &leases(&items[..1]), "never").await.expect("fail");
        let _ = env.queue.release(env.me, &leases(&items[1..])).await.expect("release");
        let left = env.claim(10).await.items;
        assert_eq!(ids(&left), b);
        publish_of(&env, "a", 1).await;
        assert!(env.claim(10).await.items.is_empty());
    }

    pub async fn ord_2_halt_an_expired_head_stops_its_key<H: Harness>(env: Case<H>) {
        env.publish(of("a").expires_after(Duration::from_secs(5))).await;
        publish_of(&env, "a", 2).await;
        env.advance(Duration::from_secs(5));
        let claimed = env.claim(10).await;
        assert_eq!((claimed.items.len(), claimed.dead), (0, 1));
        assert!(env.claim(10).await.items.is_empty());
    }

    pub async fn ord_2_halt_an_undecodable_row_stops_its_key<H: Harness>(env: Case<H>) {
        let published = publish_of(&env, "a", 3).await;
        env.harness.make_undecodable(published[1]).await;
        let claimed = env.claim(10).await;
        assert_eq!((ids(&claimed.items), claimed.dead), (vec![published[0]], 1));
        ack(&env, &claimed.items).await;
        assert!(env.claim(10).await.items.is_empty());
    }

    pub async fn ord_2_halt_unordered_deaths_stop_nothing<H: Harness>(env: Case<H>) {
        let item = env.leased(plain()).await;
        let _ = env.queue.fail(env.me, &[item.lease], "never").await.expect("fail");
        assert_eq!(env.publish_many(2).await.len(), env.claim(10).await.items.len());
    }
}
