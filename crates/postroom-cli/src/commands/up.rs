//! `postroom up`: the relay. One dispatcher per database, and the same routes for all.

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::Duration;

use postroom::{Dispatcher, Running};
use postroom_admin::{Exporter, SinkState};
use postroom_sinks::Probed;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::{Level, Metadata};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

use super::Report;
use super::desk::{Door, Serving};
use super::traces::Traces;
use crate::args::Up;
use crate::config::{Loaded, NamedSink};
use crate::failure::{Exit, Failure};
use crate::store::{Access, OpenStore, Target};

/// How long a sink has to say that it is there.
pub(super) const PROBE_LIMIT: Duration = Duration::from_secs(10);

pub(super) async fn run(args: &Up, target: &Target) -> Result<Report, Failure> {
    let traces = Traces::of_relay().await?;
    log_to_stderr(&traces);
    let mut config = load(args)?;
    let door = Door::open(&args.admin, &config.admin)?;
    let exporter = door.is_some().then(install_exporter).transpose()?;
    let stores = open(&config, target).await?;
    let mut stop = Signals::new()?;
    let reader_gone = config.reader_gone.take();
    let running = start(&config, &stores, &traces)?;
    announce(&config, target);
    let serving = match door.zip(exporter) {
        Some((door, exporter)) => Some(serve(door, exporter, &stores, &config.sinks)?),
        None => None,
    };
    let probes = look_at_sinks(std::mem::take(&mut config.sinks));
    let reader_gone = async {
        match reader_gone {
            Some(gone) => gone.await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = stop.next() => eprintln!("stopping; once more to stop at once"),
        () = reader_gone => eprintln!("nobody reads standard output any more; stopping"),
    }
    drop(probes);
    let clean = tokio::select! {
        clean = shut_down(running, args.grace) => clean,
        () = stop.next() => false,
    };
    if let Some(serving) = serving {
        serving.stop().await;
    }
    traces.end().await;
    if !clean {
        eprintln!("stopped with deliveries under way; they will be delivered again");
    }
    Ok(Report::default())
}

fn load(args: &Up) -> Result<Loaded, Failure> {
    let source = args.source.as_deref();
    match &args.config {
        Some(path) => Loaded::read(path, source),
        None => Loaded::to_sink(args.sink.as_deref().unwrap_or("stdout"), source),
    }
}

/// The databases of the file, or the one of the command line.
async fn open(config: &Loaded, target: &Target) -> Result<Vec<OpenStore>, Failure> {
    if config.stores.is_empty() {
        return Ok(vec![target.open(Access::Write).await?]);
    }
    let mut stores = Vec::with_capacity(config.stores.len());
    for (name, target) in &config.stores {
        let opened = target.open(Access::Write).await;
        let named = |failure: Failure| {
            failure.map(|text| target.url().scrub(text)).inside(&format!("store {name}"))
        };
        stores.push(opened.map_err(named)?);
    }
    Ok(stores)
}

fn start(config: &Loaded, stores: &[OpenStore], traces: &Traces) -> Result<Vec<Running>, Failure> {
    let one = |store: &OpenStore| {
        let dispatcher = traces.around(Dispatcher::new(store.engine(), config.routes()));
        Ok(dispatcher.config(config.dispatcher.clone()).start()?)
    };
    stores.iter().map(one).collect()
}

/// Before any store is opened: what is counted before that is not seen.
fn install_exporter() -> Result<Exporter, Failure> {
    Exporter::install()
        .map_err(|error| Failure::new(Exit::Error, "can not collect metrics").why(&error))
}

fn serve(
    door: Door,
    exporter: Exporter,
    stores: &[OpenStore],
    sinks: &[NamedSink],
) -> Result<Serving, Failure> {
    let databases = stores.iter().map(OpenStore::database).collect();
    let named = |sink: &NamedSink| (sink.name.clone(), sink.kind, Arc::clone(&sink.probe));
    let sinks: Vec<_> = sinks.iter().map(named).collect();
    let states = move || {
        let mut states = Vec::with_capacity(sinks.len());
        for (name, kind, probe) in &sinks {
            states.push(SinkState { name: name.clone(), kind, circuit: probe.circuit() });
        }
        states
    };
    door.serve(databases, exporter, states)
}

/// Stops all at once; whether every one ended in time.
async fn shut_down(running: Vec<Running>, grace: Duration) -> bool {
    let mut ending: JoinSet<_> = running.into_iter().map(|one| one.shutdown(grace)).collect();
    let mut clean = true;
    while let Some(ended) = ending.join_next().await {
        clean &= ended.unwrap_or(false);
    }
    clean
}

fn announce(config: &Loaded, target: &Target) {
    if config.stores.is_empty() {
        eprintln!("delivering the {target}; Ctrl-C stops");
    } else {
        for (name, target) in &config.stores {
            eprintln!("delivering {name}, the {target}");
        }
        eprintln!("Ctrl-C stops");
    }
}

/// Says early what is wrong with a sink; messages would find out one by one. It keeps nobody
/// waiting, and a sink that is away is tried again whenever there is a message for it.
fn look_at_sinks(sinks: Vec<NamedSink>) -> JoinSet<()> {
    let look = |sink: NamedSink| async move {
        let Probed { broken, warnings, about } = probe(&sink).await;
        let (name, kind) = (&sink.name, sink.kind);
        match broken {
            Some(why) => tracing::warn!(sink = %name, kind, error = %why, "SINK_BROKEN"),
            None => tracing::info!(sink = %name, kind, about, "SINK_READY"),
        }
        for warning in warnings {
            tracing::warn!(sink = %name, kind, "{warning}");
        }
    };
    sinks.into_iter().map(look).collect()
}

/// Goes to a sink and looks.
pub(super) async fn probe(sink: &NamedSink) -> Probed {
    let probe = Arc::clone(&sink.probe);
    let answer = timeout(PROBE_LIMIT, probe.probe()).await;
    answer.unwrap_or_else(|_| Probed::broken(format!("no answer within {PROBE_LIMIT:?}")))
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

fn log_to_stderr(traces: &Traces) {
    let chosen = EnvFilter::try_from_env("POSTROOM_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    let ansi = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let lines = tracing_subscriber::fmt::layer().with_ansi(ansi).with_writer(std::io::stderr);
    let lines = lines.with_filter(filter_fn(may_be_logged)).with_filter(chosen);
    tracing_subscriber::registry().with(lines).with(traces.layer()).init();
}

/// Libraries log what they send and receive, in parts or as a whole, when one asks for enough. Our
/// own lines never have a payload or a secret in them.
fn may_be_logged(line: &Metadata<'_>) -> bool {
    line.target().starts_with("postroom") || *line.level() <= Level::WARN
}
