//! A relay between a real database and real brokers, all of which may be killed.

pub(crate) mod receivers;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use postroom::store::{AdminStore as _, Stats};
use postroom::{Message, MessageId, Outbox, PgStore, StoreConfig};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Generous: it bounds a hang, it measures nothing.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) fn postgres_url() -> String {
    std::env::var("POSTROOM_TEST_PG_URL").expect(
        "POSTROOM_TEST_PG_URL must be the URL of a PostgreSQL server; `cargo xtask test` sets it",
    )
}

pub(crate) fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime")
}

/// A schema of its own in PostgreSQL, dropped at the end.
pub(crate) struct Database {
    pub(crate) schema: String,
    pub(crate) store: Arc<PgStore>,
    pub(crate) runtime: Runtime,
}

impl Database {
    pub(crate) fn new() -> Self {
        let runtime = runtime();
        let schema = format!("relay_{}", MessageId::new().as_uuid().simple());
        let config = StoreConfig { schema: schema.clone(), ..StoreConfig::default() };
        let store = runtime.block_on(async {
            let store = PgStore::connect(&postgres_url(), config).await.expect("connects");
            store.migrate().await.expect("migrates");
            store
        });
        Self { schema, store: Arc::new(store), runtime }
    }

    /// Publishes in one transaction of its own.
    pub(crate) fn publish(&self, messages: Vec<Message>) {
        let outbox = Outbox::<PgStore>::new(Arc::clone(&self.store));
        self.runtime.block_on(outbox.publish_all(messages)).expect("published");
    }

    pub(crate) fn stats(&self) -> Stats {
        self.runtime.block_on(self.store.stats()).expect("stats")
    }

    /// Waits until nothing is left to deliver.
    pub(crate) fn wait_until_delivered(&self) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let stats = self.stats();
            if stats.ready + stats.waiting + stats.leased == 0 {
                return;
            }
            assert!(Instant::now() < deadline, "not delivered: {stats:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until so many are delivered.
    pub(crate) fn wait_for_done(&self, count: u64) {
        let deadline = Instant::now() + PATIENCE;
        while self.stats().done < count {
            assert!(Instant::now() < deadline, "not delivered: {:?}", self.stats());
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.runtime.block_on(async {
            self.store.close().await;
            let mut conn = PgConnection::connect(&postgres_url()).await.expect("connects");
            let sql = format!("drop schema if exists {} cascade", self.schema);
            conn.execute(AssertSqlSafe(sql)).await.expect("drops");
        });
    }
}

/// A configuration file, and relays that run by it.
pub(crate) struct Relays {
    folder: TempDir,
    running: Vec<Child>,
    started: usize,
}

impl Relays {
    pub(crate) fn new(config: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("postroom.toml"), config).expect("written");
        Self { folder, running: Vec::new(), started: 0 }
    }

    pub(crate) fn start(&mut self) {
        let log = std::fs::File::create(self.log(self.started)).expect("a log");
        self.started += 1;
        let child = Command::new(env!("CARGO_BIN_EXE_postroom"))
            .args(["up", "--config", "postroom.toml"])
            .env("POSTROOM_LOG", "trace")
            .env_remove("POSTROOM_SOURCE")
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        self.running.push(child.expect("the binary starts"));
    }

    /// Runs another command beside them: its exit code, and what it printed.
    pub(crate) fn run(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let ran = Command::new(env!("CARGO_BIN_EXE_postroom"))
            .args(arguments)
            .current_dir(self.folder.path())
            .output()
            .expect("the binary runs");
        (ran.status.code(), String::from_utf8(ran.stdout).expect("UTF-8"))
    }

    /// Ends the oldest one as a crash does.
    pub(crate) fn kill_one(&mut self) {
        let mut child = self.running.remove(0);
        child.kill().expect("killed");
        child.wait().expect("reaped");
    }

    /// Asks all to end, and says whether they did so well.
    pub(crate) fn stop(&mut self) {
        for mut child in self.running.drain(..) {
            let term = Command::new("kill").arg("-TERM").arg(child.id().to_string()).status();
            assert!(term.expect("a signal").success());
            let deadline = Instant::now() + PATIENCE;
            while child.try_wait().expect("a child").is_none() {
                assert!(Instant::now() < deadline, "it does not stop");
                std::thread::sleep(Duration::from_millis(20));
            }
            assert!(child.wait().expect("ended").success());
        }
    }

    /// Waits until one of them has logged something.
    pub(crate) fn wait_for_log(&self, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.logs().contains(text) {
            assert!(Instant::now() < deadline, "nobody logged {text:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What all of them logged.
    pub(crate) fn logs(&self) -> String {
        let one = |at| std::fs::read_to_string(self.log(at)).expect("a log");
        (0..self.started).map(one).collect()
    }

    fn log(&self, at: usize) -> PathBuf {
        Path::new(self.folder.path()).join(format!("relay-{at}.log"))
    }
}

impl Drop for Relays {
    fn drop(&mut self) {
        for child in &mut self.running {
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            let logs = self.logs();
            let tail: Vec<_> = logs.lines().rev().take(60).collect();
            println!("the last of what the relays logged, newest first:\n{}", tail.join("\n"));
        }
    }
}
