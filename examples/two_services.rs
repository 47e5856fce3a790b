//! Two services, two databases, no broker: every order gets exactly one invoice, although every
//! message arrives twice and a handler fails in the middle of its work.
//!
//! ```text
//! shop.db                                   billing.db
//! orders + outbox  -- order.placed, 2x -->  inbox -> invoices + outbox  -- invoice.created -->
//! ```
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use std::{env, fs, process};

use postroom::lifecycle::Outcome;
use postroom::store::{AdminStore, BoxFuture, Store};
use postroom::{
    Delivery, Dispatcher, Event, HandlerError, Inbox, InboxHandlerResult, InboxTransaction, Outbox,
    Sink, SqliteStore, StoreConfig,
};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Event)]
#[event(topic = "order.placed")]
struct OrderPlaced {
    order_id: i64,
    total_cents: i64,
}

#[derive(Serialize, Event)]
#[event(topic = "invoice.created")]
struct InvoiceCreated {
    order_id: i64,
}

/// A service's own database: its tables and Postroom's, side by side.
async fn open(file: &Path, table: &'static str) -> Result<Outbox<SqliteStore>, Box<dyn Error>> {
    let store = SqliteStore::open(&file.display().to_string(), StoreConfig::default()).await?;
    store.migrate().await?;
    sqlx::query(table).execute(store.writer()).await?;
    Ok(Outbox::new(Arc::new(store)))
}

/// The shop: the order and its event commit together, or neither does.
async fn place_order(shop: &Outbox<SqliteStore>, order: OrderPlaced) -> Result<(), Box<dyn Error>> {
    let mut tx = shop.begin().await?;
    let insert = sqlx::query("insert into orders values (?1, ?2)");
    insert.bind(order.order_id).bind(order.total_cents).execute(tx.conn()).await?;
    tx.publish(&order)?;
    tx.commit().await?;
    Ok(())
}

/// Billing: the invoice, its event and the mark "this message is done" commit together.
async fn charge(
    order: OrderPlaced,
    delivery: Delivery,
    mut tx: InboxTransaction<SqliteStore>,
) -> InboxHandlerResult<SqliteStore> {
    let insert = sqlx::query("insert into invoices values (?1, ?2)");
    insert.bind(order.order_id).bind(order.total_cents).execute(tx.conn()).await?;
    // Something goes wrong when the invoice is already written: it is rolled back and tried again.
    if order.order_id % 2 == 0 && delivery.attempt() == 1 {
        return Err(HandlerError::retry("the printer is out of paper"));
    }
    tx.publish(&InvoiceCreated { order_id: order.order_id })?;
    Ok(tx)
}

/// A bad network: whatever it carries arrives twice.
struct Twice<S> {
    sink: S,
    deliveries: Arc<AtomicU64>,
}

impl<S: Sink> Sink for Twice<S> {
    fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> BoxFuture<'a, Vec<Outcome>> {
        Box::pin(async move {
            self.deliveries.fetch_add(2 * batch.len() as u64, Ordering::Relaxed);
            self.sink.deliver(batch).await;
            self.sink.deliver(batch).await
        })
    }
}

/// Runs both services until every order has been billed, and says what happened.
pub(crate) async fn run(folder: &Path) -> Result<Vec<(&'static str, u64)>, Box<dyn Error>> {
    const ORDERS: u64 = 10;
    // No unique constraint: a second invoice for an order would be there for all to see.
    let invoices = "create table invoices (order_id integer, total_cents integer)";
    let orders = "create table orders (id integer primary key, total_cents integer)";
    let shop = open(&folder.join("shop.db"), orders).await?;
    let billing = Inbox::new(&open(&folder.join("billing.db"), invoices).await?, "billing")?;

    // The shop's messages go right into the inbox of billing, which knows those that it has.
    let deliveries = Arc::default();
    let network = Twice { sink: billing.sink("shop")?, deliveries: Arc::clone(&deliveries) };
    let outbox = Arc::clone(shop.store());
    let sending = Dispatcher::new(outbox, network).start()?;
    let charging = billing.dispatcher(billing.handlers().on(charge)).start()?;
    for order_id in 1..=ORDERS as i64 {
        place_order(&shop, OrderPlaced { order_id, total_cents: 100 * order_id }).await?;
    }
    while shop.store().stats().await?.done + billing.store().stats().await?.done < 2 * ORDERS {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    sending.shutdown(Duration::from_secs(5)).await;
    charging.shutdown(Duration::from_secs(5)).await;

    let count = "select count(*), count(distinct order_id) from invoices";
    let database = billing.outbox().store();
    let (invoices, billed): (i64, i64) = sqlx::query_as(count).fetch_one(database.writer()).await?;
    let counts = billing.store().local().snapshot().counts;
    Ok(vec![
        ("orders placed", ORDERS),
        ("messages delivered", deliveries.load(Ordering::Relaxed)),
        ("  of them duplicates", counts.duplicates),
        ("handlers that failed", counts.failed),
        ("invoices written", invoices as u64),
        ("  for different orders", billed as u64),
        ("invoice.created to send", database.stats().await?.ready),
    ])
}

pub(crate) fn table(figures: &[(&str, u64)]) -> String {
    figures.iter().map(|(what, count)| format!("{what:<24} {count:>4}\n")).collect()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let scratch = || env::temp_dir().join(format!("two_services_{}", process::id()));
    let folder = env::args().nth(1).map_or_else(scratch, PathBuf::from);
    fs::create_dir_all(&folder)?;
    print!("{}", table(&run(&folder).await?));
    println!("the databases are in {}", folder.display());
    Ok(())
}
