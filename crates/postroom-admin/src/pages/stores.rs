//! All stores at a glance, a page of them in detail, and the way from one to another.
//!
//! The head sums up what was counted before. Figures of the stores on the page are brought up to
//! date; the others are left alone.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse as _, Redirect, Response};
use postroom_core::store::Wakes;

use super::frame::{self, Ask, Frame, Link, Place};
use super::list::Tab;
use super::overview::Figure;
use super::words;
use crate::desk::Desk;
use crate::desk::fleet::{Choice, Fleet, Kind, Shown, Standing, Store};
use crate::problem::Problem;
use crate::sampler::FEW;

/// Stores on a page.
const MOST: usize = 50;
/// Of so many stores every box has a row.
const FEW_STORES: usize = 8;

#[derive(Template)]
#[template(path = "stores.html")]
struct Stores {
    frame: Frame,
    /// Sums; none when there is one store.
    figures: Vec<Figure>,
    largest: Vec<Top>,
    oldest: Vec<Top>,
    tabs: Vec<Tab>,
    search: String,
    state: String,
    rows: Vec<Row>,
    /// Which of how many are shown.
    shown: String,
    newer: Option<String>,
    older: Option<String>,
}

/// One of the first of all.
struct Top {
    name: String,
    href: Option<String>,
    value: String,
}

