//! P11: what hundreds of databases cost while they are idle, and what becomes of their messages
//! when processes die and databases come and go. Two processes serve all of them.

mod crowd;
mod node;
mod postgres;
mod sqlite;

use std::time::Duration;

use anyhow::Context as _;

use crate::report::Cost;

/// How long an idle store takes to be asked as seldom as it ever is.
const COME_TO_REST: Duration = Duration::from_secs(120);

/// Two turns of the longest wait.
const LOOK_FOR: Duration = Duration::from_secs(60);

/// Measures both kinds of fleets.
pub(crate) async fn measure(url: &str, counts: &[usize]) -> anyhow::Result<Vec<Cost>> {
    let mut costs = Vec::new();
    for (at, &count) in counts.iter().enumerate() {
        let is_last = at + 1 == counts.len();
        costs.extend(postgres::measure(url, count, is_last).await?);
        if is_last {
            costs.extend(sqlite::measure(count).await?);
        }
    }
    Ok(costs)
}

/// What a child process does.
pub(crate) async fn run_node(task: &str) -> anyhow::Result<()> {
    node::run(serde_json::from_str(task).context("a task")?).await
}
