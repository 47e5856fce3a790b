//! Events as lines on standard output.

use std::future::Future;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use postroom_core::lifecycle::Outcome;
use postroom_core::store::BoxFuture;
use postroom_core::{Delivery, Sink};
use tokio::sync::Notify;
use tokio::task::spawn_blocking;

use crate::cloud_event::CloudEvents;
use crate::fault::Fault;
use crate::probe::{Probe, Probed};

/// Writes each message as a CloudEvents JSON object, one a line, to standard output.
#[derive(Debug)]
pub struct StdoutSink {
    events: CloudEvents,
    reader_gone: Arc<Notify>,
}

impl StdoutSink {
    /// Writes events like these.
    #[must_use]
    pub fn new(events: CloudEvents) -> Self {
        Self { events, reader_gone: Arc::default() }
    }

    /// Ends when nobody reads the output any more.
    pub fn reader_gone(&self) -> impl Future<Output = ()> + Send + 'static {
        let gone = Arc::clone(&self.reader_gone);
        async move { gone.notified().await }
    }
}

impl Sink for StdoutSink {
    fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> BoxFuture<'a, Vec<Outcome>> {
        Box::pin(async move {
            let lines = lines(&self.events, batch);
            // A reader that does not read must not hold up the runtime.
            let written = spawn_blocking(move || {
                let mut stdout = std::io::stdout().lock();
                stdout.write_all(lines.as_bytes()).and_then(|()| stdout.flush())
            });
            let error = match written.await {
                Ok(Ok(())) => return vec![Outcome::Done; batch.len()],
                Ok(Err(error)) => error.to_string(),
                Err(error) => error.to_string(),
            };
            self.reader_gone.notify_one();
            let why = format!("can not write to standard output: {error}");
            let fault = Fault::Unreachable { after: Duration::from_secs(1), why };
            vec![Outcome::from(fault); batch.len()]
        })
    }

    fn max_batch(&self) -> usize {
        100
    }

    fn takes_runs(&self) -> bool {
        true
    }
}

impl Probe for StdoutSink {
    fn probe(&self) -> BoxFuture<'_, Probed> {
        Box::pin(std::future::ready(Probed::default()))
    }
}

/// The events of a batch, one a line.
pub(crate) fn lines(events: &CloudEvents, batch: &[Delivery]) -> String {
    batch.iter().fold(String::new(), |mut lines, delivery| {
        lines.push_str(&events.structured(delivery.message()));
        lines.push('\n');
        lines
    })
}
