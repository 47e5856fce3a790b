//! `postroom up` on an embedded database: events flow from one process to the other.

mod desk;

use std::io::{BufRead as _, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::Value;

/// Generous: it bounds a hang, it measures nothing.
const PATIENCE: Duration = Duration::from_secs(60);

fn postroom(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_postroom"));
    for name in [
        "POSTROOM_URL",
        "POSTROOM_SCHEMA",
        "POSTROOM_PREFIX",
        "POSTROOM_SOURCE",
        "POSTROOM_CONFIG",
        "POSTROOM_LISTEN",
        "POSTROOM_TOKEN_FILE",
    ] {
        command.env_remove(name);
    }
    command.current_dir(folder).stdin(Stdio::null());
    command
}

fn enqueue(folder: &Path, topic: &str) {
    let payload = format!(r#"{{"of":"{topic}"}}"#);
    let done = postroom(folder).args(["enqueue", topic, "--payload", &payload]).output();
    let done = done.expect("the binary runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

fn stats(folder: &Path) -> Value {
    let done = postroom(folder).args(["stats", "--json"]).output().expect("the binary runs");
    serde_json::from_slice(&done.stdout).expect("JSON")
}

/// A running `postroom up` whose lines can be waited for.
struct Up {
    child: Child,
    lines: mpsc::Receiver<String>,
    said: mpsc::Receiver<String>,
}

impl Up {
    fn start(folder: &Path) -> Self {
        Self::with(folder, &["--listen", "off"])
    }

    fn with(folder: &Path, arguments: &[&str]) -> Self {
        let mut child = postroom(folder)
            .args(["up", "--source", "/shop"])
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let lines = received(child.stdout.take().expect("piped"));
        let said = received(child.stderr.take().expect("piped"));
        Self { child, lines, said }
    }

    /// Waits for a line on standard error that begins so, and gives the rest of it.
    fn says(&self, start: &str) -> String {
        loop {
            let line = self.said.recv_timeout(PATIENCE).expect("a line in time");
            if let Some(rest) = line.strip_prefix(start) {
                return rest.to_owned();
            }
        }
    }

    fn event(&self) -> Value {
        let line = self.lines.recv_timeout(PATIENCE).expect("an event in time");
        serde_json::from_str(&line).expect("a line of JSON")
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status().expect("kill runs");
        assert!(sent.success());
    }
}

/// The lines of a stream as they come.
fn received(stream: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    lines
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn rly_1_what_one_process_enqueues_the_other_prints_and_it_is_done() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    enqueue(folder.path(), "before.start");
    let mut up = Up::start(folder.path());
    let first = up.event();
    assert_eq!((&first["type"], &first["source"]), (&"before.start".into(), &"/shop".into()));
    assert_eq!(first["data"], serde_json::json!({"of": "before.start"}));
    enqueue(folder.path(), "while.running");
    assert_eq!(up.event()["type"], "while.running");
    up.signal("-TERM");
    let status = up.child.wait().expect("it ends");
    assert_eq!(status.code(), Some(0), "SIGTERM drains");
    let stats = stats(folder.path());
    assert_eq!((&stats["done"], &stats["leased"]), (&2.into(), &0.into()), "{stats}");
}

/// A killed relay loses nothing: what it held comes again when its lease runs out, and what it had
/// settled does not.
#[test]
fn dsp_11_a_killed_relay_loses_nothing_that_was_settled_or_not_begun() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    enqueue(folder.path(), "one");
    let mut up = Up::start(folder.path());
    assert_eq!(up.event()["type"], "one");
    // Wait until it is settled, so that the kill hits an idle relay.
    while stats(folder.path())["done"] != 1 {
        std::thread::yield_now();
    }
    up.signal("-KILL");
    up.child.wait().expect("it ends");
    enqueue(folder.path(), "two");
    let up = Up::start(folder.path());
    assert_eq!(up.event()["type"], "two", "and not one again");
}
