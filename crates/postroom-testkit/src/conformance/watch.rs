//! What people look at: dispatchers, topics, failures, keys that stand still.

use std::sync::Arc;
use std::time::Duration;

use postroom_core::lifecycle::DeadReason;
use postroom_core::store::{
    AdminStore, Block, BlockedKey, Failing, Heartbeat, List, Node, Store, TopicStats,
    TransactionalStore,
};
use postroom_core::{ManualClock, Message, MessageBuilder, MessageId, OwnerToken};

use crate::harness::{Env, Harness, LEASE, Options, plain};

type Case<H> = Arc<Env<H>>;

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_hours(24);

fn heartbeat(owner: OwnerToken, running_for: Duration) -> Heartbeat {
    Heartbeat {
        owner,
        name: "web-1/4711".to_owned(),
        version: "1.2.3".to_owned(),
        running_for,
        draining: false,
        valid_for: 30 * SECOND,
    }
}

async fn report<H: Harness>(env: &Env<H>, heartbeat: &Heartbeat) {
    env.store().report(heartbeat).await.expect("report");
}

async fn nodes<H: Harness>(env: &Env<H>) -> Vec<Node> {
    env.store().nodes().await.expect("nodes")
}

async fn topics<H: Harness>(env: &Env<H>, limit: u32) -> Vec<TopicStats> {
    env.store().topics(limit).await.expect("topics")
}

async fn failing<H: Harness>(env: &Env<H>, limit: u32) -> Vec<Failing> {
    env.store().failing(limit).await.expect("failing")
}

async fn blocked<H: Harness>(env: &Env<H>, limit: u32) -> Vec<BlockedKey> {
    env.store().blocked_keys(limit).await.expect("blocked keys")
}

/// Publishes a message and lets it fail, while nothing else is ready.
async fn failed<H: Harness>(env: &Env<H>, message: MessageBuilder, wait: Duration) -> MessageId {
    let item = env.leased(message).await;
    let abandoned = env.queue.abandon_for(env.me, &[item.lease], wait, "no").await;
    assert_eq!(abandoned.expect("abandon").applied, 1);
    item.message.id()
}

async fn dead<H: Harness>(env: &Env<H>, message: MessageBuilder) -> MessageId {
    let item = env.leased(message).await;
    assert_eq!(env.queue.fail(env.me, &[item.lease], "never").await.expect("fail").applied, 1);
    item.message.id()
}

/// What people look at is the same in both stores.
pub(crate) async fn assert_equal(one: &dyn AdminStore, other: &dyn AdminStore) {
    let look = async |store: &dyn AdminStore| {
        let topics = store.topics(10).await.expect("topics");
        let failing = store.failing(10).await.expect("failing");
        (topics, failing, store.blocked_keys(10).await.expect("blocked keys"))
    };
    assert_eq!(look(one).await, look(other).await);
}

pub async fn adm_1_a_list_has_no_payloads_but_knows_their_sizes<H: Harness>(env: Case<H>) {
    // Three bytes a character, and bytes that are no text.
    let bytes = [0, 255, 0, 1];
    let text = env.publish(plain().payload("€€")).await.id;
    let binary = env.publish(plain().payload(bytes.to_vec())).await.id;
    let empty = env.publish(plain().payload("")).await.id;
    let large = env.publish(plain().payload(vec![b'x'; 300_000])).await.id;
    let records = env.store().list(&List::default()).await.expect("list").records;
    let sizes: Vec<_> = records.iter().map(|record| (record.id, record.payload_bytes)).collect();
    assert_eq!(sizes, [(large, 300_000), (empty, 0), (binary, 4), (text, 6)]);
    for record in &records {
        let message = record.message.as_ref().expect("it decodes");
        assert!(message.payload().is_empty() && message.topic().as_str() == "order.placed");
    }
    let record = env.record(binary).await;
    assert_eq!(record.payload_bytes, 4);
    assert_eq!(record.message.expect("it decodes").payload().as_ref(), bytes);
}

