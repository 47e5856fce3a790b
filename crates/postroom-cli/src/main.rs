//! `postroom`: looks at the messages of a database, puts some there, and helps those that died, for
//! people and scripts.
//!
//! What a command found goes to standard output, in one piece at its end; everything else goes to
//! standard error. It holds no logic of its own: that is in the `postroom` crate.
#![expect(clippy::print_stderr, reason = "a command line talks to the person who called it")]

mod args;
mod ask;
mod bench;
mod commands;
mod config;
mod doctor;
mod failure;
mod filter;
mod fleet;
mod import;
mod payload;
mod render;
mod sql;
mod store;
mod url;
mod work;

use std::io::{ErrorKind, Write as _};
use std::process::ExitCode;

use crate::args::Cli;
use crate::commands::Report;
use crate::failure::{Exit, Failure};
use crate::render::Screen;

#[tokio::main]
async fn main() -> ExitCode {
    // Wrong usage ends here with exit code 2.
    let cli = Cli::read();
    let color = cli.color;
    let ran = commands::run(cli, &Screen::of_stdout(color)).await;
    match ran.and_then(|report| print(&report).map(|()| report.exit)) {
        Ok(exit) => exit.map_or(ExitCode::SUCCESS, Into::into),
        Err(failure) => {
            eprintln!("{}", failure.render(color.on_stderr()));
            failure.exit().into()
        }
    }
}

fn print(report: &Report) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    let written = stdout.write_all(report.data.as_bytes()).and_then(|()| stdout.flush());
    match written {
        // Whoever reads has seen enough, as with `| head`.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
        Err(error) => {
            return Err(Failure::new(Exit::Error, "can not write to standard output").why(&error));
        }
        Ok(()) => {}
    }
    if let Some(note) = &report.note {
        eprintln!("{note}");
    }
    Ok(())
}
