//! Where the processes of a fleet divide its stores among themselves.
//!
//! Without it every process looks after every store: safe, because claims are fenced, but the cost
//! of being idle grows with processes times stores. What is agreed on here saves that cost and
//! nothing else. When it is lost, late or wrong, a store is served twice or, until a lease ends,
//! not at all; never wrongly.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crate::error::Result;
use crate::ids::OwnerToken;
use crate::store::BoxFuture;
use crate::text::StoreId;

/// Keeps which process serves which store.
pub trait Home: Send + Sync + 'static {
    /// Says that a process lives for another lease, and gives it its share of the stores that it
    /// knows, as [`divide`] divides them, until then.
    fn share<'a>(&'a self, request: &'a ShareRequest) -> BoxFuture<'a, Result<Share>>;

    /// A process serves nothing any more: others need not wait for its lease to end.
    fn leave(&self, node: OwnerToken) -> BoxFuture<'_, Result<()>>;
}

impl Home for Arc<dyn Home> {
    fn share<'a>(&'a self, request: &'a ShareRequest) -> BoxFuture<'a, Result<Share>> {
        (**self).share(request)
    }

    fn leave(&self, node: OwnerToken) -> BoxFuture<'_, Result<()>> {
        (**self).leave(node)
    }
}

/// What a process says of itself.
#[derive(Clone, Debug)]
pub struct ShareRequest {
    /// Which process.
    pub node: OwnerToken,
    /// For how long the answer holds.
    pub lease: Duration,
    /// The stores that it could serve.
    pub stores: BTreeSet<StoreId>,
}

/// What a process is to serve.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Its stores.
    pub mine: BTreeSet<StoreId>,
    /// How many processes there are, itself included.
    pub nodes: usize,
}

/// The stores that `node` should have, by what everybody has now: it keeps what it has up to an
/// equal part of all, and fills that up with what nobody has. `owners` has only leases that have
/// not run out, and `nodes` counts the process itself.
///
/// ```
/// use std::collections::{BTreeMap, BTreeSet};
/// use postroom_core::fleet::{StoreId, divide};
/// use postroom_core::OwnerToken;
///
/// let stores: BTreeSet<_> = ["a", "b", "c"].map(|id| StoreId::new(id).unwrap()).into();
/// let (one, two) = (OwnerToken::random(), OwnerToken::random());
/// let first = divide(one, &stores, &BTreeMap::new(), 1);
/// assert_eq!(first, stores);
///
/// // A second process comes: the first gives up what is above its part.
/// let owners = first.into_iter().map(|store| (store, one)).collect();
/// assert_eq!(divide(one, &stores, &owners, 2).len(), 2);
/// assert!(divide(two, &stores, &owners, 2).is_empty());
/// ```
#[must_use]
pub fn divide(
    node: OwnerToken,
    stores: &BTreeSet<StoreId>,
    owners: &BTreeMap<StoreId, OwnerToken>,
    nodes: usize,
) -> BTreeSet<StoreId> {
    let part = stores.len().div_ceil(nodes.max(1));
    let owned_by_me = |store: &&StoreId| owners.get(*store) == Some(&node);
    let free = |store: &&StoreId| !owners.contains_key(*store);
    let mine = stores.iter().filter(owned_by_me).chain(stores.iter().filter(free));
    mine.take(part).cloned().collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stores(count: usize) -> BTreeSet<StoreId> {
        (0..count).map(|n| StoreId::new(format!("s{n:03}")).expect("legal")).collect()
    }

    proptest! {
        /// Processes come and go and ask in any order; two rounds after the last change every store
        /// has one owner, and nobody has more than an equal part.
        #[test]
        fn fleet_5_everything_is_served_once_after_two_rounds(
            count in 0usize..40,
            changes in prop::collection::vec((0usize..5, any::<bool>()), 0..20),
        ) {
            let all = stores(count);
            let nodes: Vec<_> = (0..5).map(|_| OwnerToken::random()).collect();
            let mut live = BTreeSet::from([0]);
            let mut owners = BTreeMap::new();
            let ask = |node: usize, live: &BTreeSet<usize>, owners: &mut BTreeMap<_, _>| {
                let mine = divide(nodes[node], &all, owners, live.len());
                owners.retain(|_, owner| *owner != nodes[node]);
                owners.extend(mine.into_iter().map(|store| (store, nodes[node])));
            };
            for (node, comes) in changes {
                if comes {
                    live.insert(node);
                    ask(node, &live, &mut owners);
                } else if live.len() > 1 && live.remove(&node) {
                    owners.retain(|_, owner| *owner != nodes[node]);
                }
            }
            for _ in 0..2 {
                for &node in &live {
                    ask(node, &live, &mut owners);
                }
            }
            prop_assert_eq!(owners.len(), count);
            let part = count.div_ceil(live.len());
            for &node in &live {
                let has = owners.values().filter(|owner| **owner == nodes[node]).count();
                prop_assert!(has <= part);
            }
        }
    }
}
