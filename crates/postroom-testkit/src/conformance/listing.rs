//! Filters of lists, and pages of searches: the same messages from every store.

use std::sync::Arc;
use std::time::Duration;

use postroom_core::lifecycle::DeadReason;
use postroom_core::store::{AdminStore, List, Page, Purge, Status};
use postroom_core::{Lease, Message, MessageBuilder, MessageId};

use crate::harness::{Env, Harness, plain};

type Case<H> = Arc<Env<H>>;

async fn page<H: Harness>(env: &Env<H>, list: &List) -> Page {
    env.store().list(list).await.expect("list")
}

/// All pages, each as long as the list says.
async fn all<H: Harness>(env: &Env<H>, mut list: List) -> Vec<MessageId> {
    let mut found = Vec::new();
    loop {
        let page = page(env, &list).await;
        assert!(page.records.len() <= list.limit as usize);
        found.extend(page.records.iter().map(|record| record.id));
        list.before = page.next;
        if list.before.is_none() {
            return found;
        }
    }
}

async fn publish<H: Harness>(env: &Env<H>, message: MessageBuilder) -> MessageId {
    env.publish(message).await.id
}

/// Publishes a message and claims it, while nothing else is ready.
async fn held<H: Harness>(env: &Env<H>, message: MessageBuilder) -> (MessageId, Lease) {
    let id = publish(env, message).await;
    let item = env.claim_one().await;
    assert_eq!(item.message.id(), id);
    (id, item.lease)
}

const SOON: Duration = Duration::from_secs(1);
const LATER: Duration = Duration::from_secs(3_600);

async fn failed<H: Harness>(env: &Env<H>, message: MessageBuilder, error: &str) -> MessageId {
    let (id, lease) = held(env, message).await;
    let _ = env.queue.abandon_for(env.me, &[lease], LATER, error).await.expect("abandon");
    id
}

async fn dead<H: Harness>(env: &Env<H>, message: MessageBuilder, error: &str) -> MessageId {
    let (id, lease) = held(env, message).await;
    let _ = env.queue.fail(env.me, &[lease], error).await.expect("fail");
    id
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

pub async fn adm_1_a_page_says_where_the_next_begins<H: Harness>(env: Case<H>) {
    let ids = env.publish_many(3).await;
    let mut list = List { limit: 2, ..List::default() };
    let first = page(&env, &list).await;
    assert_eq!((first.records.len(), first.next), (2, Some(ids[1].into())));
    list.before = first.next;
    let last = page(&env, &list).await;
    assert_eq!((last.records[0].id, last.records.len(), last.next), (ids[0], 1, None));
    let nothing =
        List { before: Some(MessageId::from(uuid::Uuid::nil()).into()), ..List::default() };
    let empty = page(&env, &nothing).await;
    assert!(empty.records.is_empty() && empty.next.is_none());
}

pub async fn adm_1_filter_by_the_start_of_the_topic<H: Harness>(env: Case<H>) {
    let mut ids = Vec::new();
    for topic in ["order.placed", "order.paid", "Order.x", "order", "100%.a", "100.b", "größe.c"]
    {
        ids.push(publish(&env, Message::builder(topic)).await);
    }
    let of = async |start: &str| {
        all(&env, List { topic_prefix: some(start), limit: 1, ..List::default() }).await
    };
    assert_eq!(of("order.").await, [ids[1], ids[0]]);
    assert_eq!(of("order").await, [ids[3], ids[1], ids[0]]);
    assert_eq!(of("100%").await, [ids[4]], "it is no pattern");
    assert_eq!(of("größe").await, [ids[6]]);
    assert_eq!(of("").await.len(), ids.len());
    assert_eq!(of("order.placed and more").await, []);
}

pub async fn adm_1_filter_by_aggregate_and_ordering_key<H: Harness>(env: Case<H>) {
    let a = publish(&env, plain().aggregate("order", "7").ordering_key("k")).await;
    let b = publish(&env, plain().aggregate("order", "8").ordering_key("K")).await;
    let c = publish(&env, plain().aggregate("user", "7")).await;
    publish(&env, plain()).await;
    let of = async |kind: Option<&str>, id: Option<&str>, key: Option<&str>| {
        let list = List {
            aggregate_type: kind.map(str::to_owned),
            aggregate_id: id.map(str::to_owned),
            ordering_key: key.map(str::to_owned),
            ..List::default()
        };
        all(&env, list).await
    };
    assert_eq!(of(Some("order"), None, None).await, [b, a]);
    assert_eq!(of(None, Some("7"), None).await, [c, a]);
    assert_eq!(of(Some("order"), Some("7"), None).await, [a]);
    assert_eq!(of(Some("Order"), None, None).await, []);
    assert_eq!(of(None, None, Some("k")).await, [a]);
    assert_eq!(of(Some("user"), None, Some("k")).await, []);
}

pub async fn adm_1_filter_by_the_time_of_writing<H: Harness>(env: Case<H>) {
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(publish(&env, plain()).await);
        env.advance(Duration::from_secs(10));
    }
    let second = env.record(ids[1]).await.created_at;
    let since = List { since: Some(second), ..List::default() };
    assert_eq!(all(&env, since.clone()).await, [ids[2], ids[1]], "then or later");
    let until = List { until: Some(second), ..List::default() };
    assert_eq!(all(&env, until).await, [ids[0]], "before");
    let end = second.saturating_add(Duration::from_micros(1));
    assert_eq!(all(&env, List { until: Some(end), ..since }).await, [ids[1]]);
}

