//! Many stores in one process, and several processes on the same stores.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use postroom_core::fleet::{
    Discovery, FairShare, Fleet, FleetConfig, Listed, MemberState, Opened, Opener, Refreshed,
    Router, RunningFleet, StoreId, Stores, Watcher,
};
use postroom_core::store::{AdminStore, BoxFuture, Claimed, Store};
use postroom_core::{
    Delivery, DispatcherConfig, Error, ErrorKind, Handlers, Message, Outbox, Result,
};
use postroom_testkit::around::{Around, Wrapped};
use postroom_testkit::{SimHome, SimStore};
use tokio::time::{sleep, timeout};
use uuid::Uuid;

/// Databases by number, a list of them that can be changed, and what was handled.
#[derive(Clone, Debug, Default)]
struct World {
    databases: Arc<Mutex<BTreeMap<u32, SimStore>>>,
    list: Arc<Mutex<Vec<Listed<u32>>>>,
    opened: Arc<Mutex<Vec<StoreId>>>,
    closed: Arc<Mutex<Vec<u32>>>,
    away: Arc<Mutex<BTreeSet<u32>>>,
    handled: Arc<Mutex<Vec<String>>>,
    told: Arc<Mutex<Vec<String>>>,
}

#[derive(Clone, Debug)]
struct Handle {
    store: SimStore,
    number: u32,
    world: World,
}

impl Opened for Handle {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.world.closed.lock().expect("lock").push(self.number);
        Box::pin(std::future::ready(()))
    }
}

impl Discovery<u32> for World {
    fn discover(&self) -> BoxFuture<'_, Result<Vec<Listed<u32>>>> {
        let list = self.list.lock().expect("lock").clone();
        Box::pin(std::future::ready(Ok(list)))
    }
}

impl Opener<u32, Handle> for World {
    fn open<'a>(&'a self, listed: &'a Listed<u32>) -> BoxFuture<'a, Result<Handle>> {
        Box::pin(async move {
            if self.away.lock().expect("lock").contains(&listed.place) {
                return Err(Error::new(ErrorKind::Unavailable, "it is away"));
            }
            self.opened.lock().expect("lock").push(listed.id.clone());
            let (store, number, world) = (self.store(listed.place), listed.place, self.clone());
            Ok(Handle { store, number, world })
        })
    }
}

impl Opener<u32, SimStore> for World {
    fn open<'a>(&'a self, listed: &'a Listed<u32>) -> BoxFuture<'a, Result<SimStore>> {
        Box::pin(std::future::ready(Ok(self.store(listed.place))))
    }
}

impl Watcher<Handle> for World {
    fn is_served(&self, store: &StoreId, opened: &Handle) {
        self.told.lock().expect("lock").push(format!("{store} at {}", opened.number));
    }

    fn is_gone(&self, store: &StoreId, opened: &Handle) {
        assert!(!self.closed.lock().expect("lock").contains(&opened.number), "told too late");
        self.told.lock().expect("lock").push(format!("{store} gone from {}", opened.number));
    }
}

impl World {
    fn store(&self, number: u32) -> SimStore {
        let mut databases = self.databases.lock().expect("lock");
        databases.entry(number).or_insert_with(|| SimStore::default().ticking()).clone()
    }

    fn list(&self, names: &[(&str, u32)]) {
        let listed = names.iter().map(|(name, place)| Listed::new(id(name), *place));
        *self.list.lock().expect("lock") = listed.collect();
    }

    fn fleet(&self) -> Fleet<u32, Handle> {
        let handled = Arc::clone(&self.handled);
        let handlers = Handlers::new().all(move |delivery: Delivery| {
            handled.lock().expect("lock").push(delivery.message().topic().to_string());
            async { Ok(()) }
        });
        Fleet::new(Stores::new(self.clone(), self.clone()), handlers).config(quick())
    }

    async fn publish(&self, number: u32, topic: &str) {
        let outbox = Outbox::new(Arc::new(self.store(number)));
        outbox.publish(Message::builder(topic)).await.expect("published");
    }

    fn times(&self, topic: &str) -> usize {
        self.handled.lock().expect("lock").iter().filter(|other| *other == topic).count()
    }

