//! Arguments of `up` and `config`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use postroom::Topic;

use super::values::{duration, topic};
use crate::config::Listen;

#[derive(Debug, Args)]
#[command(after_help = "\
Without --config and --sink each message is a CloudEvents JSON line on standard output.

Runs until Ctrl-C or SIGTERM, then finishes what it is doing, gives back what it has not begun, and
ends with exit code 0. A second signal ends it at once; what it held is delivered again when its
lease runs out. Any number of them may run side by side on one database. SIGHUP looks at once for
stores that [discover] finds.

The dashboard is on http://127.0.0.1:7878/ for whoever is on this machine. Beyond that it needs
--token-file or tokens in the file, and --behind-tls; see docs/guide/monitoring.md.

POSTROOM_LOG chooses what is logged to standard error, as in POSTROOM_LOG=info. Of the libraries
only warnings are logged: what they say below that may hold payloads.

Example, in two shells:
  postroom up
  postroom enqueue order.placed --payload '{\"order\":7}'")]
pub(crate) struct Up {
    /// Where all messages go: stdout, file:PATH, https://, nats://, amqp:// or redis://HOST
    #[arg(
        long,
        value_name = "URL",
        env = "POSTROOM_SINK",
        hide_env_values = true,
        conflicts_with = "config"
    )]
    pub(crate) sink: Option<String>,

    /// The `source` of the CloudEvents: the URI of your service; `postroom` by default
    #[arg(long, value_name = "URI", env = "POSTROOM_SOURCE")]
    pub(crate) source: Option<String>,

    #[command(flatten)]
    pub(crate) admin: AdminArgs,

    /// How long what runs may take to finish when it is told to stop
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    pub(crate) grace: Duration,
}

/// Who sees the dashboard, and where.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Dashboard")]
pub(crate) struct AdminArgs {
    /// Where dashboard, API, health and metrics are served, or off; 127.0.0.1:7878 by default
    #[arg(long, value_name = "ADDR", env = "POSTROOM_LISTEN")]
    pub(crate) listen: Option<Listen>,

    /// A file with a token that may do everything; needed when others can reach the address
    #[arg(long, value_name = "FILE", env = "POSTROOM_TOKEN_FILE")]
    pub(crate) token_file: Option<PathBuf>,

    /// Say that something in front of the address speaks TLS; needed when others can reach it
    #[arg(long)]
    pub(crate) behind_tls: bool,

    /// Show everything and change nothing
    #[arg(long)]
    pub(crate) read_only: bool,

    /// The path under which a proxy in front serves it, such as /postroom
    #[arg(long, value_name = "PATH")]
    pub(crate) base_path: Option<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Example of a file:
  [stores.shop]
  url = \"${DATABASE_URL}\"

  [sinks.events.nats]
  url = \"nats://127.0.0.1:4222\"

  [[routes]]
  topics = \"order.*\"
  sink = \"events\"")]
pub(crate) struct Config {
    #[command(subcommand)]
    pub(crate) action: ConfigAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigAction {
    /// Read a file and say what it means, or what is wrong with it and where
    Check(ConfigCheck),
    /// Print the JSON Schema of the file, for editors
    Schema,
    /// Print a file with all defaults filled in and without its secrets
    Print,
}

#[derive(Debug, Args)]
pub(crate) struct ConfigCheck {
    /// Also go to every database and every sink; nothing is written and nothing is sent
    #[arg(long)]
    pub(crate) connect: bool,

    /// Which sink takes this topic; can be given many times
    #[arg(long = "topic", value_name = "TOPIC", value_parser = topic)]
    pub(crate) topics: Vec<Topic>,
}
