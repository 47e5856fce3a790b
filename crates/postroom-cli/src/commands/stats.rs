//! `postroom stats`.

use postroom::Queue;
use postroom::store::AdminStore;

use super::Report;
use crate::failure::Failure;
use crate::render::{Screen, json, table};

pub(super) async fn run(
    queue: Queue,
    store: &dyn AdminStore,
    as_json: bool,
    screen: &Screen,
) -> Result<Report, Failure> {
    let stats = store.stats().await?;
    Ok(Report::data(match as_json {
        true => json::document(&json::stats(queue.as_str(), &stats)),
        false => table::stats(&stats, screen),
    }))
}
