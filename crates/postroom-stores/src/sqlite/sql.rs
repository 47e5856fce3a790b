//! The statements, one file each, rendered once for the configured names.

use sqlx::SqlStr;

use crate::names::{Names, Queue, repeat_values};

macro_rules! statements {
    ($($name:ident = $text:expr,)* => $($shared:ident = $shared_text:expr,)*) => {
        /// Every statement of the SQLite store.
        #[derive(Debug)]
        pub(super) struct Statements {
            $(pub(super) $name: SqlStr,)*
            $(pub(super) $shared: SqlStr,)*
            /// `append` for this many messages at once, largest first.
            pub(super) append_rows: Vec<(usize, SqlStr)>,
        }

        impl Statements {
            pub(super) fn new(names: &Names) -> Self {
                let outbox = names.for_queue(Queue::Outbox);
                let one = Self {
                    $($name: names.render_flat($text),)*
                    $($shared: outbox.render_flat($shared_text),)*
                    append_rows: Vec::new(),
                };
                let rows = [64, 8, 1].map(|rows| (rows, repeat_values(&one.append, rows)));
                Self { append_rows: rows.into(), ..one }
            }

            /// All of them by name, for the test that prepares each.
            #[cfg(test)]
            pub(super) fn all(&self) -> Vec<(&'static str, SqlStr)> {
                vec![
                    $((stringify!($name), self.$name.clone()),)*
                    $((stringify!($shared), self.$shared.clone()),)*
                ]
            }
        }
    };
}

