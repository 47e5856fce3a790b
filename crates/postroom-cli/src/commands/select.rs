//! Finds the messages that a filter means, page by page.

use postroom::store::{AdminStore, Cursor, Record};

use crate::failure::Failure;
use crate::filter::Search;

/// The most that one call of a store gives.
const PAGE: u32 = 500;

/// Messages, newest first.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) records: Vec<Record>,
    /// Where it goes on, if there may be more.
    pub(super) next: Option<Cursor>,
}

/// The first so many messages older than `before`. A search that matches little goes through all
/// messages, a bounded number at a time.
pub(super) async fn page(
    store: &dyn AdminStore,
    search: &Search,
    before: Option<Cursor>,
    limit: usize,
) -> Result<Found, Failure> {
    let mut found = Found::default();
    let mut list = search.list.clone();
    list.before = before;
    list.limit = u32::try_from(limit).unwrap_or(PAGE).min(PAGE);
    loop {
        let page = store.list(&list).await?;
        for record in page.records.into_iter().filter(|record| search.keeps(record)) {
            let place = list.place_of(&record);
            found.records.push(record);
            if found.records.len() == limit {
                found.next = Some(place);
                return Ok(found);
            }
        }
        match page.next {
            None => return Ok(found),
            next => list.before = next,
        }
    }
}
