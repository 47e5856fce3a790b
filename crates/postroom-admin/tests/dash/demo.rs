//! A shop in the middle of a day: deliveries, failures, dead letters, a pause and a key that waits.

use std::sync::Arc;
use std::time::Duration;

use postroom::store::{AdminStore as _, Pause, Store};
use postroom::{
    Backoff, Delivery, Dispatcher, DispatcherConfig, HandlerError, HandlerResult, Handlers, Inbox,
    Join, Message, MessageBuilder, Retry, Running, SqliteStore, StoreConfig, Topic,
};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::Shop;

/// A shop that is at work until it is dropped.
pub(crate) struct Demo {
    pub(crate) shop: Shop,
    _dispatchers: Vec<Running>,
    customers: JoinHandle<()>,
}

impl Drop for Demo {
    fn drop(&mut self) {
        self.customers.abort();
    }
}

impl Demo {
    pub(crate) async fn open() -> Self {
        let shop = Shop::with(StoreConfig { halt: true, ..StoreConfig::default() }).await;
        history(&shop).await;
        present(&shop).await;
        let inbox = inbox(&shop).await;
        let dispatchers = vec![
            dispatcher(&shop, "web-1/4711", patient()),
            dispatcher(&shop, "relay-2/93", patient()),
            inbox,
        ];
        let customers = tokio::spawn(customers(shop.outbox.clone()));
        Self { shop, _dispatchers: dispatchers, customers }
    }
}

fn patient() -> Retry {
    Retry { backoff: Backoff::Fixed(Duration::from_secs(900)), max_attempts: 10 }
}

fn hasty() -> Retry {
    Retry { backoff: Backoff::Fixed(Duration::from_millis(5)), max_attempts: 3 }
}

fn dispatcher(shop: &Shop, name: &str, retry: Retry) -> Running {
    let store: Arc<dyn Store> = Arc::new(shop.store.clone());
    let config = DispatcherConfig { name: Some(name.into()), retry, ..DispatcherConfig::default() };
    let handlers = Handlers::new().all(handle);
    Dispatcher::new(store, handlers).config(config).start().expect("start")
}

/// Each topic has its own luck.
async fn handle(delivery: Delivery) -> HandlerResult {
    let message = delivery.message();
    let number = message.aggregate_id().map(ToString::to_string).unwrap_or_default();
    match message.topic().as_str() {
        "payment.captured" => Err(HandlerError::retry(format!(
            "POST https://psp.example/captures: 503 Service Unavailable (request req-{number})"
        ))),
        "invoice.issued" => {
            Err(HandlerError::dead(format!("invoice {number}: VAT id is not valid")))
        }
        "receipt.mailed" => {
            Err(HandlerError::dead("smtp: 550 5.1.1 mailbox unavailable".to_owned()))
        }
        "stock.reserved" => Err(HandlerError::retry(
            "warehouse: connection refused (10.2.0.17:5432), tried 3 times",
        )),
        "order.updated" if message.headers().get("poison").is_some() => {
            Err(HandlerError::retry("version conflict: expected 7, found 9"))
        }
        "order.cancelled" if message.headers().get("poison").is_some() => {
            Err(HandlerError::dead("order 2099 was shipped already"))
        }
        _ => {
            sleep(Duration::from_millis(15 + 7 * u64::from(delivery.attempt()))).await;
            Ok(())
        }
    }
}

