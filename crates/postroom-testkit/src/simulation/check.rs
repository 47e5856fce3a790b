//! What must be true when everything is over.

use postroom_core::lifecycle::State as Lifecycle;
use postroom_core::store::{AdminStore, Detail};
use postroom_core::{Lane, MessageId, Timestamp};
use uuid::Uuid;

use super::ledger::{Book, End, Number, Tracked};
use super::world::World;
use crate::sim::state::Row;

/// Whether a row may stay: a dead one stops its key. A lease that ran out behind it stays with it.
pub(super) fn is_stopped(row: &Row, halted: &[Lane], now: Timestamp) -> bool {
    let free = row.held.is_none() || row.lease_ran_out(now);
    free && row.lane.is_some_and(|lane| halted.contains(&lane))
}

/// The first rule that the end breaks.
pub(super) async fn breach(world: &World) -> Option<String> {
    let halted: Vec<_> =
        world.store.locked(|state, _| state.halted.values().copied().collect()).await;
    let numbers: Vec<_> = world.ledger.book().messages.keys().copied().collect();
    for number in numbers {
        let id = MessageId::from(Uuid::from_u128(number));
        let detail = world.store.get(id).await.expect("the store is there");
        let book = world.ledger.book();
        let tracked = &book.messages[&number];
        let problem = match &detail {
            None if tracked.seq.is_some() => Some("S2: it was committed and is gone".to_owned()),
            None => None,
            Some(_) if tracked.seq.is_none() => {
                Some("S3: it is there and was never committed".to_owned())
            }
            Some(detail) => one(world, &book, tracked, detail, &halted),
        };
        if let Some(problem) = problem {
            return Some(format!("m{number}: {problem}"));
        }
    }
    repeated_key(&world.ledger.book())
}

fn one(
    world: &World,
    book: &Book,
    tracked: &Tracked,
    detail: &Detail,
    halted: &[Lane],
) -> Option<String> {
    let record = &detail.record;
    let end = match record.state {
        Lifecycle::Done => Some(End::Done),
        Lifecycle::Dead => Some(End::Dead),
        Lifecycle::Ready | Lifecycle::Leased => None,
    };
    let lane = record.message.as_ref().and_then(postroom_core::Message::lane);
    let stopped = lane.is_some_and(|lane| halted.contains(&lane));
    if end.is_none() && !stopped {
        return Some(format!("S11: it is {:?} at the end", record.state));
    }
    if tracked.end.is_some() && tracked.end != end {
        return Some(format!("S5: it was {:?} and is {:?}", tracked.end, record.state));
    }
    if end == Some(End::Done) && tracked.done == 0 {
        return Some("S2: it is done and nobody has handled it".to_owned());
    }
    counters(world, tracked, detail).or_else(|| causes(world, book, tracked, detail))
}

/// S9 and S6: what the database counted is what happened.
fn counters(world: &World, tracked: &Tracked, detail: &Detail) -> Option<String> {
    let lost = detail.history.iter().filter(|attempt| attempt.lease_lost).count();
    let counted = detail.history.len() - lost;
    let (attempts, lost_leases) = (detail.record.attempts as usize, detail.record.lost as usize);
    if lost_leases != lost || attempts != counted + lost.saturating_sub(1) {
        let counters = format!("{attempts} attempts and {lost_leases} lost");
        return Some(format!("S9: {counters}, but {counted} bad ends and {lost} lost leases"));
    }
    let alone = world.plan.max_batch == 1;
    if alone && counted > tracked.bad + tracked.late {
        return Some(format!("S9: {counted} attempts counted, {} seen", tracked.bad));
    }
    if tracked.leases > 1 + lost + tracked.returns {
        let (leases, returns) = (tracked.leases, tracked.returns);
        return Some(format!("S6: {leases} leases, {returns} came back, {lost} lost"));
    }
    if tracked.started > tracked.leases {
        return Some(format!("S6: {} deliveries, {} leases", tracked.started, tracked.leases));
    }
    None
}

/// S6: a lost lease has a cause, and without faults there is none.
fn causes(world: &World, book: &Book, tracked: &Tracked, detail: &Detail) -> Option<String> {
    for lost in detail.history.iter().filter(|attempt| attempt.lease_lost) {
        let owner = lost.by.and_then(|owner| book.owners.get(&owner).copied());
        let caused = book.faults.iter().any(|(process, at)| {
            *at <= lost.at && (process.is_none() || owner.is_none() || *process == owner)
        });
        if !caused {
            return Some("S6: a lease was lost without a fault".to_owned());
        }
    }
    if !world.plan.faultless || world.plan.max_batch > 1 {
        return None;
    }
    let Tracked { started, done, bad, cut, .. } = *tracked;
    let once = usize::from(detail.record.state == Lifecycle::Done);
    let counted = detail.history.len();
    (done != once || started != done + bad + cut || counted != bad).then(|| {
        format!("S6: no faults, but {started} deliveries: {done} well, {bad} badly, {cut} cut")
    })
}

fn repeated_key(book: &Book) -> Option<String> {
    let committed = || book.messages.iter().filter(|(_, tracked)| tracked.seq.is_some());
    let same = |(number, tracked): (&Number, &Tracked)| {
        let key = tracked.idempotency?;
        let (other, _) =
            committed().find(|(other, it)| *other > number && it.idempotency == Some(key))?;
        Some(format!("m{number} and m{other} have one idempotency key"))
    };
    committed().find_map(same)
}
