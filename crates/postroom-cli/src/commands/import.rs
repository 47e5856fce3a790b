//! `postroom import`.

use postroom::Queue;
use serde_json::json;

use super::Report;
use crate::args;
use crate::failure::{Exit, Failure};
use crate::import::{Found, Tally};
use crate::render::{inert, json};
use crate::store::{Access, Ending, Target};
use crate::url::Url;

pub(super) async fn run(
    args: &args::Import,
    target: &Target,
    as_json: bool,
) -> Result<Report, Failure> {
    if target.queue() != Queue::Outbox {
        let what = "import writes to the outbox, not to the inbox";
        return Err(Failure::new(Exit::Invalid, what).next("leave --queue out"));
    }
    let source = args.source_url.as_deref().map(Url::parse).transpose()?;
    let from = source.as_ref().unwrap_or(target.url());
    let imported = import(args, target, from, as_json).await;
    imported.map_err(|failure| failure.map(|text| from.scrub(text)))
}

async fn import(
    args: &args::Import,
    target: &Target,
    from: &Url,
    as_json: bool,
) -> Result<Report, Failure> {
    // Table and columns are known before anything is created or written.
    let found = Found::new(args, from).await?;
    let table = found.table();
    let access = if args.dry_run { Access::Existing } else { Access::Write };
    let store = target.open(access).await?;
    let ending = if args.dry_run { Ending::Rollback } else { Ending::Commit };
    if !args.dry_run && found.total > 0 {
        let warning = "The old relay must not run any more: what it still sends is sent twice.";
        eprintln!("{warning}");
    }
    let tally = found.import(&store, usize::from(args.chunk), ending).await?;
    store.close().await;
    let report = Report::data(match as_json {
        true => document(&table, args.dry_run, &tally),
        false => text(&table, args.dry_run, &tally),
    });
    Ok(match tally.refused {
        0 => report,
        _ => report.ends_with(Exit::Error),
    })
}

fn text(table: &str, dry_run: bool, tally: &Tally) -> String {
    let done = if dry_run { "Would import" } else { "Imported" };
    let Tally { rows, imported, already_there, refused, .. } = tally;
    let table = inert(table);
    let mut text = format!("{done} {imported} of {rows} rows of {table}.\n");
    if *already_there > 0 {
        text += &format!("{already_there} were there already.\n");
    }
    if *refused > 0 {
        text += &format!("{refused} refused; the reasons are above.\n");
    }
    if dry_run {
        text += "Nothing was written.\n";
    }
    text
}

fn document(table: &str, dry_run: bool, tally: &Tally) -> String {
    let refusals: Vec<_> =
        tally.refusals.iter().map(|(id, reason)| json!({ "id": id, "reason": reason })).collect();
    json::document(&json!({
        "table": table,
        "dry_run": dry_run,
        "rows": tally.rows,
        "imported": tally.imported,
        "already_there": tally.already_there,
        "refused": tally.refused,
        "refusals": refusals,
    }))
}