statements! {
    admit = include_str!("../../sql/sqlite/admit.sql"),
    append = include_str!("../../sql/sqlite/append.sql"),
    append_key = include_str!("../../sql/sqlite/append_key.sql"),
    append_lookup = include_str!("../../sql/sqlite/append_lookup.sql"),
    append_park = include_str!("../../sql/sqlite/append_park.sql"),
    append_place = include_str!("../../sql/sqlite/append_place.sql"),
    append_undo = include_str!("../../sql/sqlite/append_undo.sql"),
    append_undo_keys = include_str!("../../sql/sqlite/append_undo_keys.sql"),
    attempts = include_str!("../../sql/sqlite/attempts.sql"),
    audit = include_str!("../../sql/sqlite/audit.sql"),
    blocked_keys = include_str!("../../sql/sqlite/blocked_keys.sql"),
    bury = include_str!("../../sql/sqlite/bury.sql"),
    claim = include_str!("../../sql/sqlite/claim.sql"),
    claim_due = include_str!("../../sql/sqlite/claim_due.sql"),
    claim_fair = include_str!("../../sql/sqlite/claim_fair.sql"),
    claim_keys = include_str!("../../sql/sqlite/claim_keys.sql"),
    claim_lease = include_str!("../../sql/sqlite/claim_lease.sql"),
    claim_messages = include_str!("../../sql/sqlite/claim_messages.sql"),
    claim_run = include_str!("../../sql/sqlite/claim_run.sql"),
    claim_slots = include_str!("../../sql/sqlite/claim_slots.sql"),
    claim_takeover = include_str!("../../sql/sqlite/claim_takeover.sql"),
    claim_tenants = include_str!("../../sql/sqlite/claim_tenants.sql"),
    claim_unpark = include_str!("../../sql/sqlite/claim_unpark.sql"),
    claim_unparked = include_str!("../../sql/sqlite/claim_unparked.sql"),
    claim_waiting = include_str!("../../sql/sqlite/claim_waiting.sql"),
    claim_work = include_str!("../../sql/sqlite/claim_work.sql"),
    data_version = include_str!("../../sql/sqlite/data_version.sql"),
    discard = include_str!("../../sql/sqlite/discard.sql"),
    failing = include_str!("../../sql/sqlite/failing.sql"),
    fleet_freed = include_str!("../../sql/sqlite/fleet_freed.sql"),
    fleet_give = include_str!("../../sql/sqlite/fleet_give.sql"),
    fleet_gone = include_str!("../../sql/sqlite/fleet_gone.sql"),
    fleet_live = include_str!("../../sql/sqlite/fleet_live.sql"),
    fleet_nodes = include_str!("../../sql/sqlite/fleet_nodes.sql"),
    fleet_shares = include_str!("../../sql/sqlite/fleet_shares.sql"),
    fleet_take = include_str!("../../sql/sqlite/fleet_take.sql"),
    forget = include_str!("../../sql/sqlite/forget.sql"),
    forget_attempts = include_str!("../../sql/sqlite/forget_attempts.sql"),
    forget_halts = include_str!("../../sql/sqlite/forget_halts.sql"),
    forget_keys = include_str!("../../sql/sqlite/forget_keys.sql"),
    get = include_str!("../../sql/sqlite/get.sql"),
    halt = include_str!("../../sql/sqlite/halt.sql"),
    incoming = include_str!("../../sql/sqlite/incoming.sql"),
    incoming_end = include_str!("../../sql/sqlite/incoming_end.sql"),
    incoming_error = include_str!("../../sql/sqlite/incoming_error.sql"),
    incoming_more = include_str!("../../sql/sqlite/incoming_more.sql"),
    join_add = include_str!("../../sql/sqlite/join_add.sql"),
    join_cancel = include_str!("../../sql/sqlite/join_cancel.sql"),
    join_count = include_str!("../../sql/sqlite/join_count.sql"),
    join_end = include_str!("../../sql/sqlite/join_end.sql"),
    join_follow_up = include_str!("../../sql/sqlite/join_follow_up.sql"),
    join_forget = include_str!("../../sql/sqlite/join_forget.sql"),
    join_get = include_str!("../../sql/sqlite/join_get.sql"),
    join_list = include_str!("../../sql/sqlite/join_list.sql"),
    join_look = include_str!("../../sql/sqlite/join_look.sql"),
    join_mark = include_str!("../../sql/sqlite/join_mark.sql"),
    join_members = include_str!("../../sql/sqlite/join_members.sql"),
    join_open = include_str!("../../sql/sqlite/join_open.sql"),
    join_start = include_str!("../../sql/sqlite/join_start.sql"),
    join_unmark = include_str!("../../sql/sqlite/join_unmark.sql"),
    leave = include_str!("../../sql/sqlite/leave.sql"),
    leave_dispatcher = include_str!("../../sql/sqlite/leave_dispatcher.sql"),
    leave_node = include_str!("../../sql/sqlite/leave_node.sql"),
    list = include_str!("../../sql/sqlite/list.sql"),
    list_at = include_str!("../../sql/sqlite/list_at.sql"),
    list_end = include_str!("../../sql/sqlite/list_end.sql"),
    list_live = include_str!("../../sql/sqlite/list_live.sql"),
    list_live_end = include_str!("../../sql/sqlite/list_live_end.sql"),
    lost_lease = include_str!("../../sql/sqlite/lost_lease.sql"),
    next_due = include_str!("../../sql/sqlite/next_due.sql"),
    node = include_str!("../../sql/sqlite/node.sql"),
    node_gone = include_str!("../../sql/sqlite/node_gone.sql"),
    node_renew = include_str!("../../sql/sqlite/node_renew.sql"),
    nodes = include_str!("../../sql/sqlite/nodes.sql"),
    pause = include_str!("../../sql/sqlite/pause.sql"),
    paused = include_str!("../../sql/sqlite/paused.sql"),
    pauses = include_str!("../../sql/sqlite/pauses.sql"),
    purge = include_str!("../../sql/sqlite/purge.sql"),
    purge_joins = include_str!("../../sql/sqlite/purge_joins.sql"),
    purge_keys = include_str!("../../sql/sqlite/purge_keys.sql"),
    purge_members = include_str!("../../sql/sqlite/purge_members.sql"),
    reap = include_str!("../../sql/sqlite/reap.sql"),
    reap_expired = include_str!("../../sql/sqlite/reap_expired.sql"),
    reap_release = include_str!("../../sql/sqlite/reap_release.sql"),
    renew = include_str!("../../sql/sqlite/renew.sql"),
    renew_slots = include_str!("../../sql/sqlite/renew_slots.sql"),
    replay = include_str!("../../sql/sqlite/replay.sql"),
    report = include_str!("../../sql/sqlite/report.sql"),
    report_silent = include_str!("../../sql/sqlite/report_silent.sql"),
    resume = include_str!("../../sql/sqlite/resume.sql"),
    schema_version = include_str!("../../sql/sqlite/schema_version.sql"),
    settle = include_str!("../../sql/sqlite/settle.sql"),
    settle_attempts = include_str!("../../sql/sqlite/settle_attempts.sql"),
    settle_dead = include_str!("../../sql/sqlite/settle_dead.sql"),
    settle_done = include_str!("../../sql/sqlite/settle_done.sql"),
    settle_keep = include_str!("../../sql/sqlite/settle_keep.sql"),
    settle_leave = include_str!("../../sql/sqlite/settle_leave.sql"),
    settle_park = include_str!("../../sql/sqlite/settle_park.sql"),
    slots_last = include_str!("../../sql/sqlite/slots_last.sql"),
    slots_renew = include_str!("../../sql/sqlite/slots_renew.sql"),
    slots_take = include_str!("../../sql/sqlite/slots_take.sql"),
    stats = include_str!("../../sql/sqlite/stats.sql"),
    topics = include_str!("../../sql/sqlite/topics.sql"),
    unqueue = include_str!("../../sql/sqlite/unqueue.sql"),
    write_audit = include_str!("../../sql/sqlite/write_audit.sql"),
    // Always of the outbox.
    =>
    join_place = include_str!("../../sql/sqlite/join_place.sql"),
    join_publish = include_str!("../../sql/sqlite/join_publish.sql"),
}

#[cfg(test)]
mod tests {
    use postroom_core::store::AdminStore;
    use sqlx::Executor;

    use crate::{Queue, SqliteStore, StoreConfig};

    #[tokio::test]
    async fn every_statement_prepares_against_the_migrated_schema() {
        for queue in Queue::ALL {
            let (schema, prefix) = ("mail".to_owned(), "eu_".to_owned());
            let config = StoreConfig { schema, prefix, queue, ..StoreConfig::default() };
            let config = StoreConfig { fair_tenants: true, ..config };
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
