//! The arguments of `postroom doctor`.

use std::time::Duration;

use clap::Args;

use super::values::duration;

#[derive(Debug, Args)]
#[command(after_help = "\
Says of each check whether it is fine, worth a look (a warning) or broken (a problem), and gives the
statement or command that mends it. It changes nothing itself. With --config and without --store it
looks at every database and every sink of the file. The exit code is 0 when there is no
problem, warnings or not; 1 when there is one; 5 when the database can not be reached.")]
pub(crate) struct Doctor {
    /// Transactions that have been open for longer are in the way
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration)]
    pub(crate) long_transaction: Duration,

    /// A message that has been ready for longer makes one ask who delivers
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = duration)]
    pub(crate) oldest_ready: Duration,
}
