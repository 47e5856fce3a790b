//! The parent's side: starts workers, sends them signals, and leaves none behind.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::fate::Fate;
use super::ledger::{History, Ledger};
use super::worker::Orders;

/// Generous: it bounds a hang, it measures nothing.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// Worker processes on one database.
#[derive(Debug)]
pub struct Workers {
    orders: Orders,
    entry: &'static str,
    started: usize,
}

/// One of them. Dropping it kills it.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    ledger: Ledger,
    folder: PathBuf,
    /// Its name in the ledger.
    pub name: String,
}

impl Workers {
    /// `entry` is the test of the running binary that calls [`work`](super::work) when there are
    /// orders.
    #[must_use]
    pub fn new(entry: &'static str, address: &str, folder: &Path, lease: Duration) -> Self {
        let orders = Orders {
            address: address.to_owned(),
            folder: folder.to_owned(),
            name: String::new(),
            lease,
            workers: 4,
            publishes: false,
            fate: None,
        };
        Self { orders, entry, started: 0 }
    }

    /// From here on workers publish too.
    #[must_use]
    pub fn publishing(mut self) -> Self {
        self.orders.publishes = true;
        self
    }

    /// From here on they do not.
    pub fn hush(&mut self) {
        self.orders.publishes = false;
    }

    /// Starts one more and waits until its dispatcher runs.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn start(&mut self) -> Worker {
        self.start_with(None).await
    }

    /// Starts one more to which this will happen, and waits until its dispatcher runs.
    ///
    /// # Panics
    /// When it does not start.
    pub async fn start_with(&mut self, fate: Option<Fate>) -> Worker {
        let (name, folder) = (format!("worker{}", self.started), self.orders.folder.clone());
        self.started += 1;
        let orders = Orders { name: name.clone(), fate, ..self.orders.clone() };
        let child = Command::new(std::env::current_exe().expect("this binary"))
            .args([self.entry, "--exact", "--nocapture"])
            .envs([orders.variable()])
            // Its end tells the worker that this process is gone.
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("the worker starts");
        let mut worker = Worker { child, ledger: Ledger::open(&folder, &name), folder, name };
        wait_for("a worker", || !worker.is_alive() || worker.is_up()).await;
        worker
    }
}

impl Worker {
    /// SIGKILL. Waits until it is gone.
    ///
    /// # Panics
    /// When it was gone before.
    pub fn kill(mut self) {
        self.ledger.note("doomed", "");
        self.child.kill().expect("it is ours");
        self.child.wait().expect("it ends");
        self.ledger.note("fell", "");
    }

    /// SIGSTOP. Waits until it has stopped.
    ///
    /// # Panics
    /// When it does not.
    pub async fn stop(&self) {
        self.ledger.note("doomed", "");
        self.signal("-STOP");
        wait_for("a worker that stands still", || self.state().starts_with('T')).await;
        self.ledger.note("fell", "");
    }

    /// SIGCONT.
    pub fn resume(&self) {
        self.ledger.note("resumed", "");
        self.signal("-CONT");
    }

    /// SIGTERM. Waits for the end; how long it took comes back too.
    ///
    /// # Panics
    /// When it does not end at all.
    pub async fn terminate(mut self) -> (ExitStatus, Duration) {
        let began = Instant::now();
        self.signal("-TERM");
        wait_for("a worker's end", || !self.is_alive()).await;
        (self.child.wait().expect("it has ended"), began.elapsed())
    }

    /// Waits until it ends by itself. Counts as a fault.
    ///
    /// # Panics
    /// When it does not.
    pub async fn until_it_falls(mut self) {
        self.ledger.note("doomed", "");
        wait_for("a worker's end", || !self.is_alive()).await;
        self.ledger.note("fell", "");
    }

    /// Whether it still runs.
    ///
    /// # Panics
    /// When it is not ours.
    pub fn is_alive(&mut self) -> bool {
        self.child.try_wait().expect("it is ours").is_none()
    }

    fn is_up(&self) -> bool {
        History::read(&self.folder).owners.contains_key(&self.name)
    }

    fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status().expect("kill runs");
        assert!(sent.success());
    }

    fn state(&self) -> String {
        let pid = self.child.id().to_string();
        let seen = Command::new("ps").args(["-o", "state=", "-p", &pid]).output();
        String::from_utf8_lossy(&seen.expect("ps runs").stdout).trim().to_owned()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Looks again and again.
pub(super) async fn wait_for(what: &str, mut is_there: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_there() {
        assert!(Instant::now() < until, "waited {PATIENCE:?} for {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
