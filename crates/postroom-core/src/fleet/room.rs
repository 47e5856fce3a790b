//! Room for the claimed messages of many stores, and whose turn it is to fill it.
//!
//! Without it every store would prefetch for itself: memory would grow with their number, and the
//! one with most work would have all the workers. A store takes a [seat](Seat), asks for a turn,
//! claims as much as the turn allows, and each claimed message keeps its [place](Place) until it is
//! settled.
//!
//! Nobody waits for a store that is slow to answer: a turn that takes long lends its places to the
//! others. Nor for one whose deliveries hang: the last places are for stores that hold none.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::StoreId;
use super::strategy::{Strategy, Waiting};

/// How long a claim may take before its places go to others meanwhile.
pub(crate) const LENT_AFTER: Duration = Duration::from_millis(200);

/// What a store asks for when it had nothing lately: enough to see whether there is more.
const SMALL_APPETITE: usize = 16;

/// Room that many stores share.
#[derive(Clone)]
pub(crate) struct Room(Arc<Shared>);

struct Shared {
    strategy: Box<dyn Strategy>,
    places: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Below zero when what was lent came back full.
    free: isize,
    turns: u64,
    /// The share of whoever had the last turn: where newcomers begin.
    share: f64,
    seats: BTreeMap<u64, Store>,
    /// The seats that ask: there may be hundreds that do not.
    asking: BTreeSet<u64>,
    next_seat: u64,
}

#[derive(Debug)]
struct Store {
    id: StoreId,
    weight: u32,
    held: usize,
    share: f64,
    turn: u64,
    has_more: bool,
    appetite: usize,
    asks: Option<Ask>,
}

#[derive(Debug)]
struct Ask {
    most: usize,
    answer: oneshot::Sender<Turn>,
}

impl Room {
    pub(crate) fn new(places: usize, strategy: Box<dyn Strategy>) -> Self {
        let state = State {
            free: places as isize,
            turns: 0,
            share: 0.0,
            seats: BTreeMap::new(),
            asking: BTreeSet::new(),
            next_seat: 0,
        };
        Self(Arc::new(Shared { strategy, places, state: Mutex::new(state) }))
    }

    /// A store comes in.
    pub(crate) fn seat(&self, id: StoreId, weight: u32) -> Seat {
        let mut state = self.lock();
        let number = state.next_seat;
        state.next_seat += 1;
        let share = state.share;
        let store = Store {
            id,
            weight: weight.max(1),
            held: 0,
            share,
            turn: 0,
            has_more: false,
            appetite: SMALL_APPETITE,
            asks: None,
        };
        state.seats.insert(number, store);
        drop(state);
        Seat { room: self.clone(), number }
    }

    /// Another weight for a store.
    pub(crate) fn weigh(&self, id: &StoreId, weight: u32) {
        let mut state = self.lock();
        for store in state.seats.values_mut().filter(|store| store.id == *id) {
            store.weight = weight.max(1);
        }
    }

    /// How many places are free; for tests that look for leaks.
    #[cfg(test)]
    pub(crate) fn free(&self) -> isize {
        self.lock().free
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives out turns as long as there is room for somebody who asks.
    fn serve(&self) {
        while let Some((answer, turn)) = self.grant() {
            // Whoever does not wait any more gives its turn back, which takes the lock again.
            drop(answer.send(turn));
        }
    }

    fn grant(&self) -> Option<(oneshot::Sender<Turn>, Turn)> {
        let mut state = self.lock();
        let (number, granted) = self.choose(&state)?;
        state.turns += 1;
        state.free -= granted as isize;
        state.asking.remove(&number);
        let turns = state.turns;
        let store = state.seats.get_mut(&number)?;
        store.turn = turns;
        let (share, ask) = (store.share, store.asks.take()?);
        state.share = share.max(state.share);
        Some((ask.answer, Turn { room: self.clone(), number, granted, lent: false }))
    }

    /// Who is next, and with how many places.
    fn choose(&self, state: &State) -> Option<(u64, usize)> {
        let free = usize::try_from(state.free).ok().filter(|free| *free > 0)?;
        let asking = state.asking.iter().filter_map(|number| {
            let store = state.seats.get(number)?;
            let ask = store.asks.as_ref().filter(|ask| !ask.answer.is_closed())?;
            let most = ask.most.min(store.appetite).min(self.open_to(store, state, free));
            (most > 0).then_some((*number, most, store))
        });
        let asking: Vec<_> = asking.collect();
        let waiting: Vec<_> = asking.iter().map(|(_, _, store)| store.as_waiting()).collect();
        if waiting.is_empty() {
            return None;
        }
        let next = self.0.strategy.next(&waiting);
        let (number, most, _) = asking.get(next).or(asking.first())?;
        Some((*number, *most))
    }

    /// How many of the free places a store may have. One that holds some leaves the last ones to
    /// those that hold none, and comes again when there are enough for a claim that is worth it.
    fn open_to(&self, store: &Store, state: &State, free: usize) -> usize {
        if store.held == 0 {
            return free;
        }
        let kept = if state.seats.len() > 1 { (self.0.places / 8).max(1) } else { 0 };
        let open = free.saturating_sub(kept);
        if open >= (self.0.places / 16).max(1) { open } else { 0 }
    }
}

impl fmt::Debug for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Room").field("strategy", &self.0.strategy).finish_non_exhaustive()
    }
}

