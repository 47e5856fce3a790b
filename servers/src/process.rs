//! Running other programs so that none outlives us.
//!
//! Every program gets a process group of its own: a Ctrl-C in the terminal then reaches only
//! this program, which ends the whole group (cargo, compiler, tests) and afterwards its servers,
//! in that order. Standard input is closed, because a background group may not read a terminal.

use std::env;
use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::family;
use crate::interrupt::{self, Interrupted};

const POLL: Duration = Duration::from_millis(20);

/// Longer than nextest's own ten seconds of grace, so that it can clean up after its tests.
const GROUP_GRACE: Duration = Duration::from_secs(15);

/// Runs a command to its end with our output; a non-zero exit is an error.
pub fn run(command: &mut Command) -> Result<()> {
    let status = wait_for(command)?;
    if !status.success() {
        bail!("`{}` failed ({status})", describe(command));
    }
    Ok(())
}

/// Runs a command to its end and returns how it ended and what it wrote to standard output.
pub fn capture(command: &mut Command) -> Result<(ExitStatus, String)> {
    let mut output: File = tempfile::tempfile().context("cannot create a temporary file")?;
    command.stdout(output.try_clone()?);
    let status = wait_for(command)?;
    output.rewind()?;
    let mut bytes = Vec::new();
    output.read_to_end(&mut bytes)?;
    Ok((status, String::from_utf8_lossy(&bytes).into_owned()))
}

/// Like [`capture`], for commands whose failure leaves nothing to look at.
pub fn capture_ok(command: &mut Command) -> Result<String> {
    let (status, output) = capture(command)?;
    if !status.success() {
        bail!("`{}` failed ({status})", describe(command));
    }
    Ok(output)
}

/// Whether a command can be run and succeeds; it is not shown to anyone.
pub fn succeeds(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// Finds a program in the folders of `PATH`.
pub fn on_path(program: &str) -> Option<PathBuf> {
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// Waits until `ready` says yes, a signal arrives or the time is over.
pub fn wait_until(limit: Duration, mut ready: impl FnMut() -> Result<bool>) -> Result<bool> {
    let deadline = Instant::now() + limit;
    while !ready()? {
        interrupt::check()?;
        if Instant::now() >= deadline {
            return Ok(false);
        }
        thread::sleep(POLL);
    }
    Ok(true)
}

/// Like [`wait_until`], for who tidies up: a signal does not end it.
pub(crate) fn retry_until(limit: Duration, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + limit;
    while !done() && Instant::now() < deadline {
        thread::sleep(POLL);
    }
}

/// A program in the background; it is stopped when this value goes away, however that happens.
#[derive(Debug)]
pub struct Background {
    child: Child,
    stop: Signal,
    grace: Duration,
    /// What it needs; ended after it.
    helper: Option<Box<Self>>,
    /// What it started is ended after it, too: its group, and who has this mark.
    family: Option<String>,
}

impl Background {
    /// Starts the command; `stop` is the signal it understands as a request to end.
    pub fn start(command: &mut Command, stop: Signal) -> Result<Self> {
        let child = spawn(command)?;
        Ok(Self { child, stop, grace: Duration::from_secs(10), helper: None, family: None })
    }

    /// Keeps another program for as long as this one.
    #[must_use]
    pub fn with(mut self, helper: Self) -> Self {
        self.helper = Some(Box::new(helper));
        self
    }

    /// Ends what it started whenever it ends: its group, and every process that
    /// [`family::mark`] marked.
    pub(crate) fn with_family(mut self, mark: String) -> Self {
        self.family = Some(mark);
        self
    }

    /// Its number.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends it at once, and everything that it started.
    pub fn kill(mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            let _ = self.child.wait();
        }
        // The guard that goes away here ends what left the group.
    }

    /// How the program ended, if it did.
    pub fn exited(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        end(&mut self.child, self.grace, |pid, last| {
            let signal = if last { Signal::KILL } else { self.stop };
            let _ = match &self.family {
                Some(_) => kill_process_group(pid, signal),
                None => kill_process(pid, signal),
            };
        });
        if let Some(mark) = &self.family {
            family::end(mark);
        }
    }
}

fn spawn(command: &mut Command) -> Result<Child> {
    interrupt::check()?;
    command
        .stdin(Stdio::null())
        .process_group(0)
        .spawn()
        .with_context(|| format!("cannot run `{}`", describe(command)))
}

fn wait_for(command: &mut Command) -> Result<ExitStatus> {
    let mut child = spawn(command)?;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if interrupt::requested() {
            end(&mut child, GROUP_GRACE, |pid, last| {
                let _ = kill_process_group(pid, if last { Signal::KILL } else { Signal::TERM });
            });
            return Err(Interrupted.into());
        }
        thread::sleep(POLL);
    }
}

