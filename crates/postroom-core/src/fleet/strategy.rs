//! Which store is next: pure choices over what the [room](super::room) knows of those that wait.

use std::cmp::Ordering;
use std::fmt;

use super::StoreId;

/// A store that waits for its turn to claim.
#[derive(Clone, Copy, Debug)]
pub struct Waiting<'a> {
    /// Which one.
    pub store: &'a StoreId,
    /// How much it is to get compared with others; at least 1.
    pub weight: u32,
    /// How many of its messages are in this process now, waiting or running.
    pub held: usize,
    /// How many messages it got, divided by its weight. A store that had nothing to do for a while
    /// begins again where the others are: what it did not use is not saved up.
    pub share: f64,
    /// The number of its last turn, counted over all stores; 0 if it never had one.
    pub turn: u64,
    /// Whether its last turn brought as much as it could take: there is probably more.
    pub has_more: bool,
}

/// Decides which store claims next. It is asked under a lock, with at least one store: be quick.
pub trait Strategy: fmt::Debug + Send + Sync + 'static {
    /// The index of the next one. One that does not exist counts as the first.
    fn next(&self, waiting: &[Waiting<'_>]) -> usize;
}

impl<S: Strategy + ?Sized> Strategy for Box<S> {
    fn next(&self, waiting: &[Waiting<'_>]) -> usize {
        (**self).next(waiting)
    }
}

/// One batch from each in turn.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundRobin;

impl Strategy for RoundRobin {
    fn next(&self, waiting: &[Waiting<'_>]) -> usize {
        first_by(waiting, |a, b| a.turn.cmp(&b.turn))
    }
}

/// The same store until it has nothing left, then the one that waited longest.
#[derive(Clone, Copy, Debug, Default)]
pub struct DrainFirst;

impl Strategy for DrainFirst {
    fn next(&self, waiting: &[Waiting<'_>]) -> usize {
        first_by(waiting, |a, b| match (a.has_more, b.has_more) {
            // The one that is being drained had the last turn of all.
            (true, true) => b.turn.cmp(&a.turn),
            (false, false) => a.turn.cmp(&b.turn),
            (a, b) => b.cmp(&a),
        })
    }
}

/// Messages in proportion to the weights of those that have some: a store with weight 2 gets twice
/// as many as one with weight 1. What one does not use goes to the others.
#[derive(Clone, Copy, Debug, Default)]
pub struct FairShare;

impl Strategy for FairShare {
    fn next(&self, waiting: &[Waiting<'_>]) -> usize {
        first_by(waiting, |a, b| a.share.total_cmp(&b.share).then(a.turn.cmp(&b.turn)))
    }
}

fn first_by(
    waiting: &[Waiting<'_>],
    order: impl Fn(&Waiting<'_>, &Waiting<'_>) -> Ordering,
) -> usize {
    let indexed = waiting.iter().enumerate();
    indexed.min_by(|(_, a), (_, b)| order(a, b)).map_or(0, |(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(store: &StoreId, turn: u64, has_more: bool, share: f64) -> Waiting<'_> {
        Waiting { store, weight: 1, held: 0, share, turn, has_more }
    }

    #[test]
    fn fleet_2_round_robin_takes_who_waited_longest() {
        let id = StoreId::new("a").expect("legal");
        let turns = [3, 1, 2].map(|turn| waiting(&id, turn, true, 0.0));
        assert_eq!(RoundRobin.next(&turns), 1);
    }

    #[test]
    fn fleet_2_drain_first_stays_until_there_is_no_more() {
        let id = StoreId::new("a").expect("legal");
        let all = [waiting(&id, 1, false, 0.0), waiting(&id, 9, true, 0.0)];
        assert_eq!(DrainFirst.next(&all), 1);
        let drained = [waiting(&id, 1, false, 0.0), waiting(&id, 9, false, 0.0)];
        assert_eq!(DrainFirst.next(&drained), 0);
    }

    #[test]
    fn fleet_2_fair_share_takes_who_had_least() {
        let id = StoreId::new("a").expect("legal");
        let all = [waiting(&id, 1, true, 2.5), waiting(&id, 9, true, 2.0)];
        assert_eq!(FairShare.next(&all), 1);
    }
}
