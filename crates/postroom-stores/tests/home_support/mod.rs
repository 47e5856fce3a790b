//! What every home of a fleet does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use postroom_core::fleet::{Home, Share, ShareRequest, StoreId};
use postroom_core::{ErrorKind, ManualClock, OwnerToken, Result};
use tokio::task::JoinSet;

const LEASE: Duration = Duration::from_secs(30);

/// The store of a test as a home.
pub(crate) type AsHome<'a> = &'a dyn Fn(&str) -> Result<Arc<dyn Home>>;

fn stores(count: usize) -> BTreeSet<StoreId> {
    (0..count).map(|n| StoreId::new(format!("store {n:03}")).expect("legal")).collect()
}

async fn share(home: &Arc<dyn Home>, node: OwnerToken, stores: &BTreeSet<StoreId>) -> Share {
    let request = ShareRequest { node, lease: LEASE, stores: stores.clone() };
    home.share(&request).await.expect("a share")
}

/// Processes come and go: each has its part, what a dead one had is taken when its lease ends, and
/// what one that leaves had at once.
pub(crate) async fn processes_divide_the_stores(of: AsHome<'_>, clock: &ManualClock) {
    let (home, all) = (of("relay").expect("a name"), stores(9));
    let [one, two, three] = std::array::from_fn(|_| OwnerToken::random());
    let first = share(&home, one, &all).await;
    assert_eq!(first, Share { mine: all.clone(), nodes: 1 });
    // Nothing is free yet, and then the first one gives up what is above its part.
    assert_eq!(share(&home, two, &all).await, Share { mine: BTreeSet::new(), nodes: 2 });
    let first = share(&home, one, &all).await;
    assert_eq!((first.mine.len(), first.nodes), (5, 2));
    let second = share(&home, two, &all).await;
    assert_eq!(second.mine, &all - &first.mine);

    // Another fleet has nothing to do with this one.
    let apart = of("another").expect("a name");
    assert_eq!(share(&apart, three, &all).await, Share { mine: all.clone(), nodes: 1 });

    // The second one is silent for a lease, and what it had is served again.
    clock.advance(LEASE / 2);
    assert_eq!(share(&home, one, &all).await.mine, first.mine);
    clock.advance(LEASE / 2);
    assert_eq!(share(&home, one, &all).await, Share { mine: all.clone(), nodes: 1 });
    assert!(share(&home, two, &all).await.mine.is_empty(), "its lease is over");

    home.leave(one).await.expect("leaves");
    assert_eq!(share(&home, two, &all).await, Share { mine: all.clone(), nodes: 1 });
    // Stores that are not listed any more are nobody's.
    let fewer = stores(2);
    assert_eq!(share(&home, two, &fewer).await.mine, fewer);
    for bad in ["", "a\nb", &"x".repeat(65)] {
        let refused = of(bad).err().expect("no name for a fleet");
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{bad:?}");
    }
}

/// Many begin at the same moment: nobody is told of a store that another one has, and after two
/// rounds everybody has a part.
pub(crate) async fn of_many_at_once_nobody_gets_what_another_has(of: AsHome<'_>) {
    let (home, all) = (of("relay").expect("a name"), stores(40));
    let nodes: Vec<_> = (0..6).map(|_| OwnerToken::random()).collect();
    let mut last = BTreeMap::new();
    for round in 0..4 {
        let mut asking = JoinSet::new();
        for &node in &nodes {
            let (home, all) = (Arc::clone(&home), all.clone());
            asking.spawn(async move { (node, share(&home, node, &all).await.mine) });
        }
        last.extend(asking.join_all().await);
        let told: usize = last.values().map(BTreeSet::len).sum();
        let different: BTreeSet<_> = last.values().flatten().collect();
        assert_eq!(told, different.len(), "round {round}: {last:?}");
    }
    let served: BTreeSet<_> = last.values().flatten().cloned().collect();
    assert_eq!(served, all);
    assert!(last.values().all(|mine| mine.len() <= 7), "{last:?}");
}