pub async fn adm_1_a_dispatcher_is_live_as_long_as_it_said<H: Harness>(env: Case<H>) {
    assert!(nodes(&env).await.is_empty());
    let began = env.record(env.publish(plain()).await.id).await.created_at;
    env.advance(5 * SECOND);
    report(&env, &heartbeat(env.me, 5 * SECOND)).await;
    let expected = Node {
        owner: env.me,
        name: "web-1/4711".to_owned(),
        version: "1.2.3".to_owned(),
        started_at: began,
        seen_at: began.saturating_add(5 * SECOND),
        is_live: true,
        draining: false,
        leases: 0,
        slots: 0,
    };
    assert_eq!(nodes(&env).await, std::slice::from_ref(&expected));
    env.advance(30 * SECOND - Duration::from_micros(1));
    assert!(nodes(&env).await[0].is_live);
    env.advance(Duration::from_micros(1));
    assert_eq!(nodes(&env).await, [Node { is_live: false, ..expected.clone() }]);
    // It comes back, under another name; only when it began is as it was.
    let name = "x".repeat(254) + "ß";
    let last = heartbeat(env.me, 36 * SECOND);
    report(&env, &Heartbeat { name, draining: true, ..last }).await;
    let seen_at = began.saturating_add(35 * SECOND);
    let expected = Node { name: "x".repeat(254), seen_at, draining: true, ..expected };
    assert_eq!(nodes(&env).await, [expected]);
}

pub async fn adm_1_live_dispatchers_come_first_then_by_start<H: Harness>(env: Case<H>) {
    let [silent, first, second] = [(); 3].map(|()| OwnerToken::random());
    report(&env, &heartbeat(silent, 100 * SECOND)).await;
    env.advance(40 * SECOND);
    report(&env, &heartbeat(second, SECOND)).await;
    report(&env, &heartbeat(first, 2 * SECOND)).await;
    let owners: Vec<_> = nodes(&env).await.iter().map(|node| node.owner).collect();
    assert_eq!(owners, [first, second, silent]);
}

pub async fn adm_1_a_dispatcher_that_leaves_is_forgotten<H: Harness>(env: Case<H>) {
    let stays = OwnerToken::random();
    report(&env, &heartbeat(env.me, SECOND)).await;
    report(&env, &heartbeat(stays, SECOND)).await;
    env.store().leave(env.me).await.expect("leave");
    let owners: Vec<_> = nodes(&env).await.iter().map(|node| node.owner).collect();
    assert_eq!(owners, [stays]);
    assert!(env.store().inbox().nodes().await.expect("nodes").is_empty(), "of the other box");
}

/// When it began is kept with what is known of it, and so tells whether that was forgotten.
pub async fn adm_1_who_is_silent_for_a_day_is_forgotten<H: Harness>(env: Case<H>) {
    let (me, other) = (env.me, OwnerToken::random());
    report(&env, &heartbeat(me, SECOND)).await;
    let began = nodes(&env).await[0].started_at;
    env.advance(DAY);
    assert_eq!(nodes(&env).await.len(), 1, "not yet");
    env.advance(SECOND);
    assert!(nodes(&env).await.is_empty(), "nobody looks for it any more");
    report(&env, &heartbeat(me, SECOND)).await;
    assert_eq!(nodes(&env).await[0].started_at, began, "nobody else had reported");
    env.advance(DAY + SECOND);
    report(&env, &heartbeat(other, SECOND)).await;
    report(&env, &heartbeat(me, SECOND)).await;
    let again = nodes(&env).await.into_iter().find(|node| node.owner == me).expect("it is there");
    assert_eq!(again.started_at, began.saturating_add(2 * DAY + 2 * SECOND));
}

