//! Where the workspace is, how cargo is called in it, and what cargo knows about it.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::Value;

use postroom_servers::process;

/// The folder with the workspace's `Cargo.toml`.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().map_or_else(|| here.to_path_buf(), Path::to_path_buf)
}

/// A cargo command in the workspace, of the toolchain that runs us. It does not learn which package
/// we are: build scripts look at that, and would run again because of it.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    let ours = |name: &OsString| {
        let name = name.to_string_lossy();
        name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
    };
    for (name, _) in env::vars_os().filter(|(name, _)| ours(name)) {
        command.env_remove(name);
    }
    command
}

/// What `cargo metadata` says about the workspace's own packages.
pub(crate) fn metadata() -> Result<Value> {
    let mut command = cargo();
    command.args(["metadata", "--no-deps", "--format-version", "1", "--offline"]);
    let text = process::capture_ok(&mut command)?;
    serde_json::from_str(&text).context("cannot read the output of `cargo metadata`")
}

/// The elements of a JSON array, or nothing when it is not one.
pub(crate) fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A JSON string, or "" when it is not one.
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