pub async fn adm_1_filter_by_the_text_of_the_last_error<H: Harness>(env: Case<H>) {
    let timeout = failed(&env, plain(), "read: Timeout after 5s").await;
    let percent = dead(&env, plain(), "disk 100% full").await;
    let unicode = dead(&env, plain(), "größer als erlaubt").await;
    let (done, lease) = held(&env, plain()).await;
    let _ = env.queue.abandon_for(env.me, &[lease], SOON, "Timeout once").await.expect("abandon");
    env.advance(SOON);
    let again = env.claim_one().await;
    let _ = env.queue.ack(env.me, &[again.lease]).await.expect("ack");
    assert_eq!(again.message.id(), done);
    publish(&env, plain()).await;
    let of = async |part: &str| all(&env, List { error: some(part), ..List::default() }).await;
    assert_eq!(of("Timeout").await, [timeout], "not what was done in the end");
    assert_eq!(of("timeout").await, [], "case matters");
    assert_eq!(of("100% f").await, [percent], "it is no pattern");
    assert_eq!(of("1%f").await, []);
    assert_eq!(of("größer").await, [unicode]);
    assert_eq!(of("").await, [unicode, percent, timeout], "those with an error");
}

pub async fn adm_1_only_the_last_error_counts<H: Harness>(env: Case<H>) {
    let (id, lease) = held(&env, plain()).await;
    for (lease, error) in [(Some(lease), "first"), (None, "second")] {
        let lease = match lease {
            Some(lease) => lease,
            None => env.claim_one().await.lease,
        };
        let abandoned = env.queue.abandon_for(env.me, &[lease], SOON, error).await;
        assert_eq!(abandoned.expect("abandon").applied, 1);
        env.advance(SOON);
    }
    let of = async |part: &str| all(&env, List { error: some(part), ..List::default() }).await;
    assert_eq!((of("first").await, of("second").await), (vec![], vec![id]));
}

pub async fn adm_1_filter_by_attempts_and_reason<H: Harness>(env: Case<H>) {
    let one = failed(&env, plain(), "x").await;
    let permanent = dead(&env, plain(), "x").await;
    let discarded = publish(&env, plain()).await;
    let changed = env.store().discard(&[discarded]).await.expect("discard");
    assert_eq!(changed.applied, [discarded]);
    let fresh = publish(&env, plain()).await;
    let least = async |n| all(&env, List { min_attempts: Some(n), ..List::default() }).await;
    assert_eq!(least(0).await, [fresh, discarded, permanent, one]);
    assert_eq!(least(1).await, [permanent, one]);
    assert_eq!(least(2).await, []);
    let of = async |reason| all(&env, List { reason: Some(reason), ..List::default() }).await;
    assert_eq!(of(DeadReason::Permanent).await, [permanent]);
    assert_eq!(of(DeadReason::Discarded).await, [discarded]);
    assert_eq!(of(DeadReason::Expired).await, []);
}

