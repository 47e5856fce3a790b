//! The command line, as clap reads it.

mod admin;
mod bench;
mod doctor;
mod filter;
mod import;
mod relay;
mod values;

use std::path::{Path, PathBuf};

use clap::parser::ValueSource;
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use clap_complete::Shell;
use postroom::store::Cursor;
use postroom::{IdempotencyKey, MessageId, Topic};

pub(crate) use admin::{Letters, Man, Purge, Top};
pub(crate) use bench::Bench;
pub(crate) use doctor::Doctor;
pub(crate) use filter::{Filters, WHERE_HELP};
pub(crate) use import::{Import, Rows};
pub(crate) use relay::{AdminArgs, Config, ConfigAction, ConfigCheck, Up};
pub(crate) use values::{ColorWhen, QueueName, StatusName, duration, time};
use values::{aggregate, pair, topic};

const AFTER_HELP: &str = "\
Exit codes:
  0  done
  1  an error without a code of its own; not all messages could be replayed, discarded or imported;
     migrate --all failed somewhere; doctor found a problem; you were asked and said no
  2  wrong usage, or a value that breaks a limit; nothing was written
  3  no such message
  4  the schema is missing, too old or too new; see `postroom migrate`
  5  the database does not answer, refuses the login, or is too busy now
130  stopped by Ctrl-C or SIGTERM between two chunks; what was done is printed

A SQLite database gets its schema when it is first written to. A server never does: run
`postroom migrate` there, or give `postroom migrate --print` to whoever runs your migrations.";

/// Look at the messages of a transactional outbox, put some there, and help those that died.
#[derive(Debug, Parser)]
#[command(name = "postroom", version, after_help = AFTER_HELP, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) target: Target,

    /// Print one JSON document instead of a table
    #[arg(long, global = true, help_heading = "Output")]
    pub(crate) json: bool,

    /// When to use colours; `auto` also obeys NO_COLOR
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        help_heading = "Output"
    )]
    pub(crate) color: ColorWhen,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Which tables of which database.
#[derive(Debug, Args)]
#[command(next_help_heading = "Database")]
pub(crate) struct Target {
    /// sqlite:FILE, sqlite::memory:, postgres:// or mysql://USER:PASSWORD@HOST/DATABASE
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "POSTROOM_URL",
        hide_env_values = true,
        default_value = "sqlite:postroom.db"
    )]
    pub(crate) url: String,

    /// The schema, or on SQLite the first part of each table name
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        env = "POSTROOM_SCHEMA",
        hide_env_values = true,
        default_value = "postroom"
    )]
    pub(crate) schema: String,

    /// What each table name within the schema starts with
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        env = "POSTROOM_PREFIX",
        hide_env_values = true,
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) prefix: String,

    /// Which of the two boxes
    #[arg(long, global = true, value_name = "BOX", default_value = "outbox")]
    pub(crate) queue: QueueName,

    /// A file that says which topics of which databases go where; see `postroom config`
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "POSTROOM_CONFIG",
        hide_env_values = true
    )]
    pub(crate) config: Option<PathBuf>,

    /// A store of that file, or one that it finds, instead of --url
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) store: Option<String>,

    /// What stands on the command line itself, not in the environment.
    #[arg(skip)]
    pub(crate) given: Vec<&'static str>,
}

impl Cli {
    /// Reads the command line. Wrong usage ends the process with exit code 2.
    pub(crate) fn read() -> Self {
        let matches = Self::command().get_matches();
        let mut cli = Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
        let given = |name: &&str| matches.value_source(name) == Some(ValueSource::CommandLine);
        cli.target.given =
            ["url", "schema", "prefix", "queue", "config"].into_iter().filter(given).collect();
        cli
    }
}

