//! `postroom list`.

use postroom::store::{AdminStore, List};

use super::Report;
use crate::args;
use crate::failure::Failure;
use crate::render::{Screen, json, table};

pub(super) async fn run(
    args: args::List,
    store: &dyn AdminStore,
    as_json: bool,
    screen: &Screen,
) -> Result<Report, Failure> {
    let list = List {
        status: args.status.map(Into::into),
        topic: args.topic,
        tenant: args.tenant,
        before: args.before,
        limit: args.limit,
    };
    let records = store.list(&list).await?;
    if as_json {
        let all: Vec<_> = records.iter().map(json::Record::new).collect();
        return Ok(Report::data(json::document(&all)));
    }
    let Some(last) = records.last() else {
        return Ok(Report::default().note(nothing(&list)));
    };
    let report = Report::data(table::records(&records, screen));
    let full = records.len() >= list.limit as usize;
    Ok(match full {
        true => report.note(format!("There may be more: add --before {}", last.id)),
        false => report,
    })
}

fn nothing(list: &List) -> &'static str {
    let all = List { limit: list.limit, ..List::default() };
    if *list == all {
        "No messages. `postroom enqueue order.placed --payload '{}'` writes one."
    } else {
        "No messages match."
    }
}
