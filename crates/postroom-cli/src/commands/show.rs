//! `postroom show`.

use postroom::store::AdminStore;

use super::Report;
use crate::args;
use crate::failure::{Exit, Failure};
use crate::render::{Screen, detail, json};

pub(super) async fn run(
    args: &args::Show,
    store: &dyn AdminStore,
    as_json: bool,
    screen: &Screen,
) -> Result<Report, Failure> {
    let Some(found) = store.get(args.id).await? else {
        let next = "`postroom list` shows what is there; --queue and --schema choose where to look";
        return Err(Failure::new(Exit::NotFound, format!("no message {}", args.id)).next(next));
    };
    Ok(Report::data(match as_json {
        true => json::document(&json::Detail::new(&found, args.payload)),
        false => detail::page(&found, args.payload, screen),
    }))
}
