//! MariaDB, with a root account without a password on loopback only.
//!
//! The binary log is on, in the format that the store asks for: rights that are missing only
//! then (triggers, procedures) show up in the tests, as they would in production.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use rustix::process::Signal;

use crate::process::{self, Background};
use crate::{Durability, Place, Product, account};

/// What the server writes to its log when it takes connections. (The port is open before.)
const READY: &str = "ready for connections";

pub(crate) struct MariaDb;

impl Product for MariaDb {
    fn name(&self) -> &'static str {
        "MariaDB"
    }

    fn variable(&self) -> &'static str {
        "POSTROOM_TEST_MYSQL_URL"
    }

    fn packages(&self) -> &'static [&'static str] {
        &["mariadb-server"]
    }

    fn user(&self) -> &'static str {
        "mysql"
    }

    /// The folder of the server itself; see [`installer`] for its second program.
    fn find(&self) -> Option<PathBuf> {
        let on_path = process::on_path("mariadbd").and_then(|path| path.canonicalize().ok());
        let on_path = on_path.and_then(|path| path.parent().map(Path::to_path_buf));
        let packaged = [
            "/usr/sbin",
            "/usr/bin",
            "/usr/libexec",
            "/usr/local/bin",
            "/opt/homebrew/opt/mariadb/bin",
            "/usr/local/mysql/bin",
        ];
        on_path
            .into_iter()
            .chain(packaged.map(PathBuf::from))
            .find(|folder| folder.join("mariadbd").is_file() && installer(folder).is_some())
    }

    fn prepare(&self, place: &Place<'_>) -> Result<()> {
        create_tables(place, &place.home.join("data"))
    }

    fn start(&self, place: &Place<'_>) -> Result<(Background, String)> {
        let (data, port) = (place.home.join("data"), place.port);
        // MariaDB is deaf to SIGINT; SIGTERM cuts open sessions off and shuts down.
        let mut command = place.server("mariadbd", "TERM");
        without_mysql_variables(&mut command);
        command.arg("--no-defaults").args(settings(&data, port, place.durability));
        let server = place.launch(&mut command, Signal::TERM, |log| log.contains(READY))?;
        Ok((server, format!("mysql://root@127.0.0.1:{port}/")))
    }
}

/// Makes the system tables and the root account.
fn create_tables(place: &Place<'_>, data: &Path) -> Result<()> {
    let installer = installer(place.programs).context("mariadb-install-db is gone")?;
    let mut command = account::command(&installer, place.account);
    without_mysql_variables(command.current_dir(place.home));
    command.args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]);
    command.args([option("datadir", data), option("tmpdir", place.home)]);
    command.stderr(std::process::Stdio::null());
    let (status, output) = process::capture(&mut command)?;
    if !status.success() {
        bail!("mariadb-install-db failed ({status})\n{output}");
    }
    Ok(())
}

fn settings(data: &Path, port: u16, durability: Durability) -> Vec<String> {
    let (flush, pool) = match durability {
        Durability::Discarded => (0, "128M"),
        Durability::Real => (1, "256M"),
    };
    vec![
        option("datadir", data),
        option("socket", &data.join("server.sock")),
        option("pid-file", &data.join("server.pid")),
        option("tmpdir", data),
        format!("--port={port}"),
        "--bind-address=127.0.0.1".into(),
        "--skip-networking=0".into(),
        "--skip-name-resolve".into(),
        "--max-connections=500".into(),
        "--character-set-server=utf8mb4".into(),
        "--server-id=1".into(),
        "--log-bin=binlog".into(),
        "--binlog-format=ROW".into(),
        format!("--innodb-buffer-pool-size={pool}"),
        format!("--innodb-flush-log-at-trx-commit={flush}"),
        format!("--sync-binlog={flush}"),
    ]
}

fn option(name: &str, path: &Path) -> String {
    format!("--{name}={}", path.display())
}

/// The program that makes a data folder: beside the server, or in another folder of the same
/// installation (Debian has the server in `sbin`).
fn installer(programs: &Path) -> Option<PathBuf> {
    const NAME: &str = "mariadb-install-db";
    let nearby = [".", "../bin", "../scripts"].map(|folder| programs.join(folder).join(NAME));
    nearby.into_iter().find(|path| path.is_file()).or_else(|| process::on_path(NAME))
}

/// The caller's MYSQL_HOST, MYSQL_HOME and the like are about another server.
fn without_mysql_variables(command: &mut Command) {
    let foreign = |name: &str| name.starts_with("MYSQL") || name.starts_with("MARIADB");
    for (name, _) in env::vars_os().filter(|(name, _)| foreign(&name.to_string_lossy())) {
        command.env_remove(name);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn installer_may_be_in_a_folder_beside_the_servers() {
        let folder = tempfile::tempdir().unwrap();
        let [server, tools] = ["sbin", "bin"].map(|name| folder.path().join(name));
        fs::create_dir(&server).unwrap();
        fs::create_dir(&tools).unwrap();
        fs::write(tools.join("mariadb-install-db"), "").unwrap();
        let found = installer(&server).unwrap();
        assert_eq!(found.canonicalize().unwrap(), tools.join("mariadb-install-db"));
    }

    #[test]
    fn only_real_durability_waits_for_the_disk() {
        let has = |durability, setting: &str| {
            settings(Path::new("/data"), 3306, durability).iter().any(|found| found == setting)
        };
        for name in ["innodb-flush-log-at-trx-commit", "sync-binlog"] {
            assert!(has(Durability::Discarded, &format!("--{name}=0")));
            assert!(has(Durability::Real, &format!("--{name}=1")));
        }
        assert!(has(Durability::Real, "--binlog-format=ROW"));
        assert!(has(Durability::Real, "--bind-address=127.0.0.1"));
    }
}
