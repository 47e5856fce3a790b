//! Commands that change many messages, and those for the person at the terminal.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args};
use postroom::MessageId;

use super::filter::Filters;
use super::values::duration;

/// The most messages of one command: their ids are kept in memory.
const MAX_LETTERS: i64 = 1_000_000;

#[derive(Debug, Args)]
pub(crate) struct Letters {
    /// The ids of the messages; without any, filters say which
    #[arg(value_name = "ID")]
    pub(crate) ids: Vec<MessageId>,

    /// With filters: how many at most, the newest first
    #[arg(
        long,
        value_name = "N",
        default_value = "100000",
        value_parser = clap::value_parser!(u32).range(1..=MAX_LETTERS)
    )]
    pub(crate) limit: u32,

    /// Do not ask before messages are changed that were found by filters
    #[arg(long, short)]
    pub(crate) yes: bool,

    /// Say what would be done, and do nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    #[command(flatten)]
    pub(crate) filters: Filters,
}

#[derive(Debug, Args)]
#[command(
    after_help = "\
Deletes for good, in small chunks that are in nobody's way. A running dispatcher does the same by
itself once an hour, by its own settings. The key of a message that waits, runs or can be replayed
is never deleted.

Example:
  postroom purge --done 7d --dead 90d --dry-run",
    group = ArgGroup::new("what").args(["done", "dead", "keys"]).required(true).multiple(true)
)]
pub(crate) struct Purge {
    /// Done and discarded messages, and ended joins, older than this
    #[arg(long, value_name = "AGE", value_parser = duration)]
    pub(crate) done: Option<Duration>,

    /// Other dead messages older than this
    #[arg(long, value_name = "AGE", value_parser = duration)]
    pub(crate) dead: Option<Duration>,

    /// Idempotency keys whose message ended longer ago: what comes again then is taken for new
    #[arg(long, value_name = "AGE", value_parser = duration)]
    pub(crate) keys: Option<Duration>,

    /// Do not ask
    #[arg(long, short)]
    pub(crate) yes: bool,

    /// Say what would be deleted, and delete nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Keys: up and down choose a dead letter, enter shows it, r replays it, p pauses or resumes a topic,
q ends. What changes something asks first.")]
pub(crate) struct Top {
    /// How often to look
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub(crate) interval: Duration,
}

fn interval(text: &str) -> Result<Duration, String> {
    let least = Duration::from_millis(100);
    match duration(text)? {
        interval if interval < least => Err("at least 100ms".to_owned()),
        interval => Ok(interval),
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  postroom man --dir ~/.local/share/man/man1
  man postroom-list")]
pub(crate) struct Man {
    /// Write a page for each command into this folder; without it the first is printed
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
}
