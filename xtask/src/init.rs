//! `cargo xtask init`: enables the repository's git hooks.

use std::process::Command;

use anyhow::Result;

use postroom_servers::process;

use crate::workspace;

/// Points git to the hooks in `.githooks`.
pub(crate) fn run() -> Result<()> {
    let mut command = Command::new("git");
    command.current_dir(workspace::root()).args(["config", "core.hooksPath", ".githooks"]);
    process::run(&mut command)?;
    println!("git now runs .githooks/pre-commit (format check and tidy) before each commit");
    Ok(())
}
