//! Dead letters: replayed, they are as good as new; discarded, they are in nobody's way.

use std::sync::Arc;
use std::time::Duration;

use postroom_core::lifecycle::{DeadReason, State};
use postroom_core::store::{AdminStore, Changed, Purge, Refusal, WorkItem};
use postroom_core::{MessageBuilder, MessageId};

use super::{get, stats};
use crate::harness::{Env, Harness, ids, leases, plain};

type Case<H> = Arc<Env<H>>;

const WAIT: Duration = Duration::from_secs(9);
const MONTH: Duration = Duration::from_secs(30 * 86_400);

async fn replay<H: Harness>(env: &Env<H>, ids: &[MessageId]) -> Changed {
    env.store().replay(ids).await.expect("replay")
}

async fn discard<H: Harness>(env: &Env<H>, ids: &[MessageId]) -> Changed {
    env.store().discard(ids).await.expect("discard")
}

fn applied(ids: &[MessageId]) -> Changed {
    Changed { applied: ids.to_vec(), refused: Vec::new() }
}

fn refused(refused: &[(MessageId, Refusal)]) -> Changed {
    Changed { applied: Vec::new(), refused: refused.to_vec() }
}

async fn kill<H: Harness>(env: &Env<H>, items: &[WorkItem]) {
    let settled = env.queue.fail(env.me, &leases(items), "never").await.expect("fail");
    assert_eq!(settled.applied, items.len());
}

async fn dead<H: Harness>(env: &Env<H>, message: MessageBuilder) -> MessageId {
    let item = env.leased(message).await;
    kill(env, std::slice::from_ref(&item)).await;
    item.message.id()
}

/// One message in each state: pending, waiting, leased, done.
async fn one_of_each<H: Harness>(env: &Env<H>) -> [MessageId; 4] {
    let published = env.publish_many(2).await;
    let items = env.claim(2).await.items;
    let _ = env.queue.ack(env.me, &[items[1].lease]).await.expect("ack");
    let pending = env.publish(plain()).await.id;
    let waiting = env.publish(plain().due_after(WAIT)).await.id;
    [pending, waiting, published[0], published[1]]
}

pub async fn adm_1_a_dead_letter_is_replayed<H: Harness>(env: Case<H>) {
    let item = env.leased(plain()).await;
    let _ = env.queue.abandon_for(env.me, &[item.lease], WAIT, "first").await.expect("abandon");
    env.advance(WAIT);
    env.claim_one().await;
    env.expire_leases();
    let again = env.claim_one().await;
    assert_eq!((again.attempts, again.lost), (1, 1));
    kill(&env, std::slice::from_ref(&again)).await;

    let id = item.message.id();
    assert_eq!(replay(&env, &[id]).await, applied(&[id]));
    let record = env.record(id).await;
    assert_eq!((record.state, record.attempts, record.lost), (State::Ready, 0, 0));
    assert_eq!((record.reason, record.processed_at, record.next_attempt_at), (None, None, None));
    assert_eq!(record.work, item.lease.work, "a work id is for life");
    assert_eq!(record.last_error.as_deref(), Some("never"));
    let fresh = env.claim_one().await;
    assert_eq!((fresh.attempts, fresh.lost, fresh.lease.work), (0, 0, item.lease.work));
    assert_ne!(fresh.lease.token, again.lease.token);
    let history = get(&env, id).await.expect("there").history;
    assert_eq!(history.len(), 3, "what happened stays");
    assert_eq!(env.queue.ack(env.me, &[fresh.lease]).await.expect("ack").applied, 1);
}

pub async fn adm_1_only_dead_messages_are_replayed<H: Harness>(env: Case<H>) {
    let [pending, waiting, leased, done] = one_of_each(&env).await;
    let before = stats(&env).await;
    let unknown = MessageId::new();
    let expected = refused(&[
        (pending, Refusal::NotDead),
        (waiting, Refusal::NotDead),
        (leased, Refusal::Held),
        (done, Refusal::Done),
        (unknown, Refusal::Missing),
    ]);
    assert_eq!(replay(&env, &[pending, waiting, leased, done, unknown]).await, expected);
    assert_eq!(stats(&env).await, before);
    assert_eq!(replay(&env, &[]).await, Changed::default());
}

pub async fn b03_what_somebody_handles_is_never_replayed<H: Harness>(env: Case<H>) {
    let item = env.leased(plain()).await;
    let held = refused(&[(item.message.id(), Refusal::Held)]);
    assert_eq!(replay(&env, &[item.message.id()]).await, held);
    env.expire_leases();
    assert_eq!(replay(&env, &[item.message.id()]).await, held, "its holder may still settle it");
    assert_eq!(env.queue.ack(env.me, &[item.lease]).await.expect("ack").applied, 1);
    assert!(env.claim(10).await.items.is_empty());
}

pub async fn adm_1_a_replay_keeps_place_and_priority<H: Harness>(env: Case<H>) {
    let first = dead(&env, plain()).await;
    let urgent = dead(&env, plain().priority(5)).await;
    let later = env.publish(plain()).await.id;
    let last = env.publish(plain().priority(5)).await.id;
    assert_eq!(replay(&env, &[first, urgent]).await, applied(&[first, urgent]));
    assert_eq!(ids(&env.claim(10).await.items), [urgent, last, first, later]);
}

