//! A folder with a configuration, a folder of tenants, and the binary.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, SqliteConnection};
use tempfile::TempDir;

/// Generous: it bounds a hang, it measures nothing.
const PATIENCE: Duration = Duration::from_secs(60);

/// All events go to one file.
const SINK: &str = r#"
[admin]
listen = "off"

[dispatcher]
lease = "2s"
timeout = "1s"

[sinks.events.file]
path = "events.jsonl"

[[routes]]
topics = "*"
sink = "events"
"#;

pub(crate) struct World {
    folder: TempDir,
}

#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl World {
    /// With a configuration that has these stores.
    pub(crate) fn new(stores: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("tenants")).expect("a folder");
        let config = format!("{SINK}{stores}");
        std::fs::write(folder.path().join("postroom.toml"), config).expect("a file");
        Self { folder }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// An empty file for a tenant.
    pub(crate) fn tenant(&self, name: &str) {
        std::fs::write(self.file(name), "").expect("a file");
    }

    pub(crate) fn file(&self, name: &str) -> std::path::PathBuf {
        self.path().join("tenants").join(format!("{name}.db"))
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_postroom"));
        for name in ["URL", "SCHEMA", "PREFIX", "SOURCE", "CONFIG", "SINK", "LOG", "LISTEN"] {
            command.env_remove(format!("POSTROOM_{name}"));
        }
        command.current_dir(self.path()).stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        let ran = self.command().args(arguments).output().expect("the binary runs");
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        let ran =
            Ran { code: ran.status.code(), stdout: text(ran.stdout), stderr: text(ran.stderr) };
        assert!(!format!("{ran:?}").contains("s3cret"), "{ran:?}");
        ran
    }

    /// Standard output of a run that has to succeed.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert_eq!(ran.code, Some(0), "{arguments:?}: {ran:?}");
        ran.stdout
    }

    /// Writes a message into the file of a tenant, and gives its id.
    pub(crate) fn enqueue(&self, tenant: &str, topic: &str) -> String {
        let url = format!("sqlite:tenants/{tenant}.db");
        let id = self.ok(&["--url", &url, "enqueue", topic, "--payload", "{}"]);
        id.trim().to_owned()
    }

    pub(crate) fn up(&self) -> Up {
        let mut command = self.command();
        command.args(["up", "--config", "postroom.toml"]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let mut child = child.expect("the binary starts");
        let stderr = child.stderr.take().expect("piped");
        let (sender, said) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                assert!(!line.contains("s3cret"), "{line}");
                let _ = sender.send(line);
            }
        });
        Up { child, said }
    }

    /// The topics of the events that have arrived.
    pub(crate) fn topics(&self) -> BTreeSet<String> {
        self.events("type")
    }

    pub(crate) fn events(&self, field: &str) -> BTreeSet<String> {
        let lines = std::fs::read_to_string(self.path().join("events.jsonl")).unwrap_or_default();
        let events = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        events.map(|event| event[field].as_str().expect("a text").to_owned()).collect()
    }

    pub(crate) fn wait_for_topic(&self, topic: &str) {
        wait_until(topic, || self.topics().contains(topic));
    }

    /// Runs SQL on the master database, which is a file here.
    pub(crate) fn on_master(&self, sql: &str) {
        block_on(async {
            let url = format!("sqlite:{}/master.db?mode=rwc", self.path().display());
            let mut conn = SqliteConnection::connect(&url).await.expect("opens");
            conn.execute(AssertSqlSafe(sql)).await.expect("the statement of the test");
            conn.close().await.expect("closes");
        });
    }

    /// What a query on a file of this folder says; nothing while that can not be answered.
    pub(crate) fn numbers(&self, file: &str, sql: &'static str) -> Vec<i64> {
        block_on(async {
            let url = format!("sqlite:{}/{file}", self.path().display());
            let Ok(mut conn) = SqliteConnection::connect(&url).await else { return Vec::new() };
            sqlx::query_scalar(sql).fetch_all(&mut conn).await.unwrap_or_default()
        })
    }
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(future)
}

pub(crate) fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A running relay, ended with its test.
pub(crate) struct Up {
    child: Child,
    said: mpsc::Receiver<String>,
}

impl Up {
    /// Waits for a line on standard error with this in it.
    pub(crate) fn says(&self, part: &str) -> String {
        let mut before = Vec::new();
        loop {
            match self.said.recv_timeout(PATIENCE) {
                Ok(line) if line.contains(part) => return line,
                Ok(line) => before.push(line),
                Err(_) => panic!("it never said {part:?}, but {before:#?}"),
            }
        }
    }

    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status().expect("kill runs");
        assert!(sent.success());
    }

    /// Ends it as a crash does.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("reaped");
    }

    /// Asks it to end; it has to do so well.
    pub(crate) fn stop(mut self) {
        self.signal("-TERM");
        assert_eq!(self.child.wait().expect("it ends").code(), Some(0));
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
