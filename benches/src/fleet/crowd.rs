//! Processes that serve a fleet, and what they say.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};

use super::node::Task;
use crate::lock;

/// Longer than a lease, a share and a poll together.
const PATIENCE: Duration = Duration::from_secs(180);

/// The processes of a fleet. Those that are left are killed at the end.
#[derive(Default)]
pub(super) struct Crowd {
    nodes: Vec<Node>,
    delivered: Arc<Mutex<BTreeSet<String>>>,
}

struct Node {
    child: Child,
    serving: Arc<Mutex<usize>>,
}

impl Crowd {
    /// One more process.
    pub(super) fn start(&mut self, task: &Task) -> anyhow::Result<()> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--fleet-node", &serde_json::to_string(task)?])
            .stdout(Stdio::piped())
            .spawn()?;
        let lines = BufReader::new(child.stdout.take().context("its output")?).lines();
        let serving = Arc::<Mutex<usize>>::default();
        let (told, delivered) = (Arc::clone(&serving), Arc::clone(&self.delivered));
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                match line.split_once(' ') {
                    Some(("serving", count)) => *lock(&told) = count.parse().unwrap_or(0),
                    Some(("delivered", id)) => drop(lock(&delivered).insert(id.to_owned())),
                    _ => {}
                }
            }
        });
        self.nodes.push(Node { child, serving });
        Ok(())
    }

    /// How many stores each of them serves.
    pub(super) fn serving(&self) -> Vec<usize> {
        self.nodes.iter().map(|node| *lock(&node.serving)).collect()
    }

    pub(super) async fn until_serving(&self, count: usize) -> anyhow::Result<Duration> {
        self.until(|crowd| crowd.serving().iter().sum::<usize>() == count).await
    }

    /// Until all of these are delivered.
    pub(super) async fn until_delivered(&self, ids: &[String]) -> anyhow::Result<Duration> {
        self.until(|crowd| {
            let delivered = lock(&crowd.delivered);
            ids.iter().all(|id| delivered.contains(id))
        })
        .await
        .with_context(|| {
            let delivered = lock(&self.delivered);
            let missing = ids.iter().filter(|id| !delivered.contains(*id)).count();
            format!("{missing} of {} are missing", ids.len())
        })
    }

    /// How many messages were delivered so far.
    pub(super) fn delivered(&self) -> usize {
        lock(&self.delivered).len()
    }

    /// Until more than so many are delivered.
    pub(super) async fn until_more_than(&self, count: usize) -> anyhow::Result<Duration> {
        self.until(|crowd| crowd.delivered() > count).await
    }

    async fn until(&self, is_so: impl Fn(&Self) -> bool) -> anyhow::Result<Duration> {
        let began = Instant::now();
        while !is_so(self) {
            if began.elapsed() > PATIENCE {
                bail!("not within {PATIENCE:?}; serving {:?}", self.serving());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(began.elapsed())
    }

    /// Ends the first one, without a word.
    pub(super) fn kill_first(&mut self) -> anyhow::Result<()> {
        let mut first = self.nodes.remove(0);
        first.child.kill()?;
        first.child.wait()?;
        Ok(())
    }

    /// Processor time that all of them have used, in seconds.
    pub(super) fn processor_time(&self) -> f64 {
        let used = |node: &Node| -> Option<f64> {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", node.child.id())).ok()?;
            let fields: Vec<_> = stat.rsplit_once(')')?.1.split_whitespace().collect();
            let ticks = |at: usize| fields.get(at)?.parse::<f64>().ok();
            Some((ticks(11)? + ticks(12)?) / 100.0)
        };
        self.nodes.iter().filter_map(used).sum()
    }

    /// Open files of all of them.
    pub(super) fn files(&self) -> usize {
        let open = |node: &Node| {
            std::fs::read_dir(format!("/proc/{}/fd", node.child.id())).map_or(0, Iterator::count)
        };
        self.nodes.iter().map(open).sum()
    }

    /// Resident memory of all of them, in MiB.
    pub(super) fn memory(&self) -> usize {
        let resident = |node: &Node| -> Option<usize> {
            let path = format!("/proc/{}/statm", node.child.id());
            let pages = std::fs::read_to_string(path).ok()?;
            pages.split_whitespace().nth(1)?.parse::<usize>().ok()
        };
        self.nodes.iter().filter_map(resident).sum::<usize>() * 4 / 1024
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            let _ = node.child.kill();
            let _ = node.child.wait();
        }
    }
}
