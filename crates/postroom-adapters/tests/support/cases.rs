//! The cases, for any layer.

use std::time::{Duration, UNIX_EPOCH};

use postroom_adapters::Enqueued;
use postroom_core::lifecycle::Outcome;
use postroom_core::{ErrorKind, Message, MessageBuilder, MessageId, Result, Timestamp};
use postroom_testkit::drain;
use uuid::Uuid;

use super::{End, Layer};

fn order(payload: &'static str) -> MessageBuilder {
    Message::builder("order.placed").payload(payload)
}

fn keyed(payload: &'static str) -> MessageBuilder {
    order(payload).idempotency_key(Uuid::from_u128(7))
}

/// Runs a transaction in which everything is published.
async fn publish<L: Layer>(layer: &mut L, messages: Vec<MessageBuilder>) -> Vec<Enqueued> {
    let answers = layer.transaction(messages, End::Commit).await;
    answers.into_iter().collect::<Result<_>>().expect("publishes")
}

/// What a worker gets.
async fn delivered<L: Layer>(layer: &L) -> Vec<Message> {
    let mut messages = Vec::new();
    let handle = |item: postroom_core::store::WorkItem| {
        messages.push(item.message);
        std::future::ready(Outcome::Done)
    };
    drain(layer.store(), handle).await.expect("claims and settles");
    messages
}

fn payloads(messages: &[Message]) -> Vec<&[u8]> {
    messages.iter().map(|message| message.payload().as_ref()).collect()
}

pub(crate) async fn pub_1_a_commit_keeps_the_row_and_delivers_the_message<L: Layer>() {
    let mut layer = L::fresh().await;
    let [enqueued] = publish(&mut layer, vec![order("7")]).await[..] else { panic!("one answer") };
    assert!(!enqueued.already_existed);
    assert_eq!(layer.business_rows().await, [1, 2]);
    let delivered = delivered(&layer).await;
    assert_eq!(payloads(&delivered), [b"7"]);
    assert_eq!(delivered[0].id(), enqueued.id);
    layer.finish().await;
}

pub(crate) async fn pub_1_a_rollback_leaves_neither_row_nor_message<L: Layer>() {
    let mut layer = L::fresh().await;
    let answers = layer.transaction(vec![order("7")], End::Rollback).await;
    let enqueued = answers[0].as_ref().expect("publishes");
    assert!(layer.business_rows().await.is_empty());
    assert!(layer.store().get(enqueued.id).await.expect("looks").is_none());
    assert!(delivered(&layer).await.is_empty());
    layer.finish().await;
}

pub(crate) async fn pub_4_a_later_message_waits_for_its_time<L: Layer>() {
    let mut layer = L::fresh().await;
    let wait = Duration::from_secs(3_600);
    let at = Timestamp::host_now().saturating_add(wait);
    let later = vec![order("after").due_after(wait), order("at").due_at(at.into())];
    let answers = publish(&mut layer, later).await;
    assert!(delivered(&layer).await.is_empty());
    for (answer, tolerance) in answers.iter().zip([Duration::from_secs(600), Duration::ZERO]) {
        let detail = layer.store().get(answer.id).await.expect("looks").expect("is there");
        let due = detail.record.next_attempt_at.expect("waits");
        assert!(due >= at.saturating_sub(tolerance), "{due:?}");
        assert!(due <= at.saturating_add(tolerance), "{due:?}");
    }
    layer.finish().await;
}

pub(crate) async fn pub_6_a_duplicate_answers_with_the_first_id_and_the_transaction_commits<
    L: Layer,
>() {
    let mut layer = L::fresh().await;
    let first = publish(&mut layer, vec![keyed("first")]).await[0];
    let second = publish(&mut layer, vec![keyed("second")]).await[0];
    assert_eq!((first.already_existed, second.already_existed), (false, true));
    assert_eq!(second.id, first.id);
    assert_eq!(layer.business_rows().await, [1, 1, 2, 2]);
    assert_eq!(payloads(&delivered(&layer).await), [b"first"]);
    // A key outlives its delivery.
    assert_eq!(publish(&mut layer, vec![keyed("third")]).await[0], second);
    layer.finish().await;
}

pub(crate) async fn pub_6_a_key_twice_in_one_transaction_is_one_message<L: Layer>() {
    let mut layer = L::fresh().await;
    let answers = publish(&mut layer, vec![keyed("first"), keyed("second"), order("third")]).await;
    let existed: Vec<_> = answers.iter().map(|answer| answer.already_existed).collect();
    assert_eq!(existed, [false, true, false]);
    assert_eq!(answers[1].id, answers[0].id);
    assert_eq!(payloads(&delivered(&layer).await), [&b"first"[..], b"third"]);
    layer.finish().await;
}

