//! Postroom for any language: the SQL functions and the view, replaced by each migration.
//!
//! The functions run the very statements of the store: `{{claim.sql}}` stands for that file's text.

use sqlx::SqlStr;

use crate::names::{Names, Queue};

/// What both boxes share; it publishes into the outbox.
const SHARED_SCRIPT: &str = include_str!("../../sql/postgres/join.sql");

const SCRIPTS: [&str; 5] = [
    include_str!("../../sql/postgres/join_box.sql"),
    include_str!("../../sql/postgres/order.sql"),
    include_str!("../../sql/postgres/functions.sql"),
    include_str!("../../sql/postgres/enqueue.sql"),
    include_str!("../../sql/postgres/view.sql"),
];

const SHARED: [(&str, &str); 5] = [
    ("{{append.sql}}", include_str!("../../sql/postgres/append.sql")),
    ("{{claim.sql}}", include_str!("../../sql/postgres/claim.sql")),
    ("{{reap.sql}}", include_str!("../../sql/postgres/reap.sql")),
    ("{{renew.sql}}", include_str!("../../sql/postgres/renew.sql")),
    ("{{settle.sql}}", include_str!("../../sql/postgres/settle.sql")),
];

/// Takes what the others made away from the public.
const REVOKE: &str = include_str!("../../sql/postgres/revoke.sql");

/// For the database and for both boxes.
pub(super) fn rendered(names: &Names) -> Vec<SqlStr> {
    let outbox = names.for_queue(Queue::Outbox);
    let shared = SHARED_SCRIPT.replace("{{channel}}", &outbox.channel());
    let mut rendered = vec![outbox.render_qualified(&shared)];
    for queue in Queue::ALL {
        let names = names.for_queue(queue);
        let in_inbox = (queue == Queue::Inbox).to_string();
        rendered.extend(SCRIPTS.map(|script| {
            let script = script.replace("{{in_inbox}}", &in_inbox);
            names.render_qualified(
                &SHARED
                    .iter()
                    .fold(script, |script, (place, text)| script.replace(place, text.trim_end())),
            )
        }));
    }
    let made = rendered.iter().flat_map(|sql| functions_in(sql.as_str())).collect::<Vec<_>>();
    let revoke = REVOKE.replace("{{functions}}", &made.join(", "));
    rendered.push(outbox.render_qualified(&revoke));
    rendered
}

/// The functions that a rendered script makes, as text literals.
fn functions_in(script: &str) -> impl Iterator<Item = String> {
    let made = script.split("create or replace function ").skip(1);
    made.filter_map(|rest| rest.split_once('(')).map(|(name, _)| format!("'{name}'"))
}
