//! What the lists of all stores share: where a page begins, how far it looks, and where it ends.
//!
//! A search looks at few messages first, and at more only when these were not enough. For each of
//! these windows a store finds its end before it looks into it, so that whatever comes or goes
//! meanwhile no message is passed over and none is found twice.

use std::collections::HashMap;
use std::time::Duration;

use postroom_core::store::{Cursor, List, Page, Record, Status};
use postroom_core::{MessageId, Result, WorkId};
use tokio::time::Instant;
use uuid::Uuid;

/// The most messages on one page.
pub(crate) const MAX_PAGE: u32 = 500;

/// How many messages a search looks at in one call, window by window.
const WINDOWS: [u32; 3] = [500, 2_000, 7_500];
/// The same where only live rows are looked at, and their messages are not.
const LIVE_WINDOWS: [u32; 4] = [500, 2_000, 7_500, 10_000];
/// The same where each window costs as much as all of them.
const ONE_WINDOW: [u32; 1] = [10_000];

/// A search that took so long looks into no other window: that is four times as large.
const PATIENCE: Duration = Duration::from_millis(50);

/// Where a list looks: by the index that finds least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Messages,
    DeadLetters,
    Aggregate,
    OrderingKey,
    /// In the order of the queue.
    Live,
}

impl Place {
    pub(crate) fn of(list: &List) -> Self {
        match list.status {
            _ if list.names_aggregate() => Self::Aggregate,
            _ if list.ordering_key.is_some() => Self::OrderingKey,
            _ if list.follows_queue() => Self::Live,
            Some(Status::Dead) => Self::DeadLetters,
            None if list.reason.is_some() => Self::DeadLetters,
            _ => Self::Messages,
        }
    }

    /// Its number in the statements; live rows have their own ones.
    pub(crate) fn code(self) -> i16 {
        match self {
            Self::Live => 0,
            Self::Messages => 1,
            Self::DeadLetters => 2,
            Self::Aggregate => 3,
            Self::OrderingKey => 4,
        }
    }
}

/// A message in a list. Its place in the queue is known where that is the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) id: Uuid,
    pub(crate) seq: i64,
}

impl Mark {
    const NEWEST: Self = Self { id: Uuid::max(), seq: i64::MAX };
    const OLDEST: Self = Self { id: Uuid::nil(), seq: 0 };

    /// The next older one that there can be.
    fn next(self, list: &List) -> Option<Self> {
        if list.follows_queue() {
            return self.seq.checked_sub(1).map(|seq| Self { seq, ..self });
        }
        let id = self.id.as_u128().checked_sub(1)?;
        Some(Self { id: Uuid::from_u128(id), ..self })
    }

    fn cursor(self, list: &List) -> Cursor {
        let work = list.follows_queue().then_some(WorkId::new(self.seq));
        Cursor { id: MessageId::from(self.id), work }
    }
}

/// The part of a list in which a page is looked for, both ends included; how many are wanted, and
/// how many to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) newest: Mark,
    pub(crate) oldest: Mark,
    pub(crate) limit: u32,
    pub(crate) reach: u32,
}

/// The statements of a store.
pub(crate) trait Lists {
    /// Whether it has to sort all that is there, instead of walking an index.
    fn sorts(&self, _place: Place) -> bool {
        false
    }

    /// The last of so many messages from `newest` on; nothing when there are fewer.
    async fn end(&self, list: &List, newest: Mark, count: u32) -> Result<Option<Mark>>;

    /// What matches.
    async fn within(&self, list: &List, span: Span) -> Result<Vec<Mark>>;

    /// The message, or if it is gone the next older one.
    async fn at(&self, id: MessageId) -> Result<Option<Mark>>;
}

/// What is on a page, and where the next one begins.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) ids: Vec<MessageId>,
    next: Option<Cursor>,
}

impl Found {
    /// A message that was deleted meanwhile is left out.
    pub(crate) fn page(self, mut records: HashMap<MessageId, Record>) -> Page {
        let records = self.ids.iter().filter_map(|id| records.remove(id)).collect();
        Page { records, next: self.next }
    }

    fn new(list: &List, marks: &[Mark], next: Option<Mark>) -> Self {
        let ids = marks.iter().map(|mark| MessageId::from(mark.id)).collect();
        Self { ids, next: next.map(|mark| mark.cursor(list)) }
    }
}

