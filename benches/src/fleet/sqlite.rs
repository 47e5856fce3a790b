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
use super::{COME_TO_REST, LOOK_FOR, Seen};
use crate::report::{Case, Unit};

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
pub(super) async fn measure(count: usize) -> anyhow::Result<Vec<Case>> {
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
    let mut seen = Seen::new(format!("SQLite, {count} files"));
    let served = crowd.until_serving(count).await.context("all are served")?;
    seen.took("two processes serve all of them after", served);
    tokio::time::sleep(COME_TO_REST).await;
    let (began, busy) = (Instant::now(), crowd.processor_time());
    let mut open = 0;
    while began.elapsed() < LOOK_FOR {
        open = open.max(crowd.files());
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    }
    let busy = (crowd.processor_time() - busy) / began.elapsed().as_secs_f64() * 100.0;
    seen.say("idle, processor of both", Unit::Percent, busy);
    seen.say("idle, open files of both, at most", Unit::Files, open as f64);
    seen.say("memory of both", Unit::Mebibytes, crowd.memory() as f64);

    let ids = publish(&all).await?;
    let took = crowd.until_delivered(&ids).await.context("of another process")?;
    seen.took("one message each of another process: delivered after the last", took);
    crowd.kill_first()?;
    let ids = publish(&all).await?;
    let took = crowd.until_delivered(&ids).await.context("after a kill")?;
    seen.took("one process killed, then one message each: all delivered", took);
    for file in &all[..CHANGED.min(count)] {
        std::fs::remove_file(file)?;
    }
    let new = files(folder.path(), count..count + CHANGED);
    let ids = publish(&new).await?;
    let took = crowd.until_delivered(&ids).await.context("new files")?;
    seen.took("20 removed and 20 added, one message each: delivered", took);
    let served = crowd.until_serving(count - CHANGED.min(count) + CHANGED).await?;
    seen.took("and all are served after", served);
    Ok(seen.cases)
}
