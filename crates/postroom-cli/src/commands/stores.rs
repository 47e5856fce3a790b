//! `postroom stores`: which stores there are, by the file and by what it finds.

use std::path::Path;

use futures_util::{StreamExt as _, stream};
use postroom::ErrorKind;
use serde_json::{Value, json};

use super::Report;
use crate::args;
use crate::config::Loaded;
use crate::failure::{Exit, Failure};
use crate::fleet::{Found, Unseen};
use crate::render::{Screen, count, json, table};
use crate::store::{Access, Target};

/// How many are opened at the same time.
const OPENED_AT_ONCE: usize = 8;

pub(super) async fn run(
    args: &args::Stores,
    file: &Path,
    as_json: bool,
    screen: &Screen,
) -> Result<Report, Failure> {
    let config = Loaded::read(file, None)?;
    let (found, unseen) = config.stores.look().await;
    let looks = stream::iter(&found).map(async |found| match args.connect {
        true => Some(look(&found.store.place).await),
        false => None,
    });
    let states: Vec<_> = looks.buffered(OPENED_AT_ONCE).collect().await;
    let broken = states.iter().flatten().filter(|state| state.is_broken()).count();
    let report = Report::data(match as_json {
        true => document(&found, &states, &unseen),
        false => text(&found, &states, &unseen, screen),
    });
    let wrong = [(unseen.len(), "source", "not answer"), (broken, "store", "not be used")];
    let wrong: Vec<_> = wrong
        .iter()
        .filter(|(n, ..)| *n > 0)
        .map(|(n, what, how)| format!("{} can {how}", count(*n, what)))
        .collect();
    Ok(match wrong.is_empty() {
        true => report.note(format!("{}.", count(found.len(), "store"))),
        false => report.note(format!("{}.", wrong.join("; "))).ends_with(Exit::Unavailable),
    })
}

/// How a store is.
enum State {
    /// It opens, and its schema fits.
    Fits,
    /// It opens, and its schema does not fit.
    Misfit(String),
    /// It does not open.
    Closed(String),
}

impl State {
    fn is_broken(&self) -> bool {
        !matches!(self, Self::Fits)
    }

    fn text(&self) -> &str {
        match self {
            Self::Fits => "ok",
            Self::Misfit(why) | Self::Closed(why) => why,
        }
    }
}

/// Opens a store without making anything in it.
async fn look(target: &Target) -> State {
    if target.is_missing() {
        return State::Closed(target.missing().in_one_line());
    }
    let scrub = |failure: Failure| failure.map(|text| target.url().scrub(text)).in_one_line();
    let store = match target.open(Access::Migrate).await {
        Ok(store) => store,
        Err(failure) => return State::Closed(scrub(failure)),
    };
    let checked = store.admin().check_schema().await;
    store.close().await;
    match checked {
        Ok(()) => State::Fits,
        Err(error) if error.kind() == ErrorKind::Schema => State::Misfit(error.to_string()),
        Err(error) => State::Closed(scrub(error.into())),
    }
}

fn text(found: &[Found], states: &[Option<State>], unseen: &[Unseen], screen: &Screen) -> String {
    let mut rows = Vec::new();
    for (Found { source, store }, state) in found.iter().zip(states) {
        let state = state.as_ref().map(State::text).unwrap_or_default();
        rows.push([
            store.id.to_string(),
            store.place.url().kind.as_str().to_owned(),
            store.place.to_string(),
            store.weight.to_string(),
            store.keys.join(","),
            source.clone().unwrap_or_else(|| "the file".to_owned()),
            state.to_owned(),
        ]);
    }
    for Unseen { source, failure } in unseen {
        let mut row: [String; 7] = Default::default();
        (row[5], row[6]) = (source.clone(), failure.in_one_line());
        rows.push(row);
    }
    table::plain(["STORE", "KIND", "IS", "WEIGHT", "KEYS", "FOUND BY", ""], &rows, screen)
}

fn document(found: &[Found], states: &[Option<State>], unseen: &[Unseen]) -> String {
    let store = |(Found { source, store }, state): (&Found, &Option<State>)| {
        let mut value = json!({
            "store": store.id.as_str(),
            "kind": store.place.url().kind.as_str(),
            "url": store.place.url().shown(),
            "schema": store.place.names().0,
            "prefix": store.place.names().1,
            "queue": store.place.queue().as_str(),
            "weight": store.weight,
            "keys": store.keys,
            "found_by": source,
        });
        if let Some(state) = state {
            let opens = !matches!(state, State::Closed(_));
            value["opens"] = json!(opens);
            value["schema_fits"] = if opens { json!(!state.is_broken()) } else { Value::Null };
            value["error"] = if state.is_broken() { json!(state.text()) } else { Value::Null };
        }
        value
    };
    let stores: Vec<_> = found.iter().zip(states).map(store).collect();
    let failed =
        |unseen: &Unseen| json!({ "source": unseen.source, "error": unseen.failure.in_one_line() });
    let unseen: Vec<_> = unseen.iter().map(failed).collect();
    json::document(&json!({ "stores": stores, "unseen": unseen }))
}
