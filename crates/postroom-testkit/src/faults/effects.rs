//! Effects happen once, whatever happens to the processes that have them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use postroom_core::store::{AdminStore, Stats, TransactionalStore};
use postroom_core::{Error, ErrorKind, Inbox, Message, Outbox, Received};
use tokio::task::JoinSet;
use uuid::Uuid;

use super::fate::Fate;
use super::processes::{PATIENCE, Worker, wait_for};
use super::scenarios::Site;
use super::service::{CONSUMER, INVOICE, ORDER};
use crate::assertions::messages_on;
use crate::harness::Harness;

/// Every point between a message's claim and the moment when the dispatcher learns of its end.
const POINTS: [&str; 9] = [
    "begun",
    "effect",
    "staged",
    "ending",
    "settling",
    "settled",
    "appended",
    "committing",
    "committed",
];

/// Short: what a kill leaves behind has to wait for it.
const LEASE: Duration = Duration::from_millis(800);
/// New messages at a time, and how often each is sent.
const ORDERS: i64 = 8;
const COPIES: usize = 3;

/// What a run of [`effects_survive_kills`] did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kills {
    /// Processes that were killed at some moment.
    pub random: usize,
    /// Processes that killed themselves, by the point at which they did.
    pub at: BTreeMap<String, usize>,
    /// Messages that were received.
    pub messages: i64,
    /// Messages that a process had in hand when it was killed.
    pub interrupted: usize,
}

/// The sending side, and a look at what came of it.
struct Orders<S> {
    inbox: Inbox<S>,
    sent: i64,
}

impl<S: TransactionalStore + AdminStore> Orders<S> {
    fn new(store: &Arc<S>) -> Self {
        let outbox = Outbox::new(Arc::clone(store));
        Self { inbox: Inbox::new(&outbox, CONSUMER).expect("a good name"), sent: 0 }
    }

    /// Sends some new ones and an old one, each several times at once.
    async fn send(&mut self, count: i64) {
        let old = (self.sent > 0).then(|| 1 + below(self.sent as u64) as i64);
        let new = self.sent + 1..=self.sent + count;
        self.sent += count;
        let all: Vec<i64> = new.clone().chain(old).collect();
        let mut copies = JoinSet::new();
        for copy in 0..COPIES {
            let (inbox, mut all) = (self.inbox.clone(), all.clone());
            let turn = copy % all.len();
            all.rotate_left(turn);
            copies.spawn(async move {
                let mut first = Vec::new();
                for order in all {
                    match receive(&inbox, order).await {
                        Received::New(_) => first.push(order),
                        Received::Duplicate(_) => {}
                        Received::Conflict(_) => panic!("{order} has changed"),
                    }
                }
                first
            });
        }
        let mut first = copies.join_all().await.concat();
        first.sort_unstable();
        assert_eq!(first, new.collect::<Vec<_>>(), "each is new once, and the old one is not");
    }

    async fn stats(&self) -> Stats {
        self.inbox.store().stats().await.expect("stats")
    }

