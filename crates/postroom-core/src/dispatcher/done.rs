//! What was handled well here, and the database does not know it yet.
//!
//! A settle that takes longer than the lease, because the database is away or locked, leaves a
//! message that this process has handled for anybody to claim, itself included. Then it says again
//! that it is done instead of handling it once more. Done is final: had the first settle taken
//! effect, nobody could claim it.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::work::{End, Finished};
use crate::ids::{Lease, WorkId};
use crate::lifecycle::Settlement;

/// With when the database refused to hear of it, if it did. The claim that took the message away
/// may be one of our own, whose answer is still on its way.
#[derive(Debug, Default)]
pub(super) struct Done(Mutex<HashMap<WorkId, Option<Instant>>>);

impl Done {
    fn lock(&self) -> MutexGuard<'_, HashMap<WorkId, Option<Instant>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of what ended well.
    pub(super) fn add(&self, finished: &[Finished]) {
        let done = finished.iter().filter(|one| one.end == End::Settle(Settlement::Done));
        self.lock().extend(done.map(|end| (end.lease.work, None)));
    }

    pub(super) fn contains(&self, work: WorkId) -> bool {
        self.lock().contains_key(&work)
    }

    /// Forgets what is settled, and what was refused longer ago than `age`.
    pub(super) fn settled(&self, group: &[Finished], unsettled: &HashSet<Lease>, age: Duration) {
        let (mut done, now) = (self.lock(), Instant::now());
        for end in group {
            if !unsettled.contains(&end.lease) {
                done.remove(&end.lease.work);
            } else if let Some(refused) = done.get_mut(&end.lease.work) {
                *refused = Some(now);
            }
        }
        if !unsettled.is_empty() {
            done.retain(|_, refused| refused.is_none_or(|refused| now - refused < age));
        }
    }
}
