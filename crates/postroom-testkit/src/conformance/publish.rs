//! Publishing: the row and the business row live or die together, and every field survives.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use postroom_core::lifecycle::State;
use postroom_core::store::{Appended, Birth, Entry, TransactionalStore};
use postroom_core::{
    ErrorKind, Headers, LeaseToken, Message, MessageBuilder, MessageId, Outbox, OutboxConfig,
    Timestamp, When,
};

use crate::harness::{Env, Harness, LEASE, ids, plain};

type Case<H> = Arc<Env<H>>;

/// Seed 2, "Atomicity": publish, roll back; the row is not there.
pub async fn pub_1_atomicity<H: Harness>(env: Case<H>) {
    let mut tx = env.outbox.begin().await.expect("begin");
    env.harness.write_business_row(tx.conn(), 1).await;
    let id = tx.publish(plain()).expect("stage");
    let _ = tx.flush().await.expect("written, not committed");
    tx.rollback().await.expect("rollback");
    assert!(crate::conformance::get(&env, id).await.is_none());
    assert!(env.harness.business_rows().await.is_empty());
    assert!(env.claim(10).await.items.is_empty());
}

pub async fn pub_1_commit_makes_both_rows_visible<H: Harness>(env: Case<H>) {
    let mut tx = env.outbox.begin().await.expect("begin");
    env.harness.write_business_row(tx.conn(), 7).await;
    let id = tx.publish(plain()).expect("stage");
    let committed = tx.commit().await.expect("commit");
    assert_eq!(committed.published[0].id, id);
    assert_eq!(env.record(id).await.state, State::Ready);
    assert_eq!(env.harness.business_rows().await, [7]);
}

pub async fn pub_1_a_dropped_transaction_leaves_nothing<H: Harness>(env: Case<H>) {
    let mut tx = env.outbox.begin().await.expect("begin");
    env.harness.write_business_row(tx.conn(), 1).await;
    let id = tx.publish(plain()).expect("stage");
    let _ = tx.flush().await.expect("written, not committed");
    drop(tx);
    assert!(crate::conformance::get(&env, id).await.is_none());
    assert!(env.harness.business_rows().await.is_empty());
}

pub async fn pub_2_standalone_publish_is_committed_when_it_returns<H: Harness>(env: Case<H>) {
    let published = env.publish(plain()).await;
    assert!(!published.already_existed);
    assert_eq!(env.record(published.id).await.work, published.work.expect("it is new"));
}

pub async fn pub_4_a_plain_driver_transaction_publishes_too<H: Harness>(env: Case<H>) {
    let mut conn = env.harness.connection().await;
    env.harness.begin(&mut conn).await;
    env.harness.write_business_row(&mut conn, 1).await;
    let published = env.outbox.publish_in(&mut conn, plain()).await.expect("publish");
    env.harness.commit(&mut conn).await;
    drop(conn);
    env.outbox.wake();
    assert_eq!(ids(&env.claim(10).await.items), [published.id]);
    assert_eq!(env.harness.business_rows().await, [1]);
}

pub async fn pub_4_its_rollback_takes_the_message_along<H: Harness>(env: Case<H>) {
    let mut conn = env.harness.connection().await;
    env.harness.begin(&mut conn).await;
    env.harness.write_business_row(&mut conn, 1).await;
    let published = env.outbox.publish_in(&mut conn, plain()).await.expect("publish");
    env.harness.rollback(&mut conn).await;
    drop(conn);
    env.outbox.wake();
    assert!(crate::conformance::get(&env, published.id).await.is_none());
    assert!(env.harness.business_rows().await.is_empty());
}

pub async fn pub_1_without_a_transaction_it_is_refused<H: Harness>(env: Case<H>) {
    let mut conn = env.harness.connection().await;
    let error = env.outbox.publish_in(&mut conn, plain()).await.expect_err("no transaction");
    assert_eq!(error.kind(), ErrorKind::NotInTransaction);
    // And the check itself left no transaction behind.
    env.harness.begin(&mut conn).await;
    env.harness.commit(&mut conn).await;
    drop(conn);
    assert!(env.claim(10).await.items.is_empty());
}

pub async fn pub_7_ten_thousand_in_one_call<H: Harness>(env: Case<H>) {
    let published = env.publish_many(10_000).await;
    let stats = crate::conformance::stats(&env).await;
    assert_eq!((published.len(), stats.ready), (10_000, 10_000));
}

pub async fn pub_7_bulk_keeps_publish_order<H: Harness>(env: Case<H>) {
    let published = env.publish_many(2_500).await;
    let claimed = env.claim(2_500).await.items;
    assert_eq!(ids(&claimed), published);
    assert!(claimed.is_sorted_by_key(|item| item.lease.work));
}

