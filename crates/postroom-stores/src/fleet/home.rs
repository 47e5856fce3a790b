//! A store as the home of a fleet: two tables in which processes divide the fleet's stores.
//!
//! Whoever divides holds the rows of all processes, so they do it one after the other. Only the
//! first two of a fleet meet nobody whom they could wait for; of what both want one gets it, and
//! the answer is what it has in the end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use postroom_core::fleet::{Home, Share, ShareRequest, StoreId, divide};
use postroom_core::store::BoxFuture;
use postroom_core::{Error, ErrorKind, OwnerToken, Result};
use uuid::Uuid;

/// What a home reads and writes, in one transaction.
pub(crate) trait Register: Send + Sync + 'static {
    type Tx: Send;

    fn open(&self) -> impl Future<Output = Result<Self::Tx>> + Send;

    /// All processes of the fleet, and whether they live. Nobody else divides until the end.
    fn nodes(
        &self,
        tx: &mut Self::Tx,
        fleet: &str,
    ) -> impl Future<Output = Result<Vec<(Uuid, bool)>>> + Send;

    /// A process lives for another lease.
    fn live(
        &self,
        tx: &mut Self::Tx,
        fleet: &str,
        node: Uuid,
        lease: Duration,
    ) -> impl Future<Output = Result<()>> + Send;

    /// A process is gone, and what it had is free.
    fn gone(
        &self,
        tx: &mut Self::Tx,
        fleet: &str,
        node: Uuid,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Who has which store.
    fn shares(
        &self,
        tx: &mut Self::Tx,
        fleet: &str,
    ) -> impl Future<Output = Result<Vec<(String, Uuid)>>> + Send;

    /// A process has these no longer.
    fn give(
        &self,
        tx: &mut Self::Tx,
        fleet: &str,
        node: Uuid,
        stores: &[String],
    ) -> impl Future<Output = Result<()>> + Send;

    /// A process has these from now on, but for those that somebody has.
    fn take(
        &self,
        tx: &mut Self::Tx,
        fleet: &str,
        node: Uuid,
        stores: &[String],
    ) -> impl Future<Output = Result<()>> + Send;

    fn commit(&self, tx: Self::Tx) -> impl Future<Output = Result<()>> + Send;
}

/// The home of one fleet.
struct InStore<S> {
    store: S,
    fleet: String,
}

/// The home of the fleet with this name.
pub(crate) fn home<S: Register>(store: S, fleet: &str) -> Result<Arc<dyn Home>> {
    let fleet = StoreId::new(fleet).map_err(|_| {
        let what = "the name of a fleet must be 1 to 64 characters, and no control characters";
        Error::new(ErrorKind::Invalid, what)
    })?;
    Ok(Arc::new(InStore { store, fleet: fleet.as_str().to_owned() }))
}

type Owners = BTreeMap<StoreId, OwnerToken>;

impl<S: Register> InStore<S> {
    async fn divide_anew(&self, request: &ShareRequest) -> Result<Share> {
        let (store, fleet, node) = (&self.store, &*self.fleet, request.node.as_uuid());
        let mut tx = store.open().await?;
        let mut nodes = 1;
        for (other, is_live) in store.nodes(&mut tx, fleet).await? {
            match is_live {
                _ if other == node => {}
                true => nodes += 1,
                false => store.gone(&mut tx, fleet, other).await?,
            }
        }
        store.live(&mut tx, fleet, node, request.lease).await?;
        let owners = self.owners(&mut tx).await?;
        let wanted = divide(request.node, &request.stores, &owners, nodes);
        let had = owned(&owners, request.node);
        let give: Vec<_> = had.difference(&wanted).map(text).collect();
        let take: Vec<_> = wanted.difference(&had).map(text).collect();
        if !give.is_empty() {
            store.give(&mut tx, fleet, node, &give).await?;
        }
        let mut mine = wanted;
        if !take.is_empty() {
            store.take(&mut tx, fleet, node, &take).await?;
            mine = owned(&self.owners(&mut tx).await?, request.node);
        }
        store.commit(tx).await?;
        Ok(Share { mine, nodes })
    }

    async fn owners(&self, tx: &mut S::Tx) -> Result<Owners> {
        let shares = self.store.shares(tx, &self.fleet).await?;
        let known = |(store, node): (String, Uuid)| {
            Some((StoreId::new(store).ok()?, OwnerToken::try_from(node).ok()?))
        };
        Ok(shares.into_iter().filter_map(known).collect())
    }

    async fn forget(&self, node: OwnerToken) -> Result<()> {
        let mut tx = self.store.open().await?;
        self.store.gone(&mut tx, &self.fleet, node.as_uuid()).await?;
        self.store.commit(tx).await
    }
}

fn owned(owners: &Owners, node: OwnerToken) -> BTreeSet<StoreId> {
    owners.iter().filter(|(_, owner)| **owner == node).map(|(store, _)| store.clone()).collect()
}

fn text(store: &StoreId) -> String {
    store.as_str().to_owned()
}

impl<S: Register> Home for InStore<S> {
    fn share<'a>(&'a self, request: &'a ShareRequest) -> BoxFuture<'a, Result<Share>> {
        Box::pin(self.divide_anew(request))
    }

    fn leave(&self, node: OwnerToken) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.forget(node))
    }
}
