//! Processes that a program starts in groups and sessions of their own, such as the browsers of a
//! driver: known by a variable in their environment, which every descendant inherits.

use std::process::Command;

#[cfg(target_os = "linux")]
pub(crate) use linux::end;

/// The variable. Its value is the folder of the server, which nobody else has.
const VARIABLE: &str = "POSTROOM_SERVER_FAMILY";

/// Marks a program and all that it will start.
pub(crate) fn mark(command: &mut Command, family: &str) {
    command.env(VARIABLE, family);
}

/// Without `/proc` there is the group of the program only, which its guard ends.
#[cfg(not(target_os = "linux"))]
pub(crate) fn end(_family: &str) {}

#[cfg(target_os = "linux")]
mod linux {
    use std::collections::HashSet;
    use std::fs;
    use std::os::fd::OwnedFd;
    use std::time::Duration;

    use rustix::process::{Pid, PidfdFlags, Signal, getpgrp, pidfd_open, pidfd_send_signal};

    use super::VARIABLE;
    use crate::process::retry_until;

    /// How long the kernel may take to end what was killed.
    const LIMIT: Duration = Duration::from_secs(10);

    /// Ends every process that is left of a family, also those that are born meanwhile.
    pub(crate) fn end(family: &str) {
        retry_until(LIMIT, || {
            let members = members(family);
            for member in &members {
                let _ = pidfd_send_signal(member, Signal::KILL);
            }
            members.is_empty()
        });
    }

    /// Those with the mark, and those in the groups of such: some programs write over their
    /// environment. Each by a handle that means this very process, and no later one with the same
    /// number.
    pub(super) fn members(family: &str) -> Vec<OwnedFd> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let process = |number: i32| {
            let handle = pidfd_open(Pid::from_raw(number)?, PidfdFlags::empty()).ok()?;
            Some((handle, group(number)?, is_marked(number, family)))
        };
        let all: Vec<_> = numbers.filter_map(process).collect();
        let marked = all.iter().filter(|(_, _, is_marked)| *is_marked);
        let mut groups: HashSet<i32> = marked.map(|(_, group, _)| *group).collect();
        // Whoever shares a group with us is not one of them for that.
        groups.remove(&getpgrp().as_raw_nonzero().get());
        let is_ours = |(_, group, is_marked): &(_, i32, bool)| *is_marked || groups.contains(group);
        all.into_iter().filter(is_ours).map(|(handle, ..)| handle).collect()
    }

    /// The group of a process; nothing when it has ended and is only not reaped yet.
    fn group(number: i32) -> Option<i32> {
        let stat = fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
        // Its name is in brackets, and may contain some.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next().filter(|state| *state != "Z");
        state.and_then(|_| fields.nth(1)?.parse().ok())
    }

    fn is_marked(number: i32, family: &str) -> bool {
        let environment = fs::read(format!("/proc/{number}/environ")).unwrap_or_default();
        let wanted = format!("{VARIABLE}={family}");
        environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::process::Stdio;
    use std::time::Duration;

    use super::*;
    use crate::process::wait_until;

    #[test]
    fn a_family_ends_and_nobody_else() {
        let sleeper = |family: &str| {
            let mut command = Command::new("sh");
            // One that waits, and one in a session of its own that nobody waits for.
            command.args(["-c", "setsid sleep 600 & exec sleep 600"]).stdin(Stdio::null());
            command.process_group(0);
            mark(&mut command, family);
            command.spawn().expect("a shell")
        };
        let folder = tempfile::tempdir().expect("a folder");
        let (ours, theirs) = (folder.path().join("ours"), folder.path().join("ours-not"));
        let (ours, theirs) = (ours.to_str().expect("text"), theirs.to_str().expect("text"));
        let (mut child, mut other) = (sleeper(ours), sleeper(theirs));
        let both = || Ok(linux::members(ours).len() == 2 && linux::members(theirs).len() == 2);
        assert!(wait_until(Duration::from_secs(10), both).expect("no signal"));
        end(ours);
        assert!(!child.wait().expect("reaped").success());
        assert_eq!(linux::members(ours).len(), 0);
        assert_eq!(linux::members(theirs).len(), 2);
        end(theirs);
        let _ = other.wait();
    }
}