impl Store {
    fn as_waiting(&self) -> Waiting<'_> {
        Waiting {
            store: &self.id,
            weight: self.weight,
            held: self.held,
            share: self.share,
            turn: self.turn,
            has_more: self.has_more,
        }
    }
}

/// A store's right to ask for turns. It leaves the room when dropped; what it holds stays until it
/// is settled.
#[derive(Debug)]
pub(crate) struct Seat {
    room: Room,
    number: u64,
}

impl Seat {
    /// Waits for a turn to claim up to `most` messages.
    ///
    /// # Cancel safety
    /// Dropping the future withdraws the request.
    pub(crate) async fn turn(&self, most: usize) -> Turn {
        let (answer, turn) = oneshot::channel();
        {
            let mut state = self.room.lock();
            let floor = state.share;
            if let Some(store) = state.seats.get_mut(&self.number) {
                if store.held == 0 {
                    store.share = store.share.max(floor);
                }
                store.asks = Some(Ask { most: most.max(1), answer });
                state.asking.insert(self.number);
            }
        }
        self.room.serve();
        match turn.await {
            Ok(turn) => turn,
            // Only a newer request of the same seat ends an older one, and it has one poller.
            Err(_) => std::future::pending().await,
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        {
            let mut state = self.room.lock();
            state.asking.remove(&self.number);
            state.seats.remove(&self.number);
        }
        self.room.serve();
    }
}

/// The right to claim once. Dropping it gives its places back.
#[derive(Debug)]
pub(crate) struct Turn {
    room: Room,
    number: u64,
    granted: usize,
    lent: bool,
}

impl Turn {
    /// How many messages may be claimed.
    pub(crate) fn granted(&self) -> usize {
        self.granted
    }

    /// The claim takes long: others use its places until it is back.
    pub(crate) fn lend(&mut self) {
        if !std::mem::replace(&mut self.lent, true) {
            self.room.lock().free += self.granted as isize;
            self.room.serve();
        }
    }

    /// Ends the turn with places for the messages that were claimed.
    pub(crate) fn claimed(mut self, count: usize) -> Vec<Place> {
        {
            let mut state = self.room.lock();
            let asked = std::mem::take(&mut self.granted);
            let returned = if self.lent { 0 } else { asked as isize };
            state.free += returned - count as isize;
            if let Some(store) = state.seats.get_mut(&self.number) {
                store.held += count;
                store.share += count as f64 / f64::from(store.weight);
                store.has_more = count > 0 && count >= asked;
                store.appetite = (2 * count).max(SMALL_APPETITE);
            }
        }
        let place = |_| Place { room: self.room.clone(), number: self.number };
        (0..count).map(place).collect()
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.lent {
            self.room.lock().free += self.granted as isize;
        }
        self.room.serve();
    }
}

/// One message's place, free again when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    room: Room,
    number: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        {
            let mut state = self.room.lock();
            state.free += 1;
            if let Some(store) = state.seats.get_mut(&self.number) {
                store.held -= 1;
            }
        }
        self.room.serve();
    }
}

