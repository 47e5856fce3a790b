//! The fleet at work: a task that looks which stores there are, one that divides them with other
//! processes, and one for each store that looks after it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::identities::Identities;
use super::member::{Member, MemberState, MemberStatus};
use super::room::Room;
use super::stores::lock;
use super::{
    Fleet, FleetConfig, Home, Listed, Opened, Refreshed, ShareRequest, StoreId, Stores, Watcher,
};
use crate::clock::random_unit;
use crate::dispatcher::{Dispatcher, Running};
use crate::error::{Error, ErrorKind, Result};
use crate::ids::OwnerToken;
use crate::retry::Retry;
use crate::sink::{Interceptor, Sink};

/// How many stores are opened at the same time.
const OPENED_AT_ONCE: usize = 8;

/// A store that does not open within this time is tried again later.
const OPENING_LIMIT: Duration = Duration::from_secs(30);

/// After a look at the list that failed.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// What could not be agreed on so many times at the start is not agreed on: everybody serves
/// everything.
const PATIENCE_WITH_HOME: u32 = 3;

const CLOSING_LIMIT: Duration = Duration::from_secs(5);

/// What the tasks of a fleet share.
pub(super) struct Crew<P, O> {
    pub(super) stores: Stores<P, O>,
    sink: Arc<dyn Sink>,
    interceptors: Vec<Arc<dyn Interceptor>>,
    home: Option<Arc<dyn Home>>,
    watcher: Option<Box<dyn Watcher<O>>>,
    config: FleetConfig,
    node: OwnerToken,
    room: Room,
    members: Mutex<BTreeMap<StoreId, Arc<Member<P>>>>,
    /// Those that are not listed any more and have not ended yet.
    leaving: Mutex<Vec<Arc<Member<P>>>>,
    /// The stores that this process is to serve; all of them where nobody divides them.
    share: Mutex<Option<BTreeSet<StoreId>>>,
    /// Told when there are other stores to divide.
    relisted: Notify,
    identities: Identities,
    /// Cancelled after the first look at the list that came to something.
    pub(super) looked: CancellationToken,
    opening: Semaphore,
    refreshing: tokio::sync::Mutex<()>,
    stop: CancellationToken,
    grace: Mutex<Duration>,
    cut: AtomicBool,
    tasks: TaskTracker,
}

/// What is left of a store when it is not served.
struct Handle<O> {
    opened: Option<O>,
    was_served: bool,
}

impl<O> Default for Handle<O> {
    fn default() -> Self {
        Self { opened: None, was_served: false }
    }
}

impl<P, O> Crew<P, O> {
    /// Takes nothing more, in any store.
    pub(super) fn halt(&self) {
        self.stop.cancel();
        self.tasks.close();
    }
}

