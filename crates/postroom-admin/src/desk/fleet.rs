//! All stores, open or not: those of a fleet, and those that are only shown.
//!
//! Everything here comes from what was counted before. Nothing is asked of any database, however
//! many there are.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use postroom_core::fleet::MemberState;

use super::{Desk, Queue, Queues};
use crate::health;
use crate::problem::Problem;
use crate::sampler::{Sample, Seen};

/// So many are among the first of all.
const TOP: usize = 10;

/// Every state of a store of a fleet, for metrics.
pub(crate) const STATES: [&str; 6] =
    ["serving", "elsewhere", "same", "opening", "draining", "failing"];

/// The state of a store of a fleet, for metrics.
pub(crate) fn word(state: &MemberState) -> &'static str {
    match state {
        MemberState::Serving => "serving",
        MemberState::Elsewhere => "elsewhere",
        MemberState::SameAs(_) => "same",
        MemberState::Draining => "draining",
        MemberState::Failing(_) => "failing",
        // Also one that this version does not know: nothing is delivered there yet.
        _ => "opening",
    }
}

/// How a store is, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Standing {
    /// It can not be opened.
    Failing,
    /// Its database does not answer.
    Away,
    /// It works, and somebody should look at it.
    Attention,
    Opening,
    Draining,
    Fine,
    /// Another process serves it.
    Elsewhere,
    /// It is the same database as another one.
    Same,
}

impl Standing {
    pub(crate) const ALL: [Self; 8] = [
        Self::Failing,
        Self::Away,
        Self::Attention,
        Self::Opening,
        Self::Draining,
        Self::Fine,
        Self::Elsewhere,
        Self::Same,
    ];

    /// For programs.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Failing => "failing",
            Self::Away => "away",
            Self::Attention => "attention",
            Self::Opening => "opening",
            Self::Draining => "draining",
            Self::Fine => "ok",
            Self::Elsewhere => "elsewhere",
            Self::Same => "same",
        }
    }

    /// Whether somebody should do something.
    pub(crate) fn is_trouble(self) -> bool {
        self <= Self::Attention
    }
}

/// A box with a sample of it.
pub(crate) type Shown = (Arc<Queue>, Arc<Sample>);

/// A store and how it is.
pub(crate) struct Store {
    pub(crate) name: String,
    pub(crate) standing: Standing,
    /// Why, in a few words, where that says more.
    pub(crate) why: Option<String>,
    /// Its boxes with their last samples; none when it is not open here.
    pub(crate) boxes: Vec<Shown>,
}

impl Store {
    /// What waits in all its boxes.
    pub(crate) fn backlog(&self) -> u64 {
        self.seen().map(backlog).sum()
    }

    pub(crate) fn dead_letters(&self) -> u64 {
        self.seen().map(Seen::dead_letters).sum()
    }

    /// For how long the oldest message waits that could be delivered.
    pub(crate) fn oldest(&self) -> Option<Duration> {
        self.seen().filter_map(|seen| seen.stats.oldest_ready).max()
    }

    fn seen(&self) -> impl Iterator<Item = &Seen> {
        self.boxes.iter().filter_map(|(_, sample)| sample.seen.as_ref())
    }
}

fn backlog(seen: &Seen) -> u64 {
    seen.stats.ready + seen.stats.waiting + seen.stats.leased
}

/// Which stores somebody wants to see.
#[derive(Clone, Debug, Default)]
pub(crate) struct Choice {
    /// A part of the name; case does not matter.
    pub(crate) search: Option<String>,
    pub(crate) state: Option<Kind>,
}

/// A state, or all that are trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Trouble,
    One(Standing),
}

impl Kind {
    pub(crate) fn parse(text: &str) -> Result<Self, Problem> {
        if text == "trouble" {
            return Ok(Self::Trouble);
        }
        let found = Standing::ALL.into_iter().find(|standing| standing.as_str() == text);
        found.map(Self::One).ok_or_else(|| {
            let known = Standing::ALL.map(Standing::as_str).join(", ");
            Problem::invalid(format!("state must be trouble or one of {known}, got {text:?}"))
        })
    }

    pub(crate) fn has(self, standing: Standing) -> bool {
        match self {
            Self::Trouble => standing.is_trouble(),
            Self::One(one) => standing == one,
        }
    }
}

