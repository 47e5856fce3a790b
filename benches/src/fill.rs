//! Filling a queue, and draining it through Postroom.

use std::sync::Arc;
use std::time::{Duration, Instant};

use postroom_core::store::{Store, TransactionalStore};
use postroom_core::{Lease, Message, Outbox, OwnerToken, WorkQueue};

use crate::plan::Plan;

/// Payload bytes in one transaction at most.
const MANY_BYTES: usize = 64 << 20;

/// Publishes a backlog in bulk.
pub(crate) async fn fill<S: TransactionalStore>(store: Arc<S>, plan: Plan) -> anyhow::Result<()> {
    let outbox = Outbox::new(store);
    let payload = bytes_of(plan.payload);
    let mut left = plan.messages;
    while left > 0 {
        let chunk = left.min(10_000).min(MANY_BYTES / plan.payload).max(1);
        let messages =
            (0..chunk).map(|_| Message::builder("order.placed").payload(payload.clone()));
        outbox.publish_all(messages).await?;
        left -= chunk;
    }
    Ok(())
}

/// Claims and acknowledges until nothing is left.
pub(crate) async fn drain(store: Arc<dyn Store>, plan: Plan) -> anyhow::Result<Duration> {
    let queue = WorkQueue::new(store);
    let owner = OwnerToken::random();
    let began = Instant::now();
    let mut drained = 0;
    loop {
        let items = queue.claim(owner, Duration::from_secs(30), plan.batch).await?.items;
        if items.is_empty() {
            break;
        }
        let leases: Vec<Lease> = items.iter().map(|item| item.lease).collect();
        drained += queue.ack(owner, &leases).await?.applied;
    }
    let took = began.elapsed();
    anyhow::ensure!(drained == plan.messages, "drained {drained} of {}", plan.messages);
    Ok(took)
}

pub(crate) fn bytes_of(length: usize) -> Vec<u8> {
    b"0123456789abcdef".iter().copied().cycle().take(length).collect()
}
