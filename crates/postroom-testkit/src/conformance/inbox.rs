//! The receiving half: once per source, id and consumer; effects that commit with their mark.

#[expect(missing_docs, reason = "a case is named by what it proves")]
pub mod effects;
#[expect(missing_docs, reason = "a case is named by what it proves")]
pub mod none;

use std::sync::Arc;
use std::time::Duration;

use postroom_core::lifecycle::State;
use postroom_core::store::{AdminStore, Purge, Stats, Store};
use postroom_core::{
    Dispatcher, DispatcherConfig, ErrorKind, Inbox, InboxConfig, InboxHandlers, InboxTransaction,
    Message, MessageBuilder, MessageId, Once, Origin, Received, Retry, WorkQueue,
};

use crate::harness::{Env, Harness, LEASE, ids, leases, plain};

type Case<H> = Arc<Env<H>>;
type Tx<H> = InboxTransaction<<H as Harness>::Store>;
type Handlers<H> = InboxHandlers<<H as Harness>::Store>;

const DAY: Duration = Duration::from_secs(86_400);

impl<H: Harness> Env<H> {
    fn inbox(&self, consumer: &str) -> Inbox<H::Store> {
        Inbox::new(&self.outbox, consumer).expect("a legal name")
    }
}

fn queue_of<H: Harness>(inbox: &Inbox<H::Store>) -> WorkQueue {
    WorkQueue::new(Arc::clone(inbox.store()) as Arc<dyn Store>)
}

async fn stats<H: Harness>(inbox: &Inbox<H::Store>) -> Stats {
    inbox.store().stats().await.expect("stats")
}

async fn state<H: Harness>(inbox: &Inbox<H::Store>, id: MessageId) -> State {
    inbox.store().get(id).await.expect("get").expect("it is there").record.state
}

fn new(received: Received) -> MessageId {
    match received {
        Received::New(id) => id,
        other => panic!("expected a new message, got {other:?}"),
    }
}

/// Runs a dispatcher until nothing can be handled now.
async fn handle<H: Harness>(inbox: &Inbox<H::Store>, handlers: Handlers<H>) {
    let config = DispatcherConfig {
        workers: 4,
        retry: Retry { max_attempts: 3, ..Retry::default() },
        poll_interval: Duration::from_millis(10),
        ..DispatcherConfig::default()
    };
    let running = inbox.dispatcher(handlers).config(config).start().expect("starts");
    let idle = async {
        loop {
            let stats = stats::<H>(inbox).await;
            if stats.ready + stats.leased == 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), idle).await.expect("everything is handled");
    assert!(running.shutdown(Duration::from_secs(20)).await, "it ends");
}

/// A handler that writes the message's payload, a number, as a row of the application.
fn writes<H: Harness>(env: &Case<H>, inbox: &Inbox<H::Store>) -> Handlers<H> {
    let env = Arc::clone(env);
    inbox.handlers().all(move |delivery, mut tx: Tx<H>| {
        let env = Arc::clone(&env);
        async move {
            let row: i64 = delivery.message().json()?;
            env.harness.write_business_row(tx.conn(), row).await;
            Ok(tx)
        }
    })
}

fn number(n: i64) -> MessageBuilder {
    Message::builder("order.placed").json(&n)
}

pub async fn inb_1_once_per_source_id_and_consumer<H: Harness>(env: Case<H>) {
    let (billing, shipping) = (env.inbox("billing"), env.inbox("shipping"));
    let first = new(billing.receive("shop", "1", plain()).await.expect("receive"));
    let again = billing.receive("shop", "1", plain()).await.expect("receive");
    assert_eq!(again, Received::Duplicate(first));
    new(billing.receive("shop", "2", plain()).await.expect("another id"));
    new(billing.receive("stall", "1", plain()).await.expect("another source"));
    new(shipping.receive("shop", "1", plain()).await.expect("another consumer"));
    assert_eq!(stats::<H>(&billing).await.ready, 4);
    assert_eq!(crate::conformance::stats(&env).await.ready, 0, "the outbox is another box");
}

