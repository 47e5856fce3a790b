//! `postroom stats`.

use super::Report;
use crate::failure::Failure;
use crate::render::{Screen, json, table};
use crate::store::{Access, Target};

pub(super) async fn run(
    target: &Target,
    as_json: bool,
    screen: &Screen,
) -> Result<Report, Failure> {
    let store = target.open(Access::Existing).await?;
    let stats = store.admin().stats().await?;
    Ok(Report::data(match as_json {
        true => json::document(&json::Stats::new(target.queue().as_str(), &stats)),
        false => table::stats(&target.to_string(), &stats, screen),
    }))
}
