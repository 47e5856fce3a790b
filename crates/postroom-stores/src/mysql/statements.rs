//! The statements of one box, rendered once with the configured names.

use sqlx::SqlStr;

use crate::names::Names;

macro_rules! statements {
    ($($name:ident: $text:expr),* $(,)?) => {
        /// One field per file in `sql/mysql`.
        #[derive(Debug)]
        pub(super) struct Statements {
            $(pub(super) $name: SqlStr,)*
        }

        impl Statements {
            pub(super) fn new(names: &Names) -> Self {
                // A clone is shared text; the original would be copied by each later clone.
                Self { $($name: names.render_flat($text).clone(),)* }
            }

            /// All of them by name.
            #[cfg(test)]
            pub(super) fn all(&self) -> Vec<(&'static str, SqlStr)> {
                vec![$((stringify!($name), self.$name.clone()),)*]
            }
        }
    };
}

statements! {
    admit: include_str!("../../sql/mysql/admit.sql"),
    append: include_str!("../../sql/mysql/append.sql"),
    append_begin: include_str!("../../sql/mysql/append_begin.sql"),
    append_key: include_str!("../../sql/mysql/append_key.sql"),
    append_lookup: include_str!("../../sql/mysql/append_lookup.sql"),
    append_ordered: include_str!("../../sql/mysql/append_ordered.sql"),
    append_park: include_str!("../../sql/mysql/append_park.sql"),
    append_place: include_str!("../../sql/mysql/append_place.sql"),
    append_undo: include_str!("../../sql/mysql/append_undo.sql"),
    append_won: include_str!("../../sql/mysql/append_won.sql"),
    attempts: include_str!("../../sql/mysql/attempts.sql"),
    audit: include_str!("../../sql/mysql/audit.sql"),
    blocked_behind: include_str!("../../sql/mysql/blocked_behind.sql"),
    blocked_keys: include_str!("../../sql/mysql/blocked_keys.sql"),
    claim: include_str!("../../sql/mysql/claim.sql"),
    claim_fair: include_str!("../../sql/mysql/claim_fair.sql"),
    claim_ordered: include_str!("../../sql/mysql/claim_ordered.sql"),
    discard: include_str!("../../sql/mysql/discard.sql"),
    failing: include_str!("../../sql/mysql/failing.sql"),
    fleet_freed: include_str!("../../sql/mysql/fleet_freed.sql"),
    fleet_give: include_str!("../../sql/mysql/fleet_give.sql"),
    fleet_gone: include_str!("../../sql/mysql/fleet_gone.sql"),
    fleet_live: include_str!("../../sql/mysql/fleet_live.sql"),
    fleet_nodes: include_str!("../../sql/mysql/fleet_nodes.sql"),
    fleet_shares: include_str!("../../sql/mysql/fleet_shares.sql"),
    fleet_take: include_str!("../../sql/mysql/fleet_take.sql"),
    get: include_str!("../../sql/mysql/get.sql"),
    identity: include_str!("../../sql/mysql/identity.sql"),
    join_add: include_str!("../../sql/mysql/join_add.sql"),
    join_cancel: include_str!("../../sql/mysql/join_cancel.sql"),
    join_first: include_str!("../../sql/mysql/join_first.sql"),
    join_follow_up: include_str!("../../sql/mysql/join_follow_up.sql"),
    join_forget: include_str!("../../sql/mysql/join_forget.sql"),
    join_get: include_str!("../../sql/mysql/join_get.sql"),
    join_list: include_str!("../../sql/mysql/join_list.sql"),
    join_look: include_str!("../../sql/mysql/join_look.sql"),
    join_members: include_str!("../../sql/mysql/join_members.sql"),
    join_start: include_str!("../../sql/mysql/join_start.sql"),
    leave: include_str!("../../sql/mysql/leave.sql"),
    list: include_str!("../../sql/mysql/list.sql"),
    list_at: include_str!("../../sql/mysql/list_at.sql"),
    list_end: include_str!("../../sql/mysql/list_end.sql"),
    list_live: include_str!("../../sql/mysql/list_live.sql"),
    list_live_end: include_str!("../../sql/mysql/list_live_end.sql"),
    next_due: include_str!("../../sql/mysql/next_due.sql"),
    nodes: include_str!("../../sql/mysql/nodes.sql"),
    pause: include_str!("../../sql/mysql/pause.sql"),
    paused: include_str!("../../sql/mysql/paused.sql"),
    pauses: include_str!("../../sql/mysql/pauses.sql"),
    purge: include_str!("../../sql/mysql/purge.sql"),
    purge_joins: include_str!("../../sql/mysql/purge_joins.sql"),
    purge_keys: include_str!("../../sql/mysql/purge_keys.sql"),
    reap: include_str!("../../sql/mysql/reap.sql"),
    renew: include_str!("../../sql/mysql/renew.sql"),
    replay: include_str!("../../sql/mysql/replay.sql"),
    report: include_str!("../../sql/mysql/report.sql"),
    report_silent: include_str!("../../sql/mysql/report_silent.sql"),
    resume: include_str!("../../sql/mysql/resume.sql"),
    schema_version: include_str!("../../sql/mysql/schema_version.sql"),
    settle: include_str!("../../sql/mysql/settle.sql"),
    stats: include_str!("../../sql/mysql/stats.sql"),
    topics: include_str!("../../sql/mysql/topics.sql"),
    write_audit: include_str!("../../sql/mysql/write_audit.sql"),
}

#[cfg(test)]
mod tests {
    use postroom_core::store::AdminStore;
    use sqlx::Executor;

    use crate::mysql::MySqlStore;
    use crate::mysql::session::Purpose;
    use crate::{Queue, StoreConfig};

    /// In one database: the names keep them apart.
    #[tokio::test]
    async fn every_statement_prepares_against_the_migrated_schema() {
        let url = std::env::var("POSTROOM_TEST_MYSQL_URL")
            .expect("POSTROOM_TEST_MYSQL_URL must name a MySQL or MariaDB server for tests");
        let server = sqlx::MySqlPool::connect(&url).await.expect("the test server answers");
        let database = "postroom_statements";
        server.execute("create database if not exists postroom_statements").await.expect("made");
        let url = format!("{}/{database}", url.trim_end_matches('/'));
        for queue in Queue::ALL {
            let (schema, prefix) = ("mail".to_owned(), "eu_".to_owned());
            let config = StoreConfig { schema, prefix, queue, ..StoreConfig::default() };
            let store = MySqlStore::connect(&url, config).await.expect("connects");
            store.migrate().await.expect("migrates");
            let mut conn = store.sessions.engine(Purpose::Other, "test").await.expect("a session");
            for (name, sql) in store.sql.all() {
                assert!(!sql.as_str().contains("postroom_"), "{name} ignores the configured names");
                conn.prepare(sql).await.unwrap_or_else(|error| panic!("{queue:?} {name}: {error}"));
            }
        }
        server.execute("drop database postroom_statements").await.expect("dropped");
    }
}
