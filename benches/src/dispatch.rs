//! A dispatcher whose handler does nothing but count.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use postroom_core::lifecycle::Outcome;
use postroom_core::store::{BoxFuture, Store};
use postroom_core::{Delivery, Dispatcher, DispatcherConfig, Running, Sink};

use crate::plan::Plan;
use crate::report::numbers::rate;

/// Deliveries at the same time.
pub(crate) const WORKERS: usize = 16;

/// The key of messages that [`Counting`] does not get done.
pub(crate) const BLOCKED: &str = "blocked";

const PATIENCE: Duration = Duration::from_secs(300);

/// How long what runs may take at the end.
pub(crate) const GRACE: Duration = Duration::from_secs(30);

/// Does nothing, and counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counting {
    pub(crate) done: Arc<AtomicUsize>,
    pub(crate) takes_runs: bool,
    /// How long a handler waits for somebody else.
    pub(crate) waits: Option<Duration>,
}

impl Sink for Counting {
    fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> BoxFuture<'a, Vec<Outcome>> {
        Box::pin(async move {
            if let Some(wait) = self.waits {
                tokio::time::sleep(wait).await;
            }
            batch.iter().map(|delivery| self.outcome(delivery)).collect()
        })
    }

    fn max_batch(&self) -> usize {
        if self.takes_runs { 500 } else { 1 }
    }

    fn takes_runs(&self) -> bool {
        self.takes_runs
    }
}

impl Counting {
    fn outcome(&self, delivery: &Delivery) -> Outcome {
        let key = delivery.message().ordering_key();
        if key.is_some_and(|key| key.as_str() == BLOCKED) {
            let (delay, error) = (Duration::from_hours(1), "blocked".to_owned());
            return Outcome::RetryAfter { delay, counted: false, error };
        }
        self.done.fetch_add(1, Ordering::Relaxed);
        Outcome::Done
    }

    pub(crate) fn start(&self, store: Arc<dyn Store>, plan: Plan) -> anyhow::Result<Running> {
        Ok(Dispatcher::new(store, self.clone()).config(config(plan)).start()?)
    }

    /// Until so many are handled.
    pub(crate) async fn until(&self, messages: usize) -> anyhow::Result<()> {
        let patience = Instant::now() + PATIENCE;
        while self.done.load(Ordering::Relaxed) < messages {
            let done = &self.done;
            anyhow::ensure!(Instant::now() < patience, "{done:?} of {messages} in five minutes");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }
}

pub(crate) fn config(plan: Plan) -> DispatcherConfig {
    DispatcherConfig {
        workers: WORKERS,
        batch: plan.batch,
        cold_queue: 4 * plan.batch as usize,
        ..DispatcherConfig::default()
    }
}

/// For the notes of a figure.
pub(crate) fn settings(plan: Plan) -> String {
    let config = config(plan);
    let (workers, batch, cold, hot) =
        (config.workers, config.batch, config.cold_queue, config.hot_queue);
    format!(
        "dispatcher: workers = {workers}, batch = {batch}, cold_queue = {cold}, hot_queue = {hot}"
    )
}

/// Messages per second, until so many of a backlog are handled and all that it held is settled.
pub(crate) async fn drain(
    store: Arc<dyn Store>,
    sink: Counting,
    messages: usize,
    config: DispatcherConfig,
) -> anyhow::Result<f64> {
    let began = Instant::now();
    let running = Dispatcher::new(store, sink.clone()).config(config).start()?;
    sink.until(messages).await?;
    running.shutdown(GRACE).await;
    // Of a longer backlog a few more were on their way.
    Ok(rate(sink.done.load(Ordering::Relaxed), began.elapsed()))
}
