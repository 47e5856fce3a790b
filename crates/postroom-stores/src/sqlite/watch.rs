//! Sees other processes' commits to the same file.
//!
//! A commit changes the write-ahead log, or the file itself when the log is written back; to look
//! at the two needs no connection, so that hundreds of idle files keep none. When they changed,
//! `pragma data_version` tells whether that was another connection since it was last asked here. It
//! is asked on the connection that writes, because on that one this process's own claims and
//! settles are not among the others' commits: what a dispatcher does never wakes it. Nor does it
//! miss anything while the connection is busy, as a claim would wait for that connection too.
//! Another connection counts from the beginning, so what it says means nothing until it is asked
//! again.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use postroom_core::store::{Local, Silence, Wakes};
use sqlx::SqlStr;
use sqlx::sqlite::SqlitePool;
use tokio::sync::Mutex;
use tokio::time::sleep;

/// Between two looks: the first is for busy times, the last for idle ones.
const SHORTEST: Duration = Duration::from_millis(25);
const LONGEST: Duration = Duration::from_millis(100);

/// File systems tell the time in steps. What changed so recently may have changed again within the
/// same step.
const STEP: Duration = Duration::from_millis(50);

/// What was seen last. It is kept between calls, so that nothing is missed while nobody waits.
#[derive(Debug)]
pub(super) struct Watch {
    files: Files,
    writers: Writers,
    seen: Mutex<Seen>,
}

/// Counts the connections that write, one after the other.
#[derive(Clone, Debug, Default)]
pub(super) struct Writers(Arc<AtomicU64>);

impl Writers {
    /// There is another one.
    pub(super) fn add(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[derive(Debug)]
struct Seen {
    /// Of which connection, and what it said. None at the start: what came before that may be new.
    version: Option<(u64, i64)>,
    files: Option<Look>,
    pause: Duration,
}

impl Watch {
    pub(super) fn of(file: &Path, writers: Writers) -> Self {
        let seen = Seen { version: None, files: None, pause: SHORTEST };
        Self { files: Files::of(file), writers, seen: Mutex::new(seen) }
    }

    /// For another box in the same file.
    pub(super) fn again(&self) -> Self {
        Self::of(&self.files.file, self.writers.clone())
    }

    /// Resolves when another connection has committed something since the last time.
    pub(super) async fn changed(&self, writer: &SqlitePool, sql: &SqlStr, local: &Local) {
        let mut seen = self.seen.lock().await;
        loop {
            let files = self.files.look();
            if files.is_some() && files == seen.files {
                local.set_wakes(Wakes::Listening);
            } else {
                let version = self.version(writer, sql).await;
                local.set_wakes(match version {
                    Some(_) => Wakes::Listening,
                    None => Wakes::PollOnly { why: Silence::Unreachable },
                });
                if version.is_some() {
                    seen.files = files.filter(|files| files.is_settled);
                    if version != seen.version {
                        *seen = Seen { version, files: seen.files, pause: SHORTEST };
                        return;
                    }
                }
            }
            sleep(seen.pause).await;
            seen.pause = (seen.pause * 2).min(LONGEST);
        }
    }

    async fn version(&self, writer: &SqlitePool, sql: &SqlStr) -> Option<(u64, i64)> {
        let mut conn = writer.acquire().await.ok()?;
        // As long as we have it, there is no other one.
        let number = self.writers.0.load(Ordering::SeqCst);
        let version = sqlx::query_scalar(sql.clone()).fetch_one(&mut *conn).await.ok()?;
        Some((number, version))
    }
}

/// The file and its log.
#[derive(Debug)]
struct Files {
    file: PathBuf,
    log: PathBuf,
}

/// How the two look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Look {
    file: (u64, SystemTime),
    /// None without a log, and when it is empty: opening a file makes one.
    log: Option<(u64, SystemTime)>,
    /// Whether the last change was long ago.
    is_settled: bool,
}

impl Files {
    fn of(file: &Path) -> Self {
        let mut log = file.as_os_str().to_owned();
        log.push("-wal");
        Self { file: file.to_owned(), log: log.into() }
    }

    /// None when the file can not be looked at.
    fn look(&self) -> Option<Look> {
        let log = about(&self.log).filter(|(length, _)| *length > 0);
        let file = about(&self.file)?;
        let last = log.map_or(file.1, |(_, changed)| changed.max(file.1));
        let is_settled = last.elapsed().is_ok_and(|since| since >= STEP);
        Some(Look { file, log, is_settled })
    }
}

/// Length and time of the last change.
fn about(path: &Path) -> Option<(u64, SystemTime)> {
    let about = std::fs::metadata(path).ok()?;
    Some((about.len(), about.modified().ok()?))
}
