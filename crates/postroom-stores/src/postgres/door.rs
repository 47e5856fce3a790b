//! The door of a server: one connection that listens for the boxes of all its databases.
//!
//! LISTEN is per database, and a connection for each of hundreds of databases is what a budget is
//! there to prevent. So those who publish ring in one database that all of them know, and say for
//! which box.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use postroom_core::store::{Local, Wakes};
use sqlx::{Postgres, SqlStr};

use super::bell::Bell;
use super::listener::{Hears, Listener};
use crate::budget::Source;

/// Processes of different versions meet there: it never changes.
const CHANNEL: &str = "postroom_doorbell";

/// The doorbell of one server.
#[derive(Debug)]
pub(super) struct Door {
    source: Source<Postgres>,
    notify: SqlStr,
    /// For the rings by which the listener finds out whether it hears.
    probe: Arc<Bell>,
    listener: Listener,
    boxes: Arc<Boxes>,
}

impl Door {
    pub(super) fn new(source: Source<Postgres>, notify: SqlStr) -> Self {
        let probe = Bell::new(source.clone(), notify.clone(), CHANNEL.to_owned());
        let (listener, boxes) = (Listener::default(), Arc::default());
        Self { source, notify, probe: Arc::new(probe), listener, boxes }
    }

    /// The bell of a box.
    pub(super) fn bell(&self, address: &str) -> Bell {
        Bell::at_the_door(self.source.clone(), self.notify.clone(), CHANNEL.to_owned(), address)
    }

    /// Wakes a box from now on when others ring for it.
    pub(super) fn listen_for(&self, address: &str, bell: &Bell, local: &Arc<Local>) {
        self.boxes.add(address, bell.id(), local);
        self.listener.start(&self.probe, || Arc::clone(&self.boxes) as Arc<dyn Hears>);
    }

    /// A box is closed.
    pub(super) fn forget(&self, address: &str, bell: &Bell) {
        self.boxes.remove(address, bell.id());
    }
}

/// Who waits behind the door, by address.
#[derive(Debug, Default)]
struct Boxes(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    wakes: Wakes,
    boxes: HashMap<String, Vec<Waiting>>,
}

#[derive(Debug)]
struct Waiting {
    bell: String,
    local: Weak<Local>,
}

impl Boxes {
    fn add(&self, address: &str, bell: &str, local: &Arc<Local>) {
        let mut state = self.lock();
        let waiting = state.boxes.entry(address.to_owned()).or_default();
        if waiting.iter().any(|one| one.bell == bell) {
            return;
        }
        waiting.push(Waiting { bell: bell.to_owned(), local: Arc::downgrade(local) });
        local.set_wakes(state.wakes);
    }

    fn remove(&self, address: &str, bell: &str) {
        let mut state = self.lock();
        if let Some(waiting) = state.boxes.get_mut(address) {
            waiting.retain(|one| one.bell != bell);
            if waiting.is_empty() {
                state.boxes.remove(address);
            }
        }
    }

    fn each(&self, with: impl Fn(&Local)) {
        for waiting in self.lock().boxes.values().flatten() {
            if let Some(local) = waiting.local.upgrade() {
                with(&local);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hears for Boxes {
    /// Handles in this process that did not ring themselves hear it, too.
    fn heed(&self, payload: &str) {
        let Some((bell, address)) = payload.split_once(' ') else { return };
        let state = self.lock();
        let others = state.boxes.get(address).into_iter().flatten().filter(|one| one.bell != bell);
        others.filter_map(|one| one.local.upgrade()).for_each(|local| local.wake());
    }

    fn wake(&self) {
        self.each(Local::wake);
    }

    fn set_wakes(&self, now: Wakes) {
        self.lock().wakes = now;
        self.each(|local| local.set_wakes(now));
    }
}