fn order(topic: &str, number: u32) -> MessageBuilder {
    Message::builder(topic)
        .aggregate("order", number.to_string())
        .tenant_id(["acme", "globex", "initech"][number as usize % 3])
        .correlation_id(format!("checkout-{number}"))
        .header("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
        .header("x-channel", ["web", "app"][number as usize % 2])
        .json(&json!({
            "order": number,
            "customer": {"id": 7_000 + number, "country": "DE"},
            "lines": [{"sku": "PR-2210", "quantity": 2, "price": "19.90"}],
            "total": 39.80,
        }))
}

/// What was delivered, and what died.
async fn history(shop: &Shop) {
    let topics = ["order.placed", "order.paid", "order.shipped", "cart.emptied"];
    let done = (0..800).map(|n| order(topics[n as usize % 4], n));
    let paid = (100..114).map(|n| order("payment.captured", n));
    let invoices = (300..306).map(|n| order("invoice.issued", n));
    let mails = (400..403).map(|n| order("receipt.mailed", n));
    shop.outbox.publish_all(done.chain(paid).chain(invoices).chain(mails)).await.expect("publish");
    joins(shop).await;
    let running = dispatcher(shop, "deploy-0/1", hasty());
    until_quiet(&shop.store).await;
    assert!(running.shutdown(Duration::from_secs(5)).await);
}

async fn joins(shop: &Shop) {
    for (expected, attached, dead) in [(3, 3, false), (4, 4, true), (8, 5, false)] {
        let mut tx = shop.outbox.begin().await.expect("begin");
        let follow_up = Message::builder("parcel.complete");
        let join = Join::expecting(expected).on_success(follow_up);
        let join = tx.start_join(join).expect("start");
        for number in 0..attached {
            let topic = if dead && number == 0 { "invoice.issued" } else { "parcel.packed" };
            let message = order(topic, 900 + number).build().expect("a message");
            tx.attach(join, message.id());
            tx.publish(message).expect("publish");
        }
        tx.commit().await.expect("commit");
    }
}

async fn until_quiet(store: &SqliteStore) {
    let quiet = async {
        loop {
            let stats = store.stats().await.expect("stats");
            if stats.ready + stats.waiting + stats.leased == 0 {
                return;
            }
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(Duration::from_secs(60), quiet).await.expect("everything is settled");
}

/// What waits.
async fn present(shop: &Shop) {
    let pause = Pause {
        topic: Some(Topic::new("newsletter.queued").expect("a topic")),
        by: Some("mara".into()),
        reason: Some("provider maintenance until 18:00".into()),
    };
    shop.store.pause(&pause).await.expect("pause");
    let letters = (0..240).map(|n| order("newsletter.queued", n));
    let stock = (500..509).map(|n| order("stock.reserved", n));
    shop.outbox.publish_all(letters.chain(stock)).await.expect("publish");
    for (topic, key) in [("order.updated", "order-1042"), ("order.cancelled", "order-2099")] {
        let first = order(topic, 1_042).ordering_key(key).header("poison", "yes");
        shop.outbox.publish(first).await.expect("publish");
        let behind = (0..5).map(|_| order("order.updated", 1_042).ordering_key(key));
        shop.outbox.publish_all(behind).await.expect("publish");
    }
}

async fn inbox(shop: &Shop) -> Running {
    let inbox = Inbox::new(&shop.outbox, "billing").expect("an inbox");
    let handlers = inbox.handlers().all(|delivery: Delivery, tx| async move {
        match delivery.message().topic().as_str() {
            "supplier.price_changed" => Err(HandlerError::dead("currency XXX is not known")),
            _ => Ok(tx),
        }
    });
    for number in 0..40u32 {
        let topic =
            if number % 10 == 3 { "supplier.price_changed" } else { "supplier.stock_changed" };
        let id = format!("evt-{number:04}");
        let received = inbox.receive("supplier-api", id, order(topic, number)).await;
        let _ = received.expect("receive");
    }
    inbox.dispatcher(handlers).start().expect("start")
}

/// More in some seconds than in others.
async fn customers(outbox: postroom::Outbox<SqliteStore>) {
    let topics = ["order.placed", "order.paid", "order.shipped", "cart.emptied"];
    for second in 0u32.. {
        let wave = 30.0 + 22.0 * (f64::from(second) / 9.0).sin() + 6.0 * f64::from(second % 5);
        let orders = (0..wave as u32).map(|n| order(topics[n as usize % 4], 10_000 + second + n));
        if outbox.publish_all(orders).await.is_err() {
            return;
        }
        if second % 12 == 5 {
            let _ = outbox.publish(order("stock.reserved", 520 + second)).await;
        }
        sleep(Duration::from_millis(900)).await;
    }
}
