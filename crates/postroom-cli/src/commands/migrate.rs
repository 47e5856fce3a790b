//! `postroom migrate`.

use postroom::store::Migrated;
use serde_json::json;

use super::Report;
use crate::args::Migrate;
use crate::failure::Failure;
use crate::render::json;
use crate::store::{Access, Target};

pub(super) async fn run(args: &Migrate, target: &Target, as_json: bool) -> Result<Report, Failure> {
    let target = &target.clone().with_fair_tenants(args.fair_tenants);
    match args {
        Migrate { print: true, .. } => print(target, as_json),
        Migrate { dry_run: true, .. } => foresee(target, as_json).await,
        _ => migrate(target, as_json).await,
    }
}

async fn migrate(target: &Target, as_json: bool) -> Result<Report, Failure> {
    let store = target.open(Access::Migrate).await?;
    let Migrated { from, to } = store.admin().migrate().await?;
    let report = Report::data(match from {
        _ if as_json => json::document(&json!({ "from": from, "to": to })),
        _ if from == to => format!("The schema is up to date at version {to}.\n"),
        0 => format!("Created the schema at version {to}.\n"),
        _ => format!("Brought the schema from version {from} to {to}.\n"),
    });
    Ok(match target.config().fair_tenants {
        true => report.note("The indexes for tenants that take turns are there."),
        false => report,
    })
}

/// Says whether there is anything to do.
async fn foresee(target: &Target, as_json: bool) -> Result<Report, Failure> {
    let why = super::migrate_all::foresee(target).await?;
    let report = Report::data(match &why {
        _ if as_json => json::document(&json!({ "dry_run": true, "up_to_date": why.is_none() })),
        None => "The schema is up to date.\n".to_owned(),
        Some(why) => {
            let why = why.split("; ").next().unwrap_or(why);
            format!("Would migrate: {why}.\n")
        }
    });
    Ok(report.note("Nothing was changed: this was a dry run."))
}

fn print(target: &Target, as_json: bool) -> Result<Report, Failure> {
    let sql = target.migration_sql()?;
    Ok(Report::data(match as_json {
        true => json::document(&json!({ "sql": sql })),
        false => format!("{}\n", sql.trim_end()),
    }))
}
