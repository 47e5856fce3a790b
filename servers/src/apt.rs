//! Installing Debian packages without the services that they would start.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::process;

/// Debian asks this script whether a freshly installed service may start.
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// 101 is the answer "no".
const REFUSE: &str = "#!/bin/sh\nexit 101\n";

/// Installs the packages; their services stay off. Needs root.
pub(crate) fn install(packages: &[&str]) -> Result<()> {
    let _guard = NoServices::enter(Path::new(POLICY))?;
    if process::run(&mut apt(&["install"], packages)).is_err() {
        println!("apt-get failed; once more after updating its package lists");
        process::run(&mut apt(&["update"], &[]))?;
        process::run(&mut apt(&["install"], packages))?;
    }
    Ok(())
}

fn apt(verb: &[&str], packages: &[&str]) -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command.args(["--quiet", "--yes", "--no-install-recommends"]).args(verb).args(packages);
    command
}

/// Keeps packaged services from starting; puts back what was there before.
struct NoServices {
    policy: PathBuf,
    before: Option<(Vec<u8>, fs::Permissions)>,
}

impl NoServices {
    fn enter(policy: &Path) -> Result<Self> {
        let before = match fs::metadata(policy) {
            Ok(metadata) => Some((fs::read(policy)?, metadata.permissions())),
            Err(_) => None,
        };
        let guard = Self { policy: policy.to_path_buf(), before };
        write(policy, REFUSE.as_bytes(), fs::Permissions::from_mode(0o755))?;
        Ok(guard)
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        let restored = match self.before.take() {
            Some((text, permissions)) => write(&self.policy, &text, permissions),
            None => fs::remove_file(&self.policy).context("cannot remove the guard"),
        };
        if let Err(error) = restored {
            eprintln!("please restore {}: {error:#}", self.policy.display());
        }
    }
}

fn write(path: &Path, text: &[u8], permissions: fs::Permissions) -> Result<()> {
    fs::write(path, text)
        .and_then(|()| fs::set_permissions(path, permissions))
        .with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_that_was_absent_is_absent_again() {
        let folder = tempfile::tempdir().unwrap();
        let policy = folder.path().join("policy-rc.d");
        let guard = NoServices::enter(&policy).unwrap();
        assert_eq!(fs::read_to_string(&policy).unwrap(), REFUSE);
        assert_eq!(fs::metadata(&policy).unwrap().permissions().mode() & 0o777, 0o755);
        drop(guard);
        assert!(!policy.exists());
    }

    #[test]
    fn policy_of_the_system_is_restored() {
        let folder = tempfile::tempdir().unwrap();
        let policy = folder.path().join("policy-rc.d");
        write(&policy, b"#!/bin/sh\nexit 0\n", fs::Permissions::from_mode(0o700)).unwrap();
        drop(NoServices::enter(&policy).unwrap());
        assert_eq!(fs::read_to_string(&policy).unwrap(), "#!/bin/sh\nexit 0\n");
        assert_eq!(fs::metadata(&policy).unwrap().permissions().mode() & 0o777, 0o700);
    }
}
