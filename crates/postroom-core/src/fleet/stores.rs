//! The list of stores as it was last seen, and a handle for each that was opened.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::{Discovery, Listed};
use crate::error::{Error, ErrorKind, Result};
use crate::store::{BoxFuture, Store};
use crate::text::StoreId;

/// How soon after a look at the list a miss is worth another one.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Opens a store. It is given the store's id, for log lines and figures.
pub trait Opener<P, O>: Send + Sync + 'static {
    /// Opens it. An error is tried again later.
    fn open<'a>(&'a self, listed: &'a Listed<P>) -> BoxFuture<'a, Result<O>>;
}

impl<P, O, F> Opener<P, O> for F
where
    P: Clone,
    F: Fn(Listed<P>) -> BoxFuture<'static, Result<O>> + Send + Sync + 'static,
{
    fn open<'a>(&'a self, listed: &'a Listed<P>) -> BoxFuture<'a, Result<O>> {
        self(listed.clone())
    }
}

/// A handle of an open store; clones share its connections.
pub trait Opened: Clone + Send + Sync + 'static {
    /// The engine's half.
    fn store(&self) -> Arc<dyn Store>;

    /// Closes its connections, for all clones.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// The stores of a fleet. A [`Fleet`](super::Fleet) and a [`Router`](super::Router) on the same
/// one share their handles: what is published in this process is then delivered right from its
/// commit. Cheap to clone.
pub struct Stores<P, O>(Arc<Shared<P, O>>);

struct Shared<P, O> {
    discovery: Box<dyn Discovery<P>>,
    opener: Box<dyn Opener<P, O>>,
    /// Held by whoever looks at the list: nobody looks twice at the same time.
    looking: tokio::sync::Mutex<Option<Instant>>,
    list: Mutex<Seen<P>>,
    handles: Mutex<HashMap<StoreId, Handle<P, O>>>,
}

/// The list as it was last seen, and where in it each routing key is.
struct Seen<P> {
    list: Arc<[Listed<P>]>,
    keys: HashMap<String, Holder>,
}

/// The list, and where in it a store is.
pub(super) type Found<P> = (Arc<[Listed<P>]>, usize);

/// Which store of the list has a key.
enum Holder {
    One(usize),
    /// Two of those that have it.
    Several(usize, usize),
}

impl<P> Seen<P> {
    fn new(list: Arc<[Listed<P>]>) -> Self {
        let mut keys: HashMap<String, Holder> = HashMap::new();
        for (at, listed) in list.iter().enumerate() {
            for key in listed.routing_keys() {
                let holder = keys.entry(key.to_owned()).or_insert(Holder::One(at));
                match *holder {
                    // A store may repeat itself.
                    Holder::One(first) if first != at => *holder = Holder::Several(first, at),
                    _ => {}
                }
            }
        }
        Self { list, keys }
    }
}

struct Handle<P, O> {
    place: P,
    opened: Arc<OnceCell<O>>,
}

impl<P, O> Stores<P, O>
where
    P: Clone + PartialEq + Send + Sync + 'static,
    O: Clone + Send + Sync + 'static,
{
    /// Stores that somebody lists and somebody opens.
    pub fn new(discovery: impl Discovery<P>, opener: impl Opener<P, O>) -> Self {
        Self(Arc::new(Shared {
            discovery: Box::new(discovery),
            opener: Box::new(opener),
            looking: tokio::sync::Mutex::default(),
            list: Mutex::new(Seen::new(Arc::from([]))),
            handles: Mutex::default(),
        }))
    }

    /// The list as it was last seen; empty before the first look.
    #[must_use]
    pub fn list(&self) -> Arc<[Listed<P>]> {
        Arc::clone(&lock(&self.0.list).list)
    }

    /// Looks which stores there are. A store that is listed twice counts where it stands first.
    ///
    /// # Errors
    /// What the discovery says; the list is then what it was before.
    pub async fn look(&self) -> Result<Arc<[Listed<P>]>> {
        let mut looking = self.0.looking.lock().await;
        self.look_now(&mut looking).await
    }

    /// The list after a look that is not older than a moment.
    pub(super) async fn look_lately(&self) -> Result<Arc<[Listed<P>]>> {
        let mut looking = self.0.looking.lock().await;
        match *looking {
            Some(last) if last.elapsed() < LOOK_AGAIN => Ok(self.list()),
            _ => self.look_now(&mut looking).await,
        }
    }

    async fn look_now(&self, looking: &mut Option<Instant>) -> Result<Arc<[Listed<P>]>> {
        let mut found = self.0.discovery.discover().await?;
        *looking = Some(Instant::now());
        let mut seen = std::collections::HashSet::new();
        found.retain(|listed| {
            let first = seen.insert(listed.id.clone());
            if !first {
                tracing::warn!(store = %listed.id, "FLEET_STORE_LISTED_TWICE");
            }
            first
        });
        let list: Arc<[_]> = found.into();
        *lock(&self.0.list) = Seen::new(Arc::clone(&list));
        Ok(list)
    }

    /// The handle of a store; opened by whoever asks first.
    ///
    /// # Errors
    /// What the opener says.
    pub async fn open(&self, listed: &Listed<P>) -> Result<O> {
        let opened = {
            let mut handles = lock(&self.0.handles);
            match handles.get(&listed.id) {
                Some(handle) if handle.place == listed.place => Arc::clone(&handle.opened),
                _ => {
                    let (place, opened) = (listed.place.clone(), Arc::<OnceCell<O>>::default());
                    let handle = Handle { place, opened: Arc::clone(&opened) };
                    handles.insert(listed.id.clone(), handle);
                    opened
                }
            }
        };
        opened.get_or_try_init(|| self.0.opener.open(listed)).await.cloned()
    }

    /// All that are open now.
    #[must_use]
    pub fn opened(&self) -> Vec<(StoreId, O)> {
        let handles = lock(&self.0.handles);
        let open = |(id, handle): (&StoreId, &Handle<P, O>)| {
            Some((id.clone(), handle.opened.get()?.clone()))
        };
        let mut opened: Vec<_> = handles.iter().filter_map(open).collect();
        opened.sort_by(|(a, _), (b, _)| a.cmp(b));
        opened
    }

    /// Forgets the handle of a store at a place where it is not any more.
    pub(super) fn forget(&self, listed: &Listed<P>) {
        let mut handles = lock(&self.0.handles);
        if handles.get(&listed.id).is_some_and(|handle| handle.place == listed.place) {
            handles.remove(&listed.id);
        }
    }

    /// The store with a routing key.
    pub(super) fn find(&self, key: &str) -> Result<Option<Found<P>>> {
        let seen = lock(&self.0.list);
        match seen.keys.get(key) {
            None => Ok(None),
            Some(Holder::One(at)) => Ok(Some((Arc::clone(&seen.list), *at))),
            Some(Holder::Several(first, second)) => Err(Error::new(
                ErrorKind::UnknownStore,
                format!(
                    "routing key {key:?} belongs to the stores {} and {}; list it once",
                    seen.list[*first].id, seen.list[*second].id
                ),
            )),
        }
    }
}

impl<P, O> Clone for Stores<P, O> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<P, O> fmt::Debug for Stores<P, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids = |list: &[Listed<P>]| list.iter().map(|one| one.id.clone()).collect::<Vec<_>>();
        f.debug_tuple("Stores").field(&ids(&lock(&self.0.list).list)).finish()
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
