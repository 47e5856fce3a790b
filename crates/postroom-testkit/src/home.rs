//! Where processes divide stores, in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use postroom_core::fleet::{Home, Share, ShareRequest, StoreId, divide};
use postroom_core::store::BoxFuture;
use postroom_core::{OwnerToken, Result};
use tokio::time::Instant;

/// A [`Home`] on tokio's time. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct SimHome(Arc<Mutex<Leases>>);

#[derive(Debug, Default)]
struct Leases {
    nodes: BTreeMap<OwnerToken, Instant>,
    stores: BTreeMap<StoreId, OwnerToken>,
}

impl SimHome {
    /// Who has which store now.
    #[must_use]
    pub fn owners(&self) -> BTreeMap<StoreId, OwnerToken> {
        self.now(|leases| leases.stores.clone())
    }

    fn now<T>(&self, look: impl FnOnce(&mut Leases) -> T) -> T {
        let mut leases = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        leases.nodes.retain(|_, until| *until > Instant::now());
        let Leases { nodes, stores } = &mut *leases;
        stores.retain(|_, owner| nodes.contains_key(owner));
        look(&mut leases)
    }
}

impl Home for SimHome {
    fn share<'a>(&'a self, request: &'a ShareRequest) -> BoxFuture<'a, Result<Share>> {
        let share = self.now(|leases| {
            let ShareRequest { node, lease, stores } = request;
            leases.nodes.insert(*node, Instant::now() + *lease);
            let nodes = leases.nodes.len();
            let mine = divide(*node, stores, &leases.stores, nodes);
            leases.stores.retain(|_, owner| owner != node);
            leases.stores.extend(mine.iter().map(|store| (store.clone(), *node)));
            Share { mine, nodes }
        });
        Box::pin(std::future::ready(Ok(share)))
    }

    fn leave(&self, node: OwnerToken) -> BoxFuture<'_, Result<()>> {
        self.now(|leases| leases.nodes.remove(&node));
        Box::pin(std::future::ready(Ok(())))
    }
}
