//! Purging: only what is settled and old enough, in chunks, and keys on a clock of their own.

use std::sync::Arc;
use std::time::Duration;

use postroom_core::MessageBuilder;
use postroom_core::lifecycle::State;
use postroom_core::store::Purge;

use crate::harness::{Env, Harness, leases, plain};

type Case<H> = Arc<Env<H>>;

const DAY: Duration = Duration::from_secs(86_400);

fn keyed() -> MessageBuilder {
    plain().idempotency_key(uuid::Uuid::from_u128(1))
}

async fn done<H: Harness>(env: &Env<H>, n: usize) {
    env.publish_many(n).await;
    let items = env.claim(1_000).await.items;
    assert_eq!(env.queue.ack(env.me, &leases(&items)).await.expect("ack").applied, n);
}

pub async fn ret_1_done_messages_go_after_their_time<H: Harness>(env: Case<H>) {
    done(&env, 3).await;
    env.advance(DAY * 30 - Duration::from_micros(1));
    assert_eq!(env.queue.purge(&Purge::default()).await.expect("purge").messages, 0);
    env.advance(Duration::from_micros(1));
    let purged = env.queue.purge(&Purge::default()).await.expect("purge");
    assert_eq!((purged.messages, purged.more), (3, false));
    assert_eq!(crate::conformance::stats(&env).await.done, 0);
}

pub async fn ret_1_live_messages_are_never_purged<H: Harness>(env: Case<H>) {
    env.publish_many(2).await;
    let items = env.claim(1).await.items;
    let wait = DAY * 900;
    let waiting = env.publish(plain().due_after(wait)).await.id;
    let ordered = env.publish(plain().ordering_key("k")).await.id;
    env.advance(DAY * 400);
    let zero = Some(Duration::ZERO);
    let purge = Purge { done: zero, dead: zero, keys: zero, limit: 1_000 };
    assert_eq!(env.queue.purge(&purge).await.expect("purge").messages, 0);
    assert_eq!(env.record(items[0].message.id()).await.state, State::Leased);
    assert_eq!(env.record(waiting).await.state, State::Ready);
    assert_eq!(env.record(ordered).await.state, State::Ready);
}

pub async fn ret_1_dead_letters_are_kept_unless_asked<H: Harness>(env: Case<H>) {
    let item = env.leased(plain()).await;
    let _ = env.queue.fail(env.me, &[item.lease], "no").await.expect("fail");
    env.advance(DAY * 3_650);
    assert_eq!(env.queue.purge(&Purge::default()).await.expect("purge").messages, 0);
    let purge = Purge { dead: Some(DAY), ..Purge::default() };
    assert_eq!(env.queue.purge(&purge).await.expect("purge").messages, 1);
    assert!(crate::conformance::get(&env, item.message.id()).await.is_none());
}

pub async fn ret_1_purge_works_in_chunks<H: Harness>(env: Case<H>) {
    done(&env, 5).await;
    env.advance(DAY * 31);
    let chunk = Purge { limit: 2, ..Purge::default() };
    let mut sizes = Vec::new();
    loop {
        let purged = env.queue.purge(&chunk).await.expect("purge");
        sizes.push(purged.messages);
        if !purged.more {
            break;
        }
    }
    assert_eq!(sizes, [2, 2, 1]);
}

pub async fn ret_1_a_purged_message_is_gone_with_its_history<H: Harness>(env: Case<H>) {
    let item = env.leased(plain()).await;
    let wait = Duration::from_secs(1);
    let _ = env.queue.abandon_for(env.me, &[item.lease], wait, "boom").await.expect("abandon");
    env.advance(wait);
    let again = env.claim_one().await;
    let _ = env.queue.ack(env.me, &[again.lease]).await.expect("ack");
    env.advance(DAY * 31);
    let _ = env.queue.purge(&Purge::default()).await.expect("purge");
    assert!(crate::conformance::get(&env, item.message.id()).await.is_none());
    // The same id can come again, and its history is empty.
    let message = plain().id(item.message.id());
    assert!(!env.publish(message).await.already_existed);
    let detail = crate::conformance::get(&env, item.message.id()).await.expect("there");
    assert!(detail.history.is_empty());
}

pub async fn ret_1_the_key_of_a_live_message_is_never_purged<H: Harness>(env: Case<H>) {
    env.publish(keyed()).await;
    env.advance(DAY * 400);
    assert_eq!(env.queue.purge(&Purge::default()).await.expect("purge").keys, 0);
    assert!(env.publish(keyed()).await.already_existed);
}

