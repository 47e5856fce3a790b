//! A folder of SQLite files.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use postroom_core::store::AdminStore as _;
use postroom_core::{Message, Outbox};
use postroom_stores::{SqliteStore, StoreConfig};

use super::crowd::Crowd;
use super::node::Task;
use super::{COME_TO_REST, LOOK_FOR};
use crate::report::Cost;

const CHANGED: usize = 20;

fn files(folder: &Path, numbers: std::ops::Range<usize>) -> Vec<PathBuf> {
    numbers.map(|number| folder.join(format!("tenant-{number:03}.db"))).collect()
}

/// A message in each, as another process would publish it.
async fn publish(files: &[PathBuf]) -> anyhow::Result<Vec<String>> {
    let mut ids = Vec::with_capacity(files.len());
    for file in files {
        let store = SqliteStore::open(file.to_str().context("a path")?, StoreConfig::default());
        let store = Arc::new(store.await?);
        store.migrate().await?;
        let published = Outbox::new(Arc::clone(&store)).publish(Message::builder("t")).await?;
        ids.push(published.id.to_string());
        store.close().await;
    }
    Ok(ids)
}

/// What so many files cost, and what becomes of messages in trouble.
pub(super) async fn measure(count: usize) -> anyhow::Result<Vec<Cost>> {
    let (folder, elsewhere) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let all = files(folder.path(), 0..count);
    for file in &all {
        std::fs::File::create(file)?;
    }
    let home = elsewhere.path().join("home.sqlite");
    let task = Task::Sqlite { folder: folder.path().to_owned(), home };
    let mut crowd = Crowd::default();
    crowd.start(&task)?;
    crowd.start(&task)?;
    let mut costs = Vec::new();
    let mut say = |what: &str, value: String| {
        costs.push(Cost { id: "P11", what: format!("SQLite, {count} files: {what}"), value });
    };
    let served = crowd.until_serving(count).await.context("all are served")?;
    say("two processes serve all of them after", format!("{served:.1?}"));
    tokio::time::sleep(COME_TO_REST).await;
    let (began, busy) = (Instant::now(), crowd.processor_time());
    let mut open = 0;
    while began.elapsed() < LOOK_FOR {
        open = open.max(crowd.files());
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    }
    let busy = (crowd.processor_time() - busy) / began.elapsed().as_secs_f64() * 100.0;
    say("idle, processor of both", format!("{busy:.1} %"));
    say("idle, open files of both, at most", open.to_string());
    say("memory of both", format!("{} MiB", crowd.memory()));

    let ids = publish(&all).await?;
    let took = crowd.until_delivered(&ids).await.context("of another process")?;
    say("one message each of another process: delivered after the last", format!("{took:.2?}"));
    crowd.kill_first()?;
    let ids = publish(&all).await?;
    let took = crowd.until_delivered(&ids).await.context("after a kill")?;
    say("one process killed, then one message each: all delivered", format!("{took:.1?}"));
    for file in &all[..CHANGED.min(count)] {
        std::fs::remove_file(file)?;
    }
    let new = files(folder.path(), count..count + CHANGED);
    let ids = publish(&new).await?;
    let took = crowd.until_delivered(&ids).await.context("new files")?;
    say("20 removed and 20 added, one message each: delivered", format!("{took:.1?}"));
    let served = crowd.until_serving(count - CHANGED.min(count) + CHANGED).await?;
    say("and all are served after", format!("{served:.1?}"));
    Ok(costs)
}
