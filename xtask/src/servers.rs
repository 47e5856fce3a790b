//! `cargo xtask servers`: the servers that the tests need, for people who run tests by hand.

use anyhow::Result;
use clap::Args;
use postroom_servers::{Durability, Kind, Servers};

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Wait for the disk as in production (fsync on); slower, for measurements
    #[arg(long)]
    real_durability: bool,
}

/// Keeps the servers until a signal arrives.
pub(crate) fn serve(options: &Options) -> Result<()> {
    let durability = if options.real_durability { Durability::Real } else { Durability::Discarded };
    let mut servers = Servers::start_own(Kind::ALL, durability)?;
    for (variable, url) in servers.variables() {
        println!("export {variable}={url}");
    }
    println!("# running until Ctrl-C; paste the lines above into the shell that runs the tests");
    servers.keep()?;
    println!("# stopping");
    Ok(())
}
