//! Looking: lists, details, counts, and a schema that is what it should be.

use std::sync::Arc;
use std::time::Duration;

use postroom_core::store::{AdminStore, List, Stats, Status};
use postroom_core::{Message, MessageId};

use crate::harness::{Env, Harness, ids, plain};

type Case<H> = Arc<Env<H>>;

async fn list<H: Harness>(env: &Env<H>, list: List) -> Vec<MessageId> {
    let page = env.store().list(&list).await.expect("list");
    page.records.into_iter().map(|record| record.id).collect()
}

pub async fn adm_1_newest_first_page_by_page<H: Harness>(env: Case<H>) {
    let mut published = env.publish_many(7).await;
    published.reverse();
    let mut pages = Vec::new();
    let mut before = None;
    loop {
        let page = list(&env, List { limit: 3, before, ..List::default() }).await;
        let Some(last) = page.last().copied() else {
            break;
        };
        before = Some(last.into());
        pages.push(page);
    }
    assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), [3, 3, 1]);
    assert_eq!(pages.concat(), published);
}

/// One message in each state: pending, waiting, failed, leased, done, dead.
async fn one_of_each<H: Harness>(env: &Env<H>) -> [MessageId; 6] {
    let published = env.publish_many(4).await;
    let items = env.claim(4).await.items;
    assert_eq!(ids(&items), published);
    let wait = Duration::from_secs(9);
    let _ = env.queue.abandon_for(env.me, &[items[0].lease], wait, "x").await.expect("abandon");
    let _ = env.queue.ack(env.me, &[items[1].lease]).await.expect("ack");
    let _ = env.queue.fail(env.me, &[items[2].lease], "x").await.expect("fail");
    let pending = env.publish(plain()).await.id;
    let waiting = env.publish(plain().due_after(wait)).await.id;
    [pending, waiting, published[0], published[3], published[1], published[2]]
}

pub async fn adm_1_filter_by_status<H: Harness>(env: Case<H>) {
    let [pending, waiting, failed, leased, done, dead] = one_of_each(&env).await;
    let by = async |status| list(&env, List { status: Some(status), ..List::default() }).await;
    assert_eq!(by(Status::Pending).await, [waiting, pending, failed]);
    assert_eq!(by(Status::Failed).await, [failed]);
    assert_eq!(by(Status::Leased).await, [leased]);
    assert_eq!(by(Status::Done).await, [done]);
    assert_eq!(by(Status::Dead).await, [dead]);
}

pub async fn adm_1_filter_by_topic_and_tenant<H: Harness>(env: Case<H>) {
    let a = env.publish(Message::builder("a").tenant_id("x")).await.id;
    let b = env.publish(Message::builder("b").tenant_id("x")).await.id;
    let c = env.publish(Message::builder("a")).await.id;
    let of = |topic: Option<&str>, tenant: Option<&str>| List {
        topic: topic.map(str::to_owned),
        tenant: tenant.map(str::to_owned),
        ..List::default()
    };
    assert_eq!(list(&env, of(Some("a"), None)).await, [c, a]);
    assert_eq!(list(&env, of(None, Some("x"))).await, [b, a]);
    assert_eq!(list(&env, of(Some("a"), Some("x"))).await, [a]);
    assert!(list(&env, of(Some("A"), None)).await.is_empty(), "case-sensitive");
}

pub async fn adm_1_an_unknown_message_is_none<H: Harness>(env: Case<H>) {
    assert!(crate::conformance::get(&env, MessageId::new()).await.is_none());
}

pub async fn adm_1_stats_count_each_state<H: Harness>(env: Case<H>) {
    one_of_each(&env).await;
    env.advance(Duration::from_secs(4));
    let stats = crate::conformance::stats(&env).await;
    let oldest_ready = Some(Duration::from_secs(4));
    let expected =
        Stats { ready: 1, waiting: 2, leased: 1, failed: 1, done: 1, dead: 1, oldest_ready };
    assert_eq!(stats, expected);
    env.advance(Duration::from_secs(5));
    let stats = crate::conformance::stats(&env).await;
    assert_eq!((stats.ready, stats.waiting), (3, 0), "what came due is ready");
}

pub async fn adm_1_stats_of_an_empty_store<H: Harness>(env: Case<H>) {
    assert_eq!(crate::conformance::stats(&env).await, Stats::default());
}

pub async fn sch_1_migrating_twice_changes_nothing<H: Harness>(env: Case<H>) {
    let id = env.publish(plain()).await.id;
    let again = env.store().migrate().await.expect("migrate");
    assert_eq!(again.from, again.to);
    env.store().check_schema().await.expect("the schema fits");
    assert_eq!(ids(&env.claim(10).await.items), [id]);
}
