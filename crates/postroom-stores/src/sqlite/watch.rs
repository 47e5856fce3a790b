//! Sees other processes' commits to the same file.
//!
//! `pragma data_version` tells whether another connection has committed since it was last asked
//! here. It is asked on the connection that writes, because on that one this process's own claims
//! and settles are not among the others' commits: what a dispatcher does never wakes it. Nor does
//! it miss anything while the connection is busy, as a claim would wait for that connection too.

use std::time::Duration;

use postroom_core::store::{Local, Silence, Wakes};
use sqlx::SqlStr;
use sqlx::sqlite::SqlitePool;
use tokio::sync::Mutex;
use tokio::time::sleep;

/// Between two looks: the first is for busy times, the last for idle ones.
const SHORTEST: Duration = Duration::from_millis(25);
const LONGEST: Duration = Duration::from_millis(100);

/// What was seen last. It is kept between calls, so that nothing is missed while nobody waits.
#[derive(Debug, Default)]
pub(super) struct Watch(Mutex<Seen>);

#[derive(Debug)]
struct Seen {
    /// None at the start: what came before that may be new.
    version: Option<i64>,
    pause: Duration,
}

impl Default for Seen {
    fn default() -> Self {
        Self { version: None, pause: SHORTEST }
    }
}

impl Watch {
    /// Resolves when another connection has committed something since the last time.
    pub(super) async fn changed(&self, writer: &SqlitePool, sql: &SqlStr, local: &Local) {
        let mut seen = self.0.lock().await;
        loop {
            let version = version(writer, sql).await;
            local.set_wakes(match version {
                Some(_) => Wakes::Listening,
                None => Wakes::PollOnly { why: Silence::Unreachable },
            });
            if version.is_some() && version != seen.version {
                *seen = Seen { version, pause: SHORTEST };
                return;
            }
            sleep(seen.pause).await;
            seen.pause = (seen.pause * 2).min(LONGEST);
        }
    }
}

async fn version(writer: &SqlitePool, sql: &SqlStr) -> Option<i64> {
    sqlx::query_scalar(sql.clone()).fetch_one(writer).await.ok()
}
