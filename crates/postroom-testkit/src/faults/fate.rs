//! What becomes of a worker at a point of an effect that the test has chosen.

use std::fmt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use postroom_core::store::BoxFuture;

use super::ledger::Ledger;
use crate::around::{Around, Step};

/// At which point something happens to a worker: a [`Step`] of the store in lower case, or one of
/// the handler, `effect` or `staged`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It kills itself when it comes there for the `nth` time.
    Dies {
        /// The point.
        at: String,
        /// Which time, from 1.
        nth: usize,
    },
    /// It stands still when it first comes there, until a gate opens that has the point's name.
    Waits {
        /// The point.
        at: String,
    },
}

impl Fate {
    /// A fate as it is displayed; none for anything else.
    pub(super) fn read(text: &str) -> Option<Self> {
        match text.split(' ').collect::<Vec<_>>()[..] {
            ["dies", at, nth] => {
                Some(Self::Dies { at: at.to_owned(), nth: nth.parse().expect("a number") })
            }
            ["waits", at] => Some(Self::Waits { at: at.to_owned() }),
            _ => None,
        }
    }
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dies { at, nth } => write!(f, "dies {at} {nth}"),
            Self::Waits { at } => write!(f, "waits {at}"),
        }
    }
}

/// Carries a fate out, in the worker itself.
#[derive(Debug)]
pub(super) struct Trap {
    ledger: Arc<Ledger>,
    folder: PathBuf,
    fate: Option<Fate>,
    passed: AtomicUsize,
}

impl Trap {
    pub(super) fn new(ledger: Arc<Ledger>, folder: PathBuf, fate: Option<Fate>) -> Self {
        Self { ledger, folder, fate, passed: AtomicUsize::new(0) }
    }

    /// Called at each point.
    pub(super) fn pass(&self, point: &str) {
        let nth =
            |at: &String| (at == point).then(|| 1 + self.passed.fetch_add(1, Ordering::Relaxed));
        match &self.fate {
            Some(Fate::Dies { at, nth: deadly }) if nth(at) == Some(*deadly) => self.die(point),
            Some(Fate::Waits { at }) if nth(at) == Some(1) => self.wait(point),
            _ => {}
        }
    }

    /// SIGKILL: no destructor runs, and this thread goes no further.
    fn die(&self, point: &str) -> ! {
        self.ledger.note("dies", point);
        self.ledger.sync();
        let pid = std::process::id().to_string();
        let _ = Command::new("kill").args(["-KILL", &pid]).status();
        loop {
            std::thread::park();
        }
    }

    /// Without a way out for the dispatcher: it can not cut a call that does not wait.
    fn wait(&self, point: &str) {
        self.ledger.note("waits", point);
        while !self.folder.join(point).exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A trap around a store.
#[derive(Debug)]
pub(super) struct Trapped(pub(super) Arc<Trap>);

impl Around for Trapped {
    fn step(&self, step: Step) -> BoxFuture<'_, ()> {
        Box::pin(async move { self.0.pass(&step.to_string()) })
    }
}
