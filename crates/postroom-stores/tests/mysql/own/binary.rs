//! Texts that a collation would take for equal: case, accents, blanks at the end.

use std::collections::BTreeSet;
use std::time::Duration;

use postroom_core::store::{AdminStore, List, Pause};
use postroom_core::{
    Inbox, Message, MessageBuilder, Once, Outbox, OwnerToken, Received, Topic, WorkQueue,
};
use postroom_testkit::Harness;
use uuid::Uuid;

use crate::mysql_support::My;
use crate::own::rivals::count;

/// All different.
const ALIKE: [&str; 5] = ["order", "Order", "\u{f6}rder", "o\u{308}rder", "order "];

const LEASE: Duration = Duration::from_secs(30);

fn plain(topic: &str) -> MessageBuilder {
    Message::builder(topic).payload("x")
}

#[tokio::test]
async fn msg_1_topics_and_tenants_that_look_alike_are_listed_apart() {
    let my = My::on_database_time().await;
    let outbox = Outbox::new(my.store());
    for text in ALIKE {
        outbox.publish(plain(text).tenant_id(text)).await.expect("publishes");
    }
    for text in ALIKE {
        let by_topic = List { topic: Some(text.to_owned()), ..List::default() };
        let by_tenant = List { tenant: Some(text.to_owned()), ..List::default() };
        for list in [by_topic, by_tenant] {
            let listed = my.store.list(&list).await.expect("lists").records;
            assert_eq!(listed.len(), 1, "{text:?}");
            assert_eq!(listed[0].topic, text);
            assert_eq!(listed[0].tenant_id.as_deref(), Some(text));
        }
    }
    my.finish().await;
}

#[tokio::test]
async fn dsp_10_a_pause_of_a_topic_is_of_no_other() {
    let my = My::on_database_time().await;
    let outbox = Outbox::new(my.store());
    outbox.publish_all(ALIKE.map(plain)).await.expect("publishes");
    let ordered = ALIKE.map(|topic| plain(topic).ordering_key(topic));
    outbox.publish_all(ordered).await.expect("publishes");
    for topic in &ALIKE[..2] {
        let topic = Some(Topic::new(*topic).expect("legal"));
        let pause = Pause { topic, by: None, reason: None };
        assert!(my.store.pause(&pause).await.expect("pauses"), "not paused before");
    }
    let me = OwnerToken::random();
    let items = WorkQueue::new(my.store()).claim(me, LEASE, 100).await.expect("claims").items;
    let topics: Vec<_> = items.iter().map(|item| item.message.topic().to_string()).collect();
    assert_eq!(topics.len(), 6, "{topics:?}");
    assert!(!topics.iter().any(|topic| ALIKE[..2].contains(&topic.as_str())), "{topics:?}");
    let resumed = Topic::new(ALIKE[2]).expect("legal");
    assert!(!my.store.resume(Some(&resumed)).await.expect("resumes"), "it was not paused");
    assert_eq!(my.store.pauses().await.expect("pauses").len(), 2);
    my.finish().await;
}

/// Of one key a claim hands out a run; a claim while that is held gives nothing of the key.
#[tokio::test]
async fn ord_1_keys_that_look_alike_do_not_wait_for_each_other() {
    let my = My::on_database_time().await;
    let outbox = Outbox::new(my.store());
    let queue = WorkQueue::new(my.store());
    let me = OwnerToken::random();
    for text in ALIKE {
        outbox.publish(plain("t").ordering_key(text)).await.expect("publishes");
        let items = queue.claim(me, LEASE, 10).await.expect("claims").items;
        assert_eq!(items.len(), 1, "{text:?} waits for nobody");
        assert_eq!(items[0].message.ordering_key().map(AsRef::as_ref), Some(text));
    }
    for text in ALIKE {
        outbox.publish(plain("t").ordering_key("order").tenant_id(text)).await.expect("publishes");
        assert_eq!(queue.claim(me, LEASE, 10).await.expect("claims").items.len(), 1, "{text:?}");
    }
    my.finish().await;
}

#[tokio::test]
async fn pub_6_a_key_is_of_one_tenant() {
    let my = My::on_database_time().await;
    let outbox = Outbox::new(my.store());
    let mut ids = BTreeSet::new();
    for text in ALIKE {
        let message = || plain("t").tenant_id(text).idempotency_key(Uuid::from_u128(1));
        let first = outbox.publish(message()).await.expect("publishes");
        assert!(!first.already_existed, "{text:?}");
        let second = outbox.publish(message()).await.expect("a duplicate");
        assert_eq!((second.already_existed, second.id), (true, first.id));
        ids.insert(first.id);
    }
    assert_eq!(ids.len(), ALIKE.len());
    my.finish().await;
}

#[tokio::test]
async fn inb_1_sources_ids_and_consumers_that_look_alike_are_different() {
    let my = My::on_database_time().await;
    let outbox = Outbox::new(my.store());
    for consumer in ALIKE {
        let inbox = Inbox::new(&outbox, consumer).expect("legal");
        for (source, id) in ALIKE.map(|text| ("shop", text)).into_iter().chain([("Shop", "order")])
        {
            for is_new in [true, false] {
                let received = inbox.receive(source, id, plain("t")).await.expect("receives");
                assert_eq!(matches!(received, Received::New(_)), is_new, "{received:?}");
                let mut tx = outbox.begin().await.expect("begins");
                let inline = format!("{id}|");
                let once = inbox.once(tx.conn(), source, inline).await.expect("once");
                assert_eq!(once == Once::First, is_new, "{consumer:?} {source:?} {id:?}");
                tx.commit().await.expect("commits");
            }
        }
    }
    let arrived = "select count(*) from postroom_inbox_message";
    assert_eq!(count(&my, arrived).await, 30);
    my.finish().await;
}
