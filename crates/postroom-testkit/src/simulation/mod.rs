//! The whole engine under a seeded simulator.
//!
//! A seed makes a world: one to three processes with a dispatcher each on one database in memory,
//! producers that publish in transactions of every kind, and a sink whose handlers succeed, fail,
//! panic, hang, or take their process with them. Time is tokio's paused time, randomness follows
//! from the seed, and one thread runs it all, so a seed is a run: the same events in the same
//! order, whenever it is repeated.
//!
//! What goes wrong, by seed:
//! - a call to the database fails before its effect, or its answer is lost after it: claim, settle,
//!   renew, append and commit;
//! - calls take time on both sides of their effect, some of them longer than a lease;
//! - a process crashes, at any of those points: from then on all its calls hang and nothing that it
//!   does reaches anybody, which is as good as dead; its open transactions are rolled back;
//! - a process is cut off for up to three leases, and then goes on where it was: late settles
//!   arrive, and a delivery that had passed its last check is sent;
//! - a process has no database for a while, and its handlers go on;
//! - a process is told to stop, with little time;
//! - the database's clock jumps forward.
//!
//! A ledger sees every effect the moment it happens and holds it against the rules: nothing handled
//! that was not committed, no handler without a living lease, one lease per row, no settle with a
//! stale token, no key out of order or twice at once, the same bytes each time. When all is well
//! again everything must drain within a bound, every place must be free, and the counters must say
//! what happened: a lease is lost only to a fault, and without faults each message is handled once.
//!
//! One fifth of the seeds have no faults but those of handlers. The checks are shown to work by
//! [`Bug`]s, each of which turns a run red.

mod check;
mod ledger;
mod node;
mod plan;
mod producer;
mod random;
mod sink;
mod world;

use std::fmt;

use postroom_core::__private::seed_randomness;

use crate::sim::Bug;
use world::World;

/// What happened in a run that broke no rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// A hash of all events and their times: two runs of one seed have the same.
    pub trace: u64,
    /// How many events there were.
    pub events: usize,
    /// How many messages were committed.
    pub committed: usize,
    /// How many deliveries began.
    pub deliveries: usize,
    /// How many faults there were.
    pub faults: usize,
}

/// A run that broke a rule.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed, to see it again.
    pub seed: u64,
    /// The rule, and by whom it was broken.
    pub problem: String,
    /// The last events before the end.
    pub events: Vec<String>,
}

// Enough to see how it came to that.
const LAST_EVENTS: usize = 60;

/// Runs the world of a seed. Call it on a current-thread runtime of its own with paused time.
///
/// # Errors
/// The rule that was broken, and what led there.
pub async fn run(seed: u64, bug: Option<Bug>) -> Result<Report, Failure> {
    seed_randomness(Some(seed));
    let mut world = World::new(seed, bug);
    world.run().await;
    let broken = world.ledger.book().problem.clone();
    let broken = match broken {
        None => check::breach(&world).await,
        broken => broken,
    };
    seed_randomness(None);
    let book = world.ledger.book();
    if let Some(problem) = broken {
        let skipped = book.events.len().saturating_sub(LAST_EVENTS);
        return Err(Failure { seed, problem, events: book.events[skipped..].to_vec() });
    }
    let messages = || book.messages.values();
    Ok(Report {
        trace: book.hash(),
        events: book.events.len(),
        committed: messages().filter(|tracked| tracked.seq.is_some()).count(),
        deliveries: messages().map(|tracked| tracked.started).sum(),
        faults: book.faults.len(),
    })
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, problem, events } = self;
        writeln!(f, "seed {seed} breaks a rule: {problem}")?;
        writeln!(f, "see it again with POSTROOM_SIM_SEED={seed}; the last {}:", events.len())?;
        events.iter().try_for_each(|event| writeln!(f, "  {event}"))
    }
}