pub async fn inb_1_what_was_received_comes_back_with_its_origin<H: Harness>(env: Case<H>) {
    let inbox = env.inbox("billing");
    let sent = Message::builder("order.placed")
        .payload("{}")
        .header("h", "v")
        .tenant_id("acme")
        .correlation_id("c")
        .build()
        .expect("legal");
    let id = new(inbox.receive("shop/eu", "order:7 ✓", sent.clone()).await.expect("receive"));
    assert_ne!(id, sent.id(), "it has an id of its own");
    let item = queue_of::<H>(&inbox).claim(env.me, LEASE, 10).await.expect("claim").items.remove(0);
    let origin = Origin::new("shop/eu", "order:7 ✓", "billing").expect("legal");
    assert_eq!((item.message.id(), item.message.origin()), (id, Some(&origin)));
    assert_eq!(item.message.content_hash(), sent.content_hash());
    let record = inbox.store().get(id).await.expect("get").expect("there").record;
    assert_eq!(record.message.expect("decodes").origin(), Some(&origin));
}

pub async fn inb_1_the_engine_treats_it_like_any_message<H: Harness>(env: Case<H>) {
    let inbox = env.inbox("billing");
    let queue = queue_of::<H>(&inbox);
    let id = new(inbox.receive("shop", "1", plain()).await.expect("receive"));
    let item = queue.claim(env.me, LEASE, 10).await.expect("claim").items.remove(0);
    let _ = queue.abandon(env.me, &[item], "not yet").await.expect("abandon");
    assert!(queue.claim(env.me, LEASE, 10).await.expect("claim").items.is_empty());
    env.advance(Duration::from_mins(2));
    let item = queue.claim(env.me, LEASE, 10).await.expect("claim").items.remove(0);
    assert_eq!(item.attempts, 1);
    let _ = queue.fail(env.me, &[item.lease], "never").await.expect("fail");
    assert_eq!(state::<H>(&inbox, id).await, State::Dead);
    let again = inbox.receive("shop", "1", plain()).await.expect("receive");
    assert_eq!(again, Received::Duplicate(id), "a dead letter is not received again");
    assert_eq!(inbox.store().replay(&[id]).await.expect("replay").applied, [id]);
    handle::<H>(&inbox, inbox.handlers().all(|_, tx| async { Ok(tx) })).await;
    assert_eq!(state::<H>(&inbox, id).await, State::Done);
}

pub async fn inb_1_bad_names_are_refused_before_anything_is_written<H: Harness>(env: Case<H>) {
    let inbox = env.inbox("billing");
    let long = "x".repeat(256);
    for (source, id, field) in
        [("", "1", "source"), ("shop", "", "message_id"), ("shop", &long, "message_id")]
    {
        let error = inbox.receive(source, id, plain()).await.expect_err(field);
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().starts_with(field), "{error}");
    }
    let error = Inbox::new(&env.outbox, "").expect_err("no name");
    assert!(error.to_string().starts_with("consumer must be 1 to 128"), "{error}");
    assert_eq!(stats::<H>(&inbox).await.ready, 0);
}

pub async fn inb_1_many_in_one_transaction_with_an_answer_for_each<H: Harness>(env: Case<H>) {
    let inbox = env.inbox("billing");
    let first = new(inbox.receive("shop", "1", number(1)).await.expect("receive"));
    let many = [("1", 1), ("2", 2), ("2", 2), ("2", 3), ("1", 9), ("3", 3)];
    let many = many.map(|(id, n)| (id, number(n)));
    let answers = inbox.receive_all("shop", many).await.expect("receive");
    let second = new(answers[1]);
    assert_eq!(answers[0], Received::Duplicate(first));
    assert_eq!(answers[2..4], [Received::Duplicate(second), Received::Conflict(second)]);
    assert_eq!(answers[4], Received::Conflict(first));
    new(answers[5]);
    assert_eq!(stats::<H>(&inbox).await.ready, 3);
}

/// B39.
pub async fn inb_1_two_consumers_both_handle_one_message<H: Harness>(env: Case<H>) {
    let (billing, shipping) = (env.inbox("billing"), env.inbox("shipping"));
    new(billing.receive("shop", "1", number(1)).await.expect("receive"));
    new(shipping.receive("shop", "1", number(2)).await.expect("receive"));
    let handlers = writes(&env, &billing).and(writes(&env, &shipping));
    handle::<H>(&billing, handlers).await;
    assert_eq!(env.harness.business_rows().await.len(), 2);
    assert_eq!(stats::<H>(&billing).await.done, 2);
}

pub async fn inb_1_a_message_of_another_consumer_is_not_handled<H: Harness>(env: Case<H>) {
    let (billing, shipping) = (env.inbox("billing"), env.inbox("shipping"));
    let id = new(shipping.receive("shop", "1", number(1)).await.expect("receive"));
    handle::<H>(&billing, writes(&env, &billing).unknown_is_dead()).await;
    assert!(env.harness.business_rows().await.is_empty());
    let record = shipping.store().get(id).await.expect("get").expect("there").record;
    let error = record.last_error.expect("an error");
    assert_eq!(error, "no handler for topic order.placed of consumer shipping");
}