impl<P, O> Crew<P, O>
where
    P: Clone + PartialEq + Send + Sync + 'static,
    O: Opened,
{
    pub(super) fn start(fleet: Fleet<P, O>) -> Arc<Self> {
        let Fleet { stores, sink, interceptors, strategy, home, watcher, config } = fleet;
        let crew = Arc::new(Self {
            stores,
            sink,
            interceptors,
            node: OwnerToken::random(),
            room: Room::new(config.places, strategy),
            members: Mutex::default(),
            leaving: Mutex::default(),
            share: Mutex::new(home.is_some().then(BTreeSet::new)),
            relisted: Notify::new(),
            identities: Identities::default(),
            looked: CancellationToken::new(),
            opening: Semaphore::new(OPENED_AT_ONCE),
            refreshing: tokio::sync::Mutex::default(),
            stop: CancellationToken::new(),
            grace: Mutex::new(config.grace),
            cut: AtomicBool::new(false),
            tasks: TaskTracker::new(),
            home,
            watcher,
            config,
        });
        crew.tasks.spawn(Arc::clone(&crew).keep_looking());
        if let Some(home) = &crew.home {
            crew.tasks.spawn(Arc::clone(&crew).keep_sharing(Arc::clone(home)));
        }
        crew
    }

    pub(super) async fn stop(&self, grace: Duration) -> bool {
        *lock(&self.grace) = grace;
        self.halt();
        // A little more than a dispatcher takes to cut what is left, and to leave.
        let ended = timeout(grace + Duration::from_secs(8), self.tasks.wait()).await.is_ok();
        if let Some(home) = &self.home {
            let _ = timeout(Duration::from_secs(1), home.leave(self.node)).await;
        }
        ended && !self.cut.load(Ordering::Relaxed)
    }

    pub(super) fn statuses(&self) -> Vec<MemberStatus> {
        let mut all: Vec<_> = lock(&self.members).values().map(|one| one.status()).collect();
        all.extend(lock(&self.leaving).iter().map(|one| one.status()));
        all.sort_by(|a, b| a.id.cmp(&b.id));
        all
    }

    /// Looks at the list again and again.
    async fn keep_looking(self: Arc<Self>) {
        let mut failing = false;
        loop {
            let wait = match self.refresh().await {
                Ok(_) => {
                    failing = false;
                    self.looked.cancel();
                    self.config.refresh.mul_f64(0.9 + 0.2 * random_unit())
                }
                Err(error) => {
                    if !std::mem::replace(&mut failing, true) {
                        tracing::error!(%error, "FLEET_LIST_FAILED");
                    }
                    self.config.refresh.min(LOOK_AGAIN)
                }
            };
            if !self.goes_on_after(wait).await {
                return;
            }
        }
    }

    async fn goes_on_after(&self, wait: Duration) -> bool {
        tokio::select! {
            biased;
            () = self.stop.cancelled() => false,
            () = sleep(wait) => true,
        }
    }

    /// Looks at the list, and begins and ends what is different.
    pub(super) async fn refresh(self: &Arc<Self>) -> Result<Refreshed> {
        let _only_one = self.refreshing.lock().await;
        let list = self.stores.look().await?;
        let mut refreshed = Refreshed::default();
        let mut members = lock(&self.members);
        let places: BTreeMap<_, _> = list.iter().map(|one| (&one.id, &one.place)).collect();
        let gone = |id: &StoreId, member: &mut Arc<Member<P>>| {
            places.get(id).is_none_or(|place| **place != member.listed.place)
        };
        for (_, member) in members.extract_if(.., gone) {
            refreshed.removed += 1;
            member.gone.cancel();
            lock(&self.leaving).push(member);
        }
        for listed in &*list {
            if members.contains_key(&listed.id) {
                refreshed.unchanged += 1;
                self.room.weigh(&listed.id, listed.weight);
            } else if !self.stop.is_cancelled() {
                refreshed.added += 1;
                members.insert(listed.id.clone(), self.add(listed));
            }
        }
        drop(members);
        if refreshed.added + refreshed.removed > 0 {
            let Refreshed { added, removed, unchanged } = refreshed;
            tracing::info!(added, removed, unchanged, "FLEET_LIST_CHANGED");
            self.relisted.notify_one();
        }
        Ok(refreshed)
    }

    fn add(self: &Arc<Self>, listed: &Listed<P>) -> Arc<Member<P>> {
        let mine = lock(&self.share).as_ref().is_none_or(|share| share.contains(&listed.id));
        let member = Arc::new(Member::new(listed.clone(), self.stop.child_token(), mine));
        self.tasks.spawn(Arc::clone(self).look_after(Arc::clone(&member)));
        member
    }

    /// Divides the stores with other processes again and again.
    async fn keep_sharing(self: Arc<Self>, home: Arc<dyn Home>) {
        let mut failures = 0;
        while !self.stop.is_cancelled() {
            match self.share(&*home).await {
                Ok(()) => failures = 0,
                Err(error) => {
                    failures += 1;
                    if failures == 1 {
                        tracing::warn!(%error, "FLEET_HOME_AWAY");
                    }
                    // What it had stays its own: nothing breaks where another one serves it too.
                    let mut share = lock(&self.share);
                    let has_none = share.as_ref().is_some_and(BTreeSet::is_empty);
                    if failures >= PATIENCE_WITH_HOME && has_none {
                        *share = None;
                    }
                }
            }
            self.hand_out();
            let again = self.config.share_lease / 3;
            tokio::select! {
                biased;
                () = self.stop.cancelled() => {}
                () = self.relisted.notified() => {}
                () = sleep(again.mul_f64(0.8 + 0.2 * random_unit())) => {}
            }
        }
    }

    async fn share(&self, home: &dyn Home) -> Result<()> {
        let stores: BTreeSet<_> = lock(&self.members).keys().cloned().collect();
        let lease = self.config.share_lease;
        let request = ShareRequest { node: self.node, lease, stores };
        let share = timeout(lease / 3, home.share(&request)).await.map_err(|_| late("share"))??;
        *lock(&self.share) = Some(share.mine);
        Ok(())
    }

    /// Tells each store whether it is this process's to serve.
    fn hand_out(&self) {
        let share = lock(&self.share).clone();
        for (id, member) in &*lock(&self.members) {
            let mine = share.as_ref().is_none_or(|share| share.contains(id));
            member.mine.send_if_modified(|now| std::mem::replace(now, mine) != mine);
        }
    }

    /// Looks after one store until it is gone.
    async fn look_after(self: Arc<Self>, member: Arc<Member<P>>) {
        let (backoff, mut failures) = (Retry::default(), 0);
        let mut handle = Handle::default();
        while member.is_mine().await {
            match self.serve(&member, &mut handle).await {
                Ok(()) => {
                    failures = 0;
                    member.is_now(MemberState::Elsewhere);
                }
                Err(error) => {
                    failures += 1;
                    member.is_now(MemberState::Failing(error.to_string()));
                    let wait = backoff.delay(failures, random_unit());
                    let _ = timeout(wait, member.is_lost()).await;
                }
            }
        }
        member.is_now(MemberState::Draining);
        // At the end of the whole fleet others may go on with the handles.
        if !self.stop.is_cancelled() {
            self.stores.forget(&member.listed);
            if let Some(opened) = handle.opened {
                if let Some(watcher) = self.watcher.as_ref().filter(|_| handle.was_served) {
                    watcher.is_gone(&member.listed.id, &opened);
                }
                let _ = timeout(CLOSING_LIMIT, opened.close()).await;
            }
        }
        lock(&self.leaving).retain(|other| !Arc::ptr_eq(other, &member));
    }

    /// Serves a store as long as it is this process's, and leaves its handle behind.
    async fn serve(&self, member: &Member<P>, handle: &mut Handle<O>) -> Result<()> {
        member.is_now(MemberState::Opening);
        let id = &member.listed.id;
        let opening = timeout(OPENING_LIMIT, self.open(member));
        let (opened, identity) = tokio::select! {
            biased;
            () = member.is_lost() => return Ok(()),
            opened = opening => opened.map_err(|_| late("open"))??,
        };
        let opened = handle.opened.insert(opened);
        let same = |other: &StoreId| member.is_now(MemberState::SameAs(other.clone()));
        let alone = tokio::select! {
            biased;
            () = member.is_lost() => return Ok(()),
            alone = self.identities.take(&identity, id, same) => alone,
        };
        let running = self.dispatch(member, opened)?;
        member.is_now(MemberState::Serving);
        handle.was_served = true;
        if let Some(watcher) = &self.watcher {
            watcher.is_served(id, opened);
        }
        member.is_lost().await;
        member.is_now(MemberState::Draining);
        let grace = *lock(&self.grace);
        if !running.shutdown(grace).await {
            self.cut.store(true, Ordering::Relaxed);
        }
        drop(alone);
        Ok(())
    }

    async fn open(&self, member: &Member<P>) -> Result<(O, String)> {
        let _few = self.opening.acquire().await;
        let opened = self.stores.open(&member.listed).await?;
        let identity = opened.store().identity().await?;
        Ok((opened, identity))
    }

    fn dispatch(&self, member: &Member<P>, opened: &O) -> Result<Running> {
        let Listed { id, weight, .. } = &member.listed;
        Dispatcher::new(opened.store(), Arc::clone(&self.sink))
            .intercepted_by(self.interceptors.clone())
            .seated(self.room.seat(id.clone(), *weight))
            .config(self.config.dispatcher.clone())
            .start()
    }
}

fn late(what: &str) -> Error {
    Error::new(ErrorKind::Unavailable, format!("no answer in time: {what}"))
}
