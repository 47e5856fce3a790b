//! A dispatcher for tests: handles everything that can be claimed, on the spot, until nothing is
//! left.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use postroom_core::lifecycle::{self, Outcome};
use postroom_core::store::{Claim, Store, WorkItem};
use postroom_core::{OwnerToken, Result, Retry, WorkQueue};

/// Claims and handles until the store has nothing to claim; answers how many items were handled.
///
/// Retries wait for their time as always: move the clock and drain again.
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
    let (owner, retry) = (OwnerToken::random(), Retry::default());
    let claim = Claim::new(owner, Duration::from_secs(30), 100)?.suspects(100);
    let mut handled = 0;
    loop {
        let claimed = queue.claim_with(&claim).await?;
        if claimed.items.is_empty() && claimed.dead == 0 {
            return Ok(handled);
        }
        let mut settlements = Vec::with_capacity(claimed.items.len());
        for item in claimed.items {
            handled += 1;
            let (lease, attempts) = (item.lease, item.attempts);
            let outcome = handle(item).await;
            settlements.push((lease, lifecycle::settle(outcome, attempts, &retry, 0.5)));
        }
        let _ = queue.settle(owner, settlements).await?;
    }
}