pub async fn ret_1_the_key_of_a_dead_letter_is_never_purged<H: Harness>(env: Case<H>) {
    let item = env.leased(keyed()).await;
    let _ = env.queue.fail(env.me, &[item.lease], "no").await.expect("fail");
    env.advance(DAY * 400);
    assert_eq!(env.queue.purge(&Purge::default()).await.expect("purge").keys, 0);
    assert!(env.publish(keyed()).await.already_existed);
}

pub async fn ret_1_a_keys_time_starts_when_its_message_is_settled<H: Harness>(env: Case<H>) {
    env.publish(keyed()).await;
    env.advance(DAY * 100);
    let item = env.claim_one().await;
    let _ = env.queue.ack(env.me, &[item.lease]).await.expect("ack");
    let keys = Purge { done: None, ..Purge::default() };
    env.advance(DAY * 29);
    assert_eq!(env.queue.purge(&keys).await.expect("purge").keys, 0);
    env.advance(DAY);
    assert_eq!(env.queue.purge(&keys).await.expect("purge").keys, 1);
    assert!(!env.publish(keyed()).await.already_existed, "the window is over");
}

pub async fn ret_1_a_key_can_outlive_its_purged_message<H: Harness>(env: Case<H>) {
    let item = env.leased(keyed()).await;
    let _ = env.queue.ack(env.me, &[item.lease]).await.expect("ack");
    env.advance(DAY * 2);
    let early = Purge { done: Some(DAY), ..Purge::default() };
    let purged = env.queue.purge(&early).await.expect("purge");
    assert_eq!((purged.messages, purged.keys), (1, 0));
    let again = env.publish(keyed()).await;
    assert_eq!((again.id, again.already_existed), (item.message.id(), true));
    env.advance(DAY * 28);
    assert_eq!(env.queue.purge(&early).await.expect("purge").keys, 1);
    assert!(!env.publish(keyed()).await.already_existed);
}

/// Stores that keep no history: `retain_done = 0`.
pub mod none {
    use super::{Case, DAY, Duration, Harness, Purge, State, keyed, leases, plain};

    pub async fn ret_1_an_acknowledged_message_is_deleted<H: Harness>(env: Case<H>) {
        env.publish_many(3).await;
        let items = env.claim(10).await.items;
        let settled = env.queue.ack(env.me, &leases(&items[..2])).await.expect("ack");
        assert_eq!(settled.applied, 2);
        assert!(crate::conformance::get(&env, items[0].message.id()).await.is_none());
        assert_eq!(env.record(items[2].message.id()).await.state, State::Leased);
        let stats = crate::conformance::stats(&env).await;
        assert_eq!((stats.done, stats.leased), (0, 1));
    }

    pub async fn ret_1_a_dead_letter_is_kept_all_the_same<H: Harness>(env: Case<H>) {
        let item = env.leased(plain()).await;
        let _ = env.queue.fail(env.me, &[item.lease], "no").await.expect("fail");
        assert_eq!(env.record(item.message.id()).await.state, State::Dead);
    }

    pub async fn ret_1_the_key_still_dedupes_for_its_own_time<H: Harness>(env: Case<H>) {
        let first = env.leased(keyed()).await;
        env.advance(Duration::from_secs(20));
        let _ = env.queue.ack(env.me, &[first.lease]).await.expect("ack");
        // Since it was published it is more than 30 days, since it was settled less.
        let rest = Duration::from_secs(10);
        env.advance(DAY * 30 - rest);
        let again = env.publish(keyed()).await;
        assert_eq!((again.id, again.already_existed), (first.message.id(), true));
        assert_eq!(env.queue.purge(&Purge::default()).await.expect("purge").keys, 0);
        env.advance(rest);
        assert_eq!(env.queue.purge(&Purge::default()).await.expect("purge").keys, 1);
        assert!(!env.publish(keyed()).await.already_existed);
    }

    pub async fn ret_1_the_same_keyed_message_again_already_existed<H: Harness>(env: Case<H>) {
        let message = keyed().build().expect("legal");
        env.publish(&message).await;
        let item = env.claim_one().await;
        let _ = env.queue.ack(env.me, &[item.lease]).await.expect("ack");
        let again = env.publish(&message).await;
        assert_eq!((again.id, again.already_existed), (message.id(), true));
        assert!(env.claim(10).await.items.is_empty());
    }

    pub async fn ret_1_history_goes_with_the_message<H: Harness>(env: Case<H>) {
        let item = env.leased(plain()).await;
        let wait = Duration::from_secs(1);
        let _ = env.queue.abandon_for(env.me, &[item.lease], wait, "x").await.expect("abandon");
        env.advance(wait);
        let again = env.claim_one().await;
        let _ = env.queue.ack(env.me, &[again.lease]).await.expect("ack");
        env.publish(plain().id(item.message.id())).await;
        let detail = crate::conformance::get(&env, item.message.id()).await.expect("there");
        assert!(detail.history.is_empty());
    }
}
