//! The arguments of `postroom bench`.

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "\
Works on tables of its own, postroom_bench_ and eight letters, which it makes and drops; with SQLite
in a file of its own beside the database. Nothing of yours is read, written or delivered, but the
server has work to do meanwhile: on one that is not on this host it wants --yes.

Example:
  postroom --url postgres://localhost/shop bench")]
pub(crate) struct Bench {
    /// How many messages
    #[arg(
        long,
        value_name = "N",
        default_value = "10000",
        value_parser = clap::value_parser!(u32).range(1..=10_000_000)
    )]
    pub(crate) messages: u32,

    /// The size of each payload
    #[arg(
        long,
        value_name = "N",
        default_value = "200",
        value_parser = clap::value_parser!(u32).range(0..=1_048_576)
    )]
    pub(crate) bytes: u32,

    /// How many messages are published in one transaction
    #[arg(
        long,
        value_name = "N",
        default_value = "100",
        value_parser = clap::value_parser!(u16).range(1..=1000)
    )]
    pub(crate) chunk: u16,

    /// Also on a server that is not on this host
    #[arg(long)]
    pub(crate) yes: bool,
}
