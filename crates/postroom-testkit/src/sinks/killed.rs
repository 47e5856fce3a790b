//! A receiver that is really killed, under a whole dispatcher.

use std::sync::Arc;
use std::time::Duration;

use postroom_core::store::{AdminStore as _, Store};
use postroom_core::{Backoff, Dispatcher, DispatcherConfig, Outbox, Retry};
use tokio::time::{Instant, sleep};

use super::harness::{Receiver, Settings, SinkHarness};
use super::harness::{message, numbers_by_key, until_stored};
use crate::sim::SimStore;

const KEYS: usize = 10;
const ROUND: usize = 100;

pub async fn b30_everything_arrives_although_the_receiver_is_killed<H: SinkHarness>() {
    let mut harness = H::private().await;
    let store = Arc::new(SimStore::default().ticking());
    let outbox = Outbox::new(Arc::clone(&store));
    let config = DispatcherConfig {
        poll_interval: Duration::from_millis(50),
        // A send that was under way at a kill costs an attempt.
        retry: Retry { backoff: Backoff::Fixed(Duration::from_millis(50)), max_attempts: 4 },
        ..DispatcherConfig::default()
    };
    let sink = harness.sink(Settings::default());
    let engine = Arc::clone(&store) as Arc<dyn Store>;
    let running = Dispatcher::new(engine, sink).config(config).start().expect("legal settings");
    for round in 0..3 {
        let numbers = round * ROUND..(round + 1) * ROUND;
        let messages = numbers.map(|n| {
            let message = message(&harness, "order.placed").payload(n.to_string());
            message.ordering_key(format!("key-{}", n % KEYS))
        });
        outbox.publish_all(messages).await.expect("published");
        if round < H::KILLS {
            // In the middle of the round.
            until_stored(&harness, round * ROUND + ROUND / 4).await;
            harness.receiver(Receiver::Killed).await;
            harness.receiver(Receiver::Back).await;
        }
    }
    let limit = Instant::now() + Duration::from_secs(60);
    while store.stats().await.expect("stats").done < 3 * ROUND as u64 {
        let stats = store.stats().await.expect("stats");
        assert_eq!(stats.dead, 0, "an outage makes no dead letter");
        assert!(Instant::now() < limit, "{stats:?}");
        sleep(Duration::from_millis(20)).await;
    }
    running.shutdown(Duration::from_secs(10)).await;
    let by_key = numbers_by_key(&harness.stored().await);
    assert_eq!(by_key.len(), KEYS);
    for (key, numbers) in by_key {
        assert_eq!(numbers.len(), 3 * ROUND / KEYS, "{key}: none is lost");
        assert!(numbers.is_sorted(), "{key}: {numbers:?}");
    }
}
