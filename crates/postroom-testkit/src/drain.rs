//! A dispatcher for tests: handles everything that can be claimed, on the spot, until nothing is
//! left.

use std::collections::HashSet;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use postroom_core::lifecycle::{self, Outcome, Settlement};
use postroom_core::store::{Claim, Store, WorkItem};
use postroom_core::{OwnerToken, Result, Retry, WorkQueue};

/// Claims and handles until the store has nothing to claim; answers how many items were handled.
///
/// Retries wait for their time as always: move the clock and drain again. Messages of one ordering
/// key come in order; behind one that waits there comes nothing.
///
/// ```
/// use postroom_core::{Message, Outbox, lifecycle::Outcome};
/// use postroom_testkit::{SimStore, drain};
/// use std::sync::Arc;
///
/// # tokio::runtime::Builder::new_current_thread().build().expect("runtime").block_on(async {
/// let store = Arc::new(SimStore::default());
/// Outbox::new(Arc::clone(&store)).publish(Message::builder("order.placed")).await?;
/// let handled = drain(store, |item| async move {
///     assert_eq!(item.message.topic().as_str(), "order.placed");
///     Outcome::Done
/// })
/// .await?;
/// assert_eq!(handled, 1);
/// # Ok::<(), postroom_core::Error>(())
/// # }).expect("runs");
/// ```
///
/// # Errors
/// As the store says.
pub async fn drain<F>(store: Arc<dyn Store>, mut handle: impl FnMut(WorkItem) -> F) -> Result<usize>
where
    F: Future<Output = Outcome>,
{
    let queue = WorkQueue::new(store);
    let owner = OwnerToken::random();
    let handled = drain_as(owner, &queue, &mut handle).await;
    // Or the next one would wait for the ordered messages until this owner's lease is over.
    queue.store().leave(owner).await?;
    handled
}

async fn drain_as<F>(
    owner: OwnerToken,
    queue: &WorkQueue,
    handle: &mut impl FnMut(WorkItem) -> F,
) -> Result<usize>
where
    F: Future<Output = Outcome>,
{
    let retry = Retry::default();
    let claim = Claim::new(owner, Duration::from_secs(30), 100)?.suspects(100);
    let mut handled = 0;
    loop {
        let claimed = queue.claim_with(&claim).await?;
        if claimed.items.is_empty() && claimed.dead == 0 {
            return Ok(handled);
        }
        let mut settlements = Vec::with_capacity(claimed.items.len());
        let mut stopped = HashSet::new();
        for item in claimed.items {
            let (lease, attempts, lane) = (item.lease, item.attempts, item.message.lane());
            if lane.is_some_and(|lane| stopped.contains(&lane)) {
                settlements.push((lease, Settlement::Release));
                continue;
            }
            handled += 1;
            let settlement = lifecycle::settle(handle(item).await, attempts, &retry, 0.5);
            let goes_on = match settlement {
                Settlement::Done => true,
                Settlement::Dead { .. } => !queue.store().halts(),
                Settlement::Retry { .. } | Settlement::Release => false,
            };
            if !goes_on {
                stopped.extend(lane);
            }
            settlements.push((lease, settlement));
        }
        let _ = queue.settle(owner, settlements).await?;
    }
}