pub async fn adm_1_filters_work_together<H: Harness>(env: Case<H>) {
    let mail = || Message::builder("mail.sent").tenant_id("acme").aggregate("user", "7");
    dead(&env, mail(), "timeout").await;
    env.advance(Duration::from_secs(60));
    let mut wanted = Vec::new();
    for _ in 0..3 {
        wanted.push(dead(&env, mail(), "gateway timeout").await);
        dead(&env, mail(), "refused").await;
        dead(&env, mail().tenant_id("other"), "timeout").await;
        dead(&env, Message::builder("order.paid").tenant_id("acme"), "timeout").await;
        failed(&env, mail(), "timeout").await;
    }
    wanted.reverse();
    let list = List {
        status: Some(Status::Dead),
        topic_prefix: some("mail."),
        tenant: some("acme"),
        aggregate_type: some("user"),
        error: some("timeout"),
        since: Some(env.record(wanted[2]).await.created_at),
        min_attempts: Some(1),
        reason: Some(DeadReason::Permanent),
        limit: 2,
        ..List::default()
    };
    assert_eq!(all(&env, list.clone()).await, wanted);
    let page = page(&env, &list).await;
    let next = Some(wanted[1].into());
    assert_eq!((page.records.len(), page.next), (2, next), "a full page, then the rest");
}

/// What is not settled yet comes by its place in the queue, not by its id: ids are the producers'.
pub async fn adm_1_live_messages_are_in_the_order_of_the_queue<H: Harness>(env: Case<H>) {
    let id = |n: u8| MessageId::from(uuid::Uuid::from_bytes([n; 16]));
    for n in [7, 3, 9, 1, 5] {
        let message = plain().id(id(n));
        let message = match n {
            3 => message.due_after(LATER),
            1 => message.ordering_key("k"),
            _ => message,
        };
        publish(&env, message).await;
    }
    let pending = List { status: Some(Status::Pending), limit: 1, ..List::default() };
    let expected = [5, 1, 9, 3, 7].map(id);
    assert_eq!(all(&env, pending.clone()).await, expected);
    let plain = all(&env, List { limit: 2, ..List::default() }).await;
    assert_eq!(plain, [9, 7, 5, 3, 1].map(id), "everything is in the order of ids");
    // A message alone is a place, too.
    let list = List { before: Some(id(9).into()), limit: 50, ..pending.clone() };
    assert_eq!(all(&env, list.clone()).await, expected[3..]);
    let record = env.record(id(9)).await;
    assert_eq!(list.place_of(&record).work, Some(record.work));
    // Of one that is gone, or never was, the next older one counts.
    let list = List { before: Some(id(8).into()), ..list };
    assert_eq!(all(&env, list.clone()).await, [id(7)]);
    let list = List { before: Some(id(0).into()), ..list };
    assert_eq!(all(&env, list).await, []);
}

/// A page goes on where it ended, though the message it ended with was settled and deleted, and ids
/// say nothing of places.
pub async fn adm_1_a_page_goes_on_behind_what_is_gone<H: Harness>(env: Case<H>) {
    let id = |n: u8| MessageId::from(uuid::Uuid::from_bytes([n; 16]));
    for n in [9, 6, 5, 7] {
        publish(&env, plain().id(id(n))).await;
    }
    let mut list = List { status: Some(Status::Pending), limit: 2, ..List::default() };
    let first = page(&env, &list).await;
    assert_eq!(first.records.iter().map(|record| record.id).collect::<Vec<_>>(), [7, 5].map(id));
    let _ = env.store().discard(&[id(5)]).await.expect("discard");
    let purge = Purge { done: Some(Duration::ZERO), ..Purge::default() };
    assert_eq!(env.queue.purge(&purge).await.expect("purge").messages, 1);
    list.before = first.next;
    assert_eq!(all(&env, list).await, [6, 9].map(id));
}

