//! What counting costs, under a clock that stands still: calls of the in-memory store are counted.

use std::sync::Arc;
use std::time::Duration;

use postroom_core::{Message, Outbox};
use postroom_testkit::{Answering, SimStore};
use tokio::time::sleep;

use crate::databases::{Database, Databases};
use crate::desk::queues::{Queues, Shelf};

const SCRAPE: Duration = Duration::from_secs(15);
const HOUR: Duration = Duration::from_hours(1);

/// Many stores on one shelf.
struct Fleet {
    stores: Vec<SimStore>,
    databases: Databases,
    shelf: Shelf,
}

impl Fleet {
    fn of(count: usize) -> Self {
        let (databases, mut stores) = (Databases::default(), Vec::new());
        for number in 0..count {
            let store = SimStore::default().named(&format!("t{number}"));
            databases.add(Database::new(format!("t{number}"), store.clone()));
            stores.push(store);
        }
        let shelf = Shelf::new(databases.clone());
        Self { stores, databases, shelf }
    }

    fn queues(&self) -> Arc<Queues> {
        self.shelf.queues()
    }

    fn looks(&self) -> u64 {
        self.stores.iter().map(SimStore::looks).sum()
    }

    /// Queries per store and second while `during` goes on.
    async fn cost(&self, span: Duration, mut each: impl FnMut(&Queues)) -> f64 {
        let before = self.looks();
        let mut passed = Duration::ZERO;
        while passed < span {
            sleep(SCRAPE).await;
            passed += SCRAPE;
            each(&self.queues());
        }
        (self.looks() - before) as f64 / self.stores.len() as f64 / span.as_secs_f64()
    }

    /// Until every box was counted once.
    async fn counted(&self) {
        while !self.queues().iter().all(|queue| queue.sampler.last().was_asked) {
            sleep(Duration::from_millis(10)).await;
        }
    }
}

fn peek(queues: &Queues) {
    queues.iter().for_each(|queue| drop(queue.sampler.peek()));
}

#[tokio::test(start_paused = true)]
async fn fleet_5_a_store_that_does_nothing_costs_little_while_nobody_looks() {
    let fleet = Fleet::of(500);
    fleet.counted().await;
    let first = fleet.cost(HOUR, |_| {}).await;
    let later = fleet.cost(HOUR, |_| {}).await;
    assert!(first < 0.05 && later < 0.02, "{first} and {later} queries a second");
    assert!(later > 0.001, "it is looked at at all: {later}");
}