#[cfg(test)]
mod tests {
    use super::super::strategy::{DrainFirst, FairShare, RoundRobin};
    use super::*;

    fn id(name: &str) -> StoreId {
        StoreId::new(name).expect("legal")
    }

    /// Takes turns until one brings nothing new to wait for, always with a full claim.
    async fn fill(seat: &Seat, batch: usize) -> Vec<Place> {
        let turn = seat.turn(batch).await;
        let granted = turn.granted();
        turn.claimed(granted)
    }

    async fn asks_in_vain(seat: &Seat) -> bool {
        tokio::time::timeout(Duration::ZERO, seat.turn(1)).await.is_err()
    }

    #[tokio::test(start_paused = true)]
    async fn places_come_back_on_every_path() {
        let room = Room::new(32, Box::new(RoundRobin));
        let seat = room.seat(id("a"), 1);
        let places = fill(&seat, 10).await;
        assert_eq!((places.len(), room.free()), (10, 22));
        drop(seat.turn(10).await);
        assert_eq!(room.free(), 22);
        drop(places);
        assert_eq!(room.free(), 32);
        let turn = seat.turn(10).await;
        assert!(turn.claimed(0).is_empty());
        assert_eq!(room.free(), 32);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_dropped_costs_nothing() {
        let room = Room::new(4, Box::new(RoundRobin));
        let (a, b) = (room.seat(id("a"), 1), room.seat(id("b"), 1));
        let held = fill(&a, 4).await;
        assert_eq!(held.len(), 4);
        assert!(asks_in_vain(&b).await);
        drop(held);
        assert_eq!(room.free(), 4);
        assert_eq!(b.turn(4).await.granted(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn fleet_2_a_slow_claim_lends_its_places() {
        let room = Room::new(4, Box::new(RoundRobin));
        let (slow, quick) = (room.seat(id("slow"), 1), room.seat(id("quick"), 1));
        let mut turn = slow.turn(4).await;
        assert!(asks_in_vain(&quick).await);
        turn.lend();
        let places = fill(&quick, 4).await;
        assert_eq!(places.len(), 4);
        // It comes back full all the same: more than there is room for, until something is settled.
        let late = turn.claimed(4);
        assert_eq!(room.free(), -4);
        drop((places, late));
        assert_eq!(room.free(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn fleet_2_who_holds_all_it_may_leaves_room_for_others() {
        let room = Room::new(64, Box::new(RoundRobin));
        let (greedy, other) = (room.seat(id("greedy"), 1), room.seat(id("other"), 1));
        let mut held = Vec::new();
        while !asks_in_vain(&greedy).await {
            held.extend(fill(&greedy, 64).await);
        }
        assert!(held.len() <= 56, "{}", held.len());
        assert_eq!(fill(&other, 1).await.len(), 1);
    }

    /// How many of 1,200 messages each of two stores gets that always have more.
    async fn compete(strategy: impl Strategy, weights: [u32; 2]) -> [usize; 2] {
        let room = Room::new(8, Box::new(strategy));
        let seats = [("a", weights[0]), ("b", weights[1])].map(|(name, w)| room.seat(id(name), w));
        let mut got = [0, 0];
        while got[0] + got[1] < 1_200 {
            // Both ask while the room is full, and then there is room for one of them.
            let full = room.seat(id("full"), 1);
            let all = full.turn(8).await;
            assert_eq!(all.granted(), 8);
            let leave = async {
                drop((all, full));
                std::future::pending::<()>().await;
            };
            let (turn, winner) = tokio::select! {
                biased;
                turn = seats[0].turn(8) => (turn, 0),
                turn = seats[1].turn(8) => (turn, 1),
                () = leave => break,
            };
            got[winner] += turn.granted();
            let granted = turn.granted();
            drop(turn.claimed(granted));
        }
        got
    }

    #[tokio::test(start_paused = true)]
    async fn fleet_2_weights_decide_the_share() {
        let [a, b] = compete(FairShare, [1, 3]).await;
        assert!(b > 2 * a && b < 4 * a, "{a} and {b}");
    }

    #[tokio::test(start_paused = true)]
    async fn fleet_2_drain_first_stays_with_one() {
        let [a, b] = compete(DrainFirst, [1, 1]).await;
        assert!(a == 0 || b == 0, "{a} and {b}");
    }
}
