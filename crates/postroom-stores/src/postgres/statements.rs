//! The statements of one box, rendered once with the configured names.

use sqlx::SqlStr;

use crate::names::Names;

macro_rules! statements {
    ($($name:ident: $text:expr),* $(,)?) => {
        /// One field per file in `sql/postgres`.
        #[derive(Debug)]
        pub(crate) struct Statements {
            $(pub(crate) $name: SqlStr,)*
        }

        impl Statements {
            pub(crate) fn new(names: &Names) -> Self {
                // A clone is shared text; the original would be copied by each later clone.
                Self { $($name: names.render_qualified($text).clone(),)* }
            }

            /// All of them by name.
            #[cfg(test)]
            pub(crate) fn all(&self) -> Vec<(&'static str, SqlStr)> {
                vec![$((stringify!($name), self.$name.clone()),)*]
            }
        }
    };
}

/// Has no names in it.
pub(crate) const NOTIFY: &str = include_str!("../../sql/postgres/notify.sql");

/// For messages that nobody can have written before: a guarded insert writes a record more.
fn unguarded(append: &str) -> String {
    append.replace("    on conflict (id) do nothing\n", "")
}

statements! {
    admit: include_str!("../../sql/postgres/admit.sql"),
    append: include_str!("../../sql/postgres/append.sql"),
    append_fresh: &unguarded(include_str!("../../sql/postgres/append.sql")),
    append_lookup: include_str!("../../sql/postgres/append_lookup.sql"),
    append_undo: include_str!("../../sql/postgres/append_undo.sql"),
    attempts: include_str!("../../sql/postgres/attempts.sql"),
    audit: include_str!("../../sql/postgres/audit.sql"),
    blocked_keys: include_str!("../../sql/postgres/blocked_keys.sql"),
    claim: include_str!("../../sql/postgres/claim.sql"),
    claim_fair: include_str!("../../sql/postgres/claim_fair.sql"),
    claim_ordered: include_str!("../../sql/postgres/claim_ordered.sql"),
    claim_ready: include_str!("../../sql/postgres/claim_ready.sql"),
    discard: include_str!("../../sql/postgres/discard.sql"),
    failing: include_str!("../../sql/postgres/failing.sql"),
    fleet_give: include_str!("../../sql/postgres/fleet_give.sql"),
    fleet_gone: include_str!("../../sql/postgres/fleet_gone.sql"),
    fleet_live: include_str!("../../sql/postgres/fleet_live.sql"),
    fleet_nodes: include_str!("../../sql/postgres/fleet_nodes.sql"),
    fleet_shares: include_str!("../../sql/postgres/fleet_shares.sql"),
    fleet_take: include_str!("../../sql/postgres/fleet_take.sql"),
    get: include_str!("../../sql/postgres/get.sql"),
    identity: include_str!("../../sql/postgres/identity.sql"),
    identity_by_address: include_str!("../../sql/postgres/identity_by_address.sql"),
    join_add: include_str!("../../sql/postgres/join_add.sql"),
    join_cancel: include_str!("../../sql/postgres/join_cancel.sql"),
    join_get: include_str!("../../sql/postgres/join_get.sql"),
    join_list: include_str!("../../sql/postgres/join_list.sql"),
    join_look: include_str!("../../sql/postgres/join_look.sql"),
    join_members: include_str!("../../sql/postgres/join_members.sql"),
    join_start: include_str!("../../sql/postgres/join_start.sql"),
    leave: include_str!("../../sql/postgres/leave.sql"),
    list: include_str!("../../sql/postgres/list.sql"),
    list_at: include_str!("../../sql/postgres/list_at.sql"),
    list_end: include_str!("../../sql/postgres/list_end.sql"),
    list_live: include_str!("../../sql/postgres/list_live.sql"),
    list_live_end: include_str!("../../sql/postgres/list_live_end.sql"),
    next_due: include_str!("../../sql/postgres/next_due.sql"),
    nodes: include_str!("../../sql/postgres/nodes.sql"),
    notify: NOTIFY,
    pause: include_str!("../../sql/postgres/pause.sql"),
    paused: include_str!("../../sql/postgres/paused.sql"),
    pauses: include_str!("../../sql/postgres/pauses.sql"),
    purge: include_str!("../../sql/postgres/purge.sql"),
    purge_joins: include_str!("../../sql/postgres/purge_joins.sql"),
    purge_keys: include_str!("../../sql/postgres/purge_keys.sql"),
    purge_members: include_str!("../../sql/postgres/purge_members.sql"),
    reap: include_str!("../../sql/postgres/reap.sql"),
    renew: include_str!("../../sql/postgres/renew.sql"),
    replay: include_str!("../../sql/postgres/replay.sql"),
    report: include_str!("../../sql/postgres/report.sql"),
    resume: include_str!("../../sql/postgres/resume.sql"),
    schema_version: include_str!("../../sql/postgres/schema_version.sql"),
    settle: include_str!("../../sql/postgres/settle.sql"),
    settle_done: include_str!("../../sql/postgres/settle_done.sql"),
    settle_gone: include_str!("../../sql/postgres/settle_gone.sql"),
    stats: include_str!("../../sql/postgres/stats.sql"),
    topics: include_str!("../../sql/postgres/topics.sql"),
    write_audit: include_str!("../../sql/postgres/write_audit.sql"),
}