    async fn until_handled(&self, topic: &str) {
        within_a_minute(|| self.times(topic) > 0).await;
    }
}

fn id(name: &str) -> StoreId {
    StoreId::new(name).expect("legal")
}

/// Idle stores are looked at every second, so that nobody has to wake them.
fn quick() -> FleetConfig {
    let dispatcher = DispatcherConfig { idle_interval: None, ..FleetConfig::default().dispatcher };
    FleetConfig { dispatcher, ..FleetConfig::default() }
}

async fn within_a_minute(is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(Duration::from_mins(1), waiting).await.expect("within a minute");
}

async fn until_state(fleet: &RunningFleet<u32, Handle>, name: &str, wanted: &MemberState) {
    within_a_minute(|| {
        let members = fleet.members();
        members.iter().any(|member| member.id == id(name) && member.state == *wanted)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn fleet_1_stores_come_and_go_and_the_others_are_left_alone() {
    let world = World::default();
    world.list(&[("a", 1), ("b", 2)]);
    let fleet = world.fleet().start().expect("legal settings");
    assert!(fleet.members().is_empty(), "it looks in the background");
    fleet.looked().await;
    assert_eq!(fleet.members().len(), 2);
    world.publish(1, "from a").await;
    world.publish(2, "from b").await;
    world.until_handled("from a").await;
    world.until_handled("from b").await;

    world.list(&[("b", 2), ("c", 3)]);
    let refreshed = fleet.refresh().await.expect("a list");
    assert_eq!(refreshed, Refreshed { added: 1, removed: 1, unchanged: 1 });
    world.publish(3, "from c").await;
    world.until_handled("from c").await;
    within_a_minute(|| fleet.members().len() == 2).await;
    assert_eq!(*world.closed.lock().expect("lock"), [1]);
    world.publish(1, "too late").await;
    world.publish(2, "still").await;
    world.until_handled("still").await;
    sleep(Duration::from_mins(2)).await;
    assert_eq!(world.times("too late"), 0);
    assert_eq!(*world.opened.lock().expect("lock"), [id("a"), id("b"), id("c")]);
    assert!(fleet.shutdown(Duration::from_secs(5)).await);
}

#[tokio::test(start_paused = true)]
async fn fleet_1_a_store_that_moved_is_served_where_it_is() {
    let world = World::default();
    world.list(&[("a", 1)]);
    let fleet = world.fleet().start().expect("legal settings");
    world.publish(1, "here").await;
    world.until_handled("here").await;
    world.list(&[("a", 2)]);
    let refreshed = fleet.refresh().await.expect("a list");
    assert_eq!(refreshed, Refreshed { added: 1, removed: 1, unchanged: 0 });
    world.publish(2, "there").await;
    world.until_handled("there").await;
    within_a_minute(|| *world.closed.lock().expect("lock") == [1]).await;
    assert!(fleet.shutdown(Duration::from_secs(5)).await);
}

#[tokio::test(start_paused = true)]
async fn fleet_1_a_watcher_is_told_which_stores_are_served() {
    let world = World::default();
    let told = |count: usize| {
        let told = Arc::clone(&world.told);
        within_a_minute(move || told.lock().expect("lock").len() >= count)
    };
    world.list(&[("a", 1)]);
    world.away.lock().expect("lock").insert(3);
    let fleet = world.fleet().watch(world.clone()).start().expect("legal settings");
    told(1).await;
    // One that moves, and one that can not be opened.
    world.list(&[("a", 2), ("c", 3)]);
    fleet.refresh().await.expect("a list");
    told(3).await;
    world.list(&[]);
    fleet.refresh().await.expect("a list");
    within_a_minute(|| fleet.members().is_empty()).await;
    let mut told = world.told.lock().expect("lock").clone();
    // The new place may be served before the old one is closed.
    told[1..3].sort();
    assert_eq!(told, ["a at 1", "a at 2", "a gone from 1", "a gone from 2"]);
}

#[tokio::test(start_paused = true)]
async fn fleet_1_the_list_is_looked_at_every_five_minutes() {
    let world = World::default();
    let fleet = world.fleet().start().expect("legal settings");
    sleep(Duration::from_secs(1)).await;
    world.list(&[("a", 1)]);
    world.publish(1, "from a").await;
    sleep(Duration::from_secs(200)).await;
    assert!(fleet.members().is_empty());
    sleep(Duration::from_secs(140)).await;
    assert_eq!(world.times("from a"), 1);
    assert!(fleet.shutdown(Duration::from_secs(5)).await);
}

#[tokio::test(start_paused = true)]
async fn fleet_1_one_database_under_two_names_is_served_once() {
    let world = World::default();
    world.list(&[("a", 1), ("b", 1)]);
    let fleet = world.fleet().start().expect("legal settings");
    within_a_minute(|| {
        let states: Vec<_> = fleet.members().into_iter().map(|member| member.state).collect();
        states.contains(&MemberState::Serving)
            && states.iter().any(|state| matches!(state, MemberState::SameAs(_)))
    })
    .await;
    world.publish(1, "once").await;
    world.until_handled("once").await;
    // Whichever is served goes: the other one takes its place.
    let is_served = |name: &str| {
        let wanted = id(name);
        fleet.members().iter().any(|m| m.id == wanted && m.state == MemberState::Serving)
    };
    let (gone, rest) = if is_served("a") { ("a", "b") } else { ("b", "a") };
    world.list(&[(rest, 1)]);
    fleet.refresh().await.expect("a list");
    until_state(&fleet, rest, &MemberState::Serving).await;
    world.publish(1, "twice").await;
    world.until_handled("twice").await;
    assert_eq!((world.times("once"), world.times("twice")), (1, 1), "{gone} went");
    assert!(fleet.shutdown(Duration::from_secs(5)).await);
}

#[tokio::test(start_paused = true)]
async fn fleet_2_a_store_that_is_away_keeps_nobody_waiting_and_is_found_again() {
    let world = World::default();
    world.away.lock().expect("lock").insert(1);
    world.list(&[("a", 1), ("b", 2)]);
    let fleet = world.fleet().start().expect("legal settings");
    world.publish(1, "from a").await;
    world.publish(2, "from b").await;
    world.until_handled("from b").await;
    until_state(&fleet, "a", &MemberState::Failing("it is away".to_owned())).await;
    world.away.lock().expect("lock").clear();
    world.until_handled("from a").await;
    assert!(fleet.shutdown(Duration::from_secs(5)).await);
}

/// A database whose claims never come back.
#[derive(Debug)]
struct Stuck;

impl Around for Stuck {
    fn claim<'a>(&'a self, _: BoxFuture<'a, Result<Claimed>>) -> BoxFuture<'a, Result<Claimed>> {
        Box::pin(std::future::pending())
    }
}

#[derive(Clone, Debug)]
struct Either {
    store: SimStore,
    stuck: bool,
}

impl Opened for Either {
    fn store(&self) -> Arc<dyn Store> {
        let store = Arc::new(self.store.clone());
        if self.stuck { Arc::new(Wrapped::new(store, Stuck)) } else { store }
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// More stores hang than there is room for a claim of each.
#[tokio::test(start_paused = true)]
async fn fleet_2_stores_that_hang_take_no_room_from_others() {
    let (store, world) = (SimStore::default().ticking(), World::default());
    let healthy = store.clone();
    let mut list: Vec<_> = (0..20).map(|n| Listed::new(id(&format!("stuck {n}")), true)).collect();
    list.push(Listed::new(id("healthy"), false));
    let opener = move |listed: Listed<bool>| -> BoxFuture<'static, Result<Either>> {
        let store = if listed.place { SimStore::default() } else { store.clone() };
        Box::pin(std::future::ready(Ok(Either { store, stuck: listed.place })))
    };
    let handled = Arc::clone(&world.handled);
    let handlers = Handlers::new().all(move |delivery: Delivery| {
        handled.lock().expect("lock").push(delivery.message().topic().to_string());
        async { Ok(()) }
    });
    let config = FleetConfig { places: 32, ..quick() };
    let fleet = Fleet::new(Stores::new(list, opener), handlers).config(config);
    let fleet = fleet.start().expect("legal settings");
    sleep(Duration::from_secs(1)).await;
    let outbox = Outbox::new(Arc::new(healthy));
    let messages = (0..500).map(|n| Message::builder(format!("m{n}")));
    outbox.publish_all(messages).await.expect("published");
    within_a_minute(|| world.handled.lock().expect("lock").len() == 500).await;
    drop(fleet);
}

/// The backlog of one: another's single message is handled before a third batch begins.
#[tokio::test(start_paused = true)]
async fn fleet_2_one_message_does_not_wait_for_the_backlog_of_another_store() {
    let world = World::default();
    world.list(&[("big", 1), ("small", 2)]);
    let big = Outbox::new(Arc::new(world.store(1)));
    big.publish_all((0..100_000).map(|_| Message::builder("big"))).await.expect("published");
    let handled = Arc::clone(&world.handled);
    let handlers = Handlers::new().all(move |delivery: Delivery| {
        let handled = Arc::clone(&handled);
        async move {
            sleep(Duration::from_millis(20)).await;
            handled.lock().expect("lock").push(delivery.message().topic().to_string());
            Ok(())
        }
    });
    let stores = Stores::<u32, Handle>::new(world.clone(), world.clone());
    let fleet = Fleet::new(stores, handlers).strategy(FairShare).config(quick());
    let fleet = fleet.start().expect("legal settings");
    until_state(&fleet, "small", &MemberState::Serving).await;
    within_a_minute(|| world.times("big") > 0).await;
    let before = world.times("big");
    world.publish(2, "small").await;
    world.store(2).wake();
    world.until_handled("small").await;
    let meanwhile = world.times("big") - before;
    assert!(meanwhile < 2 * 200, "{meanwhile} of the others came first");
    drop(fleet);
}

#[tokio::test(start_paused = true)]
async fn fleet_2_retries_and_lost_leases_are_found_in_every_store() {
    let world = World::default();
    let names: Vec<_> = (0..12).map(|n| format!("s{n:02}")).collect();
    let listed: Vec<_> = names.iter().zip(0..).map(|(name, n)| (name.as_str(), n)).collect();
    world.list(&listed);
    for n in 0..12 {
        world.publish(n, "lost").await;
        let queue = postroom_core::WorkQueue::new(Arc::new(world.store(n)));
        let dead = postroom_core::OwnerToken::random();
        let claimed = queue.claim(dead, Duration::from_secs(20), 1).await.expect("claimed");
        assert_eq!(claimed.items.len(), 1);
    }
    let tries = Arc::new(Mutex::new(BTreeMap::<_, u32>::new()));
    let count = Arc::clone(&tries);
    let handlers = Handlers::new().all(move |delivery: Delivery| {
        let mut tries = count.lock().expect("lock");
        let tries = tries.entry(delivery.message().id()).or_default();
        *tries += 1;
        let fails = *tries < 3;
        async move {
            match fails {
                true => Err(postroom_core::HandlerError::from("not yet")),
                false => Ok(()),
            }
        }
    });
    let stores = Stores::<u32, Handle>::new(world.clone(), world.clone());
    let fleet = Fleet::new(stores, handlers).config(quick()).start().expect("legal settings");
    sleep(Duration::from_mins(2)).await;
    for n in 0..12 {
        let stats = world.store(n).stats().await.expect("counts");
        assert_eq!((stats.done, stats.ready, stats.leased), (1, 0, 0), "store {n}");
    }
    assert!(tries.lock().expect("lock").values().all(|tries| *tries == 3));
    assert!(fleet.shutdown(Duration::from_secs(5)).await);
}

#[tokio::test(start_paused = true)]
async fn fleet_3_a_key_leads_to_its_own_store_and_no_other() {
    let world = World::default();
    let tenant = Uuid::from_u128(7);
    let mut list: Vec<_> =
        (0..10).map(|n| Listed::new(id(&format!("store {n}")), n)).collect::<Vec<_>>();
    for (n, listed) in list.iter_mut().enumerate() {
        listed.keys = vec![format!("tenant-{n}")];
    }
    list[3].keys.push(tenant.to_string());
    list[4].keys.push("both".to_owned());
    list[5].keys.push("both".to_owned());
    *world.list.lock().expect("lock") = list;
    let router = Router::new(Stores::<u32, SimStore>::new(world.clone(), world.clone()));
    for n in (0..100).map(|n| n % 10) {
        let outbox = router.outbox(format!("tenant-{n}")).await.expect("its outbox");
        outbox.publish(Message::builder(format!("for {n}"))).await.expect("published");
    }
    let outbox = router.outbox(tenant).await.expect("by number");
    outbox.publish(Message::builder("for 3")).await.expect("published");
    for n in 0..10 {
        let page = world.store(n).list(&Default::default()).await.expect("a page");
        let topics: BTreeSet<_> = page.records.iter().map(|r| r.topic.to_string()).collect();
        assert_eq!(topics, BTreeSet::from([format!("for {n}")]));
        assert_eq!(page.records.len(), if n == 3 { 11 } else { 10 });
    }
    for (key, kind) in [
        ("", ErrorKind::Invalid),
        ("nobody", ErrorKind::UnknownStore),
        ("both", ErrorKind::UnknownStore),
        // With keys of its own the name of a store is not one.
        ("store 1", ErrorKind::UnknownStore),
        ("TENANT-1", ErrorKind::UnknownStore),
    ] {
        assert_eq!(router.outbox(key).await.expect_err(key).kind(), kind, "{key:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn fleet_3_a_new_tenant_needs_no_restart() {
    let world = World::default();
    world.list(&[("a", 1)]);
    let router = Router::new(Stores::<u32, SimStore>::new(world.clone(), world.clone()));
    assert!(router.outbox("a").await.is_ok());
    assert!(router.outbox("b").await.is_err());
    world.list(&[("a", 1), ("b", 2)]);
    // A miss is worth a look, but not one for each.
    assert!(router.outbox("b").await.is_err());
    sleep(Duration::from_secs(2)).await;
    let outbox = router.outbox("b").await.expect("it is listed");
    outbox.publish(Message::builder("t")).await.expect("published");
    assert_eq!(world.store(2).stats().await.expect("counts").ready, 1);
}

async fn serving(fleet: &RunningFleet<u32, Handle>) -> BTreeSet<StoreId> {
    let members = fleet.members().into_iter();
    members.filter(|m| m.state == MemberState::Serving).map(|member| member.id).collect()
}

/// Two processes, one of which dies without a word.
#[tokio::test(start_paused = true)]
async fn fleet_5_processes_divide_the_stores_and_take_over_from_the_dead() {
    let (world, home) = (World::default(), SimHome::default());
    let names: Vec<_> = (0..10).map(|n| format!("s{n}")).collect();
    let listed: Vec<_> = names.iter().zip(0..).map(|(name, n)| (name.as_str(), n)).collect();
    world.list(&listed);
    let first = world.fleet().home(home.clone()).start().expect("legal settings");
    within_a_minute(|| {
        first.members().iter().filter(|m| m.state == MemberState::Serving).count() == 10
    })
    .await;
    let second = world.fleet().home(home.clone()).start().expect("legal settings");
    within_a_minute(|| {
        let count = |fleet: &RunningFleet<u32, Handle>| {
            fleet.members().iter().filter(|m| m.state == MemberState::Serving).count()
        };
        (count(&first), count(&second)) == (5, 5)
    })
    .await;
    let (ones, others) = (serving(&first).await, serving(&second).await);
    assert!(ones.is_disjoint(&others));
    for n in 0..10 {
        world.publish(n, &format!("m{n}")).await;
        world.until_handled(&format!("m{n}")).await;
    }

    // Its tasks are gone and nobody says so: what was its own waits for its lease.
    std::mem::drop(first);
    within_a_minute(|| home.owners().len() == 10 && second.members().len() == 10).await;
    within_a_minute(|| {
        second.members().iter().filter(|m| m.state == MemberState::Serving).count() == 10
    })
    .await;
    for n in 0..10 {
        world.publish(n, &format!("n{n}")).await;
        world.until_handled(&format!("n{n}")).await;
        assert_eq!((world.times(&format!("m{n}")), world.times(&format!("n{n}"))), (1, 1));
    }
    assert!(second.shutdown(Duration::from_secs(5)).await);
    assert!(home.owners().is_empty());
}