pub async fn adm_1_a_dispatcher_is_shown_with_what_it_holds<H: Harness>(env: Case<H>) {
    env.publish_many(2).await;
    env.publish(plain().ordering_key("k")).await;
    assert_eq!(env.claim(10).await.items.len(), 3);
    let idle = OwnerToken::random();
    report(&env, &heartbeat(env.me, 2 * SECOND)).await;
    report(&env, &heartbeat(idle, SECOND)).await;
    let held = async || -> Vec<_> {
        nodes(&env).await.iter().map(|node| (node.owner, node.leases, node.slots)).collect()
    };
    assert_eq!(held().await, [(env.me, 3, 256), (idle, 0, 0)]);
    env.advance(LEASE);
    assert_eq!(held().await, [(env.me, 0, 0), (idle, 0, 0)], "its leases ran out");
}

pub async fn adm_1_topics_count_what_is_not_delivered<H: Harness>(env: Case<H>) {
    assert!(topics(&env, 10).await.is_empty());
    let mail = || Message::builder("mail");
    failed(&env, mail(), LEASE).await;
    failed(&env, mail().ordering_key("k"), LEASE).await;
    dead(&env, mail()).await;
    let discarded = dead(&env, mail()).await;
    let changed = env.store().discard(&[discarded]).await.expect("discard");
    assert_eq!(changed.applied, [discarded]);
    let done = env.leased(Message::builder("done")).await;
    assert_eq!(env.queue.ack(env.me, &[done.lease]).await.expect("ack").applied, 1);
    env.leased(mail()).await;
    env.publish(mail().due_after(LEASE)).await;
    env.publish(mail().ordering_key("other")).await;
    for topic in ["Mail", "b", "a"] {
        env.publish(Message::builder(topic)).await;
    }
    let of = |topic: &str, live, failed, dead| {
        let topic = topic.to_owned();
        TopicStats { topic, live, failed, dead }
    };
    let all = [of("mail", 5, 2, 1), of("Mail", 1, 0, 0), of("a", 1, 0, 0), of("b", 1, 0, 0)];
    assert_eq!(topics(&env, 10).await, all);
    assert_eq!(topics(&env, 2).await, all[..2]);
}

pub async fn adm_1_what_fails_is_shown_with_its_last_error<H: Harness>(env: Case<H>) {
    assert!(failing(&env, 10).await.is_empty());
    let old = dead(&env, plain()).await;
    env.advance(SECOND);
    let waits = failed(&env, plain(), DAY).await;
    env.advance(SECOND);
    // An old message that died last goes before it.
    let last = dead(&env, Message::builder("last")).await;
    env.advance(SECOND);
    let keyed = failed(&env, plain().ordering_key("k"), DAY).await;
    let discarded = dead(&env, plain()).await;
    let changed = env.store().discard(&[discarded]).await.expect("discard");
    assert_eq!(changed.applied, [discarded]);
    let fresh = env.leased(plain()).await;
    let found = failing(&env, 10).await;
    let shown: Vec<_> = found.iter().map(|found| (found.id, found.reason)).collect();
    let permanent = Some(DeadReason::Permanent);
    assert_eq!(shown, [(keyed, None), (last, permanent), (waits, None), (old, permanent)]);
    let expected = Failing {
        id: last,
        topic: "last".to_owned(),
        reason: permanent,
        attempts: 1,
        error: Some("never".to_owned()),
        at: env.record(last).await.processed_at.expect("it is settled"),
    };
    assert_eq!(found[1], expected);
    assert_eq!((found[2].error.as_deref(), found[2].attempts), (Some("no"), 1));
    let one: Vec<_> = failing(&env, 1).await.iter().map(|found| found.id).collect();
    assert_eq!(one, [keyed, last], "one of each");
    // What somebody tries again does not wait.
    env.advance(DAY);
    let items = env.claim(10).await.items;
    assert!(items.iter().any(|item| item.message.id() == waits));
    assert!(failing(&env, 10).await.iter().all(|found| found.reason.is_some()));
    let _ = env.queue.release(env.me, &[fresh.lease]).await.expect("release");
}

