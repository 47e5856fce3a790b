//! PostgreSQL, with trust authentication on loopback only and no socket files.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Result, bail};
use rustix::process::Signal;

use crate::process::{self, Background};
use crate::{Durability, Place, Product, account};

pub(crate) struct Postgres;

impl Product for Postgres {
    fn name(&self) -> &'static str {
        "PostgreSQL"
    }

    fn variable(&self) -> &'static str {
        "POSTROOM_TEST_PG_URL"
    }

    fn packages(&self) -> &'static [&'static str] {
        &["postgresql"]
    }

    fn user(&self) -> &'static str {
        "postgres"
    }

    fn find(&self) -> Option<PathBuf> {
        let on_path = process::on_path("initdb").and_then(|path| path.canonicalize().ok());
        let on_path = on_path.and_then(|path| path.parent().map(Path::to_path_buf));
        let packaged = ["/usr/lib/postgresql", "/usr/local/lib/postgresql", "/opt/homebrew/opt"]
            .into_iter()
            .flat_map(|folder| versions(Path::new(folder)));
        let others = ["/usr/local/pgsql/bin", "/usr/pgsql/bin"].map(PathBuf::from);
        on_path.into_iter().chain(packaged).chain(others).find(|folder| is_complete(folder))
    }

    fn prepare(&self, place: &Place<'_>) -> Result<()> {
        create_cluster(place, &place.home.join("data"))
    }

    fn start(&self, place: &Place<'_>) -> Result<(Background, String)> {
        let (data, port) = (place.home.join("data"), place.port);
        // SIGINT is PostgreSQL's fast shutdown: open sessions are cut off.
        let mut command = place.server("postgres", "INT");
        without_pg_variables(&mut command);
        command.arg("-D").arg(&data).args(settings(port, place.durability));
        let server = place.launch(&mut command, Signal::INT, |_| accepts_connections(&data))?;
        Ok((server, format!("postgres://postgres@127.0.0.1:{port}/postgres")))
    }
}

fn create_cluster(place: &Place<'_>, data: &Path) -> Result<()> {
    let mut command = account::command(&place.programs.join("initdb"), place.account);
    without_pg_variables(command.current_dir(place.home));
    command.args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C"]);
    command.arg("--no-instructions");
    if place.durability == Durability::Discarded {
        command.arg("--no-sync");
    }
    command.arg("--pgdata").arg(data);
    let (status, output) = process::capture(&mut command)?;
    if !status.success() {
        bail!("initdb failed ({status})\n{output}");
    }
    Ok(())
}

fn settings(port: u16, durability: Durability) -> Vec<String> {
    let mut settings = vec![
        format!("port={port}"),
        "listen_addresses=127.0.0.1".into(),
        "unix_socket_directories=".into(),
        "max_connections=200".into(),
        // Many tests make and drop schemas at once.
        "max_locks_per_transaction=512".into(),
        "logging_collector=off".into(),
    ];
    settings.extend(match durability {
        Durability::Discarded => {
            ["fsync=off", "full_page_writes=off", "shared_buffers=64MB"].map(String::from)
        }
        Durability::Real => {
            ["fsync=on", "full_page_writes=on", "shared_buffers=256MB"].map(String::from)
        }
    });
    settings.into_iter().flat_map(|setting| ["-c".into(), setting]).collect()
}

/// The server writes its state to the eighth line of this file, as `pg_ctl` knows.
fn accepts_connections(data: &Path) -> bool {
    let state = fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
    state.lines().nth(7).is_some_and(|line| line.trim() == "ready")
}

/// The caller's PGDATA, PGPORT and the like are about another server.
fn without_pg_variables(command: &mut Command) {
    for (name, _) in env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PG")) {
        command.env_remove(name);
    }
}

fn is_complete(folder: &Path) -> bool {
    ["initdb", "postgres"].iter().all(|program| folder.join(program).is_file())
}

/// The `bin` folders of the versions below a folder, newest first: Debian names the folders
/// `17`, Homebrew `postgresql@17`.
fn versions(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<(u32, PathBuf)> = entries
        .filter_map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            let version = name.strip_prefix("postgresql@").unwrap_or(&name).parse().ok()?;
            Some((version, entry.path().join("bin")))
        })
        .collect();
    found.sort_by(|left, right| right.cmp(left));
    found.into_iter().map(|(_, path)| path).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_version_comes_first() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["9", "15", "postgresql@17", "other"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let expected = ["postgresql@17/bin", "15/bin", "9/bin"].map(|bin| folder.path().join(bin));
        assert_eq!(versions(folder.path()), expected);
    }

    #[test]
    fn missing_folder_has_no_versions() {
        assert_eq!(versions(Path::new("/no/such/folder")), Vec::<PathBuf>::new());
    }

    #[test]
    fn ready_state_is_on_the_eighth_line() {
        let data = tempfile::tempdir().unwrap();
        assert!(!accepts_connections(data.path()));
        let state = |word: &str| format!("1\n/data\n0\n5432\n\n127.0.0.1\n  1 2\n{word}  \n");
        fs::write(data.path().join("postmaster.pid"), state("starting")).unwrap();
        assert!(!accepts_connections(data.path()));
        fs::write(data.path().join("postmaster.pid"), state("ready")).unwrap();
        assert!(accepts_connections(data.path()));
    }

    #[test]
    fn only_real_durability_waits_for_the_disk() {
        let has = |durability, setting: &str| {
            settings(5432, durability).iter().any(|found| found == setting)
        };
        assert!(has(Durability::Discarded, "fsync=off"));
        assert!(has(Durability::Real, "fsync=on"));
        assert!(has(Durability::Real, "listen_addresses=127.0.0.1"));
    }
}
