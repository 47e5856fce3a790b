//! The stores as members of a [fleet](postroom_core::fleet), and where its list may come from: a
//! folder of SQLite files, or a query on a master database.

#[cfg(feature = "sqlite")]
mod folder;
pub(crate) mod home;
mod query;
mod row;
mod url;

use std::sync::Arc;

use postroom_core::fleet::Opened;
use postroom_core::store::{BoxFuture, Store};

#[cfg(feature = "sqlite")]
pub use folder::SqliteFolder;
pub use query::SqlQuery;
pub use url::StoreUrl;

macro_rules! opened {
    ($store:ty) => {
        impl Opened for $store {
            fn store(&self) -> Arc<dyn Store> {
                Arc::new(self.clone())
            }

            fn close(&self) -> BoxFuture<'_, ()> {
                Box::pin(self.close())
            }
        }
    };
}

#[cfg(feature = "sqlite")]
opened!(crate::SqliteStore);
#[cfg(feature = "postgres")]
opened!(crate::PgStore);
#[cfg(feature = "mysql")]
opened!(crate::MySqlStore);