pub async fn adm_1_a_replayed_message_does_not_expire_again<H: Harness>(env: Case<H>) {
    let expired = env.publish(plain().expires_after(WAIT)).await.id;
    env.advance(WAIT);
    assert_eq!(env.claim(10).await.dead, 1);
    assert_eq!(replay(&env, &[expired]).await, applied(&[expired]));
    assert_eq!(env.queue.reap(10).await.expect("reap").dead, 0);
    assert_eq!(env.claim_one().await.message.id(), expired);
}

pub async fn adm_1_a_replay_waits_for_the_due_time<H: Harness>(env: Case<H>) {
    for message in [plain(), plain().ordering_key("k")] {
        let id = env.publish(message.due_after(WAIT)).await.id;
        assert_eq!(discard(&env, &[id]).await, applied(&[id]));
        env.advance(WAIT / 3);
        assert_eq!(replay(&env, &[id]).await, applied(&[id]));
        assert!(env.claim(10).await.items.is_empty(), "not due yet");
        env.advance(WAIT / 3 * 2);
        let item = env.claim_one().await;
        assert_eq!(item.message.id(), id);
        let _ = env.queue.ack(env.me, &[item.lease]).await.expect("ack");
    }
}

pub async fn adm_1_an_undecodable_message_is_not_replayed<H: Harness>(env: Case<H>) {
    let id = env.publish(plain()).await.id;
    env.harness.make_undecodable(id).await;
    assert_eq!(env.claim(10).await.dead, 1);
    assert_eq!(replay(&env, &[id]).await, refused(&[(id, Refusal::Undecodable)]));
    assert_eq!(env.record(id).await.state, State::Dead);
    assert_eq!(discard(&env, &[id]).await, applied(&[id]));
}

pub async fn adm_1_an_id_that_is_named_twice_counts_once<H: Harness>(env: Case<H>) {
    let (id, unknown) = (dead(&env, plain()).await, MessageId::new());
    let changed = replay(&env, &[id, unknown, id, unknown]).await;
    assert_eq!((changed.applied, changed.refused), (vec![id], vec![(unknown, Refusal::Missing)]));
    assert_eq!(discard(&env, &[id, id]).await, applied(&[id]));
    assert_eq!(stats(&env).await.dead, 1);
}

pub async fn ret_1_of_two_replays_one_counts<H: Harness>(env: Case<H>) {
    env.publish_many(20).await;
    let items = env.claim(20).await.items;
    kill(&env, &items).await;
    let mut all = ids(&items);
    let there = all.clone();
    all.reverse();
    let (one, other) = tokio::join!(replay(&env, &there), replay(&env, &all));
    assert_eq!(one.applied.len() + other.applied.len(), 20, "{one:?} {other:?}");
    let late = one.refused.iter().chain(&other.refused);
    assert!(late.clone().all(|(_, why)| *why == Refusal::NotDead), "{one:?} {other:?}");
    assert_eq!(env.claim(100).await.items.len(), 20);
}

pub async fn ret_1_of_replay_and_purge_one_counts<H: Harness>(env: Case<H>) {
    env.publish_many(20).await;
    let items = env.claim(20).await.items;
    kill(&env, &items).await;
    let purge = Purge { dead: Some(Duration::ZERO), ..Purge::default() };
    let all = ids(&items);
    let (replayed, purged) = tokio::join!(replay(&env, &all), env.queue.purge(&purge));
    let (replayed, purged) = (replayed.applied.len(), purged.expect("purge").messages as usize);
    assert_eq!(replayed + purged, 20);
    let _ = env.queue.purge(&purge).await.expect("purge");
    assert_eq!(env.claim(100).await.items.len(), replayed, "and both leave whole messages behind");
}

pub async fn ret_1_the_key_of_a_replayed_message_stays<H: Harness>(env: Case<H>) {
    let keyed = || plain().idempotency_key(uuid::Uuid::from_u128(1));
    let id = dead(&env, keyed()).await;
    env.advance(MONTH * 2);
    assert_eq!(replay(&env, &[id]).await, applied(&[id]));
    assert_eq!(env.queue.purge(&Purge::default()).await.expect("purge").keys, 0);
    assert_eq!(env.publish(keyed()).await.id, id);
}

pub async fn adm_1_what_nobody_holds_is_discarded<H: Harness>(env: Case<H>) {
    let [pending, waiting, leased, done] = one_of_each(&env).await;
    let unknown = MessageId::new();
    let changed = discard(&env, &[pending, waiting, leased, done, unknown]).await;
    assert_eq!(changed.applied, [pending, waiting]);
    let why = [(leased, Refusal::Held), (done, Refusal::Done), (unknown, Refusal::Missing)];
    assert_eq!(changed.refused, why);
    for id in [pending, waiting] {
        let record = env.record(id).await;
        assert_eq!((record.state, record.reason), (State::Dead, Some(DeadReason::Discarded)));
        assert_eq!((record.processed_by, record.next_attempt_at), (None, None));
    }
    env.advance(WAIT);
    assert!(env.claim(10).await.items.is_empty());
    let counts = stats(&env).await;
    assert_eq!((counts.dead, counts.leased, counts.done), (2, 1, 1));
}