pub async fn ord_1_consumers_do_not_wait_for_each_other<H: Harness>(env: Case<H>) {
    let (billing, shipping) = (env.inbox("billing"), env.inbox("shipping"));
    let ordered = || plain().ordering_key("order-7");
    let first = new(billing.receive("shop", "1", ordered()).await.expect("receive"));
    new(billing.receive("shop", "2", ordered()).await.expect("receive"));
    let other = new(shipping.receive("shop", "1", ordered()).await.expect("receive"));
    let queue = queue_of::<H>(&billing);
    let items = queue.claim(env.me, LEASE, 10).await.expect("claim").items;
    let (waits, rest): (Vec<_>, Vec<_>) =
        items.into_iter().partition(|item| item.message.id() == first);
    let rest = leases(&rest);
    assert_eq!(queue.release(env.me, &rest).await.expect("release").applied, rest.len());
    assert_eq!(queue.abandon(env.me, &waits, "not yet").await.expect("abandon").applied, 1);
    // The second message for billing waits behind the first, and nothing else does.
    let items = queue.claim(env.me, LEASE, 10).await.expect("claim").items;
    assert_eq!(ids(&items), [other]);
}

pub async fn inb_1_an_outbox_delivers_right_into_an_inbox<H: Harness>(env: Case<H>) {
    let inbox = env.inbox("billing");
    for n in 0..5 {
        env.publish(number(n).ordering_key("k")).await;
    }
    let config = || DispatcherConfig {
        poll_interval: Duration::from_millis(10),
        ..DispatcherConfig::default()
    };
    let store = env.store() as Arc<dyn Store>;
    let sink = inbox.sink("orders").expect("legal");
    let running = Dispatcher::new(store, sink).config(config()).start().expect("starts");
    while crate::conformance::stats(&env).await.done < 5 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(running.shutdown(Duration::from_secs(20)).await, "it ends");
    handle::<H>(&inbox, writes(&env, &inbox)).await;
    assert_eq!(env.harness.business_rows().await, [0, 1, 2, 3, 4], "once each, in order");
}

pub async fn inb_2_other_content_is_a_conflict_and_never_handled<H: Harness>(env: Case<H>) {
    let inbox = env.inbox("billing");
    let first = new(inbox.receive("shop", "1", number(1)).await.expect("receive"));
    let other = inbox.receive("shop", "1", number(2)).await.expect("receive");
    assert_eq!(other, Received::Conflict(first));
    handle::<H>(&inbox, writes(&env, &inbox)).await;
    let later = inbox.receive("shop", "1", number(2)).await.expect("receive");
    assert_eq!(later, Received::Conflict(first));
    handle::<H>(&inbox, writes(&env, &inbox)).await;
    assert_eq!(env.harness.business_rows().await, [1]);
}

pub async fn inb_2_another_trace_is_the_same_content<H: Harness>(env: Case<H>) {
    let inbox = env.inbox("billing");
    let first = new(inbox.receive("shop", "1", plain()).await.expect("receive"));
    let traced = plain().header("traceparent", "00-1-2-01");
    let again = inbox.receive("shop", "1", traced).await.expect("receive");
    assert_eq!(again, Received::Duplicate(first));
}

/// I6.
pub async fn inb_4_once_tells_first_from_duplicate<H: Harness>(env: Case<H>) {
    let (billing, shipping) = (env.inbox("billing"), env.inbox("shipping"));
    let mut tx = env.outbox.begin().await.expect("begin");
    let mut once = async |inbox: &Inbox<H::Store>, source: &str| {
        inbox.once(tx.conn(), source, "1").await.expect("once")
    };
    assert_eq!(once(&billing, "shop").await, Once::First);
    assert_eq!(once(&billing, "shop").await, Once::Duplicate);
    assert_eq!(once(&shipping, "shop").await, Once::First);
    assert_eq!(once(&billing, "stall").await, Once::First);
    env.harness.write_business_row(tx.conn(), 1).await;
    tx.commit().await.expect("commit");
    let mut tx = env.outbox.begin().await.expect("begin");
    assert_eq!(billing.once(tx.conn(), "shop", "1").await.expect("once"), Once::Duplicate);
    env.harness.write_business_row(tx.conn(), 2).await;
    tx.commit().await.expect("the transaction stayed usable");
    assert_eq!(env.harness.business_rows().await, [1, 2]);
    assert_eq!(stats::<H>(&billing).await.ready, 0, "there is no message");
}

