//! The unprivileged user that servers run as when we are root; most of them refuse root.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::process;

/// A user of this system.
#[derive(Debug)]
pub(crate) struct Account {
    uid: u32,
    gid: u32,
}

impl Account {
    /// The preferred user, or `nobody`; `None` when we are not root and stay who we are.
    pub(crate) fn unprivileged(preferred: &str) -> Result<Option<Self>> {
        if !is_root() {
            return Ok(None);
        }
        for name in [preferred, "nobody"] {
            if let (Some(uid), Some(gid)) = (number("-u", name), number("-g", name)) {
                return Ok(Some(Self { uid, gid }));
            }
        }
        bail!("servers do not run as root, and there is neither a user {preferred} nor nobody")
    }

    /// Gives a folder to this user.
    pub(crate) fn own(&self, folder: &Path) -> Result<()> {
        chown(folder, Some(self.uid), Some(self.gid))
            .with_context(|| format!("cannot give {} away", folder.display()))
    }
}

/// Whether we may do everything on this system.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A command that runs as `account`, or as ourselves.
pub(crate) fn command(program: &Path, account: Option<&Account>) -> Command {
    under(Command::new(program), account)
}

/// Like [`command`], for servers. The kernel sends the server the signal `stop` (`TERM`) when we
/// die without a chance to do it (SIGKILL), where a program to ask for that exists.
pub(crate) fn server(program: &Path, account: Option<&Account>, stop: &str) -> Command {
    let Some(setpriv) = process::on_path("setpriv").filter(|path| knows_parent_death(path)) else {
        return command(program, account);
    };
    let mut command = Command::new(setpriv);
    command.args(["--pdeathsig", stop]).arg(program);
    under(command, account)
}

fn under(mut command: Command, account: Option<&Account>) -> Command {
    if let Some(account) = account {
        command.uid(account.uid).gid(account.gid);
    }
    command
}

/// The `setpriv` of some systems (busybox) lacks the option.
fn knows_parent_death(setpriv: &Path) -> bool {
    process::succeeds(Command::new(setpriv).args(["--pdeathsig", "INT", "true"]))
}

fn number(option: &str, name: &str) -> Option<u32> {
    let output = Command::new("id").args([option, name]).stderr(Stdio::null()).output().ok()?;
    String::from_utf8_lossy(&output.stdout).trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_number_zero() {
        assert_eq!(number("-u", "root"), Some(0));
        assert_eq!(number("-u", "no-such-user-here"), None);
    }

    #[test]
    fn account_is_never_root() {
        let account = Account::unprivileged("no-such-user-here").unwrap();
        assert_eq!(account.is_some(), is_root());
        assert!(account.is_none_or(|account| account.uid != 0));
    }
}