impl Target {
    /// The file that is meant.
    pub(crate) fn config(&self) -> &Path {
        self.config.as_deref().unwrap_or(Path::new("postroom.toml"))
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Deliver messages: to standard output, to a sink, or by the routes of a file
    Up(Up),
    /// Check, describe or print the configuration file of `up`
    Config(Config),
    /// List the stores of the configuration file, and those that it finds
    Stores(Stores),
    /// Create the schema or bring it up to date
    #[command(after_help = MIGRATE_HELP)]
    Migrate(Migrate),
    /// Print the SQL that makes roles with the least rights; touches no database
    #[command(after_help = ROLES_HELP)]
    Roles(Roles),
    /// Write a message, in a transaction of its own
    Enqueue(Box<Enqueue>),
    /// List messages, newest first
    #[command(after_help = WHERE_HELP)]
    List(List),
    /// Show one message with all that happened to it
    Show(Show),
    /// Count messages by state
    Stats,
    /// Watch the queue: states, rates, pauses and the newest dead letters
    Top(Top),
    /// Make dead messages ready again
    #[command(after_help = REPLAY_HELP)]
    Replay(Letters),
    /// Make messages dead that nobody should deliver
    #[command(after_help = DISCARD_HELP)]
    Discard(Letters),
    /// Stop the delivery of a topic, or of the whole queue
    Pause(Pause),
    /// End a pause
    Resume(Resume),
    /// List what is paused
    Pauses,
    /// Delete what is old
    Purge(Purge),
    /// Import the rows of an existing outbox table
    Import(Import),
    /// Look for what is wrong with the database, and say what mends it
    Doctor(Doctor),
    /// Measure how fast this database publishes and delivers
    Bench(Bench),
    /// Print a script that completes commands in your shell
    Completions {
        /// Which shell
        shell: Shell,
    },
    /// Print the manual, or write its pages
    Man(Man),
}

#[derive(Debug, Args)]
pub(crate) struct Migrate {
    /// Print the SQL for people who run their own migrations; touches no database
    #[arg(long)]
    pub(crate) print: bool,

    /// Say whether there is anything to do, and do nothing
    #[arg(long, conflicts_with = "print")]
    pub(crate) dry_run: bool,

    /// Every store of the configuration file, and every one that it finds
    #[arg(long, conflicts_with_all = ["print", "store"])]
    pub(crate) all: bool,

    /// Also make the indexes for tenants that take turns, while others go on writing; with --all it
    /// is the file that says which stores need them
    #[arg(long, conflicts_with = "all")]
    pub(crate) fair_tenants: bool,
}

const MIGRATE_HELP: &str = "\
With --all there is a line for each database as it is done, four at a time; with --json it is a JSON
object. One that fails does not stop the others; the exit code is then 1. Ctrl-C stops after those
that run.

Examples:
  postroom migrate --url postgres://app@db/shop
  postroom migrate --all --config postroom.toml --dry-run";

#[derive(Debug, Args)]
#[command(after_help = "\
What stands in the file and what [discover] finds now: name, kind, place, weight and routing keys.
Passwords are never shown. The exit code is 5 when a source does not answer or, with --connect, a
store can not be used.")]
pub(crate) struct Stores {
    /// Also open each one and look at its schema; nothing is written
    #[arg(long)]
    pub(crate) connect: bool,
}

const ROLES_HELP: &str = "\
Run what it prints as the owner of the schema, and again after each `postroom migrate`. Roles that
are missing are made, without a login: give them to the accounts of your services.

Example:
  postroom --url $URL migrate
  postroom --url $URL roles | psql $URL
  psql $URL -c 'grant postroom_producer to shop'";

#[derive(Debug, Args)]
pub(crate) struct Roles {
    /// May publish through the SQL function, and nothing else
    #[arg(long, value_name = "NAME", default_value = "postroom_producer")]
    pub(crate) producer: String,

    /// A service that publishes and delivers, with inbox and joins
    #[arg(long, value_name = "NAME", default_value = "postroom_worker")]
    pub(crate) worker: String,

    /// A worker that may also pause, resume and discard
    #[arg(long, value_name = "NAME", default_value = "postroom_admin")]
    pub(crate) admin: String,

    /// May look at everything
    #[arg(long, value_name = "NAME", default_value = "postroom_reader")]
    pub(crate) reader: String,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Prints the id of the message. A message with the same --key, or the same --id and content, is not
written again: the id is then that of the first one.

Examples:
  postroom enqueue order.placed --payload '{\"order\":7}' --aggregate order/7
  postroom enqueue report.due --payload-file report.json --due-in 10m --expires-in 1d
  echo hello | postroom enqueue greeting --content-type text/plain")]
pub(crate) struct Enqueue {
    /// What the message is about, such as order.placed
    pub(crate) topic: String,

    /// The payload
    #[arg(long, value_name = "TEXT", conflicts_with = "payload_file")]
    pub(crate) payload: Option<String>,

    /// A file with the payload; `-`, and no payload option at all, is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) payload_file: Option<PathBuf>,

    /// The media type of the payload; without it the payload must be JSON
    #[arg(long, value_name = "TYPE")]
    pub(crate) content_type: Option<String>,

    /// A header; can be given many times
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = pair)]
    pub(crate) headers: Vec<(String, String)>,

    /// Whose message it is
    #[arg(long, value_name = "ID")]
    pub(crate) tenant: Option<String>,