pub(crate) async fn pub_6_the_same_key_of_another_tenant_is_another_message<L: Layer>() {
    let mut layer = L::fresh().await;
    let tenants = vec![keyed("a"), keyed("b").tenant_id("acme"), keyed("c").tenant_id("ajax")];
    let answers = publish(&mut layer, tenants).await;
    assert!(answers.iter().all(|answer| !answer.already_existed));
    assert_eq!(delivered(&layer).await.len(), 3);
    layer.finish().await;
}

pub(crate) async fn pub_6_the_same_message_again_is_success_and_written_once<L: Layer>() {
    let mut layer = L::fresh().await;
    let id = MessageId::new();
    let again = || order("same").id(id);
    publish(&mut layer, vec![again(), again()]).await;
    assert_eq!(publish(&mut layer, vec![again()]).await[0].id, id);
    let with_key = || keyed("keyed");
    let (first, second) = (with_key(), with_key());
    let ids = publish(&mut layer, vec![first, second]).await;
    assert_eq!(ids[0].id, ids[1].id);
    assert_eq!(payloads(&delivered(&layer).await), [&b"same"[..], b"keyed"]);
    layer.finish().await;
}

pub(crate) async fn pub_6_an_id_with_other_content_is_refused<L: Layer>() {
    let mut layer = L::fresh().await;
    let id = publish(&mut layer, vec![order("first")]).await[0].id;
    for other in [order("other").id(id), keyed("other").id(id)] {
        let answers = layer.transaction(vec![other], End::Rollback).await;
        let error = answers[0].as_ref().expect_err("the id is taken");
        assert_eq!(error.kind(), ErrorKind::IdTaken, "{error}");
        assert!(error.to_string().contains(&id.to_string()), "{error}");
    }
    // The key was not taken along.
    assert!(!publish(&mut layer, vec![keyed("keyed")]).await[0].already_existed);
    assert_eq!(payloads(&delivered(&layer).await), [&b"first"[..], b"keyed"]);
    layer.finish().await;
}

pub(crate) async fn msg_2_a_broken_limit_names_the_field_and_the_transaction_commits<L: Layer>() {
    let mut layer = L::fresh().await;
    let large = Message::builder("t").payload(vec![0; 1024 * 1024 + 1]);
    let broken = vec![Message::builder(""), order("x").tenant_id("t".repeat(65)), large, keyed("")];
    let answers = layer.transaction(broken, End::Commit).await;
    let fields = ["topic must be 1 to 255", "tenant_id must be 1 to 64", "payload must be at most"];
    for (answer, field) in answers.iter().zip(fields) {
        let error = answer.as_ref().expect_err(field);
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().starts_with(field), "{error}");
    }
    assert!(answers[3].as_ref().is_ok_and(|answer| !answer.already_existed));
    assert_eq!(layer.business_rows().await, [1, 2]);
    assert_eq!(payloads(&delivered(&layer).await), [b""]);
    layer.finish().await;
}

pub(crate) async fn pub_9_every_field_arrives_as_the_outbox_writes_it<L: Layer>() {
    let mut layer = L::fresh().await;
    let now = Timestamp::host_now();
    let (before, after) =
        (now.saturating_sub(Duration::from_secs(9)), now.saturating_add(Duration::from_secs(900)));
    let id = MessageId::new();
    let full = || {
        Message::builder("order.pläced")
            .id(id)
            .payload(vec![0, 255, b'\'', b'\\'])
            .content_type("application/octet-stream")
            .header("a", "\"ä\\")
            .header("b", "")
            .aggregate("order", "7")
            .ordering_key("order/7")
            .tenant_id("acme")
            .correlation_id("c")
            .causation_id("d")
            .idempotency_key(Uuid::from_u128(u128::MAX))
            .occurred_at(before.into())
            .due_at(before.into())
            .expires_at(after.into())
            .priority(-100)
    };
    assert_eq!(publish(&mut layer, vec![full(), order("bare")]).await[0].id, id);
    let delivered = delivered(&layer).await;
    let arrived = delivered.iter().find(|message| message.id() == id).expect("arrives");
    assert_eq!(*arrived, full().build().expect("legal"));
    let bare = delivered.iter().find(|message| message.id() != id).expect("arrives");
    assert_eq!(bare.content_type(), Message::DEFAULT_CONTENT_TYPE);
    assert!(bare.headers().is_empty() && bare.occurred_at().is_some());
    assert_eq!((bare.tenant_id(), bare.due(), bare.expires()), (None, None, None));
    layer.finish().await;
}

pub(crate) async fn pub_9_times_beyond_all_calendars_arrive<L: Layer>() {
    let mut layer = L::fresh().await;
    let prehistoric = UNIX_EPOCH - Duration::from_secs(300_000_000_000);
    let odd = vec![
        order("ancient").occurred_at(prehistoric).due_at(prehistoric),
        order("lasting").expires_after(Duration::MAX),
    ];
    publish(&mut layer, odd).await;
    assert_eq!(payloads(&delivered(&layer).await), [b"ancient", b"lasting"]);
    layer.finish().await;
}