    /// Waits until there is nothing left to do.
    async fn until_settled(&self) {
        let (mut done, mut since) = (0, Instant::now());
        loop {
            let stats = self.stats().await;
            if stats.ready + stats.waiting + stats.leased == 0 {
                return;
            }
            if stats.done > done {
                (done, since) = (stats.done, Instant::now());
            }
            assert!(since.elapsed() < PATIENCE, "nothing happens any more: {stats:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Every message has had its effect and its consequence, once.
    async fn assert_once(&self, effects: Vec<i64>) {
        self.assert_each_once("effects", &effects);
        let invoices = messages_on(&**self.inbox.outbox().store(), INVOICE).await;
        let decode = |message: Option<Message>| message.expect("kept").json().expect("a number");
        let invoices: Vec<i64> =
            invoices.into_iter().map(|record| decode(record.message)).collect();
        self.assert_each_once("consequences", &invoices);
        let stats = self.stats().await;
        let (live, ended) = (stats.ready + stats.waiting + stats.leased, (stats.done, stats.dead));
        assert_eq!((live, ended), (0, (self.sent as u64, 0)), "{stats:?}");
    }

    fn assert_each_once(&self, what: &str, seen: &[i64]) {
        let mut counts: BTreeMap<i64, usize> = (1..=self.sent).map(|order| (order, 0)).collect();
        seen.iter().for_each(|order| *counts.entry(*order).or_default() += 1);
        let lost: Vec<_> = counts.iter().filter(|(_, count)| **count == 0).collect();
        let double: Vec<_> = counts.iter().filter(|(_, count)| **count > 1).collect();
        let fine = lost.is_empty() && double.is_empty() && seen.len() == counts.len();
        assert!(fine, "{what}: lost {lost:?}, more than once {double:?}");
    }

    async fn interrupted(&self) -> usize {
        let orders = messages_on(&**self.inbox.store(), ORDER).await;
        orders.into_iter().filter(|record| record.lost > 0).count()
    }
}

/// Sends until it is stored. A machine that is too busy may make a store wait in vain for its turn.
async fn receive<S: TransactionalStore>(inbox: &Inbox<S>, order: i64) -> Received {
    let until = Instant::now() + PATIENCE;
    loop {
        let message = Message::builder(ORDER).json(&order);
        match inbox.receive("shop", order.to_string(), message).await {
            Ok(received) => return received,
            // Then it was not stored, so that the answers still say which copy was the first.
            Err(error) if is_busy(&error) && Instant::now() < until => {}
            Err(error) => panic!("{error}"),
        }
    }
}

fn is_busy(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Contention | ErrorKind::Unavailable)
}

/// Less than this, by chance.
fn below(limit: u64) -> u64 {
    (Uuid::new_v4().as_u128() % u128::from(limit)) as u64
}

/// Messages arrive, each several times, while the processes that handle them are killed: half of
/// them at some moment, half by themselves at each [point](Fate) in turn.
///
/// # Panics
/// When a message has no effect, no consequence, or more than one of either; when it is not done;
/// when a point was not reached twice.
pub async fn effects_survive_kills<H: Harness>(
    site: &Site<H::Store>,
    service: &H,
    kills: usize,
) -> Kills {
    let mut orders = Orders::new(&site.store);
    let mut workers = site.workers(LEASE);
    for round in 0..kills.div_ceil(2) {
        let at = POINTS[round % POINTS.len()].to_owned();
        let nth = 1 + below(3) as usize;
        let doomed = workers.start_with(Some(Fate::Dies { at, nth })).await;
        let victim = workers.start().await;
        let moment = Duration::from_millis(below(60));
        let murder = async {
            tokio::time::sleep(moment).await;
            victim.kill();
        };
        tokio::join!(orders.send(ORDERS), murder);
        until_it_falls(doomed, &mut orders).await;
    }
    let last = workers.start().await;
    orders.until_settled().await;
    assert!(last.terminate().await.0.success());
    orders.assert_once(service.business_rows().await).await;
    let mut at = BTreeMap::new();
    for (_, point) in site.history().suicides {
        *at.entry(point).or_default() += 1;
    }
    assert_eq!(at.values().sum::<usize>(), kills.div_ceil(2), "each fell by itself: {at:?}");
    assert!(POINTS.iter().all(|point| at.get(*point) >= Some(&2)), "{at:?}");
    let interrupted = orders.interrupted().await;
    Kills { random: kills.div_ceil(2), at, messages: orders.sent, interrupted }
}

/// Gives a process work until it has killed itself.
async fn until_it_falls<S>(mut doomed: Worker, orders: &mut Orders<S>)
where
    S: TransactionalStore + AdminStore,
{
    let until = Instant::now() + PATIENCE;
    while doomed.is_alive() {
        assert!(Instant::now() < until, "it does not come to its point");
        // What it needs may be in the hands of the dead.
        if orders.stats().await.ready == 0 {
            orders.send(1).await;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    doomed.until_it_falls().await;
}

/// A process is stopped at a point of an effect for longer than its lease. Another one has the
/// effect meanwhile; then the first goes on.
///
/// The point must be one at which the database lets others write: on SQLite `beginning`.
///
/// # Panics
/// When there are two effects, or the process that goes on is of no use any more.
pub async fn a_stopped_process_has_no_effect<H: Harness>(
    site: &Site<H::Store>,
    service: &H,
    point: &str,
) {
    let mut orders = Orders::new(&site.store);
    let mut workers = site.workers(LEASE);
    let zombie = workers.start_with(Some(Fate::Waits { at: point.to_owned() })).await;
    orders.send(1).await;
    wait_for("a handler that waits", || site.history().held.contains(&zombie.name)).await;
    site.stop(&zombie).await;
    let successor = workers.start().await;
    orders.until_settled().await;
    assert_eq!(service.business_rows().await, [1], "taken over");
    assert!(successor.terminate().await.0.success());
    site.open_gate(point);
    zombie.resume();
    // Another message, which only the one that was stopped can handle.
    orders.send(1).await;
    orders.until_settled().await;
    // Its graceful end waits for whatever still runs.
    assert!(zombie.terminate().await.0.success());
    orders.assert_once(service.business_rows().await).await;
}
