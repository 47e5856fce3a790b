//! The one who sees everything: every effect in the database and every delivery, in order, each
//! checked the moment it happens.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Write as _;
use std::hash::{Hash, Hasher};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use postroom_core::lifecycle::Settlement;
use postroom_core::store::{Claimed, Settled};
use postroom_core::{Lease, LeaseToken, MessageId, OwnerToken, Timestamp};
use tokio::time::Instant;

use super::node::lock;
use super::plan::{Act, LEASE};
use crate::sim::state::State;
use crate::sim::{SimStore, Written};

/// The number of a message, which its id is made of.
pub(super) type Number = u128;

pub(super) fn number(id: MessageId) -> Number {
    id.as_uuid().as_u128()
}

/// What is known of one message.
#[derive(Debug, Default)]
pub(super) struct Tracked {
    pub(super) payload: Bytes,
    pub(super) key: Option<String>,
    pub(super) idempotency: Option<u128>,
    /// It is due later, and takes its place in the order only then.
    pub(super) waits: bool,
    pub(super) expires: Option<Timestamp>,
    pub(super) acts: Vec<Act>,
    /// Its place in the queue, once it is committed.
    pub(super) seq: Option<i64>,
    pub(super) end: Option<End>,
    hold: Option<Hold>,
    /// Leases on it, and how many of them ended in a retry or a release.
    pub(super) leases: usize,
    pub(super) returns: usize,
    /// Deliveries that began, ended well, ended badly, and were cut off.
    pub(super) started: usize,
    pub(super) done: usize,
    pub(super) bad: usize,
    pub(super) cut: usize,
    /// Of those that began: by a process that had been cut off, which may take its time.
    pub(super) late: usize,
}

impl Tracked {
    pub(super) fn new(payload: Bytes) -> Self {
        Self { payload, ..Self::default() }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Done,
    Dead,
}

#[derive(Clone, Copy, Debug)]
struct Hold {
    process: usize,
    token: LeaseToken,
    until: Timestamp,
}

/// A delivery under way.
#[derive(Clone, Debug)]
struct Handling {
    ticket: u64,
    message: Number,
    process: usize,
    began: Instant,
    /// Its process was cut off meanwhile, or the clock jumped: it may be late.
    late: bool,
    alone: bool,
}

/// A delivery that begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begins {
    pub(super) process: usize,
    pub(super) id: MessageId,
    /// Whether it may have lost its lease, for a reason that the engine can not know.
    pub(super) late: bool,
    /// Whether it is the only one of its batch.
    pub(super) alone: bool,
}

/// How a delivery ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Done,
    Bad,
    Cut,
}

pub(super) struct Ledger {
    began: Instant,
    store: SimStore,
    halts: bool,
    handler_timeout: Duration,
    book: Mutex<Book>,
}

#[derive(Default)]
pub(super) struct Book {
    pub(super) events: Vec<String>,
    hash: DefaultHasher,
    pub(super) problem: Option<String>,
    pub(super) messages: BTreeMap<Number, Tracked>,
    by_seq: BTreeMap<i64, Number>,
    tokens: HashSet<LeaseToken>,
    pub(super) owners: HashMap<OwnerToken, usize>,
    /// What went wrong: of which process, or of all, and when by the database's clock.
    pub(super) faults: Vec<(Option<usize>, Timestamp)>,
    running: Vec<Handling>,
    tickets: u64,
    /// Until when leases may overlap, after a jump of the clock.
    excused_until: Option<Instant>,
}

impl Book {
    /// The first breach counts; what follows from it does not.
    pub(super) fn breach(&mut self, problem: String) {
        self.events.push(format!("BREACH {problem}"));
        self.problem.get_or_insert(problem);
    }

    pub(super) fn hash(&self) -> u64 {
        self.hash.finish()
    }

    fn is_excused(&self) -> bool {
        self.excused_until.is_some_and(|until| until > Instant::now())
    }

    fn of(&mut self, lease: Lease) -> Option<(Number, &mut Tracked)> {
        let number = *self.by_seq.get(&lease.work.seq())?;
        Some((number, self.messages.get_mut(&number)?))
    }
}

