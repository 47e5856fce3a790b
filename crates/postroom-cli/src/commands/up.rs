//! `postroom up`: a dispatcher that prints.

use std::io::IsTerminal as _;
use std::time::Duration;

use postroom::{Dispatcher, DispatcherConfig};
use postroom_sinks::{CloudEvents, StdoutSink};
use tokio::signal::unix::{SignalKind, signal};

use super::Report;
use crate::args::Up;
use crate::failure::{Exit, Failure};
use crate::store::{Access, Target};

// Other processes write to the same database: look often enough that an event is seen within a
// second.
const POLL: Duration = Duration::from_millis(200);

pub(super) async fn run(args: &Up, target: &Target) -> Result<Report, Failure> {
    log_to_stderr();
    let store = target.open(Access::Write).await?;
    let sink = StdoutSink::new(CloudEvents::new(&args.source));
    let reader_gone = sink.reader_gone();
    let config = DispatcherConfig { poll_interval: POLL, ..DispatcherConfig::default() };
    let mut stop = Signals::new()?;
    let running = Dispatcher::new(store.engine(), sink).config(config).start()?;
    eprintln!("delivering the {target}; Ctrl-C stops");
    tokio::select! {
        () = stop.next() => eprintln!("stopping; once more to stop at once"),
        () = reader_gone => eprintln!("nobody reads standard output any more; stopping"),
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
