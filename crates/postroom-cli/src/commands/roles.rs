//! `postroom roles`.

use postroom::Roles;
use serde_json::json;

use super::Report;
use crate::args;
use crate::failure::Failure;
use crate::render::json;
use crate::store::Target;

pub(super) fn print(args: args::Roles, target: &Target, as_json: bool) -> Result<Report, Failure> {
    let args::Roles { producer, worker, admin, reader } = args;
    let sql = target.roles_sql(&Roles { producer, worker, admin, reader })?;
    Ok(Report::data(if as_json { json::document(&json!({ "sql": sql })) } else { sql }))
}
