//! The commands: each takes its arguments and a store, and gives back what to print.

mod bench;
mod config;
mod crowd;
mod desk;
mod doctor;
mod enqueue;
mod import;
mod letters;
mod list;
mod man;
mod migrate;
mod migrate_all;
mod pause;
mod purge;
mod roles;
mod select;
mod show;
mod shown;
mod signals;
mod stats;
mod stores;
mod top;
mod traces;
mod up;

use clap::CommandFactory as _;
use postroom::store::Act;

use self::letters::Desk;
use crate::args::{self, Cli, Command};
use crate::config::Loaded;
use crate::failure::{Exit, Failure};
use crate::render::Screen;
use crate::store::{Access, Target};

/// What a command has to say.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    /// For standard output.
    pub(crate) data: String,
    /// For standard error.
    pub(crate) note: Option<String>,
    /// When not all was done.
    pub(crate) exit: Option<Exit>,
}

impl Report {
    pub(crate) fn data(data: impl Into<String>) -> Self {
        Self { data: data.into(), ..Self::default() }
    }

    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }

    pub(crate) fn ends_with(mut self, exit: Exit) -> Self {
        self.exit = Some(exit);
        self
    }
}

/// Runs what the command line says.
pub(crate) async fn run(cli: Cli, screen: &Screen) -> Result<Report, Failure> {
    if let Command::Completions { shell } = cli.command {
        return Ok(completions(shell));
    }
    if let Command::Man(args) = &cli.command {
        return man::run(args);
    }
    if whole_file(&cli) {
        if cli.target.store.is_some() {
            let what = "this is about all stores of the file, and --store names one";
            return Err(Failure::new(Exit::Invalid, what).next("leave --store out"));
        }
        let file = cli.target.config();
        match &cli.command {
            Command::Config(args) => {
                return config::run(&args.action, file, cli.json, screen).await;
            }
            Command::Stores(args) => return stores::run(args, file, cli.json, screen).await,
            Command::Migrate(args) if args.all => {
                return migrate_all::run(args.dry_run, file, cli.json).await;
            }
            _ => {}
        }
    }
    let target = choose(&cli).await?;
    let done = perform(cli.command, &cli.target, &target, cli.json, screen).await;
    done.map_err(|failure| failure.map(|text| target.url().scrub(text)))
}

/// Whether a command is about a whole file, and not about one store.
fn whole_file(cli: &Cli) -> bool {
    match &cli.command {
        Command::Up(_) | Command::Config(_) | Command::Stores(_) => true,
        Command::Migrate(args) => args.all,
        Command::Doctor(_) => cli.target.config.is_some() && cli.target.store.is_none(),
        _ => false,
    }
}

/// The store that the command line means.
async fn choose(cli: &Cli) -> Result<Target, Failure> {
    let (args, given) = (&cli.target, |name| cli.target.given.contains(&name));
    let Some(name) = &args.store else {
        // Whoever names a file does not mean the database of --url.
        if given("config") && !whole_file(cli) {
            let what = format!("which store of {}?", args.config().display());
            let next = "add --store NAME; `postroom stores` lists them";
            return Err(Failure::new(Exit::Invalid, what).next(next));
        }
        return Target::new(args);
    };
    if let Some(other) = ["url", "schema", "prefix"].into_iter().find(|other| given(other)) {
        let what = format!("--store and --{other} name two databases");
        return Err(Failure::new(Exit::Invalid, what).next("leave one of them out"));
    }
    let config = Loaded::read(args.config(), None)?;
    let target = config.stores.find(name).await?;
    let queue = if given("queue") { args.queue.into() } else { target.queue() };
    Ok(target.with_queue(queue))
}

async fn perform(
    command: Command,
    args: &args::Target,
    target: &Target,
    json: bool,
    screen: &Screen,
) -> Result<Report, Failure> {
    match command {
        Command::Migrate(args) => migrate::run(&args, target, json).await,
        Command::Roles(args) => roles::print(args, target, json),
        Command::Enqueue(args) => enqueue::run(*args, target, json).await,
        Command::Import(args) => import::run(&args, target, json).await,
        Command::Doctor(doctor) => {
            let file = args.config.as_deref().filter(|_| args.store.is_none());
            doctor::run(&doctor, file, target, json, screen).await
        }
        Command::Bench(args) => bench::run(&args, target, json).await,
        Command::Stats => stats::run(target, json, screen).await,
        Command::Up(up) => up::run(&up, args.config.as_deref(), target).await,
        Command::Top(args) => top::run(&args, target, screen).await,
        // These need no single database and were run before.
        Command::Completions { shell } => Ok(completions(shell)),
        Command::Man(args) => man::run(&args),
        Command::Config(config) => config::run(&config.action, args.config(), json, screen).await,
        Command::Stores(stores) => stores::run(&stores, args.config(), json, screen).await,
        Command::List(args) => {
            list::run(args, target.open(Access::Existing).await?.admin(), json, screen).await
        }
        Command::Show(args) => {
            show::run(&args, target.open(Access::Existing).await?.admin(), json, screen).await
        }
        Command::Replay(args) => {
            change(Change::Letters(Act::Replay, Box::new(args)), target, json, screen).await
        }
        Command::Discard(args) => {
            change(Change::Letters(Act::Discard, Box::new(args)), target, json, screen).await
        }
        Command::Purge(args) => change(Change::Purge(args), target, json, screen).await,
        Command::Pause(args) => {
            pause::pause(args, target.open(Access::Existing).await?.admin(), json).await
        }
        Command::Resume(args) => {
            let store = target.open(Access::Existing).await?;
            let report = pause::resume(&args, store.admin(), json).await;
            store.close().await;
            report
        }
        Command::Pauses => {
            pause::pauses(target.open(Access::Existing).await?.admin(), json, screen).await
        }
    }
}

/// Commands that change many messages.
enum Change {
    Letters(Act, Box<args::Letters>),
    Purge(args::Purge),
}

async fn change(
    change: Change,
    target: &Target,
    json: bool,
    screen: &Screen,
) -> Result<Report, Failure> {
    let store = target.open(Access::Existing).await?;
    let desk = Desk { store: store.admin(), place: target.to_string(), json, screen };
    let report = match change {
        Change::Letters(act, args) => letters::run(act, *args, &desk).await,
        Change::Purge(args) => purge::run(&args, store.engine(), &desk).await,
    };
    store.close().await;
    report
}

fn completions(shell: clap_complete::Shell) -> Report {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "postroom", &mut script);
    Report::data(String::from_utf8_lossy(&script))
}
