//! `postroom up`: the relay. One fleet of all stores, and the same routes for all.

use std::io::IsTerminal as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use postroom::fleet::{
    Fleet, FleetConfig, Home, Listed, MemberStatus, Refreshed, RunningFleet, StoreId, Stores,
    Strategy, Watcher as _,
};
use postroom_admin::{Exporter, SinkState};
use postroom_sinks::Probed;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::{Level, Metadata};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

use super::Report;
use super::desk::{Door, Serving};
use super::shown::{Change, Shown};
use super::signals::{Hangup, Stop, say};
use super::traces::Traces;
use crate::args::Up;
use crate::config::{FleetSettings, Loaded, NamedSink};
use crate::failure::{Exit, Failure};
use crate::fleet::{Found, Keeper, Place, Roster};
use crate::render::count;
use crate::store::{Access, OpenStore, Target};

/// How long a sink has to say that it is there.
pub(super) const PROBE_LIMIT: Duration = Duration::from_secs(10);

/// More stores than this are counted instead of named.
const MOST_NAMED: usize = 10;

pub(super) async fn run(
    args: &Up,
    file: Option<&Path>,
    target: &Target,
) -> Result<Report, Failure> {
    let traces = Traces::of_relay().await?;
    log_to_stderr(&traces);
    // From the beginning: who asks it to look again must not end it.
    let hangup = Hangup::new()?;
    let mut config = load(args, file)?;
    let door = Door::open(&args.admin, &config.admin)?;
    let exporter = door.is_some().then(install_exporter).transpose()?;
    let (shown, changes) = Shown::new();
    let keeper = Keeper::default();
    let roster = open(&mut config, target, &keeper, &shown).await?;
    let found = roster.look_first().await?;
    let mut stop = Stop::new()?;
    let reader_gone = config.reader_gone.take();
    let told = announcement(&roster, &found, file.is_some());
    let home = open_home(&config.fleet).await?;
    let fleet = start(args, &config, Stores::new(roster, keeper), home, shown, &traces)?;
    // It has the list already: what comes after this line is news to it.
    fleet.looked().await;
    say(&told);
    let serving = match door.zip(exporter) {
        Some((door, exporter)) => {
            Some(serve(door, exporter, changes, &config.sinks, fleet.watch_members())?)
        }
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
        () = stop.told() => say("stopping; once more to stop at once"),
        () = reader_gone => say("nobody reads standard output any more; stopping"),
        () = look_when_told(hangup, &fleet) => say("the terminal is gone; stopping"),
    }
    drop(probes);
    let clean = tokio::select! {
        clean = fleet.shutdown(args.grace) => clean,
        () = stop.told() => false,
    };
    if let Some(serving) = serving {
        serving.stop().await;
    }
    traces.end().await;
    if !clean {
        say("stopped with deliveries under way; they will be delivered again");
    }
    Ok(Report::default())
}

fn load(args: &Up, file: Option<&Path>) -> Result<Loaded, Failure> {
    let source = args.source.as_deref();
    match file {
        Some(path) => Loaded::read(path, source),
        None => Loaded::to_sink(args.sink.as_deref().unwrap_or("stdout"), source),
    }
}

/// The stores of the file, or the one of the command line. Those that are named have to open now.
async fn open(
    config: &mut Loaded,
    target: &Target,
    keeper: &Keeper,
    shown: &Shown,
) -> Result<Roster, Failure> {
    let mut roster = std::mem::take(&mut config.stores);
    let opened = if roster.is_empty() {
        let opened = target.open(Access::Write).await?;
        let id = StoreId::new(opened.engine().local().name())?;
        roster = Roster::of_one(Listed::new(id.clone(), Arc::new(target.clone())));
        let opened = vec![(id, opened)];
        keeper.keep(&opened);
        opened
    } else {
        keeper.open_all(&roster.fixed).await?
    };
    for (id, opened) in &opened {
        shown.is_served(id, opened);
    }
    Ok(roster)
}

fn start(
    args: &Up,
    config: &Loaded,
    stores: Stores<Place, OpenStore>,
    home: Option<Arc<dyn Home>>,
    shown: Shown,
    traces: &Traces,
) -> Result<RunningFleet<Place, OpenStore>, Failure> {
    let FleetSettings { strategy, config: settings, .. } = config.fleet.clone();
    let mut fleet = Fleet::new(stores, config.routes())
        .strategy(Box::<dyn Strategy>::from(strategy))
        .config(FleetConfig { grace: args.grace, ..settings })
        .watch(shown);
    if let Some(home) = home {
        fleet = fleet.home(home);
    }
    Ok(traces.around(fleet).start()?)
}

/// The place where several relays divide the stores.
async fn open_home(settings: &FleetSettings) -> Result<Option<Arc<dyn Home>>, Failure> {
    let Some((target, name)) = &settings.home else { return Ok(None) };
    let opened = target
        .open(Access::Write)
        .await
        .map_err(|failure| failure.map(|text| target.url().scrub(text)).inside("fleet.home"))?;
    Ok(Some(opened.home(name)?))
}

/// Looks for stores whenever SIGHUP comes. Ends when that meant that the terminal is gone.
async fn look_when_told(mut hangup: Hangup, fleet: &RunningFleet<Place, OpenStore>) {
    while hangup.told().await {
        match fleet.refresh().await {
            Ok(Refreshed { added, removed, unchanged }) => say(&format!(
                "looked for stores: {added} new, {removed} gone, {unchanged} as they were"
            )),
            Err(error) => say(&format!("looked for stores in vain: {error}")),
        }
    }
}

/// Before any store is opened: what is counted before that is not seen.
fn install_exporter() -> Result<Exporter, Failure> {
    Exporter::install()
        .map_err(|error| Failure::new(Exit::Error, "can not collect metrics").why(&error))
}

fn serve(
    door: Door,
    exporter: Exporter,
    changes: mpsc::UnboundedReceiver<Change>,
    sinks: &[NamedSink],
    members: impl Fn() -> Vec<MemberStatus> + Send + Sync + 'static,
) -> Result<Serving, Failure> {
    let named = |sink: &NamedSink| (sink.name.clone(), sink.kind, Arc::clone(&sink.probe));
    let sinks: Vec<_> = sinks.iter().map(named).collect();
    let states = move || {
        let mut states = Vec::with_capacity(sinks.len());
        for (name, kind, probe) in &sinks {
            states.push(SinkState { name: name.clone(), kind, circuit: probe.circuit() });
        }
        states
    };
    door.serve(changes, exporter, states, members)
}

/// What is delivered: by name, or how many when there are too many to read.
fn announcement(roster: &Roster, found: &[Found], by_file: bool) -> String {
    if let ([only], false) = (found, by_file) {
        return format!("delivering the {}; Ctrl-C stops", only.store.place);
    }
    let mut lines: Vec<String> = Vec::new();
    if found.len() <= MOST_NAMED {
        let name =
            |found: &Found| format!("delivering {}, the {}", found.store.id, found.store.place);
        lines.extend(found.iter().map(name));
    } else {
        lines.push(format!("delivering {}", count(found.len(), "store")));
    }
    for source in &roster.sources {
        let own = |found: &&Found| found.source.as_deref() == Some(source.name());
        let stores = count(found.iter().filter(own).count(), "store");
        lines.push(format!("discover.{} found {stores}: {source}", source.name()));
    }
    lines.push(match roster.sources.is_empty() {
        true => "Ctrl-C stops".to_owned(),
        false => "Ctrl-C stops, SIGHUP looks for stores at once".to_owned(),
    });
    lines.join("\n")
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
