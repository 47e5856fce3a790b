//! Versions of the schema, and what to say when one does not fit.

use postroom_core::{Error, ErrorKind, Result};

/// A numbered step, embedded from `migrations/<db>/`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Migration {
    pub(crate) version: u32,
    /// Its text, against the default names of the outbox.
    pub(crate) sql: &'static str,
    /// Whether it is run once for each box, or once for the database.
    pub(crate) per_queue: bool,
}

/// The version that a list of migrations leads to.
pub(crate) fn latest(migrations: &[Migration]) -> u32 {
    migrations.iter().map(|migration| migration.version).max().unwrap_or(0)
}

/// Whether this build can work with the schema: `version` as found, `min_client` as it demands.
pub(crate) fn check(version: Option<u32>, min_client: u32, latest: u32) -> Result<()> {
    let message = match version {
        None => "the database has no Postroom schema; run `postroom migrate`".to_owned(),
        Some(found) if found < latest => format!(
            "the Postroom schema is at version {found} and this build needs {latest}; \
             run `postroom migrate`"
        ),
        Some(found) if min_client > latest => format!(
            "the Postroom schema is at version {found}, which needs a build for version \
             {min_client} or later, and this one is for {latest}; upgrade Postroom"
        ),
        Some(_) => return Ok(()),
    };
    Err(Error::new(ErrorKind::Schema, message))
}

/// Whether a store with `fair_tenants` finds its indexes.
pub(crate) fn check_tenants(found: bool) -> Result<()> {
    if found {
        return Ok(());
    }
    let message = "fair_tenants needs two indexes that the database does not have; run `postroom \
                   migrate --fair-tenants`, or migrate with the option set";
    Err(Error::new(ErrorKind::Schema, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sch_1_missing_and_old_schemas_name_the_command_that_fixes_them() {
        for version in [None, Some(1)] {
            let error = check(version, 0, 2).expect_err("does not fit");
            assert_eq!(error.kind(), ErrorKind::Schema);
            assert!(error.to_string().contains("postroom migrate"), "{error}");
        }
    }

    #[test]
    fn sch_3_a_newer_schema_is_fine_until_it_says_otherwise() {
        assert!(check(Some(2), 1, 2).is_ok());
        assert!(check(Some(3), 2, 2).is_ok());
        let error = check(Some(3), 3, 2).expect_err("too new");
        assert!(error.to_string().contains("upgrade Postroom"), "{error}");
    }
}