pub(crate) async fn find<L: Lists>(store: &L, list: &List) -> Result<Found> {
    let Some(mut newest) = start(store, list).await? else { return Ok(Found::default()) };
    let limit = list.limit.min(MAX_PAGE);
    let last = |found: &[Mark]| found.last().copied().filter(|_| found.len() == limit as usize);
    if !list.is_search() {
        let span = Span { newest, oldest: Mark::OLDEST, limit, reach: limit };
        let found = store.within(list, span).await?;
        return Ok(Found::new(list, &found, last(&found)));
    }
    let began = Instant::now();
    let mut found = Vec::new();
    let mut end = None;
    for count in windows(store, list) {
        end = store.end(list, newest, *count).await?;
        let missing = limit - u32::try_from(found.len()).unwrap_or(limit);
        let oldest = end.unwrap_or(Mark::OLDEST);
        let reach = i32::MAX.unsigned_abs();
        found.extend(store.within(list, Span { newest, oldest, limit: missing, reach }).await?);
        if found.len() >= limit as usize {
            return Ok(Found::new(list, &found, last(&found)));
        }
        let Some(next) = end.and_then(|end| end.next(list)) else { break };
        newest = next;
        if began.elapsed() > PATIENCE {
            break;
        }
    }
    Ok(Found::new(list, &found, end))
}

fn windows<L: Lists>(store: &L, list: &List) -> &'static [u32] {
    let plain = List { before: list.before, limit: list.limit, ..List::default() };
    let status_alone = List { status: list.status, ..plain };
    match Place::of(list) {
        place if store.sorts(place) => &ONE_WINDOW,
        Place::Live if *list == status_alone => &LIVE_WINDOWS,
        _ => &WINDOWS,
    }
}

/// The first that may be on the page; nothing when there is no older one.
async fn start<L: Lists>(store: &L, list: &List) -> Result<Option<Mark>> {
    let Some(before) = list.before else { return Ok(Some(Mark::NEWEST)) };
    let id = before.id.as_uuid();
    let mark = match before.work {
        Some(work) => Mark { id, seq: work.seq() },
        None if list.follows_queue() => match store.at(before.id).await? {
            Some(found) if found.id == id => found,
            older => return Ok(older),
        },
        None => Mark { id, ..Mark::NEWEST },
    };
    Ok(mark.next(list))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Messages by number, of which some match; it writes down how many it was asked to look at.
    #[derive(Default)]
    struct Numbers {
        all: u32,
        matching: Vec<u32>,
        looked: Mutex<Vec<u32>>,
    }

    fn mark(number: u32) -> Mark {
        Mark { id: Uuid::from_u128(number.into()), seq: 0 }
    }

    impl Lists for Numbers {
        async fn end(&self, _: &List, newest: Mark, count: u32) -> Result<Option<Mark>> {
            self.looked.lock().expect("not poisoned").push(count);
            let newest = u32::try_from(newest.id.as_u128()).unwrap_or(u32::MAX).min(self.all);
            Ok((newest >= count).then(|| mark(newest - count + 1)))
        }

        async fn within(&self, _: &List, span: Span) -> Result<Vec<Mark>> {
            let within = |number: &&u32| {
                let id = mark(**number).id;
                span.oldest.id <= id && id <= span.newest.id
            };
            let found = self.matching.iter().filter(within).map(|number| mark(*number));
            Ok(found.take(span.limit as usize).collect())
        }

        async fn at(&self, _: MessageId) -> Result<Option<Mark>> {
            Ok(None)
        }
    }

    fn search(before: Option<Cursor>) -> List {
        List { topic: Some("t".to_owned()), limit: 2, before, ..List::default() }
    }

    #[tokio::test(start_paused = true)]
    async fn adm_1_a_search_looks_at_few_messages_first() {
        let matching = (19_999..=20_000).rev().collect();
        let store = Numbers { all: 20_000, matching, ..Numbers::default() };
        let found = find(&store, &search(None)).await.expect("finds");
        assert_eq!(
            (found.ids.len(), found.next),
            (2, Some(MessageId::from(mark(19_999).id).into()))
        );
        assert_eq!(*store.looked.lock().expect("not poisoned"), [500]);
    }

    #[tokio::test(start_paused = true)]
    async fn adm_1_a_search_stops_after_enough_messages_and_goes_on_there() {
        let store = Numbers { all: 20_000, matching: vec![19_400, 7], ..Numbers::default() };
        let found = find(&store, &search(None)).await.expect("finds");
        assert_eq!(
            (found.ids.len(), found.next),
            (1, Some(MessageId::from(mark(10_001).id).into()))
        );
        assert_eq!(*store.looked.lock().expect("not poisoned"), WINDOWS);
        let rest = find(&store, &search(found.next)).await.expect("finds");
        assert_eq!(
            (rest.ids, rest.next),
            (vec![MessageId::from(mark(7).id)], Some(MessageId::from(mark(1).id).into()))
        );
        let none = find(&store, &search(rest.next)).await.expect("finds");
        assert!(none.ids.is_empty() && none.next.is_none());
    }
}
