//! An order service: the order and its event commit together, then a worker delivers the event.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use postroom::store::AdminStore;
use postroom::{Event, Outbox, OwnerToken, SqliteStore, StoreConfig, WorkQueue};
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize, Event)]
#[event(topic = "order.placed")]
struct OrderPlaced {
    order_id: i64,
    total_cents: i64,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // Your database: Postroom's tables live beside your own.
    let store = Arc::new(SqliteStore::in_memory(StoreConfig::default()).await?);
    store.migrate().await?;
    let outbox = Outbox::<SqliteStore>::new(Arc::clone(&store));
    let mut tx = outbox.begin().await?;
    sqlx::query("create table orders (id integer primary key, total_cents integer)")
        .execute(tx.conn())
        .await?;
    tx.commit().await?;

    // The order and its event: both or none.
    let mut tx = outbox.begin().await?;
    sqlx::query("insert into orders values (7, 1250)").execute(tx.conn()).await?;
    tx.publish(&OrderPlaced { order_id: 7, total_cents: 1250 })?;
    tx.commit().await?;

    // A worker, here or in another process: claim, do the work, acknowledge.
    let queue = WorkQueue::new(store);
    let worker = OwnerToken::random();
    let claimed = queue.claim(worker, Duration::from_secs(30), 10).await?;
    assert_eq!(claimed.items.len(), 1);
    for item in claimed.items {
        let event: OrderPlaced = item.message.json()?;
        println!("delivering {}: {event:?}", item.message.topic());
        let settled = queue.ack(worker, &[item.lease]).await?;
        assert_eq!(settled.applied, 1);
    }
    Ok(())
}
