//! The statements, one file each, rendered once for the configured names.

use sqlx::SqlStr;

use crate::names::Names;

macro_rules! statements {
    ($($name:ident = $file:literal,)*) => {
        /// Every statement of the SQLite store.
        #[derive(Debug)]
        pub(super) struct Statements {
            $(pub(super) $name: SqlStr,)*
        }

        impl Statements {
            pub(super) fn new(names: &Names) -> Self {
                Self { $($name: names.render_flat(include_str!($file)),)* }
            }

            /// All of them by name, for the test that prepares each.
            #[cfg(test)]
            pub(super) fn all(&self) -> Vec<(&'static str, SqlStr)> {
                vec![$((stringify!($name), self.$name.clone()),)*]
            }
        }
    };
}

statements! {
    append = "../../sql/sqlite/append.sql",
    append_key = "../../sql/sqlite/append_key.sql",
    append_lookup = "../../sql/sqlite/append_lookup.sql",
    append_park = "../../sql/sqlite/append_park.sql",
    append_place = "../../sql/sqlite/append_place.sql",
    append_undo = "../../sql/sqlite/append_undo.sql",
    append_undo_keys = "../../sql/sqlite/append_undo_keys.sql",
    attempts = "../../sql/sqlite/attempts.sql",
    bury = "../../sql/sqlite/bury.sql",
    claim = "../../sql/sqlite/claim.sql",
    claim_lease = "../../sql/sqlite/claim_lease.sql",
    claim_messages = "../../sql/sqlite/claim_messages.sql",
    claim_takeover = "../../sql/sqlite/claim_takeover.sql",
    claim_unpark = "../../sql/sqlite/claim_unpark.sql",
    claim_unparked = "../../sql/sqlite/claim_unparked.sql",
    forget = "../../sql/sqlite/forget.sql",
    forget_attempts = "../../sql/sqlite/forget_attempts.sql",
    forget_keys = "../../sql/sqlite/forget_keys.sql",
    get = "../../sql/sqlite/get.sql",
    list = "../../sql/sqlite/list.sql",
    lost_lease = "../../sql/sqlite/lost_lease.sql",
    purge = "../../sql/sqlite/purge.sql",
    purge_keys = "../../sql/sqlite/purge_keys.sql",
    reap = "../../sql/sqlite/reap.sql",
    reap_expired = "../../sql/sqlite/reap_expired.sql",
    reap_release = "../../sql/sqlite/reap_release.sql",
    renew = "../../sql/sqlite/renew.sql",
    schema_version = "../../sql/sqlite/schema_version.sql",
    settle = "../../sql/sqlite/settle.sql",
    settle_attempts = "../../sql/sqlite/settle_attempts.sql",
    settle_end = "../../sql/sqlite/settle_end.sql",
    settle_keep = "../../sql/sqlite/settle_keep.sql",
    settle_leave = "../../sql/sqlite/settle_leave.sql",
    settle_park = "../../sql/sqlite/settle_park.sql",
    stats = "../../sql/sqlite/stats.sql",
    unqueue = "../../sql/sqlite/unqueue.sql",
}

#[cfg(test)]
mod tests {
    use postroom_core::store::AdminStore;
    use sqlx::Executor;

    use super::*;
    use crate::{Queue, SqliteStore, StoreConfig};

    #[tokio::test]
    async fn every_statement_prepares_against_the_migrated_schema() {
        for queue in Queue::ALL {
            let (schema, prefix) = ("mail".to_owned(), "eu_".to_owned());
            let config = StoreConfig { schema, prefix, queue, ..StoreConfig::default() };
            let store = SqliteStore::in_memory(config).await.expect("open");
            store.migrate().await.expect("migrate");
            let mut conn = store.writer().acquire().await.expect("a connection");
            for (name, sql) in store.sql().all() {
                assert!(!sql.as_str().contains("postroom_"), "{name} ignores the configured names");
                conn.prepare(sql).await.unwrap_or_else(|error| panic!("{queue:?} {name}: {error}"));
            }
        }
    }
}
