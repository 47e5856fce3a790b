//! Identifiers in SQL: the one module that puts a configured name into a statement.
//!
//! The SQL files are written against the default names, so each can be pasted into a shell as it
//! stands. Here those names are replaced by the configured ones, which were parsed to
//! `[a-z_][a-z0-9_]*` first; nothing else ever becomes SQL text, but a statement of the operator's
//! own.

use postroom_core::{Error, ErrorKind, Result};
use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};
use uuid::Uuid;

/// Which of the two boxes of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Queue {
    /// What leaves.
    #[default]
    Outbox,
    /// What arrives.
    Inbox,
}

impl Queue {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Outbox, Self::Inbox];

    /// Its name, as in the table names.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Outbox => "outbox",
            Self::Inbox => "inbox",
        }
    }
}

/// The configured names of one box.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    schema: String,
    prefix: String,
    queue: Queue,
}

impl Names {
    pub(crate) fn new(schema: &str, prefix: &str, queue: Queue) -> Result<Self> {
        check("schema", schema, 48)?;
        if !prefix.is_empty() {
            check("prefix", prefix, 24)?;
        }
        Ok(Self { schema: schema.to_owned(), prefix: prefix.to_owned(), queue })
    }

    /// What tells the boxes of one database apart.
    pub(crate) fn label(&self) -> String {
        format!("{}.{}{}", self.schema, self.prefix, self.queue.as_str())
    }

    pub(crate) fn for_queue(&self, queue: Queue) -> Self {
        Self { queue, ..self.clone() }
    }

    #[cfg(any(feature = "mysql", feature = "postgres"))]
    pub(crate) fn queue(&self) -> Queue {
        self.queue
    }

    #[cfg(feature = "postgres")]
    pub(crate) fn schema(&self) -> &str {
        &self.schema
    }

    /// The name on which processes of this box wake each other: below 64 bytes, and different for
    /// different boxes, however their parts run into each other.
    pub(crate) fn channel(&self) -> String {
        let (schema, prefix, queue) = (&self.schema, &self.prefix, self.queue.as_str());
        let parts = format!("{schema}.{prefix}.{queue}");
        let hash = Uuid::new_v5(&Uuid::NAMESPACE_OID, parts.as_bytes()).simple().to_string();
        let readable: String = format!("{schema}_{prefix}{queue}").chars().take(37).collect();
        format!("postroom_{readable}_{}", &hash[..16])
    }

    /// Makes the schema itself, in a database with schemas.
    #[cfg(feature = "postgres")]
    pub(crate) fn create_schema(&self) -> SqlStr {
        AssertSqlSafe(format!("create schema if not exists \"{}\"", self.schema)).into_sql_str()
    }

    /// A statement for a database with schemas: `postroom.outbox_x` becomes
    /// `"schema".prefix_inbox_x`.
    pub(crate) fn render_qualified(&self, sql: &str) -> SqlStr {
        let (schema, prefix, queue) = (&self.schema, &self.prefix, self.queue.as_str());
        let text = sql
            .replace("postroom.outbox", &format!("\u{1}{prefix}{queue}"))
            .replace("postroom.", &format!("\u{1}{prefix}"))
            .replace('\u{1}', &format!("\"{schema}\"."));
        AssertSqlSafe(text).into_sql_str()
    }

    /// A definition of an index, whose own name has no schema: it is in that of its table.
    #[cfg(feature = "postgres")]
    pub(crate) fn render_index(&self, sql: &str) -> SqlStr {
        let name = format!(" {}{}_", self.prefix, self.queue.as_str());
        self.render_qualified(&sql.replacen(" outbox_", &name, 1))
    }

    #[cfg(any(feature = "mysql", feature = "sqlite", test))]
    /// A statement for a database without schemas: `postroom_outbox_x` becomes
    /// `schema_prefix_inbox_x`.
    pub(crate) fn render_flat(&self, sql: &str) -> SqlStr {
        let (schema, prefix, queue) = (&self.schema, &self.prefix, self.queue.as_str());
        let text = sql
            .replace("postroom_outbox", &format!("\u{1}{prefix}{queue}"))
            .replace("postroom_", &format!("\u{1}{prefix}"))
            .replace('\u{1}', &format!("{schema}_"));
        AssertSqlSafe(text).into_sql_str()
    }
}

