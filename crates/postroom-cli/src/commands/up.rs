//! `postroom up`: a dispatcher that prints.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::time::Duration;

use postroom::lifecycle::Outcome;
use postroom::store::BoxFuture;
use postroom::{Delivery, Dispatcher, DispatcherConfig, Sink};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;

use super::Report;
use crate::args::Up;
use crate::cloud_event;
use crate::failure::{Exit, Failure};
use crate::store::{Access, Target};

// Other processes write to the same database: look often enough that an event is seen within a
// second.
const POLL: Duration = Duration::from_millis(200);

pub(super) async fn run(args: &Up, target: &Target) -> Result<Report, Failure> {
    log_to_stderr();
    let store = target.open(Access::Write).await?;
    let reader_gone = Arc::new(Notify::new());
    let sink = Lines { source: args.source.clone(), reader_gone: Arc::clone(&reader_gone) };
    let config = DispatcherConfig { poll_interval: POLL, ..DispatcherConfig::default() };
    let mut stop = Signals::new()?;
    let running = Dispatcher::new(store.engine(), sink).config(config).start()?;
    eprintln!("delivering the {target}; Ctrl-C stops");
    tokio::select! {
        () = stop.next() => eprintln!("stopping; once more to stop at once"),
        () = reader_gone.notified() => eprintln!("nobody reads standard output any more; stopping"),
    }
    let clean = tokio::select! {
        clean = running.shutdown(args.grace) => clean,
        () = stop.next() => false,
    };
    if !clean {
        eprintln!("stopped with deliveries under way; they will be delivered again");
    }
    Ok(Report::default())
}

/// One line of JSON per message.
struct Lines {
    source: String,
    reader_gone: Arc<Notify>,
}

impl Sink for Lines {
    fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> BoxFuture<'a, Vec<Outcome>> {
        Box::pin(async move {
            let mut text = String::new();
            for delivery in batch {
                text.push_str(&cloud_event::line(delivery.message(), &self.source));
                text.push('\n');
            }
            let mut stdout = std::io::stdout().lock();
            match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
                Ok(()) => vec![Outcome::Done; batch.len()],
                Err(error) => {
                    self.reader_gone.notify_one();
                    // Not the messages' fault: no attempt, and soon again, for whoever comes next.
                    let outcome = Outcome::RetryAfter {
                        delay: Duration::from_secs(1),
                        counted: false,
                        error: format!("can not write to standard output: {error}"),
                    };
                    vec![outcome; batch.len()]
                }
            }
        })
    }

    fn max_batch(&self) -> usize {
        100
    }
}

/// Ctrl-C and SIGTERM.
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|error| {
                Failure::new(Exit::Error, "can not listen for signals").why(&error)
            })
        };
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

fn log_to_stderr() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("POSTROOM_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    let ansi = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(ansi);
    log.with_writer(std::io::stderr).init();
}