    /// Messages with the same key are handled one at a time, in order
    #[arg(long, value_name = "KEY")]
    pub(crate) ordering_key: Option<String>,

    /// The thing that it happened to, such as order/7
    #[arg(long, value_name = "TYPE/ID", value_parser = aggregate)]
    pub(crate) aggregate: Option<(String, String)>,

    /// The idempotency key: a second message with it is not written
    #[arg(long, value_name = "UUID")]
    pub(crate) key: Option<IdempotencyKey>,

    /// What it belongs to
    #[arg(long, value_name = "ID")]
    pub(crate) correlation_id: Option<String>,

    /// What caused it
    #[arg(long, value_name = "ID")]
    pub(crate) causation_id: Option<String>,

    /// Deliver not before this long from now, such as 10s or 1h30m
    #[arg(long, value_name = "DURATION", value_parser = duration, conflicts_with = "due_at")]
    pub(crate) due_in: Option<std::time::Duration>,

    /// Deliver not before this time, such as 2030-01-31T08:00:00Z
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) due_at: Option<std::time::SystemTime>,

    /// Never deliver later than this long from now
    #[arg(long, value_name = "DURATION", value_parser = duration, conflicts_with = "expires_at")]
    pub(crate) expires_in: Option<std::time::Duration>,

    /// Never deliver after this time
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) expires_at: Option<std::time::SystemTime>,

    /// Higher first among due messages; -100 to 100
    #[arg(
        long,
        value_name = "N",
        allow_negative_numbers = true,
        default_value = "0",
        value_parser = clap::value_parser!(i16).range(-100..=100)
    )]
    pub(crate) priority: i16,

    /// The id of the message; a fresh one by default
    #[arg(long, value_name = "UUID")]
    pub(crate) id: Option<MessageId>,

    /// Check all limits and write nothing; touches no database
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// How many at most, up to 500
    #[arg(
        long,
        value_name = "N",
        default_value = "50",
        value_parser = clap::value_parser!(u32).range(1..=500)
    )]
    pub(crate) limit: u32,

    /// Only older ones than this: where the page before ended, or the id of a message
    #[arg(long, value_name = "PLACE")]
    pub(crate) before: Option<Cursor>,

    #[command(flatten)]
    pub(crate) filters: Filters,
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// The id of the message
    pub(crate) id: MessageId,

    /// Show the payload too
    #[arg(long)]
    pub(crate) payload: bool,
}

const REPLAY_HELP: &str = "\
Each one keeps its place in the queue and its history; its attempts begin anew and it does not
expire any more. Only dead messages are replayed. What each one came to is printed; the exit code is
3 when one is not there, 1 when another was not replayed, and 0 when all were.

With filters it finds dead messages, tells how many, and asks. Discarded ones are meant only when
the filter names a reason.

Examples:
  postroom replay 019a8a00-0000-7000-8000-000000000001
  postroom replay --where 'topic=mail.* and error~timeout' --dry-run
  postroom replay --topic mail.sent --since 1d --yes";

const DISCARD_HELP: &str = "\
Takes messages that wait and messages that are dead, but none that somebody is handling. A
discarded message is deleted after the time that done messages are kept; until then it can be
replayed. An ordering key that it halted goes on. What each one came to is printed; the exit code is
3 when one is not there, 1 when another was not discarded, and 0 when all were.

With filters, one of which has to be a status, it tells how many there are, and asks.

Examples:
  postroom discard 019a8a00-0000-7000-8000-000000000001
  postroom discard --status dead --until 30d --dry-run";

#[derive(Debug, Args)]
#[command(after_help = "\
After this nothing of it is claimed. Dispatchers give back what they have queued instead of
starting it, and finish what runs. Messages can still be written. A paused message at the head of an
ordering key stops that key. Pausing twice keeps the first pause.")]
pub(crate) struct Pause {
    /// Only this topic; without it the whole queue
    #[arg(long, value_parser = topic)]
    pub(crate) topic: Option<Topic>,

    /// Why, for those who find it paused
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,

    /// Who wants it
    #[arg(long, value_name = "NAME", env = "USER")]
    pub(crate) by: Option<String>,

    /// Say what would be done, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Resume {
    /// Only this topic; without it the whole queue, whose topics may still be paused
    #[arg(long, value_parser = topic)]
    pub(crate) topic: Option<Topic>,

    /// Say what would be done, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn sec_2_help_does_not_show_the_url_from_the_environment() {
        for argument in Cli::command().get_arguments() {
            let secret = argument.get_id() == "url";
            assert!(!secret || argument.is_hide_env_values_set());
        }
    }
}