impl Ledger {
    pub(super) fn new(store: SimStore, halts: bool, handler_timeout: Duration) -> Self {
        Self { began: Instant::now(), store, halts, handler_timeout, book: Mutex::default() }
    }

    pub(super) fn book(&self) -> MutexGuard<'_, Book> {
        lock(&self.book)
    }

    fn write(&self, event: &str) -> MutexGuard<'_, Book> {
        let mut book = self.book();
        let line = format!("{:>9.3} {event}", self.began.elapsed().as_secs_f64() * 1e3);
        line.hash(&mut book.hash);
        book.events.push(line);
        book
    }

    pub(super) fn note(&self, event: &str) {
        drop(self.write(event));
    }

    pub(super) fn joined(&self, process: usize, owner: OwnerToken) {
        self.write(&format!("p{process} starts")).owners.insert(owner, process);
    }

    pub(super) fn fault(&self, process: usize, what: &str) {
        let mut book = self.write(&format!("p{process} {what}"));
        book.faults.push((Some(process), self.store.now()));
    }

    pub(super) fn crash(&self, process: usize) {
        self.fault(process, "crashes");
        self.book().running.retain(|handling| handling.process != process);
    }

    pub(super) fn stall(&self, process: usize, duration: Duration) {
        self.fault(process, &format!("is cut off for {duration:?}"));
        let mut book = self.book();
        let own = book.running.iter_mut().filter(|handling| handling.process == process);
        own.for_each(|handling| handling.late = true);
    }

    pub(super) fn jump(&self, duration: Duration) {
        let mut book = self.write(&format!("the clock jumps by {duration:?}"));
        book.faults.push((None, self.store.now()));
        // Until the next renewal nobody can know.
        book.excused_until = Some(Instant::now() + LEASE);
        book.running.iter_mut().for_each(|handling| handling.late = true);
    }

    /// A message that a producer is about to publish.
    pub(super) fn expect(&self, number: Number, tracked: Tracked) {
        self.book().messages.insert(number, tracked);
    }

    pub(super) fn committed(&self, process: usize, written: &[Written]) {
        let numbers: Vec<_> = written.iter().map(|row| number(row.id)).collect();
        let mut book = self.write(&format!("p{process} commits {numbers:?}"));
        for Written { seq, id, held, expires } in written {
            let message = number(*id);
            let holder = held.and_then(|held| book.owners.get(&held.owner).copied());
            book.by_seq.insert(*seq, message);
            let Some(tracked) = book.messages.get_mut(&message) else { continue };
            tracked.seq = Some(*seq);
            tracked.expires = *expires;
            if let Some((held, process)) = held.zip(holder) {
                tracked.hold = Some(Hold { process, token: held.token, until: held.until });
                tracked.leases += 1;
            }
        }
        let mut tokens: Vec<_> = written.iter().filter_map(|row| row.held).collect();
        tokens.dedup_by_key(|held| held.token);
        if tokens.into_iter().any(|held| !book.tokens.insert(held.token)) {
            book.breach(format!("S5: p{process} committed a used token"));
        }
    }

    pub(super) fn claimed(&self, process: usize, claimed: &Claimed, state: &State, now: Timestamp) {
        if claimed.items.is_empty() && claimed.dead == 0 {
            return;
        }
        let numbers: Vec<_> = claimed.items.iter().map(|item| number(item.message.id())).collect();
        let mut book = self.write(&format!("p{process} claims {numbers:?}, {} dead", claimed.dead));
        let first = claimed.items.first().map(|item| item.lease.token);
        if first.is_some_and(|token| !book.tokens.insert(token)) {
            book.breach(format!("S5: p{process} got a used token"));
        }
        for item in &claimed.items {
            let key = item.message.ordering_key();
            let of_key = claimed.items.iter().filter(|other| other.message.ordering_key() == key);
            if item.lost > 0 && key.is_some() && of_key.count() > 1 {
                book.breach(format!("suspect m{} is not alone", number(item.message.id())));
            }
            let Some((message, _)) = book.of(item.lease) else {
                book.breach(format!("S1: m{} was never committed", number(item.message.id())));
                continue;
            };
            check_takeover(&mut book, process, message);
            let Some((_, tracked)) = book.of(item.lease) else { continue };
            let (held, end) = (tracked.hold.filter(|hold| hold.until > now), tracked.end);
            tracked.leases += 1;
            let (token, until) = (item.lease.token, item.locked_until);
            tracked.hold = Some(Hold { process, token, until });
            if let Some(hold) = held {
                let other = hold.process;
                book.breach(format!("S4: p{process} takes m{message} from p{other}, lease alive"));
            }
            if let Some(end) = end {
                book.breach(format!("S5: m{message} was {end:?} and is claimed again"));
            }
        }
        if claimed.dead > 0 {
            see_ends(&mut book, state);
        }
    }

    /// After a reap: who is dead, and whose lease is gone.
    pub(super) fn reaped(&self, state: &State) {
        let mut book = self.book();
        see_ends(&mut book, state);
        for tracked in book.messages.values_mut() {
            let row = tracked.seq.and_then(|seq| state.queue.get(&seq));
            if row.is_none_or(|row| row.held.is_none()) {
                tracked.hold = None;
            }
        }
    }

    pub(super) fn settled(&self, process: usize, items: &[(Lease, Settlement)], settled: &Settled) {
        let mut line = format!("p{process} settles");
        for (lease, settlement) in items {
            let what = match settlement {
                Settlement::Done => "done",
                Settlement::Retry { .. } => "retry",
                Settlement::Dead { .. } => "dead",
                Settlement::Release => "release",
            };
            let message = self.book().by_seq.get(&lease.work.seq()).copied().unwrap_or_default();
            let lost = if settled.lost.contains(lease) { " (lost)" } else { "" };
            let _ = write!(line, " m{message} {what}{lost}");
        }
        let mut book = self.write(&line);
        for (lease, settlement) in items.iter().filter(|(lease, _)| !settled.lost.contains(lease)) {
            let Some((message, tracked)) = book.of(*lease) else { continue };
            let current = tracked.hold.take().is_some_and(|hold| hold.token == lease.token);
            let handled = tracked.done > 0;
            match settlement {
                Settlement::Done => tracked.end = Some(End::Done),
                Settlement::Dead { .. } => tracked.end = Some(End::Dead),
                Settlement::Retry { .. } | Settlement::Release => tracked.returns += 1,
            }
            if !current {
                book.breach(format!("S4: p{process} settled m{message} with a stale token"));
            }
            if *settlement == Settlement::Done && !handled {
                book.breach(format!("S2: m{message} is done and nobody has handled it"));
            }
        }
    }

    pub(super) fn renewed(
        &self,
        process: usize,
        leases: &[Lease],
        renewed: &Settled,
        lease: Duration,
        now: Timestamp,
    ) {
        let lost = renewed.lost.len();
        let mut book = self.write(&format!("p{process} renews {}, {lost} lost", leases.len()));
        for item in leases.iter().filter(|item| !renewed.lost.contains(item)) {
            let Some((message, tracked)) = book.of(*item) else { continue };
            let hold = tracked.hold.as_mut();
            let alive = hold.filter(|hold| hold.token == item.token && hold.until > now);
            match alive {
                Some(hold) => hold.until = now.saturating_add(lease),
                None => {
                    book.breach(format!("p{process} renewed m{message}, a lease that was over"))
                }
            }
        }
    }

    /// A delivery begins. `batch` are those that ended well right before it in the same call.
    pub(super) fn start(&self, begins: Begins, payload: &Bytes, batch: &[Number]) -> (u64, Act) {
        let Begins { process, id, late, alone } = begins;
        let message = number(id);
        let late_sign = if late { " late" } else { "" };
        let mut book = self.write(&format!("p{process} begins m{message}{late_sign}"));
        let problem = self.wrong_with(&book, begins, payload, batch);
        book.tickets += 1;
        let ticket = book.tickets;
        let late = late || book.is_excused();
        let began = Instant::now();
        book.running.push(Handling { ticket, message, process, began, late, alone });
        let mut act = Act::Permanent;
        if let Some(tracked) = book.messages.get_mut(&message) {
            let fine = Act::Done(Duration::ZERO);
            act = tracked.acts.get(tracked.started).copied().unwrap_or(fine);
            tracked.started += 1;
            tracked.late += usize::from(late);
        }
        if let Some(problem) = problem {
            book.breach(problem);
        }
        (ticket, act)
    }

    /// Which rule forbids this delivery, if one does.
    fn wrong_with(
        &self,
        book: &Book,
        begins: Begins,
        payload: &Bytes,
        batch: &[Number],
    ) -> Option<String> {
        let Begins { process, id, late, .. } = begins;
        let message = number(id);
        let tracked = book.messages.get(&message).filter(|tracked| tracked.seq.is_some());
        let Some(tracked) = tracked else {
            return Some(format!("S1: m{message} is handled and was never committed"));
        };
        if tracked.payload != *payload {
            return Some(format!("S7: m{message} has other bytes"));
        }
        let now = self.store.now();
        // Whoever claimed before a jump counts from there.
        let expired = tracked.expires.is_some_and(|at| at <= now) && !late;
        if expired && book.excused_until.is_none() {
            return Some(format!("m{message} is handled after it expired"));
        }
        let excused = book.is_excused();
        let holds = tracked.hold.is_some_and(|hold| hold.process == process && hold.until > now);
        if !holds && !late && !excused {
            return Some(format!("p{process} handles m{message} without a living lease"));
        }
        let key = tracked.key.as_ref()?;
        let earlier = book.messages.iter().filter(|(other, before)| {
            before.key.as_ref() == Some(key)
                && before.seq.is_some_and(|seq| Some(seq) < tracked.seq)
                && !before.waits
                && !batch.contains(other)
        });
        for (other, before) in earlier {
            match before.end {
                Some(End::Done) => {}
                Some(End::Dead) if !self.halts => {}
                Some(End::Dead) => {
                    return Some(format!("O3: m{message} passes m{other}, which halted {key}"));
                }
                None => return Some(format!("O1: m{message} of {key} overtakes m{other}")),
            }
        }
        let mut others = book.running.iter().filter(|handling| !handling.late);
        let same = others.find(|handling| {
            book.messages.get(&handling.message).is_some_and(|it| it.key.as_ref() == Some(key))
        });
        let same = same.filter(|_| !late && !excused)?;
        Some(format!("O2: m{message} and m{} of {key} are handled at once", same.message))
    }

    pub(super) fn ended(&self, ticket: u64, ended: Ended) {
        let running = self.book().running.iter().find(|it| it.ticket == ticket).cloned();
        // Nobody hears what a dead process says.
        let Some(Handling { message, process, began, .. }) = running else { return };
        let timed_out = ended == Ended::Cut && began.elapsed() >= self.handler_timeout;
        let ended = if timed_out { Ended::Bad } else { ended };
        let mut book = self.write(&format!("p{process} ends m{message} {ended:?}"));
        book.running.retain(|handling| handling.ticket != ticket);
        if let Some(tracked) = book.messages.get_mut(&message) {
            match ended {
                Ended::Done => tracked.done += 1,
                Ended::Bad => tracked.bad += 1,
                Ended::Cut => tracked.cut += 1,
            }
        }
    }
}

/// Whoever handles it must have noticed that its lease is over.
fn check_takeover(book: &mut Book, process: usize, message: Number) {
    let mut running = book.running.iter().filter(|it| it.alone && !it.late);
    let other = running.find(|it| it.message == message).map(|it| it.process);
    if let Some(other) = other.filter(|_| !book.is_excused()) {
        book.breach(format!("p{process} takes m{message}, which p{other} still handles"));
    }
}

fn see_ends(book: &mut Book, state: &State) {
    for tracked in book.messages.values_mut() {
        let row = tracked.seq.and_then(|seq| state.settled.get(&seq));
        if let Some(row) = row.filter(|_| tracked.end.is_none()) {
            tracked.end = Some(if row.reason.is_some() { End::Dead } else { End::Done });
            tracked.hold = None;
        }
    }
}