impl Choice {
    pub(crate) fn has(&self, store: &Store) -> bool {
        let name = || store.name.to_lowercase();
        self.search.as_ref().is_none_or(|part| name().contains(&part.to_lowercase()))
            && self.state.is_none_or(|kind| kind.has(store.standing))
    }
}

/// All stores at one moment, by name.
pub(crate) struct Fleet {
    pub(crate) stores: Vec<Store>,
}

impl Desk {
    /// All stores, from what is known.
    pub(crate) fn fleet(&self, queues: &Queues) -> Fleet {
        let mut open: BTreeMap<String, Vec<Shown>> = BTreeMap::new();
        for queue in queues.shared() {
            let pair = (Arc::clone(queue), queue.sampler.last());
            open.entry(queue.database.clone()).or_default().push(pair);
        }
        let mut stores: Vec<_> = Vec::new();
        for member in self.watch.members() {
            let name = member.id.to_string();
            let boxes = open.remove(&name).unwrap_or_default();
            let (standing, why) = match member.state {
                MemberState::Failing(why) => (Standing::Failing, Some(health::brief(&why))),
                MemberState::SameAs(other) => (Standing::Same, Some(format!("as {other}"))),
                MemberState::Elsewhere => (Standing::Elsewhere, None),
                MemberState::Draining => (Standing::Draining, None),
                MemberState::Serving => self.judged(&boxes),
                _ => (Standing::Opening, None),
            };
            stores.push(Store { name, standing, why, boxes });
        }
        for (name, boxes) in open {
            let (standing, why) = self.judged(&boxes);
            stores.push(Store { name, standing, why, boxes });
        }
        stores.sort_by(|one, other| one.name.cmp(&other.name));
        Fleet { stores }
    }

    /// How an open store is, or a part of its boxes, by these samples.
    pub(crate) fn judged(&self, boxes: &[Shown]) -> (Standing, Option<String>) {
        if boxes.iter().any(|(_, sample)| sample.was_asked && sample.seen.is_none()) {
            return (Standing::Away, Some("the database does not answer".to_owned()));
        }
        if boxes.is_empty() || boxes.iter().any(|(_, sample)| sample.seen.is_none()) {
            return (Standing::Opening, None);
        }
        let worst = boxes
            .iter()
            .filter_map(|(queue, sample)| health::worst(queue, sample, &self.watch.thresholds));
        let worst = worst.max_by_key(|check| check.status).map(|check| check.message);
        let seen = boxes.iter().filter_map(|(_, sample)| sample.seen.as_ref());
        let dead: u64 = seen.map(Seen::dead_letters).sum();
        match (worst, dead) {
            (Some(why), _) => (Standing::Attention, Some(why)),
            (None, 0) => (Standing::Fine, None),
            (None, 1) => (Standing::Attention, Some("1 dead letter".to_owned())),
            (None, dead) => (Standing::Attention, Some(format!("{dead} dead letters"))),
        }
    }
}

impl Fleet {
    /// How many there are of each kind.
    pub(crate) fn count(&self, kind: Kind) -> usize {
        self.stores.iter().filter(|store| kind.has(store.standing)).count()
    }

    pub(crate) fn backlog(&self) -> u64 {
        self.stores.iter().map(Store::backlog).sum()
    }

    pub(crate) fn dead_letters(&self) -> u64 {
        self.stores.iter().map(Store::dead_letters).sum()
    }

    /// The stores in which most messages wait, if any do.
    pub(crate) fn largest(&self) -> Vec<(&Store, u64)> {
        top(self.stores.iter().map(|store| (store, store.backlog())).collect(), |most| *most > 0)
    }

    /// The stores in which a message waits for longest, if any does.
    pub(crate) fn oldest(&self) -> Vec<(&Store, Duration)> {
        let oldest = self.stores.iter().filter_map(|store| Some((store, store.oldest()?)));
        top(oldest.collect(), |oldest| !oldest.is_zero())
    }
}

fn top<T: Ord + Copy>(mut all: Vec<(&Store, T)>, counts: impl Fn(&T) -> bool) -> Vec<(&Store, T)> {
    all.retain(|(_, value)| counts(value));
    all.sort_by_key(|(_, value)| Reverse(*value));
    all.truncate(TOP);
    all
}
