//! Postroom for any language: the SQL functions and the view, replaced by each migration.
//!
//! The functions run the very statements of the store: `{{claim.sql}}` stands for that file's text.

use sqlx::SqlStr;

use crate::names::{Names, Queue};

const SCRIPTS: [&str; 4] = [
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

/// For both boxes.
pub(super) fn rendered(names: &Names) -> Vec<SqlStr> {
    let scripts = SCRIPTS.map(|script| {
        SHARED
            .iter()
            .fold(script.to_owned(), |script, (place, text)| script.replace(place, text.trim_end()))
    });
    let boxes = Queue::ALL.map(|queue| names.for_queue(queue));
    boxes
        .iter()
        .flat_map(|names| scripts.iter().map(|script| names.render_qualified(script)))
        .collect()
}
