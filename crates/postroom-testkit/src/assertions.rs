//! Assertions for tests of your own: what was published, and what became of it.

use postroom_core::Message;
use postroom_core::store::{AdminStore, List, Record};

/// All messages of a topic that are in the store, with their payloads, newest first.
///
/// # Panics
/// When the store does not answer.
pub async fn messages_on<S: AdminStore>(store: &S, topic: &str) -> Vec<Record> {
    let mut all: Vec<Record> = Vec::new();
    let mut before = None;
    loop {
        let list = List { topic: Some(topic.to_owned()), before, limit: 500, ..List::default() };
        let page = store.list(&list).await.expect("the store lists messages");
        for record in page.records {
            let detail = store.get(record.id).await.expect("the store finds a message");
            all.extend(detail.map(|detail| detail.record));
        }
        before = page.next;
        if before.is_none() {
            return all;
        }
    }
}

/// Asserts that exactly one message of the topic satisfies the predicate, and returns it.
///
/// ```
/// use postroom_core::{Message, Outbox};
/// use postroom_testkit::{SimStore, assertions::assert_published_once};
/// use std::sync::Arc;
///
/// # tokio::runtime::Builder::new_current_thread().build().expect("runtime").block_on(async {
/// let outbox = Outbox::new(Arc::new(SimStore::default()));
/// outbox.publish(Message::builder("order.placed").payload(r#"{"order":7}"#)).await?;
/// assert_published_once(&**outbox.store(), "order.placed", |message| {
///     message.payload().as_ref() == br#"{"order":7}"#
/// })
/// .await;
/// # Ok::<(), postroom_core::Error>(())
/// # }).expect("runs");
/// ```
///
/// # Panics
/// When there is none, or more than one.
pub async fn assert_published_once<S: AdminStore>(
    store: &S,
    topic: &str,
    predicate: impl Fn(&Message) -> bool,
) -> Record {
    let all = messages_on(store, topic).await;
    let total = all.len();
    let mut hits: Vec<_> =
        all.into_iter().filter(|record| record.message.as_ref().is_some_and(&predicate)).collect();
    assert_eq!(
        hits.len(),
        1,
        "expected exactly one matching message on {topic:?}, found {} of {total}",
        hits.len()
    );
    hits.remove(0)
}

/// Asserts that nothing was published on the topic.
///
/// # Panics
/// When something was.
pub async fn assert_nothing_published<S: AdminStore>(store: &S, topic: &str) {
    let found = messages_on(store, topic).await.len();
    assert_eq!(found, 0, "expected no message on {topic:?}, found {found}");
}