struct Row {
    name: String,
    /// Where it is shown; nothing when it is not open here.
    href: Option<String>,
    kind: &'static str,
    /// The box beside it, when that has no row.
    beside: Option<(&'static str, String)>,
    class: &'static str,
    state: &'static str,
    why: Option<String>,
    figures: Option<[(&'static str, String); 5]>,
    wakes: String,
    dispatchers: String,
}

pub(super) async fn stores(State(desk): State<Arc<Desk>>, ask: Ask) -> Result<Response, Problem> {
    let frame = Frame::around(&desk, &ask, Place::Stores, "Stores")?;
    let state = ask.get("state").map(Kind::parse).transpose()?;
    let choice = Choice { search: ask.get("q").map(ToOwned::to_owned), state };
    let page = ask.get("page").and_then(|page| page.parse().ok()).unwrap_or(1_usize).max(1);
    let fleet = desk.fleet(&ask.queues);
    let mut chosen: Vec<_> = fleet.stores.iter().filter(|store| choice.has(store)).collect();
    // Trouble first; by name otherwise.
    chosen.sort_by_key(|store| match store.standing.is_trouble() {
        true => (false, Some(store.standing)),
        false => (true, None),
    });
    let page = page.min(chosen.len().div_ceil(MOST).max(1));
    let shown: Vec<_> = chosen.iter().skip((page - 1) * MOST).take(MOST).copied().collect();
    let rows = rows(&desk, &shown, &fleet, &ask, &frame).await;
    // Who looks for something wants to see that.
    let is_whole = choice.search.is_none() && choice.state.is_none() && page == 1;
    let many = is_whole && fleet.stores.len() > FEW_STORES;
    let page = Stores {
        figures: figures(&fleet, &frame),
        largest: top(fleet.largest(), many, &ask, &frame, |backlog| words::count(*backlog)),
        oldest: top(fleet.oldest(), many, &ask, &frame, |oldest| words::span(*oldest)),
        tabs: tabs(&fleet, &choice, &frame),
        search: choice.search.clone().unwrap_or_default(),
        state: state_of(&choice).to_owned(),
        rows,
        shown: match shown.len() {
            count if count == fleet.stores.len() => String::new(),
            count => {
                let (first, all) = ((page - 1) * MOST + 1, words::count(chosen.len() as u64));
                format!("{first} to {} of {all}", first + count.max(1) - 1)
            }
        },
        newer: (page > 1).then(|| to_page(&frame, &choice, page - 1)),
        older: (page * MOST < chosen.len()).then(|| to_page(&frame, &choice, page + 1)),
        frame,
    };
    ask.show(&page)
}

fn state_of(choice: &Choice) -> &'static str {
    match choice.state {
        None => "",
        Some(Kind::Trouble) => "trouble",
        Some(Kind::One(standing)) => standing.as_str(),
    }
}

fn to_page(frame: &Frame, choice: &Choice, page: usize) -> String {
    let page = page.to_string();
    let search = choice.search.as_deref().unwrap_or_default();
    frame.with("/stores", &[("q", search), ("state", state_of(choice)), ("page", &page)])
}

/// Samples of few boxes are fresh; of many, those at hand, which are brought up to date.
async fn rows(desk: &Desk, stores: &[&Store], fleet: &Fleet, ask: &Ask, frame: &Frame) -> Vec<Row> {
    let is_few = fleet.stores.len() <= FEW_STORES;
    let boxes = stores.iter().flat_map(|store| &store.boxes).map(|(queue, _)| queue);
    let samples: Vec<_> = match boxes.clone().count() {
        ..=FEW => futures_util::future::join_all(boxes.map(|queue| queue.sampler.latest())).await,
        _ => boxes.map(|queue| queue.sampler.glance()).collect(),
    };
    let mut samples = samples.into_iter();
    let mut rows: Vec<Row> = Vec::new();
    for store in stores {
        let first = rows.len();
        for ((queue, _), sample) in store.boxes.iter().zip(samples.by_ref()) {
            let href = format!("{}{}", frame.base, frame::page_of(&ask.queues, queue, "/"));
            match rows.get_mut(first) {
                // Most inboxes are not used.
                Some(row) if sample.is_unused() && !is_few => row.beside = Some((queue.kind, href)),
                _ => rows.push(row(desk, store, (Arc::clone(queue), sample), href)),
            }
        }
        if store.boxes.is_empty() {
            rows.push(closed(store));
        }
    }
    rows
}

fn pill(standing: Standing) -> (&'static str, &'static str) {
    match standing {
        Standing::Failing => ("bad", "Failing"),
        Standing::Away => ("bad", "No answer"),
        Standing::Attention => ("warn", "Needs a look"),
        Standing::Opening => ("info", "Opening"),
        Standing::Draining => ("info", "Draining"),
        Standing::Fine => ("good", "Fine"),
        Standing::Elsewhere => ("", "Elsewhere"),
        Standing::Same => ("", "Same"),
    }
}

/// A store that is not open here.
fn closed(store: &Store) -> Row {
    let (class, state) = pill(store.standing);
    let why = match store.standing {
        Standing::Elsewhere => Some("Another process serves it.".to_owned()),
        Standing::Same => store.why.as_ref().map(|why| format!("It is the same database {why}.")),
        _ => store.why.clone(),
    };
    Row {
        name: store.name.clone(),
        href: None,
        kind: "",
        beside: None,
        class,
        state,
        why,
        figures: None,
        wakes: String::new(),
        dispatchers: String::new(),
    }
}

fn row(desk: &Desk, store: &Store, shown: Shown, href: String) -> Row {
    let is_open = matches!(store.standing, Standing::Fine | Standing::Attention | Standing::Away);
    let (standing, why) = match is_open {
        true => desk.judged(std::slice::from_ref(&shown)),
        false => (store.standing, store.why.clone()),
    };
    let (class, state) = pill(standing);
    let (queue, sample) = shown;
    let figures = sample.seen.as_ref().map(|seen| {
        let stats = &seen.stats;
        [
            ("Pending", stats.ready + stats.waiting),
            ("In flight", stats.leased),
            ("Retrying", stats.failed),
            ("Dead", stats.dead),
            ("Done", stats.done),
        ]
        .map(|(name, number)| (name, words::count(number)))
    });
    let live = sample
        .seen
        .as_ref()
        .map(|seen| words::count(seen.nodes.iter().filter(|node| node.is_live).count() as u64));
    Row {
        name: queue.database.clone(),
        href: Some(href),
        kind: queue.kind,
        beside: None,
        class,
        state,
        why: why.filter(|_| standing == Standing::Attention),
        figures,
        wakes: match sample.wakes {
            Wakes::InProcess => "in this process".to_owned(),
            Wakes::Listening => "at once".to_owned(),
            Wakes::PollOnly { why } => format!("by polling: {}", why.as_str()),
        },
        dispatchers: live.unwrap_or_default(),
    }
}

/// Sums over all stores, from what was counted before.
fn figures(fleet: &Fleet, frame: &Frame) -> Vec<Figure> {
    if fleet.stores.len() < 2 {
        return Vec::new();
    }
    let figure = |name, value, note: String, href: Option<String>| Figure {
        name,
        value,
        unit: "",
        class: "",
        note,
        href,
    };
    let only = |kind: &str| Some(frame.with("/stores", &[("state", kind)]));
    let (trouble, failing) =
        (fleet.count(Kind::Trouble), fleet.count(Kind::One(Standing::Failing)));
    let fine = words::count(fleet.count(Kind::One(Standing::Fine)) as u64);
    let note = match trouble as u64 {
        0 => format!("{fine} fine, none in trouble"),
        trouble => format!("{} in trouble, {fine} fine", words::count(trouble)),
    };
    let (largest, oldest) = (fleet.largest(), fleet.oldest());
    let named = |name: Option<&str>| name.map_or_else(String::new, |name| format!("in {name}"));
    let letters = fleet.dead_letters();
    let with_letters = fleet.stores.iter().filter(|store| store.dead_letters() > 0).count() as u64;
    vec![
        Figure {
            class: match (failing, trouble) {
                (0, 0) => "",
                (0, _) => "warn",
                _ => "bad",
            },
            ..figure(
                "Stores",
                words::count(fleet.stores.len() as u64),
                note,
                if trouble > 0 { only("trouble") } else { None },
            )
        },
        figure(
            "Backlog",
            words::count(fleet.backlog()),
            largest.first().map_or("nothing waits".into(), |(store, most)| {
                format!("{} in {}", words::count(*most), store.name)
            }),
            None,
        ),
        figure(
            "Oldest waiting",
            oldest.first().map_or("none".into(), |(_, oldest)| words::span(*oldest)),
            named(oldest.first().map(|(store, _)| store.name.as_str())),
            None,
        ),
        Figure {
            class: if letters > 0 { "bad" } else { "" },
            ..figure(
                "Dead letters",
                words::count(letters),
                match with_letters {
                    0 => "nothing needs a person".into(),
                    count => format!("in {}", words::many(count, "store", "stores")),
                },
                if letters > 0 { only("attention") } else { None },
            )
        },
    ]
}

fn top<T>(
    stores: Vec<(&Store, T)>,
    many: bool,
    ask: &Ask,
    frame: &Frame,
    value: impl Fn(&T) -> String,
) -> Vec<Top> {
    let line = |(store, number): (&Store, T)| Top {
        name: store.name.clone(),
        href: store
            .boxes
            .first()
            .map(|(queue, _)| format!("{}{}", frame.base, frame::page_of(&ask.queues, queue, "/"))),
        value: value(&number),
    };
    stores.into_iter().filter(|_| many).map(line).collect()
}

/// All, trouble, and every state that some store is in.
fn tabs(fleet: &Fleet, choice: &Choice, frame: &Frame) -> Vec<Tab> {
    let search = choice.search.as_deref().unwrap_or_default();
    let tab = |word: &'static str, label: &str, count: usize| Tab {
        link: Link {
            label: label.to_owned(),
            href: frame.with("/stores", &[("q", search), ("state", word)]),
            current: state_of(choice) == word,
        },
        count: Some(words::count(count as u64)),
    };
    let mut tabs = vec![
        tab("", "All", fleet.stores.len()),
        tab("trouble", "Trouble", fleet.count(Kind::Trouble)),
    ];
    for standing in Standing::ALL {
        let count = fleet.count(Kind::One(standing));
        if count > 0 || choice.state == Some(Kind::One(standing)) {
            tabs.push(tab(standing.as_str(), pill(standing).1, count));
        }
    }
    tabs
}

/// A name leads to its store, and anything else to the stores that have it in their names.
pub(super) async fn switch(ask: Ask) -> Response {
    let to = ask.get("to").unwrap_or_default();
    let found =
        ask.queues.find(Some(to), ask.get("box")).or_else(|_| ask.queues.find(Some(to), None));
    let path = match found {
        Ok(queue) => {
            let at = frame::section_of(ask.get("at").unwrap_or_default());
            frame::page_of(&ask.queues, &queue, at)
        }
        Err(_) => format!("/stores?q={}", words::encoded(to)),
    };
    Redirect::to(&format!("{}{path}", ask.base)).into_response()
}
