//! `postroom list`.

use postroom::store::AdminStore;

use super::{Report, select};
use crate::args;
use crate::failure::Failure;
use crate::render::{Screen, json, table};

pub(super) async fn run(
    args: args::List,
    store: &dyn AdminStore,
    as_json: bool,
    screen: &Screen,
) -> Result<Report, Failure> {
    let filter = args.filters.filter();
    let everything = filter.is_empty() && args.before.is_none();
    let search = filter.search(screen.now);
    let found = select::page(store, &search, args.before, args.limit as usize).await?;
    if as_json {
        let all: Vec<_> = found.records.iter().map(json::Record::new).collect();
        return Ok(Report::data(json::document(&all)));
    }
    if found.records.is_empty() {
        return Ok(Report::default().note(match everything {
            true => "No messages. `postroom enqueue order.placed --payload '{}'` writes one.",
            false => "No messages match.",
        }));
    }
    let report = Report::data(table::records(&found.records, screen));
    Ok(match found.next {
        Some(last) => report.note(format!("There may be more: add --before {last}")),
        None => report,
    })
}
