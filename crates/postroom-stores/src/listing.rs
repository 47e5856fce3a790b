//! What the lists of all stores share: where a page begins, how far it looks, and where it ends.

use std::collections::HashMap;

use postroom_core::MessageId;
use postroom_core::store::{List, Page, Record, Status};
use uuid::Uuid;

/// The most messages on one page.
pub(crate) const MAX_PAGE: u32 = 500;

/// How many messages a search looks at in one call.
pub(crate) const SEARCHED: u32 = 10_000;

/// Where a list looks: by the index that finds least, or among live rows, which are few.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Messages,
    DeadLetters,
    Live,
    Aggregate,
    OrderingKey,
}

impl Place {
    pub(crate) fn of(list: &List) -> Self {
        match list.status {
            _ if list.names_aggregate() => Self::Aggregate,
            _ if list.ordering_key.is_some() => Self::OrderingKey,
            Some(Status::Dead) => Self::DeadLetters,
            Some(Status::Pending | Status::Leased | Status::Failed) => Self::Live,
            Some(Status::Done) | None => Self::Messages,
        }
    }

    /// Its number in the statements.
    pub(crate) fn code(self) -> i16 {
        match self {
            Self::Messages => 1,
            Self::DeadLetters => 2,
            Self::Live => 3,
            Self::Aggregate => 4,
            Self::OrderingKey => 5,
        }
    }
}

/// The ids among which a page is looked for, both included, and how many rows it may touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) newest: Uuid,
    pub(crate) oldest: Uuid,
    pub(crate) limit: u32,
    pub(crate) reach: u32,
}

impl Span {
    /// Nothing when there is no older id.
    pub(crate) fn new(list: &List) -> Option<Self> {
        let newest = match list.before {
            Some(before) => before.as_uuid().as_u128().checked_sub(1)?,
            None => u128::MAX,
        };
        let limit = list.limit.min(MAX_PAGE);
        // A search has its end below; a list without filters takes what comes first.
        let reach = if list.is_search() { i32::MAX.unsigned_abs() } else { limit };
        Some(Self { newest: Uuid::from_u128(newest), oldest: Uuid::nil(), limit, reach })
    }

    pub(crate) fn down_to(self, end: Option<Uuid>) -> Self {
        Self { oldest: end.unwrap_or(self.oldest), ..self }
    }

    /// The page of these ids. A message that was deleted meanwhile is left out.
    pub(crate) fn page(self, ids: &[MessageId], mut found: HashMap<MessageId, Record>) -> Page {
        let full = ids.len() == self.limit as usize;
        let end = (!self.oldest.is_nil()).then(|| MessageId::from(self.oldest));
        let next = if full { ids.last().copied() } else { end };
        Page { records: ids.iter().filter_map(|id| found.remove(id)).collect(), next }
    }
}