pub async fn adm_1_a_key_that_waits_is_shown_with_what_stops_it<H: Harness>(env: Case<H>) {
    assert!(blocked(&env, 10).await.is_empty());
    let of = |key: &str| Message::builder("mail").tenant_id("acme").ordering_key(key);
    let late = failed(&env, of("late"), 60 * SECOND).await;
    let soon = failed(&env, of("soon"), SECOND).await;
    for _ in 0..3 {
        env.publish(of("late")).await;
    }
    // It has a place of its own until it is due, and stops nothing.
    env.publish(of("late").due_after(DAY)).await;
    env.publish(of("free")).await;
    let until = env.record(late).await.next_attempt_at.expect("it waits");
    let expected = BlockedKey {
        ordering_key: Some("late".to_owned()),
        tenant_id: Some("acme".to_owned()),
        by: late,
        topic: "mail".to_owned(),
        block: Block::Retry { until },
        behind: 3,
    };
    let found = blocked(&env, 10).await;
    assert_eq!((found.len(), &found[0]), (2, &expected));
    assert_eq!((found[1].by, found[1].behind), (soon, 0));
    assert_eq!(blocked(&env, 1).await, std::slice::from_ref(&expected));
    env.advance(SECOND);
    assert_eq!(blocked(&env, 10).await, [expected], "the other one can go on");
}

pub async fn adm_1_what_lies_behind_a_key_is_counted_up_to_a_limit<H: Harness>(env: Case<H>) {
    let by = failed(&env, plain().ordering_key("k"), LEASE).await;
    let most = BlockedKey::MOST_BEHIND;
    for behind in [most - 1, most, most] {
        let missing = if behind == most { 1 } else { behind };
        let messages = (0..missing).map(|_| plain().ordering_key("k"));
        env.outbox.publish_all(messages).await.expect("publish");
        let found = blocked(&env, 10).await;
        assert_eq!((found.len(), found[0].by, found[0].behind), (1, by, behind));
    }
}

/// Stores in which a dead ordered message stops its key.
pub mod halt {
    use super::*;

    pub async fn adm_1_a_halted_key_is_shown_before_those_that_wait<H: Harness>(env: Case<H>) {
        let waits = failed(&env, plain().ordering_key("waits"), LEASE).await;
        let messages = (0..4).map(|_| plain().ordering_key("dead"));
        env.outbox.publish_all(messages).await.expect("publish");
        let items = env.claim(10).await.items;
        let (dead, rest) = items.split_at(2);
        let dead: Vec<_> = dead.iter().map(|item| item.lease).collect();
        let rest: Vec<_> = rest.iter().map(|item| item.lease).collect();
        assert_eq!(env.queue.fail(env.me, &dead, "no").await.expect("fail").applied, 2);
        assert_eq!(env.queue.release(env.me, &rest).await.expect("release").applied, 2);
        let shown = async || -> Vec<_> {
            let found = blocked(&env, 10).await;
            found.into_iter().map(|key| (key.by, key.block == Block::Halted, key.behind)).collect()
        };
        let (first, second) = (items[0].message.id(), items[1].message.id());
        assert_eq!(shown().await, [(first, true, 2), (waits, false, 0)], "once, by the first");
        let changed = env.store().discard(&[first]).await.expect("discard");
        assert_eq!(changed.applied, [first]);
        assert_eq!(shown().await, [(second, true, 2), (waits, false, 0)]);
        let changed = env.store().discard(&[second]).await.expect("discard");
        assert_eq!(changed.applied, [second]);
        assert_eq!(shown().await, [(waits, false, 0)]);
    }
}

/// A fleet serves a box once, whatever names lead to it.
pub async fn fleet_1_every_box_has_an_identity_of_its_own<H: Harness>(env: Case<H>) {
    let store = env.store();
    let identity = store.identity().await.expect("an identity");
    assert_eq!(store.identity().await.expect("the same again"), identity);
    let inbox = store.inbox().identity().await.expect("that of the inbox");
    assert_ne!(inbox, identity);
    let another = H::fresh(ManualClock::default(), Options::default()).await;
    let other = another.store().identity().await.expect("that of another database");
    assert_ne!(other, identity);
    another.finish().await;
}
