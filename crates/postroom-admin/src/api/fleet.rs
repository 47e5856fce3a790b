//! All stores and how they are, also those that are not open here.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use serde::Serialize;
use utoipa::ToSchema;

use super::input::Query;
use super::shape::Safe;
use crate::desk::Desk;
use crate::desk::fleet::{Choice, Fleet, Kind, Standing, Store};
use crate::problem::Problem;

/// All stores at a glance, and a page of them.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct FleetView {
    totals: Totals,
    /// The ten stores in which most messages wait.
    largest: Vec<StoreView>,
    /// The ten stores in which a message waits for longest.
    oldest: Vec<StoreView>,
    /// Those that were asked for, by name.
    items: Vec<StoreView>,
    /// Where the next page begins; `null` at the end.
    next: Option<String>,
}

/// Sums over all stores, as of the last look at each.
#[derive(Debug, Serialize, ToSchema)]
struct Totals {
    stores: usize,
    /// How many are in which state; none is left out.
    states: BTreeMap<&'static str, usize>,
    /// Messages that wait or are held.
    backlog: u64,
    /// Dead letters that nobody discarded.
    dead_letters: u64,
    oldest_ready_seconds: Option<f64>,
}

/// A store and how it is.
#[derive(Debug, Serialize, ToSchema)]
struct StoreView {
    store: String,
    /// `failing` (it can not be opened), `away` (its database does not answer), `attention` (it
    /// works, and somebody should look), `opening`, `draining`, `ok`, `elsewhere` (another process
    /// serves it) or `same` (as another store).
    state: &'static str,
    /// Why, where that says more.
    why: Option<String>,
    /// The boxes that can be looked at here.
    boxes: Vec<&'static str>,
    backlog: u64,
    dead_letters: u64,
    oldest_ready_seconds: Option<f64>,
}

impl From<&Store> for StoreView {
    fn from(store: &Store) -> Self {
        Self {
            store: store.name.clone(),
            state: store.standing.as_str(),
            why: store.why.clone(),
            boxes: store.boxes.iter().map(|(queue, _)| queue.kind).collect(),
            backlog: store.backlog(),
            dead_letters: store.dead_letters(),
            oldest_ready_seconds: store.oldest().map(|oldest| oldest.as_secs_f64()),
        }
    }
}

/// All stores, also those that can not be opened or that another process serves: how many are in
/// which state, which are the worst, and a page of them by name. It is made of what was counted
/// before, and asks no database.
#[utoipa::path(get, path = "/fleet", tag = "boxes",
    params(
        ("search" = Option<String>, Query, description = "A part of the name. Case does not \
         matter."),
        ("state" = Option<String>, Query, description = "One of the states, or `trouble` for \
         `failing`, `away` and `attention`."),
        ("after" = Option<String>, Query, description = "`next` of the page before."),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 500,
            description = "How many at most. Default 50."),
    ),
    responses((status = 200, body = FleetView)))]
pub(super) async fn fleet(
    State(desk): State<Arc<Desk>>,
    mut query: Query,
) -> Result<Safe<FleetView>, Problem> {
    let state = query.text("state").map(|state| Kind::parse(&state)).transpose()?;
    let choice = Choice { search: query.text("search"), state };
    let (after, limit) = (query.text("after"), query.limit(50, 500)? as usize);
    query.finish()?;
    let fleet = desk.fleet(&desk.queues());
    let is_next = |store: &&Store| after.as_ref().is_none_or(|after| store.name > *after);
    let chosen = fleet.stores.iter().filter(|store| choice.has(store)).filter(is_next);
    let mut items: Vec<StoreView> = chosen.take(limit + 1).map(StoreView::from).collect();
    let more = items.len() > limit;
    items.truncate(limit);
    let next = items.last().filter(|_| more).map(|store| store.store.clone());
    let view = |store: &Store| StoreView::from(store);
    Ok(Safe(FleetView {
        totals: totals(&fleet),
        largest: fleet.largest().into_iter().map(|(store, _)| view(store)).collect(),
        oldest: fleet.oldest().into_iter().map(|(store, _)| view(store)).collect(),
        items,
        next,
    }))
}

fn totals(fleet: &Fleet) -> Totals {
    let count = |standing: Standing| (standing.as_str(), fleet.count(Kind::One(standing)));
    Totals {
        stores: fleet.stores.len(),
        states: Standing::ALL.map(count).into(),
        backlog: fleet.backlog(),
        dead_letters: fleet.dead_letters(),
        oldest_ready_seconds: fleet.oldest().first().map(|(_, oldest)| oldest.as_secs_f64()),
    }
}