pub async fn adm_1_a_dead_letter_is_discarded_and_can_be_replayed<H: Harness>(env: Case<H>) {
    let id = dead(&env, plain()).await;
    env.advance(WAIT);
    assert_eq!(discard(&env, &[id]).await, applied(&[id]));
    let first = env.record(id).await;
    assert_eq!((first.reason, first.attempts), (Some(DeadReason::Discarded), 1));
    assert_eq!(first.last_error.as_deref(), Some("never"));
    env.advance(WAIT);
    assert_eq!(discard(&env, &[id]).await, applied(&[id]));
    assert_eq!(env.record(id).await.processed_at, first.processed_at, "the first time counts");
    assert_eq!(replay(&env, &[id]).await, applied(&[id]));
    assert_eq!(env.claim_one().await.message.id(), id);
}

pub async fn ret_1_a_discarded_message_is_kept_like_a_done_one<H: Harness>(env: Case<H>) {
    let (kept, gone) = (dead(&env, plain()).await, dead(&env, plain()).await);
    env.advance(MONTH * 2);
    assert_eq!(discard(&env, &[gone]).await, applied(&[gone]));
    env.advance(MONTH - Duration::from_micros(1));
    assert_eq!(env.queue.purge(&Purge::default()).await.expect("purge").messages, 0);
    let dead_only = Purge { done: None, dead: Some(MONTH * 9), ..Purge::default() };
    assert_eq!(env.queue.purge(&dead_only).await.expect("purge").messages, 0);
    env.advance(Duration::from_micros(1));
    assert_eq!(env.queue.purge(&Purge::default()).await.expect("purge").messages, 1);
    assert!(get(&env, gone).await.is_none());
    assert_eq!(env.record(kept).await.state, State::Dead);
}

pub async fn ord_2_a_replayed_message_goes_before_its_successors<H: Harness>(env: Case<H>) {
    let of_key = || plain().tenant_id("a").ordering_key("k");
    let first = dead(&env, of_key()).await;
    let second = env.leased(of_key()).await;
    let third = env.publish(of_key()).await.id;
    assert_eq!(replay(&env, &[first]).await, applied(&[first]));
    assert!(env.claim(10).await.items.is_empty(), "its successor is in somebody's hands");
    let _ = env.queue.release(env.me, &[second.lease]).await.expect("release");
    let order = [first, second.message.id(), third];
    assert_eq!(ids(&env.claim(10).await.items), order);
}

/// Stores in which a dead ordered message stops its key.
pub mod halt {
    use super::*;

    async fn publish<H: Harness>(env: &Env<H>, n: usize) -> Vec<MessageId> {
        let messages = (0..n).map(|_| plain().ordering_key("k"));
        let published = env.outbox.publish_all(messages).await.expect("publish");
        published.into_iter().map(|published| published.id).collect()
    }

    /// Three of a key, of which the first died.
    async fn halted<H: Harness>(env: &Env<H>) -> Vec<MessageId> {
        let published = publish(env, 3).await;
        let items = env.claim(10).await.items;
        kill(env, &items[..1]).await;
        let _ = env.queue.release(env.me, &leases(&items[1..])).await.expect("release");
        assert!(env.claim(10).await.items.is_empty(), "the key is halted");
        published
    }

    pub async fn ord_2_halt_a_replay_lets_its_key_go_on<H: Harness>(env: Case<H>) {
        let published = halted(&env).await;
        assert_eq!(replay(&env, &published[..1]).await, applied(&published[..1]));
        assert_eq!(ids(&env.claim(10).await.items), published);
    }

    pub async fn ord_2_halt_a_discard_lets_its_key_go_on<H: Harness>(env: Case<H>) {
        let published = halted(&env).await;
        assert_eq!(discard(&env, &published[..1]).await, applied(&published[..1]));
        assert_eq!(ids(&env.claim(10).await.items), published[1..]);
    }

    pub async fn ord_2_halt_a_discarded_head_stops_nothing<H: Harness>(env: Case<H>) {
        let published = publish(&env, 2).await;
        assert_eq!(discard(&env, &published[..1]).await, applied(&published[..1]));
        assert_eq!(ids(&env.claim(10).await.items), published[1..]);
    }

    pub async fn ord_2_halt_two_dead_messages_need_two_decisions<H: Harness>(env: Case<H>) {
        let published = publish(&env, 3).await;
        let items = env.claim(10).await.items;
        kill(&env, &items[..2]).await;
        let _ = env.queue.release(env.me, &leases(&items[2..])).await.expect("release");
        assert_eq!(discard(&env, &published[..1]).await, applied(&published[..1]));
        assert!(env.claim(10).await.items.is_empty(), "the other one still stops it");
        assert_eq!(replay(&env, &published[1..2]).await, applied(&published[1..2]));
        assert_eq!(ids(&env.claim(10).await.items), published[1..]);
    }
}