fn everything() -> MessageBuilder {
    Message::builder("Order.Placed")
        .id(MessageId::new())
        .payload(vec![0, 159, 146, 150, 255])
        .content_type("application/octet-stream")
        .header("trace-id", "ünïcode \t value")
        .header("a", "")
        .aggregate("order", "order 7")
        .tenant_id("acme")
        .correlation_id("corr")
        .causation_id("cause")
        .idempotency_key(uuid::Uuid::from_u128(42))
        .occurred_at(SystemTime::UNIX_EPOCH + Duration::from_micros(1_234_567_890_123_456))
        .priority(-100)
}

pub async fn msg_1_every_field_comes_back_as_it_went_in<H: Harness>(env: Case<H>) {
    let expires = env.clock.now().saturating_add(Duration::from_micros(99_000_001));
    let message = everything().expires(When::At(expires)).build().expect("legal");
    let item = env.leased_message(message.clone()).await;
    assert_eq!(item, message);
}

impl<H: Harness> Env<H> {
    async fn leased_message(&self, message: Message) -> Message {
        self.publish(message).await;
        self.claim_one().await.message
    }
}

pub async fn msg_what_was_left_out_gets_its_default<H: Harness>(env: Case<H>) {
    let message = env.leased_message(Message::builder("t").build().expect("legal")).await;
    assert_eq!(message.content_type(), "application/json");
    assert_eq!(message.occurred_at(), Some(env.clock.now()), "the database's time");
    assert_eq!((message.due(), message.expires(), message.priority()), (None, None, 0));
    assert!(message.headers().is_empty() && message.payload().is_empty());
    assert_eq!((message.tenant_id(), message.ordering_key()), (None, None));
}

pub async fn msg_an_ordered_message_keeps_its_key<H: Harness>(env: Case<H>) {
    let published = env.publish(plain().ordering_key("order/7").tenant_id("acme")).await;
    let record = env.record(published.id).await;
    let message = record.message.expect("decodes");
    assert_eq!(message.ordering_key().map(|key| key.as_str()), Some("order/7"));
    assert_eq!(record.state, State::Ready);
}

pub async fn msg_bytes_that_are_not_text_are_legal<H: Harness>(env: Case<H>) {
    let every_byte: Vec<u8> = (0..=255).collect();
    let message = Message::builder("t").payload(every_byte.clone()).build().expect("legal");
    assert_eq!(env.leased_message(message).await.payload().as_ref(), every_byte);
}

pub async fn msg_topics_differ_by_case_and_by_trailing_space<H: Harness>(env: Case<H>) {
    let topics = ["Order.Created", "order.created", "order.created "];
    for topic in topics {
        env.publish(Message::builder(topic)).await;
    }
    let items = env.claim(10).await.items;
    let got: Vec<_> = items.iter().map(|item| item.message.topic().as_str()).collect();
    assert_eq!(got, topics);
}

pub async fn msg_2_every_field_at_its_limit_is_stored<H: Harness>(env: Case<H>) {
    let wide = |n: usize| "\u{1f4ee}".repeat(n);
    let message = Message::builder(wide(255))
        .content_type(wide(255))
        .aggregate(wide(64), wide(128))
        .tenant_id(wide(64))
        .correlation_id(wide(255))
        .causation_id(wide(255))
        .header("h".repeat(128), "v".repeat(Headers::MAX_BYTES - 128))
        .priority(100)
        .build()
        .expect("at the limits");
    let stored = env.leased_message(message.clone()).await;
    assert_eq!(stored.content_hash(), message.content_hash());
    let key = env.publish(plain().ordering_key(wide(255))).await;
    let record = env.record(key.id).await.message.expect("decodes");
    assert_eq!(record.ordering_key().map(|key| key.as_str().chars().count()), Some(255));
}

pub async fn msg_2_a_payload_of_exactly_the_limit_passes<H: Harness>(env: Case<H>) {
    let limit = 1024 * 1024;
    let message = Message::builder("t").payload(vec![7; limit]).build().expect("legal");
    assert_eq!(env.leased_message(message).await.payload().len(), limit);
}

pub async fn msg_2_a_breach_names_the_limit_and_leaves_the_transaction_usable<H: Harness>(
    env: Case<H>,
) {
    let mut conn = env.harness.connection().await;
    env.harness.begin(&mut conn).await;
    let too_big = Message::builder("t").payload(vec![7; 1024 * 1024 + 1]);
    let error = env.outbox.publish_in(&mut conn, too_big).await.expect_err("too big");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    let text = error.to_string();
    assert!(text.contains("payload") && text.contains("1048576") && text.contains("1048577"));
    let error = env.outbox.publish_in(&mut conn, Message::builder("bad\ntopic")).await;
    assert_eq!(error.expect_err("control character").kind(), ErrorKind::Invalid);
    env.harness.write_business_row(&mut conn, 1).await;
    let published = env.outbox.publish_in(&mut conn, plain()).await.expect("still usable");
    env.harness.commit(&mut conn).await;
    drop(conn);
    assert_eq!(ids(&env.claim(10).await.items), [published.id]);
}