pub async fn inb_4_after_a_rollback_it_is_new_again<H: Harness>(env: Case<H>) {
    let inbox = env.inbox("billing");
    let mut conn = env.harness.connection().await;
    for (commits, expected) in [(false, Once::First), (true, Once::First), (false, Once::Duplicate)]
    {
        env.harness.begin(&mut conn).await;
        assert_eq!(inbox.once(&mut conn, "shop", "1").await.expect("once"), expected);
        match commits {
            true => env.harness.commit(&mut conn).await,
            false => env.harness.rollback(&mut conn).await,
        }
    }
}

pub async fn inb_4_without_a_transaction_it_is_refused<H: Harness>(env: Case<H>) {
    let inbox = env.inbox("billing");
    let mut conn = env.harness.connection().await;
    let error = inbox.once(&mut conn, "shop", "1").await.expect_err("no transaction");
    assert_eq!(error.kind(), ErrorKind::NotInTransaction);
}

pub async fn inb_4_both_ways_share_what_they_know<H: Harness>(env: Case<H>) {
    let inbox = env.inbox("billing");
    let stored = new(inbox.receive("shop", "1", plain()).await.expect("receive"));
    let mut tx = env.outbox.begin().await.expect("begin");
    assert_eq!(inbox.once(tx.conn(), "shop", "1").await.expect("once"), Once::Duplicate);
    assert_eq!(inbox.once(tx.conn(), "shop", "2").await.expect("once"), Once::First);
    tx.commit().await.expect("commit");
    let again = inbox.receive("shop", "2", plain()).await.expect("receive");
    assert!(matches!(again, Received::Duplicate(id) if id != stored), "{again:?}");
}

pub async fn inb_6_a_message_is_known_longer_than_it_is_kept<H: Harness>(env: Case<H>) {
    let inbox = env.inbox("billing");
    let queue = queue_of::<H>(&inbox);
    let id = new(inbox.receive("shop", "1", number(1)).await.expect("receive"));
    handle::<H>(&inbox, writes(&env, &inbox)).await;
    let purge = Purge { done: Some(DAY), keys: Some(DAY * 30), ..Purge::default() };
    env.advance(DAY * 2);
    assert_eq!(queue.purge(&purge).await.expect("purge").messages, 1);
    assert!(inbox.store().get(id).await.expect("get").is_none(), "the payload is gone");
    let again = inbox.receive("shop", "1", number(1)).await.expect("receive");
    assert_eq!(again, Received::Duplicate(id));
    let other = inbox.receive("shop", "1", number(2)).await.expect("receive");
    assert_eq!(other, Received::Conflict(id));
    env.advance(DAY * 28);
    assert_eq!(queue.purge(&purge).await.expect("purge").keys, 1);
    new(inbox.receive("shop", "1", number(1)).await.expect("new after all that time"));
}

pub async fn inb_6_inline_keys_go_after_their_time<H: Harness>(env: Case<H>) {
    let inbox = env.inbox("billing");
    let queue = queue_of::<H>(&inbox);
    let mut tx = env.outbox.begin().await.expect("begin");
    assert_eq!(inbox.once(tx.conn(), "shop", "1").await.expect("once"), Once::First);
    tx.commit().await.expect("commit");
    env.advance(DAY * 30 - Duration::from_micros(1));
    assert_eq!(queue.purge(&Purge::default()).await.expect("purge").keys, 0);
    env.advance(Duration::from_micros(1));
    assert_eq!(queue.purge(&Purge::default()).await.expect("purge").keys, 1);
}

/// I5, B40.
pub async fn inb_6_nothing_is_forgotten_before_the_redelivery_horizon<H: Harness>(env: Case<H>) {
    let redelivery_horizon = DAY * 14;
    let inbox = env.inbox("billing").configure(InboxConfig { redelivery_horizon });
    let short = Purge { keys: Some(DAY * 13), ..Purge::default() };
    let queue = queue_of::<H>(&inbox);
    let config = DispatcherConfig { purge: Some(short), ..DispatcherConfig::default() };
    let started = inbox.dispatcher(inbox.handlers()).config(config).start();
    for error in [queue.purge(&short).await.expect_err("too short"), started.expect_err("same")] {
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let text = error.to_string();
        assert!(text.starts_with("purge.keys must be at least 1209600s"), "{text}");
    }
    let just = Purge { keys: Some(DAY * 14), ..Purge::default() };
    let _ = queue.purge(&just).await.expect("long enough");
    let _ = env.queue.purge(&short).await.expect("the outbox is another box");
}
