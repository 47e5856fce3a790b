//! The child's side of an inbox: a service whose handler has an effect and publishes what follows.

use std::sync::Arc;
use std::time::Duration;

use postroom_core::{
    Backoff, Delivery, DispatcherConfig, HandlerError, Inbox, InboxHandlerResult, InboxTransaction,
    Message, Outbox, Retry,
};
use tokio::signal::unix::{SignalKind, signal};

use super::fate::{Trap, Trapped};
use super::ledger::Ledger;
use super::worker::{GRACE, Orders, end_with_the_parent};
use crate::around::Wrapped;
use crate::harness::Harness;

/// For whom the service receives.
pub(super) const CONSUMER: &str = "billing";
/// What it receives: a number.
pub(super) const ORDER: &str = "order.placed";
/// What it publishes for each: the same number.
pub(super) const INVOICE: &str = "invoice.created";

type Service<H> = Wrapped<<H as Harness>::Store, Trapped>;

/// Carries the orders out until SIGTERM, then shuts down gracefully: handles what the inbox of this
/// store holds, until the [fate](super::Fate) in the orders comes over it. Ends at once when the
/// process that gave the orders is gone.
///
/// # Panics
/// When the shutdown had to cut something.
pub async fn take_effect<H: Harness>(service: H, orders: Orders) {
    std::thread::spawn(end_with_the_parent);
    let mut terminate = signal(SignalKind::terminate()).expect("signals can be heard");
    let ledger = Arc::new(Ledger::open(&orders.folder, &orders.name));
    let trap = Arc::new(Trap::new(Arc::clone(&ledger), orders.folder, orders.fate));
    let store = Wrapped::new(service.store(), Trapped(Arc::clone(&trap)));
    let outbox = Outbox::<Service<H>>::new(Arc::new(store));
    let inbox = Inbox::new(&outbox, CONSUMER).expect("a good name");
    let service = Arc::new(service);
    let handlers = inbox.handlers().topic(ORDER, move |delivery, tx| {
        invoice(Arc::clone(&service), Arc::clone(&trap), delivery, tx)
    });
    let config = DispatcherConfig {
        workers: orders.workers,
        lease: orders.lease,
        handler_timeout: orders.lease * 9 / 10,
        // Few, so that others get some, and a kill leaves little for which to wait.
        cold_queue: orders.workers,
        poll_interval: Duration::from_millis(20),
        retry: Retry {
            backoff: Backoff::Fixed(Duration::from_millis(5)),
            // Nobody is to die of having been near many kills.
            max_attempts: 10_000,
        },
        ..DispatcherConfig::default()
    };
    let running = inbox.dispatcher(handlers).config(config).start().expect("legal settings");
    ledger.note("up", running.owner());
    terminate.recv().await;
    assert!(running.shutdown(GRACE).await, "nothing had to be cut");
}

/// The effect is a row with the number of the order, the consequence a message with it. One order
/// in five fails at first, when both are there.
async fn invoice<H: Harness>(
    service: Arc<H>,
    trap: Arc<Trap>,
    delivery: Delivery,
    mut tx: InboxTransaction<Service<H>>,
) -> InboxHandlerResult<Service<H>> {
    let order: i64 = delivery.message().json()?;
    service.write_business_row(tx.conn(), order).await;
    trap.pass("effect");
    tx.publish(Message::builder(INVOICE).json(&order))?;
    trap.pass("staged");
    if order % 5 == 0 && delivery.attempt() == 1 {
        return Err(HandlerError::retry("not yet"));
    }
    Ok(tx)
}