pub async fn msg_2_one_bad_message_in_a_bulk_writes_none<H: Harness>(env: Case<H>) {
    let mut messages: Vec<_> = (0..5).map(|_| plain()).collect();
    messages.insert(3, Message::builder(""));
    let error = env.outbox.publish_all(messages).await.expect_err("an empty topic");
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(crate::conformance::stats(&env).await.ready, 0);
}

pub async fn msg_2_the_payload_limit_can_be_configured<H: Harness>(env: Case<H>) {
    let config = OutboxConfig { max_payload_bytes: 3, ..OutboxConfig::default() };
    let outbox = Outbox::new(env.store()).configure(config).expect("legal");
    assert!(outbox.publish(Message::builder("t").payload("abc")).await.is_ok());
    assert!(outbox.publish(Message::builder("t").payload("abcd")).await.is_err());
    let none = OutboxConfig { max_payload_bytes: 0, ..OutboxConfig::default() };
    assert!(Outbox::new(env.store()).configure(none).is_err());
}

pub async fn sec_1_hostile_text_is_data<H: Harness>(env: Case<H>) {
    let hostile = "'; drop table postroom.outbox_message; -- \" ` \\ $1 ?1 :x {{x}}";
    let message = Message::builder(hostile)
        .payload(hostile)
        .header("h", hostile)
        .aggregate("a'\"", hostile)
        .tenant_id(hostile.chars().take(64).collect::<String>())
        .correlation_id(hostile)
        .build()
        .expect("legal");
    let stored = env.leased_message(message.clone()).await;
    assert_eq!(stored.content_hash(), message.content_hash());
}

pub async fn due_in_the_past_counts_as_now<H: Harness>(env: Case<H>) {
    let past = When::At(Timestamp::from_micros(1));
    let published = env.publish(plain().due(past)).await;
    assert_eq!(ids(&env.claim(10).await.items), [published.id]);
}

pub async fn due_later_waits_for_its_time<H: Harness>(env: Case<H>) {
    let due = env.clock.now().saturating_add(Duration::from_secs(60));
    let published = env.publish(plain().due(When::At(due))).await;
    assert!(env.claim(10).await.items.is_empty());
    assert_eq!(env.record(published.id).await.next_attempt_at, Some(due));
    env.advance(Duration::from_micros(59_999_999));
    assert!(env.claim(10).await.items.is_empty());
    env.advance(Duration::from_micros(1));
    assert_eq!(ids(&env.claim(10).await.items), [published.id]);
}

pub async fn due_after_counts_from_the_databases_time<H: Harness>(env: Case<H>) {
    let published = env.publish(plain().due_after(Duration::from_secs(5))).await;
    let due = env.clock.now().saturating_add(Duration::from_secs(5));
    assert_eq!(env.record(published.id).await.next_attempt_at, Some(due));
}

pub(super) async fn append_leased<H: Harness>(
    env: &Env<H>,
    message: MessageBuilder,
) -> (Appended, Birth) {
    let birth = Birth::Leased { owner: env.me, token: LeaseToken::random(), lease: LEASE };
    let entry = Entry { message: message.build().expect("legal"), birth };
    let mut tx = env.store().begin().await.expect("begin");
    let conn = postroom_core::store::StoreTransaction::conn(&mut tx);
    let appended = env.store().append(conn, &[entry]).await.expect("append");
    postroom_core::store::StoreTransaction::commit(tx).await.expect("commit");
    (appended[0], birth)
}

pub async fn dsp_2_a_row_born_leased_is_nobody_elses<H: Harness>(env: Case<H>) {
    let (appended, birth) = append_leased(&env, plain()).await;
    let (Appended::New { work, leased: true }, Birth::Leased { token, .. }) = (appended, birth)
    else {
        panic!("born leased, got {appended:?}");
    };
    assert!(env.claim(10).await.items.is_empty());
    let lease = postroom_core::Lease { work, token };
    assert_eq!(env.queue.ack(env.me, &[lease]).await.expect("ack").applied, 1);
}

pub async fn dsp_2_its_lease_runs_out_like_any_other<H: Harness>(env: Case<H>) {
    append_leased(&env, plain()).await;
    env.expire_leases();
    let item = env.claim_one().await;
    assert_eq!((item.attempts, item.lost), (0, 1));
}

pub async fn dsp_2_due_later_and_ordered_are_born_ready_all_the_same<H: Harness>(env: Case<H>) {
    let due = plain().due_after(Duration::from_secs(1));
    for message in [due, plain().ordering_key("k")] {
        let (appended, _) = append_leased(&env, message).await;
        assert!(matches!(appended, Appended::New { leased: false, .. }), "{appended:?}");
    }
    let stats = crate::conformance::stats(&env).await;
    assert_eq!((stats.leased, stats.ready, stats.waiting), (0, 1, 1));
}