/// Each status is found among more live messages than one call looks at.
pub async fn adm_1_live_messages_of_every_status_among_many<H: Harness>(env: Case<H>) {
    let failed = failed(&env, plain(), "x").await;
    let keyed = {
        let (id, lease) = held(&env, plain().ordering_key("k")).await;
        let _ = env.queue.abandon_for(env.me, &[lease], LATER, "y").await.expect("abandon");
        id
    };
    let (leased, _) = held(&env, plain()).await;
    let messages = (0..600).map(|_| plain());
    let ready = env.outbox.publish_all(messages).await.expect("publish");
    let of = async |status, limit| {
        all(&env, List { status: Some(status), limit, ..List::default() }).await
    };
    assert_eq!(of(Status::Leased, 50).await, [leased]);
    assert_eq!(of(Status::Failed, 50).await, [keyed, failed]);
    let mut pending: Vec<_> = ready.iter().rev().map(|published| published.id).collect();
    pending.extend([keyed, failed]);
    assert_eq!(of(Status::Pending, 499).await, pending);
    let list = List { status: Some(Status::Failed), error: some("y"), ..List::default() };
    assert_eq!(all(&env, list).await, [keyed]);
}

/// Every status, found among live rows, dead ones and all, is found with a filter, too.
pub async fn adm_1_filters_work_with_every_status<H: Harness>(env: Case<H>) {
    let needle = || Message::builder("needle");
    let failed = failed(&env, needle(), "x").await;
    let dead = dead(&env, needle(), "x").await;
    let (done, lease) = held(&env, needle()).await;
    let _ = env.queue.ack(env.me, &[lease]).await.expect("ack");
    let (leased, _) = held(&env, needle()).await;
    let keyed = publish(&env, needle().ordering_key("k")).await;
    let waits = publish(&env, needle().due_after(LATER)).await;
    env.publish_many(3).await;
    let of = async |status| {
        let list =
            List { status: Some(status), topic: some("needle"), limit: 1, ..List::default() };
        all(&env, list).await
    };
    assert_eq!(of(Status::Pending).await, [waits, keyed, failed]);
    assert_eq!(of(Status::Failed).await, [failed]);
    assert_eq!(of(Status::Leased).await, [leased]);
    assert_eq!(of(Status::Done).await, [done]);
    assert_eq!(of(Status::Dead).await, [dead]);
}

/// More messages than one call looks at: the first finds some, or none, and says where to go on.
pub async fn adm_1_a_search_goes_on_where_it_stopped<H: Harness>(env: Case<H>) {
    // So many that no page of one of them is full: the search ends where the call does.
    const TOPICS: usize = 24;
    let old = publish(&env, Message::builder("needle")).await;
    let mut expected: Vec<Vec<MessageId>> = vec![Vec::new(); TOPICS];
    for _ in 0..2 {
        let messages = (0..6_000).map(|n| Message::builder(format!("t{}", n % TOPICS)));
        let published = env.outbox.publish_all(messages).await.expect("publish");
        for (n, published) in published.iter().enumerate() {
            expected[n % TOPICS].insert(0, published.id);
        }
    }
    let new = publish(&env, Message::builder("needle")).await;
    for status in [None, Some(Status::Pending)] {
        let of = |topic: &str| List { topic: some(topic), status, limit: 500, ..List::default() };
        assert_eq!(all(&env, of("needle")).await, [new, old], "{status:?}");
        assert_eq!(all(&env, of("nowhere")).await, [], "{status:?}");
        for (n, expected) in expected.iter().enumerate() {
            assert_eq!(all(&env, of(&format!("t{n}"))).await, *expected, "{status:?}");
        }
    }
}
