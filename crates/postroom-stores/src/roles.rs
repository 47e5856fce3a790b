//! Accounts with no more rights than they need.

use postroom_core::Result;

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
    /// Puts these names, each between two `quote`s, in the place of the default ones.
    pub(crate) fn render(&self, sql: &str, quote: char) -> Result<String> {
        let Self { producer, worker, admin, reader } = self;
        let mut text = sql.to_owned();
        let all =
            [("producer", producer), ("worker", worker), ("admin", admin), ("reader", reader)];
        // By way of marks: a name may be the default of another role.
        for (role, _) in all {
            text = text.replace(&format!("postroom_{role}"), &format!("\u{1}{role}"));
        }
        for (role, name) in all {
            names::check(role, name, 63)?;
            text = text.replace(&format!("\u{1}{role}"), &format!("{quote}{name}{quote}"));
        }
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use postroom_core::ErrorKind;

    use super::*;

    #[test]
    fn sch_6_names_may_be_those_of_other_roles() {
        let roles = Roles {
            producer: "postroom_worker".to_owned(),
            worker: "postroom_admin".to_owned(),
            ..Roles::default()
        };
        let text = roles.render("to postroom_producer, postroom_worker", '"').expect("legal");
        assert_eq!(text, "to \"postroom_worker\", \"postroom_admin\"");
    }

    #[test]
    fn x08_hostile_names_of_roles_are_refused() {
        for bad in ["", "a\"b", "a; drop", "Shop", &"a".repeat(64)] {
            let roles = Roles { reader: bad.to_owned(), ..Roles::default() };
            let error = roles.render("", '"').expect_err(bad);
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().starts_with("reader must be"), "{error}");
        }
    }
}
