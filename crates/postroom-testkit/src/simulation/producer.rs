//! Applications that publish: in transactions, some of which do not come to a good end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use postroom_core::{Message, MessageBuilder, MessageId, Outbox, Result};
use tokio::time::sleep;
use uuid::Uuid;

use super::ledger::{Ledger, Tracked};
use super::node::NodeStore;
use super::plan::{Plan, acts};
use super::random::Random;

pub(super) struct Producer {
    pub(super) outbox: Outbox<NodeStore>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) plan: Plan,
    pub(super) random: Random,
    /// The last number that a message has got, of all producers.
    pub(super) last: Arc<AtomicU64>,
}

impl Producer {
    pub(super) async fn run(mut self) {
        let longest = self.random.pick(&[50, 300, 600]);
        for _ in 0..self.random.within(3..=24) {
            sleep(self.random.millis(0..=longest)).await;
            // A transaction that failed is given up: what counts is what was committed.
            let _ = self.transaction().await;
        }
    }

    async fn transaction(&mut self) -> Result<()> {
        let mut tx = self.outbox.begin().await?;
        for _ in 0..self.random.within(0..=3) {
            let message = self.message();
            tx.publish(message)?;
        }
        if self.random.percent(10) {
            tx.flush().await?;
        }
        if self.random.percent(25) {
            let mut savepoint = tx.savepoint().await?;
            savepoint.publish(self.message())?;
            if self.random.percent(30) {
                savepoint.flush().await?;
            }
            match self.random.percent(50) {
                true => savepoint.release().await?,
                false => savepoint.rollback().await?,
            }
        }
        match self.random.within(0..=9) {
            0 => tx.rollback().await,
            1 => {
                drop(tx);
                Ok(())
            }
            _ => tx.commit().await.map(drop),
        }
    }

    fn message(&mut self) -> MessageBuilder {
        let number = u128::from(self.last.fetch_add(1, Ordering::Relaxed) + 1);
        let random = &mut self.random;
        let payload = Bytes::from(format!("{number}:{}", random.next()));
        let id = MessageId::from(Uuid::from_u128(number));
        let mut message = Message::builder("t").id(id).payload(payload.clone());
        let mut tracked = Tracked::new(payload);
        tracked.acts = acts(&self.plan, random);
        if random.percent(50) {
            let key = format!("key {}", random.within(1..=self.plan.keys));
            message = message.ordering_key(key.as_str());
            tracked.key = Some(key);
        }
        if random.percent(10) {
            message = message.due_after(random.millis(1..=5_000));
            tracked.waits = true;
        }
        if random.percent(8) {
            message = message.expires_after(random.millis(1..=4_000));
        }
        if random.percent(15) {
            let key = u128::from(random.within(1..=4));
            message = message.idempotency_key(Uuid::from_u128(key));
            tracked.idempotency = Some(key);
        }
        message = message.priority(random.pick(&[0, 0, 0, 5]));
        self.ledger.expect(number, tracked);
        message
    }
}

/// The longest that a producer may need, by its own sleeps.
pub(super) const LONGEST: Duration = Duration::from_secs(15);