/// A whole statement that the operator wrote, run as it is.
pub(crate) fn own(statement: &str) -> SqlStr {
    AssertSqlSafe(statement).into_sql_str()
}

/// Text that was rendered before, put together anew.
#[cfg(feature = "mysql")]
pub(crate) fn joined(parts: &[&str]) -> SqlStr {
    AssertSqlSafe(parts.concat()).into_sql_str()
}

/// An insert of one row as an insert of `rows`: the line after `values` is repeated.
#[cfg(any(feature = "mysql", feature = "sqlite"))]
pub(crate) fn repeat_values(insert: &SqlStr, rows: usize) -> SqlStr {
    let (head, tail) = insert.as_str().split_once("values\n").expect("an insert with values");
    let (row, tail) = tail.split_once('\n').expect("a line for the row");
    let all = vec![row; rows].join(",\n");
    AssertSqlSafe(format!("{head}values\n{all}\n{tail}")).into_sql_str()
}

/// Whether a name can stand in a statement as it is.
pub(crate) fn check(field: &str, name: &str, max: usize) -> Result<()> {
    let mut chars = name.chars();
    let first_is_fine = chars.next().is_some_and(|c| c.is_ascii_lowercase() || c == '_');
    let rest_is_fine = chars.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if first_is_fine && rest_is_fine && name.len() <= max {
        return Ok(());
    }
    let shown: String = name.chars().take(64).collect();
    Err(Error::new(
        ErrorKind::Invalid,
        format!(
            "{field} must be 1 to {max} of a-z, 0-9 and _, not starting with a digit, got {shown:?}"
        ),
    ))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names(schema: &str, prefix: &str, queue: Queue) -> Names {
        Names::new(schema, prefix, queue).expect("legal names")
    }

    #[test]
    fn sch_2_default_names_stay_as_written() {
        let names = names("postroom", "", Queue::Outbox);
        let sql = "select 1 from postroom.outbox_queue join postroom.meta using (x)";
        let expected = sql.replace("postroom.", "\"postroom\".");
        assert_eq!(names.render_qualified(sql).as_str(), expected);
        let sql = "select 1 from postroom_outbox_queue join postroom_meta using (x)";
        assert_eq!(names.render_flat(sql).as_str(), sql);
    }

    #[test]
    fn sch_2_schema_prefix_and_box_are_replaced() {
        // The replacement contains the searched words on purpose.
        let names = names("my_postroom", "postroom_outbox_", Queue::Inbox);
        let sql = "postroom.outbox_queue, postroom.meta";
        assert_eq!(
            names.render_qualified(sql).as_str(),
            "\"my_postroom\".postroom_outbox_inbox_queue, \"my_postroom\".postroom_outbox_meta"
        );
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn dsp_9_each_box_has_a_channel_of_its_own_that_fits() {
        let long = "a".repeat(48);
        let boxes = [
            names("postroom", "", Queue::Outbox),
            names("postroom", "", Queue::Inbox),
            names("a_b", "", Queue::Outbox),
            names("a", "b_", Queue::Outbox),
            names("a_b_", "", Queue::Outbox),
            names(&long, "b", Queue::Outbox),
            names(&long, "c", Queue::Outbox),
        ];
        let channels: std::collections::HashSet<_> = boxes.iter().map(Names::channel).collect();
        assert_eq!(channels.len(), boxes.len());
        for channel in &channels {
            assert!(channel.len() < 64 && check("channel", channel, 63).is_ok(), "{channel}");
        }
        // Processes of different versions meet there: it never changes.
        assert_eq!(boxes[0].channel(), "postroom_postroom_outbox_7a448cba8af85e3f");
    }

    #[test]
    fn x08_hostile_identifiers_are_refused() {
        for bad in ["", "a b", "a;drop", "a\"b", "Schema", "1a", "a-b", "ä", "a\0", &"a".repeat(49)]
        {
            let error = Names::new(bad, "", Queue::Outbox).expect_err(bad);
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().starts_with("schema must be"), "{error}");
        }
        assert!(Names::new("ok", "bad prefix", Queue::Outbox).is_err());
    }

    proptest! {
        #[test]
        fn x08_what_is_accepted_needs_no_quoting(name in "\\PC{0,60}") {
            if Names::new(&name, "", Queue::Outbox).is_ok() {
                prop_assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'));
            }
        }
    }
}