/// Asks a child to end, insists after the grace time, and reaps it. A child that was reaped
/// before is left alone: its number may belong to another process by now.
fn end(child: &mut Child, grace: Duration, signal: impl Fn(Pid, bool)) {
    let Ok(None) = child.try_wait() else { return };
    signal(Pid::from_child(child), false);
    let deadline = Instant::now() + grace;
    while let Ok(None) = child.try_wait() {
        if Instant::now() >= deadline {
            signal(Pid::from_child(child), true);
            let _ = child.wait();
            return;
        }
        thread::sleep(POLL);
    }
}

/// The command as one would type it.
fn describe(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let name = program.file_name().unwrap_or(program.as_os_str());
    let words = std::iter::once(name).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use rustix::process::test_kill_process;

    use super::*;

    fn sleeper() -> Background {
        Background::start(Command::new("sleep").arg("600"), Signal::TERM).unwrap()
    }

    #[test]
    fn capture_returns_standard_output() {
        let (status, output) = capture(Command::new("echo").arg("hello")).unwrap();
        assert!(status.success());
        assert_eq!(output, "hello\n");
    }

    #[test]
    fn failing_command_is_named_in_the_error() {
        let error = run(Command::new("sh").args(["-c", "exit 3"])).unwrap_err();
        assert!(error.to_string().starts_with("`sh -c exit 3` failed"), "{error}");
    }

    #[test]
    fn missing_program_is_an_error_and_not_a_success() {
        assert!(run(&mut Command::new("no-such-program-here")).is_err());
        assert!(!succeeds(&mut Command::new("no-such-program-here")));
        assert_eq!(on_path("no-such-program-here"), None);
    }

    #[test]
    fn background_program_ends_with_its_guard() {
        let sleeper = sleeper();
        let pid = Pid::from_child(&sleeper.child);
        assert!(test_kill_process(pid).is_ok());
        drop(sleeper);
        assert!(test_kill_process(pid).is_err());
    }

    #[test]
    fn background_program_ends_with_a_panic() {
        let mut pid = None;
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let sleeper = sleeper();
            pid = Some(Pid::from_child(&sleeper.child));
            panic!("planted");
        }));
        assert!(outcome.is_err());
        assert!(test_kill_process(pid.unwrap()).is_err());
    }

    #[test]
    fn deaf_background_program_is_killed_after_the_grace_time() {
        let folder = tempfile::tempdir().unwrap();
        let trapped = folder.path().join("trapped");
        let script = "trap '' TERM; : > \"$0\"; while :; do sleep 0.05; done";
        let mut command = Command::new("sh");
        command.args(["-c", script]).arg(&trapped);
        let mut deaf = Background::start(&mut command, Signal::TERM).unwrap();
        assert!(wait_until(Duration::from_secs(10), || Ok(trapped.exists())).unwrap());
        deaf.grace = Duration::from_millis(100);
        let pid = Pid::from_child(&deaf.child);
        drop(deaf);
        assert!(test_kill_process(pid).is_err());
    }

    #[test]
    fn waiting_ends_when_the_time_is_over() {
        assert!(!wait_until(Duration::from_millis(1), || Ok(false)).unwrap());
        assert!(wait_until(Duration::from_secs(5), || Ok(true)).unwrap());
    }
}