#[tokio::test(start_paused = true)]
async fn fleet_5_monitoring_costs_no_more_the_more_stores_there_are() {
    for count in [200, 500] {
        let fleet = Fleet::of(count);
        fleet.counted().await;
        let cost = fleet.cost(HOUR, peek).await;
        assert!(cost < 0.05, "{count} stores: {cost} queries a second");
        let queues = fleet.queues();
        let oldest = queues.iter().filter(|queue| queue.kind == "outbox");
        let oldest = oldest.map(|queue| queue.sampler.last().counted.elapsed()).max();
        assert!(oldest <= Some(Duration::from_mins(5) + SCRAPE), "{oldest:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn obs_5_of_few_boxes_monitoring_sees_figures_that_are_seconds_old() {
    let fleet = Fleet::of(1);
    fleet.counted().await;
    fleet.cost(Duration::from_mins(10), peek).await;
    let outbox = Outbox::new(Arc::new(fleet.stores[0].as_another_process()));
    outbox.publish(Message::builder("a")).await.expect("publish");
    fleet.cost(2 * SCRAPE, peek).await;
    let queue = fleet.queues().find(None, None).expect("a box");
    let ready = queue.sampler.last().seen.as_ref().map(|seen| seen.stats.ready);
    assert_eq!(ready, Some(1));
}

#[tokio::test(start_paused = true)]
async fn fleet_5_what_this_process_does_brings_a_quiet_box_back() {
    let fleet = Fleet::of(500);
    fleet.counted().await;
    fleet.cost(HOUR, |_| {}).await;
    let outbox = Outbox::new(Arc::new(fleet.stores[250].clone()));
    outbox.publish(Message::builder("a")).await.expect("publish");
    sleep(Duration::from_secs(45)).await;
    let queue = fleet.queues().find(Some("t250"), Some("outbox")).expect("a box");
    let ready = queue.sampler.last().seen.as_ref().map(|seen| seen.stats.ready);
    assert_eq!(ready, Some(1), "counted within half a minute");
    // What waits stays in sight.
    sleep(Duration::from_mins(10)).await;
    assert!(queue.sampler.last().counted.elapsed() <= Duration::from_secs(32));
}

#[tokio::test(start_paused = true)]
async fn adm_2_a_box_that_somebody_looks_at_is_counted_every_two_seconds_among_many() {
    let fleet = Fleet::of(500);
    fleet.counted().await;
    fleet.cost(HOUR, |_| {}).await;
    let (queues, before) = (fleet.queues(), fleet.stores[7].looks());
    let queue = queues.find(Some("t7"), Some("outbox")).expect("a box");
    // One look lasts for half a minute.
    queue.sampler.look();
    sleep(Duration::from_secs(20)).await;
    let looks = fleet.stores[7].looks() - before;
    assert!((27..=36).contains(&looks), "nine to twelve counts of three queries: {looks}");
    sleep(HOUR).await;
    let before = fleet.stores[7].looks();
    sleep(Duration::from_secs(20)).await;
    assert!(fleet.stores[7].looks() - before <= 3, "nobody looks any more");
}

#[tokio::test(start_paused = true)]
async fn fleet_5_few_are_counted_at_once_however_many_begin_together() {
    let fleet = Fleet::of(100);
    for store in &fleet.stores {
        store.answer_looks(Answering::Hanging);
    }
    // Each hangs in its first question, and lends its place after a quarter of a second.
    sleep(Duration::from_millis(240)).await;
    assert_eq!(fleet.looks(), 4);
    sleep(Duration::from_millis(250)).await;
    assert_eq!(fleet.looks(), 8);
    // Who looks at one does not wait for the others.
    let queue = fleet.queues().find(Some("t99"), Some("inbox")).expect("a box");
    assert_eq!(fleet.stores[99].looks(), 0);
    fleet.stores[99].answer_looks(Answering::Well);
    queue.sampler.look();
    sleep(Duration::from_millis(20)).await;
    assert!(queue.sampler.last().seen.is_some());
}

#[tokio::test(start_paused = true)]
async fn fleet_2_stores_that_hang_do_not_keep_others_from_being_counted() {
    let fleet = Fleet::of(40);
    for store in &fleet.stores[..20] {
        store.answer_looks(Answering::Hanging);
    }
    sleep(Duration::from_secs(5)).await;
    let well = fleet.queues();
    let well = well.iter().filter(|queue| queue.number >= 20);
    assert!(well.clone().count() == 40);
    for queue in well {
        assert!(queue.sampler.last().seen.is_some(), "{queue}");
    }
    sleep(Duration::from_secs(20)).await;
    let queue = fleet.queues().find(Some("t0"), Some("outbox")).expect("a box");
    let sample = queue.sampler.last();
    assert!(sample.was_asked && sample.seen.is_none(), "it was given up");
    fleet.stores[0].answer_looks(Answering::Well);
    sleep(Duration::from_secs(60)).await;
    assert!(queue.sampler.last().seen.is_some(), "trouble is looked at again soon");
}

#[tokio::test(start_paused = true)]
async fn fleet_1_a_removed_database_is_not_counted_any_more() {
    let fleet = Fleet::of(3);
    fleet.counted().await;
    let queue = fleet.queues().find(Some("t1"), Some("outbox")).expect("a box");
    queue.sampler.look();
    assert!(fleet.databases.remove("t1") && !fleet.databases.remove("t1"));
    assert!(fleet.queues().find(Some("t1"), None).is_err());
    assert!(queue.gone.is_cancelled());
    let before = fleet.stores[1].looks();
    fleet.cost(HOUR, peek).await;
    assert_eq!(fleet.stores[1].looks(), before);
    assert!(fleet.stores[2].looks() > 0);
}

#[tokio::test(start_paused = true)]
async fn fleet_1_one_of_the_same_name_takes_its_place() {
    let fleet = Fleet::of(3);
    let old = fleet.queues().find(Some("t1"), None).expect("a box");
    let kept = fleet.queues().find(Some("t2"), None).expect("a box");
    fleet.databases.add(Database::new("t1", SimStore::default()));
    let queues = fleet.queues();
    let new = queues.find(Some("t1"), None).expect("a box");
    assert!(old.gone.is_cancelled() && !new.gone.is_cancelled());
    assert_eq!(new.number, old.number);
    assert_eq!(queues.names().collect::<Vec<_>>(), ["t0", "t1", "t2"]);
    let still = queues.find(Some("t2"), None).expect("a box");
    assert!(Arc::ptr_eq(&kept, &still), "the others are left as they are");
}
