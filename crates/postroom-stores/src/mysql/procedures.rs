//! The procedures, for the engine and for any language, and the view.
//!
//! A procedure carries a mark of its text as its comment: a migration replaces those that have
//! changed and leaves the others, with the rights that were granted on them, alone.

use sqlx::SqlStr;
use uuid::Uuid;

use crate::names::{Names, Queue, joined};

/// What both boxes share; joins publish into the outbox.
const SHARED_SCRIPTS: [&str; 3] = [
    include_str!("../../sql/mysql/proc_shared.sql"),
    include_str!("../../sql/mysql/api_shared.sql"),
    include_str!("../../sql/mysql/proc_join.sql"),
];

const SCRIPTS: [&str; 10] = [
    include_str!("../../sql/mysql/proc_claim.sql"),
    include_str!("../../sql/mysql/proc_tenants.sql"),
    include_str!("../../sql/mysql/proc_slot.sql"),
    include_str!("../../sql/mysql/proc_order.sql"),
    include_str!("../../sql/mysql/proc_settle.sql"),
    include_str!("../../sql/mysql/proc_append.sql"),
    include_str!("../../sql/mysql/proc_join_box.sql"),
    include_str!("../../sql/mysql/proc_admin.sql"),
    include_str!("../../sql/mysql/enqueue.sql"),
    include_str!("../../sql/mysql/procedures.sql"),
];

/// The box as a person reads it, for both.
pub(super) fn views(names: &Names) -> Vec<SqlStr> {
    let view = include_str!("../../sql/mysql/view.sql");
    Queue::ALL.map(|queue| names.for_queue(queue).render_flat(view)).to_vec()
}

/// One procedure, rendered.
pub(super) struct Procedure {
    pub(super) name: String,
    /// Of its text: another text has another mark.
    pub(super) mark: String,
    pub(super) drop: SqlStr,
    pub(super) create: SqlStr,
}

/// For the database and for both boxes.
pub(super) fn rendered(names: &Names) -> Vec<Procedure> {
    let outbox = names.for_queue(Queue::Outbox);
    let mut procedures: Vec<_> =
        SHARED_SCRIPTS.iter().flat_map(|script| split(script, &outbox)).collect();
    for queue in Queue::ALL {
        let names = names.for_queue(queue);
        procedures.extend(SCRIPTS.iter().flat_map(|script| split(script, &names)));
    }
    procedures
}

const BEGINNING: &str = "create procedure ";
const SECURITY: &str = "sql security definer\n";

fn split(script: &str, names: &Names) -> Vec<Procedure> {
    let in_inbox = if names.queue() == Queue::Inbox { "1" } else { "0" };
    let script = script.replace("{{in_inbox}}", in_inbox);
    script.split(&format!("\n{BEGINNING}")).skip(1).map(|text| procedure(text, names)).collect()
}

/// From its name to what comes before the next one, which may be a comment on that.
fn procedure(text: &str, names: &Names) -> Procedure {
    let end = text.find("\nend;").map_or(text.len(), |end| end + "\nend".len());
    let text = names.render_flat(&text[..end]);
    let name = text.as_str().split('(').next().unwrap_or_default().to_owned();
    let mark = Uuid::new_v5(&Uuid::NAMESPACE_OID, text.as_str().as_bytes()).simple().to_string();
    let marked = text.as_str().replacen(SECURITY, &format!("{SECURITY}comment '{mark}'\n"), 1);
    let drop = joined(&["drop procedure if exists ", &name]);
    Procedure { drop, create: joined(&[BEGINNING, &marked]), name, mark }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sch_1_each_procedure_is_found_once_and_marked() {
        let names = Names::new("mail", "eu_", Queue::Outbox).expect("legal names");
        let procedures = rendered(&names);
        let mut seen = std::collections::HashSet::new();
        for procedure in &procedures {
            assert!(seen.insert(procedure.name.clone()), "{} twice", procedure.name);
            assert!(procedure.name.starts_with("mail_eu_"), "{}", procedure.name);
            let text = procedure.create.as_str();
            assert!(text.contains(&format!("comment '{}'", procedure.mark)), "{text}");
            assert!(!text.contains("postroom_") && text.ends_with("\nend"), "{text}");
        }
        assert!(seen.contains("mail_eu_begin") && seen.contains("mail_eu_inbox_run_claim"));
    }
}
