//! Nothing stays behind: no process and no folder, whichever way a task ends.
//!
//! The programs are stand-ins of a few lines, so that these tests need no server; what they
//! check is ours: who is started, who is stopped, what is removed.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use std::{env, fs};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tempfile::TempDir;

const INITDB: &str = "#!/bin/sh\nfor last; do :; done\nmkdir \"$last\"\n";

/// Says that it is ready in the way of PostgreSQL, then waits for a signal.
const POSTGRES: &str = "#!/bin/sh
printf '%s\\n' $$ \"$2\" 0 0 '' 127.0.0.1 0 ready > \"$2/postmaster.pid\"
exec sleep 600
";

const INSTALL_DB: &str = "#!/bin/sh
for word; do case $word in --datadir=*) mkdir \"${word#*=}\";; esac; done
";

/// Says that it is ready in the way of MariaDB, then waits for a signal.
const MARIADBD: &str = "#!/bin/sh
for word; do case $word in --pid-file=*) echo $$ > \"${word#*=}\";; esac; done
echo ready for connections
exec sleep 600
";

/// The variables with the URLs of servers, and where their stand-ins write who they are.
const SERVERS: [(&str, &str); 2] = [
    ("POSTROOM_TEST_PG_URL=postgres://", "data/postmaster.pid"),
    ("POSTROOM_TEST_MYSQL_URL=mysql://", "data/server.pid"),
];

/// A place with stand-in programs and a folder for temporary files that can be looked into.
struct Stage {
    folder: TempDir,
}

impl Stage {
    fn new(cargo: &str) -> Self {
        let stage = Self { folder: tempfile::tempdir().unwrap() };
        let public = fs::Permissions::from_mode(0o755);
        fs::set_permissions(stage.folder.path(), public.clone()).unwrap();
        fs::create_dir(stage.temporary()).unwrap();
        let programs = [
            ("initdb", INITDB),
            ("postgres", POSTGRES),
            ("mariadb-install-db", INSTALL_DB),
            ("mariadbd", MARIADBD),
            ("cargo", cargo),
        ];
        for (name, text) in programs {
            let path = stage.folder.path().join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, public.clone()).unwrap();
        }
        stage
    }

    fn temporary(&self) -> PathBuf {
        self.folder.path().join("tmp")
    }

    fn start(&self, task: &str) -> Task {
        let path = format!("{}:{}", self.folder.path().display(), env::var("PATH").unwrap());
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command.arg(task).env("PATH", path).env("TMPDIR", self.temporary());
        command.env("CARGO", self.folder.path().join("cargo"));
        command.env("CARGO_PID_FILE", self.folder.path().join("cargo.pid"));
        for variable in ["POSTROOM_TEST_PG_URL", "POSTROOM_TEST_MYSQL_URL", "POSTROOM_BENCH_PG_URL"]
        {
            command.env_remove(variable);
        }
        Task(command.stdout(Stdio::piped()).spawn().unwrap())
    }

    /// The process of the stand-in server that writes this file.
    fn server(&self, pid_file: &str) -> Pid {
        let homes = fs::read_dir(self.temporary()).unwrap().map(|entry| entry.unwrap().path());
        let path = homes.map(|home| home.join(pid_file)).find(|path| path.exists()).unwrap();
        read_pid(&path)
    }

    fn is_empty(&self) -> bool {
        fs::read_dir(self.temporary()).unwrap().next().is_none()
    }
}

fn read_pid(path: &Path) -> Pid {
    let mut text = String::new();
    eventually(|| {
        text = fs::read_to_string(path).unwrap_or_default();
        text.contains('\n')
    });
    Pid::from_raw(text.lines().next().unwrap().parse().unwrap()).unwrap()
}

fn eventually(mut happened: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !happened() {
        assert!(Instant::now() < deadline, "it did not happen within 20 seconds");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A running xtask; a test that panics does not leave it behind.
struct Task(Child);

impl Task {
    fn end_by(&mut self, signal: Signal) -> ExitStatus {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
        self.0.wait().unwrap()
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            self.end_by(Signal::TERM);
        }
    }
}

#[test]
fn signal_stops_servers_and_removes_their_folder() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let stage = Stage::new("#!/bin/sh\n");
        let mut task = stage.start("servers");
        let mut lines = BufReader::new(task.0.stdout.take().unwrap()).lines();
        let servers = SERVERS.map(|(variable, pid_file)| {
            let line = lines.next().unwrap().unwrap();
            assert!(line.starts_with(&format!("export {variable}")), "{line}");
            stage.server(pid_file)
        });
        assert!(servers.iter().all(|&server| test_kill_process(server).is_ok()));
        task.end_by(signal);
        for server in servers {
            assert!(test_kill_process(server).is_err(), "a server outlived {signal:?}");
        }
        assert!(stage.is_empty(), "a folder outlived {signal:?}");
    }
}

#[test]
fn signal_during_a_step_ends_the_step_too() {
    let stage = Stage::new("#!/bin/sh\necho $$ > \"$CARGO_PID_FILE\"\nsleep 600\n");
    let mut task = stage.start("bench");
    let step = read_pid(&stage.folder.path().join("cargo.pid"));
    let server = stage.server("data/postmaster.pid");
    let status = task.end_by(Signal::INT);
    assert_eq!(status.code(), Some(130));
    assert!(test_kill_process(step).is_err());
    assert!(test_kill_process(server).is_err());
    assert!(stage.is_empty());
}

#[test]
fn failing_step_leaves_nothing_behind() {
    let script = "#!/bin/sh\ncp \"$TMPDIR\"/*/data/postmaster.pid \"$CARGO_PID_FILE\"\nexit 3\n";
    let stage = Stage::new(script);
    let status = stage.start("bench").0.wait().unwrap();
    assert_eq!(status.code(), Some(1));
    assert!(test_kill_process(read_pid(&stage.folder.path().join("cargo.pid"))).is_err());
    assert!(stage.is_empty());
}
