//! Finds the migrations of sqlxmq, which are files of its package and not a part of its library.

use std::path::Path;
use std::process::Command;

use anyhow::Context as _;
use serde_json::Value;

fn main() -> anyhow::Result<()> {
    let cargo = std::env::var_os("CARGO").context("cargo runs this")?;
    let metadata =
        Command::new(cargo).args(["metadata", "--locked", "--format-version", "1"]).output()?;
    let metadata: Value = serde_json::from_slice(&metadata.stdout)?;
    let packages = metadata["packages"].as_array().context("no packages")?;
    let sqlxmq = packages.iter().find(|one| one["name"] == "sqlxmq").context("no sqlxmq")?;
    let manifest = sqlxmq["manifest_path"].as_str().context("no path")?;
    let folder = Path::new(manifest).parent().context("no folder")?.join("migrations");
    println!("cargo::rustc-env=SQLXMQ_MIGRATIONS={}", folder.display());
    println!("cargo::rerun-if-changed=Cargo.lock");
    Ok(())
}
