//! SQLite in a file, with its default durability (WAL, synchronous = normal).

use std::sync::Arc;

use postroom_core::store::AdminStore;
use postroom_stores::{SqliteStore, StoreConfig};

use crate::report::{Figure, Rates, ratio};
use crate::{Plan, control, fill};

pub(crate) async fn drain(plan: Plan) -> anyhow::Result<Figure> {
    let (mut publish, mut ours, mut bare) = (Rates::default(), Rates::default(), Rates::default());
    for _ in 0..plan.rounds {
        let folder = tempfile::tempdir()?;
        let store = fresh(&folder).await?;
        publish.add(plan.messages, fill::fill(Arc::clone(&store), plan).await?);
        ours.add(plan.messages, fill::drain(Arc::clone(&store) as _, plan).await?);
        store.close().await;
        let folder = tempfile::tempdir()?;
        let store = fresh(&folder).await?;
        fill::fill(Arc::clone(&store), plan).await?;
        bare.add(plan.messages, control::sqlite(store.writer(), plan).await?);
        store.close().await;
    }
    Ok(Figure {
        id: "P8",
        what: "SQLite drain, history kept".to_owned(),
        publish: publish.median(),
        postroom: ours.median(),
        control: bare.median(),
        ratio: ratio(&ours, &bare),
        spread: ours.spread(),
        wal_publish: None,
        wal_drain: None,
    })
}

async fn fresh(folder: &tempfile::TempDir) -> anyhow::Result<Arc<SqliteStore>> {
    let path = folder.path().join("bench.db");
    let path = path.to_str().ok_or_else(|| anyhow::anyhow!("a temp folder with a plain name"))?;
    let store = SqliteStore::open(path, StoreConfig::default()).await?;
    store.migrate().await?;
    Ok(Arc::new(store))
}
