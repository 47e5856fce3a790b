//! A store in which every text that a page could show is an attack.

use std::sync::Arc;
use std::time::Duration;

use postroom::store::{AdminStore as _, AuditEntry, Heartbeat, Pause, Store as _};
use postroom::{
    Backoff, Delivery, Dispatcher, DispatcherConfig, HandlerError, Handlers, Inbox, Message,
    MessageBuilder, MessageId, OwnerToken, Retry, StoreConfig, Topic,
};

use super::Shop;
use super::vectors::VECTORS;

/// How many messages there are of each state, one for each vector.
pub(crate) struct Hostile {
    pub(crate) shop: Shop,
    /// One for each vector, with everything in it.
    pub(crate) dead: Vec<MessageId>,
}

impl Hostile {
    pub(crate) async fn open() -> Self {
        let shop = Shop::with(StoreConfig { halt: true, ..StoreConfig::default() }).await;
        let mut dead = Vec::new();
        for vector in VECTORS {
            let message = message(vector).ordering_key(vector).build().expect("a message");
            dead.push(message.id());
            shop.outbox.publish(message).await.expect("publish");
        }
        deliver(&shop, hasty(), dead.len() as u64, 0).await;
        for vector in VECTORS {
            shop.outbox.publish(message(vector)).await.expect("publish");
        }
        deliver(&shop, patient(), dead.len() as u64, VECTORS.len() as u64).await;
        for vector in VECTORS {
            people(&shop, vector).await;
        }
        inbox(&shop).await;
        Self { shop, dead }
    }
}

/// Everything in it that a sender chooses.
fn message(vector: &str) -> MessageBuilder {
    let name: String = vector.chars().filter(char::is_ascii_graphic).collect();
    Message::builder(vector)
        .aggregate(cut(vector, 64), vector)
        .tenant_id(cut(vector, 64))
        .correlation_id(vector)
        .causation_id(vector)
        .content_type(vector)
        .header(name, vector)
        .payload(vector.as_bytes().to_vec())
}

fn cut(text: &str, chars: usize) -> String {
    text.chars().take(chars).collect()
}

fn hasty() -> Retry {
    Retry { backoff: Backoff::Fixed(Duration::from_millis(1)), max_attempts: 1 }
}

fn patient() -> Retry {
    Retry { backoff: Backoff::Fixed(Duration::from_secs(3_600)), max_attempts: 9 }
}

/// Every delivery fails, saying the topic. The dispatcher's name is an attack as well.
async fn deliver(shop: &Shop, retry: Retry, dead: u64, failed: u64) {
    let handlers = Handlers::new().all(|delivery: Delivery| async move {
        Err(HandlerError::retry(delivery.message().topic().as_str()))
    });
    let config = DispatcherConfig {
        name: Some(VECTORS[0].to_owned()),
        retry,
        ..DispatcherConfig::default()
    };
    let running = Dispatcher::new(Arc::new(shop.store.clone()), handlers).config(config);
    let running = running.start().expect("start");
    let reached = async {
        loop {
            let stats = shop.store.stats().await.expect("stats");
            if stats.dead >= dead && stats.failed >= failed {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), reached).await.expect("all of them fail");
    assert!(running.shutdown(Duration::from_secs(5)).await);
}

/// What people and dispatchers leave behind.
async fn people(shop: &Shop, vector: &str) {
    let text = vector.to_owned();
    let topic = Some(Topic::new(vector).expect("a topic"));
    let pause = Pause { topic, by: Some(text.clone()), reason: Some(text.clone()) };
    shop.store.pause(&pause).await.expect("pause");
    let entry = AuditEntry {
        actor: text.clone(),
        action: text.clone(),
        target: text.clone(),
        outcome: text.clone(),
        changed: 1,
    };
    shop.store.write_audit(&entry).await.expect("audit");
    let heartbeat = Heartbeat {
        owner: OwnerToken::random(),
        name: text.clone(),
        version: text,
        running_for: Duration::from_secs(5),
        draining: false,
        valid_for: Duration::from_secs(3_600),
    };
    shop.store.report(&heartbeat).await.expect("report");
}

async fn inbox(shop: &Shop) {
    for vector in VECTORS {
        let inbox = Inbox::new(&shop.outbox, vector).expect("an inbox");
        let received = inbox.receive(vector, vector, message(vector)).await;
        let _ = received.expect("receive");
    }
}
