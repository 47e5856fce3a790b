//! Accounts with no more rights than they need.

use postroom_core::Result;
use sqlx::SqlStr;

use crate::names;

/// The names of the four roles of a database, for its `roles_sql`.
///
/// ```
/// use postroom_stores::Roles;
///
/// let roles = Roles { producer: "shop".into(), ..Roles::default() };
/// assert_eq!(roles.worker, "postroom_worker");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roles {
    /// May publish through the SQL function, and nothing else. Default `postroom_producer`.
    pub producer: String,
    /// A service that publishes and runs a dispatcher, with inbox and joins. Default
    /// `postroom_worker`.
    pub worker: String,
    /// A worker that may also pause, resume and discard. Default `postroom_admin`.
    pub admin: String,
    /// May look at everything. Default `postroom_reader`.
    pub reader: String,
}

impl Default for Roles {
    fn default() -> Self {
        Self {
            producer: "postroom_producer".to_owned(),
            worker: "postroom_worker".to_owned(),
            admin: "postroom_admin".to_owned(),
            reader: "postroom_reader".to_owned(),
        }
    }
}

impl Roles {
    /// A script with these names, each between two `quote`s, in the place of the default ones.
    /// `fill_names` puts the other names in, and does not get to see those of roles.
    pub(crate) fn render(
        &self,
        sql: &str,
        quote: char,
        fill_names: impl FnOnce(&str) -> SqlStr,
    ) -> Result<String> {
        let Self { producer, worker, admin, reader } = self;
        let roles =
            [("producer", producer), ("worker", worker), ("admin", admin), ("reader", reader)];
        let marked = roles.iter().fold(sql.to_owned(), |text, (role, _)| {
            text.replace(&format!("postroom_{role}"), &format!("\u{2}{role}"))
        });
        let mut text = fill_names(&marked).as_str().to_owned();
        for (role, name) in roles {
            names::check(role, name, 63)?;
            text = text.replace(&format!("\u{2}{role}"), &format!("{quote}{name}{quote}"));
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use postroom_core::ErrorKind;

    use super::*;
    use crate::names::{Names, Queue};

    #[test]
    fn sch_6_names_may_be_those_of_other_roles() {
        let roles = Roles {
            producer: "postroom_worker".to_owned(),
            worker: "postroom_admin".to_owned(),
            ..Roles::default()
        };
        let names = Names::new("postroom_producer", "", Queue::Outbox).expect("legal");
        let sql = "on postroom.outbox to postroom_producer, postroom_worker";
        let text = roles.render(sql, '"', |sql| names.render_qualified(sql)).expect("legal");
        let schema = "\"postroom_producer\".outbox";
        assert_eq!(text, format!("on {schema} to \"postroom_worker\", \"postroom_admin\""));
    }

    #[test]
    fn x08_hostile_names_of_roles_are_refused() {
        for bad in ["", "a\"b", "a; drop", "Shop", &"a".repeat(64)] {
            let roles = Roles { reader: bad.to_owned(), ..Roles::default() };
            let names = Names::new("postroom", "", Queue::Outbox).expect("legal");
            let error = roles.render("", '"', |sql| names.render_qualified(sql)).expect_err(bad);
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().starts_with("reader must be"), "{error}");
        }
    }
}
