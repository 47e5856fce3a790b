//! What all processes of a test did, in one order.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Display;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use postroom_core::{MessageId, OwnerToken};

/// The writing end. A line is one `write` to a file that is open for appending, so lines of several
/// processes never mix, and what was written before a kill is there after it. It begins with the
/// line break, so that one that a kill has torn spoils no other.
#[derive(Debug)]
pub(super) struct Ledger {
    file: File,
    pub(super) worker: String,
}

impl Ledger {
    pub(super) fn open(folder: &Path, worker: &str) -> Self {
        let file = File::options().create(true).append(true).open(path(folder));
        Self { file: file.expect("the ledger opens"), worker: worker.to_owned() }
    }

    pub(super) fn note(&self, what: &str, details: impl Display) {
        let line = format!("\n{what} {} {details} {END}", self.worker);
        (&self.file).write_all(line.as_bytes()).expect("the ledger takes a line");
    }

    /// Returns when all of it is on the disk.
    pub(super) fn sync(&self) {
        self.file.sync_data().expect("the ledger is written");
    }
}

/// At the end of every line: without it a kill has torn the line, or it is still being written.
const END: &str = ".";

fn path(folder: &Path) -> PathBuf {
    folder.join("ledger")
}

/// One time that a handler ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The place of its first line in the ledger.
    pub at: usize,
    /// Who ran it.
    pub worker: String,
    /// Of what.
    pub id: MessageId,
    /// Its ordering key, or `-`.
    pub key: String,
    /// Its number within the key.
    pub n: usize,
    /// Which attempt the handler was told that it is.
    pub attempt: u32,
    /// Where in the ledger it ended, and whether well. None if it never did.
    pub end: Option<(usize, bool)>,
}

/// The ledger, read.
#[derive(Debug, Default)]
pub struct History {
    /// In the order of their starts.
    pub runs: Vec<Run>,
    /// What a worker published and saw committed.
    pub committed: Vec<MessageId>,
    /// Who each worker was to the database.
    pub owners: HashMap<String, OwnerToken>,
    /// What each worker settled as done, by its place in the queue, and where it says so.
    pub settled: Vec<(String, i64, usize)>,
    /// Settles that the database refused.
    pub refused: Vec<(String, i64)>,
    /// When somebody was about to be hit, and when it had been.
    pub faults: Vec<Fault>,
    /// When a worker did not get to run, or to its database, for a good part of its lease. That is
    /// written down when it is over.
    pub stalls: Vec<Fault>,
    /// When a worker that had been stopped went on.
    pub resumed: Vec<(String, usize)>,
    /// Which workers were about to kill themselves, and at which point.
    pub suicides: Vec<(String, String)>,
    /// Which workers stood still at a point that they were told to.
    pub held: Vec<String>,
}

/// A process that was killed or stopped somewhere between two lines of the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Who.
    pub worker: String,
    /// Not before this line.
    pub from: usize,
    /// Not after this line.
    pub to: usize,
}

impl History {
    /// Reads what there is by now.
    ///
    /// # Panics
    /// When a line makes no sense.
    #[must_use]
    pub fn read(folder: &Path) -> Self {
        let text = fs::read_to_string(path(folder)).unwrap_or_default();
        let mut history = Self::default();
        let mut open: BTreeMap<(String, MessageId), usize> = BTreeMap::new();
        for (at, line) in text.lines().enumerate() {
            let words: Vec<_> = line.split(' ').collect();
            if let [what, worker, details @ .., END] = words.as_slice() {
                history.add(at, what, worker, details, &mut open);
            }
        }
        history
    }

    fn add(
        &mut self,
        at: usize,
        what: &str,
        worker: &str,
        details: &[&str],
        open: &mut BTreeMap<(String, MessageId), usize>,
    ) {
        let id = || details[0].parse().expect("a message id");
        let worker = worker.to_owned();
        match what {
            "up" => drop(self.owners.insert(worker, details[0].parse().expect("an owner"))),
            "committed" => self.committed.push(id()),
            "start" => {
                let (key, n) = (details[1].to_owned(), number(details[2]));
                open.insert((worker.clone(), id()), self.runs.len());
                let attempt = number(details[3]) as u32;
                self.runs.push(Run { at, worker, id: id(), key, n, attempt, end: None });
            }
            "end" => {
                let run = open.remove(&(worker, id())).expect("it began");
                self.runs[run].end = Some((at, details[1] == "well"));
            }
            "settled" => self.settled.push((worker, number(details[0]) as i64, at)),
            "refused" => self.refused.push((worker, number(details[0]) as i64)),
            "doomed" => self.faults.push(Fault { worker, from: at, to: usize::MAX }),
            "fell" => self.faults.last_mut().expect("it was doomed").to = at,
            "stalled" => self.stalls.push(Fault { worker, from: 0, to: at }),
            "dies" => self.suicides.push((worker, details[0].to_owned())),
            "waits" => self.held.push(worker),
            "resumed" => self.resumed.push((worker, at)),
            other => panic!("{other:?} is no word of the ledger"),
        }
    }

    /// Everything that can make a process lose leases.
    pub fn hits(&self) -> impl Iterator<Item = &Fault> {
        self.faults.iter().chain(&self.stalls)
    }

    /// The runs of one message.
    pub fn runs_of(&self, id: MessageId) -> impl Iterator<Item = &Run> {
        self.runs.iter().filter(move |run| run.id == id)
    }

    /// The messages that were handled well at least once.
    #[must_use]
    pub fn handled(&self) -> HashSet<MessageId> {
        let well = self.runs.iter().filter(|run| run.end.is_some_and(|(_, well)| well));
        well.map(|run| run.id).collect()
    }

    /// Messages that ran more often than their failures explain, with how much more often.
    /// `failures` says how often the handler is bound to fail with a message.
    #[must_use]
    pub fn repeated(&self, failures: impl Fn(&Run) -> usize) -> HashMap<MessageId, usize> {
        let mut runs: HashMap<MessageId, (usize, usize)> = HashMap::new();
        for run in &self.runs {
            runs.entry(run.id).or_insert((0, 1 + failures(run))).0 += 1;
        }
        let more = runs.into_iter().filter(|(_, (runs, expected))| runs > expected);
        more.map(|(id, (runs, expected))| (id, runs - expected)).collect()
    }

    /// How a fault explains that a message came again, if one does: a process had it in hand when
    /// it was hit, and never learned that it was settled.
    #[must_use]
    pub fn explanation(&self, id: MessageId, work: i64) -> Option<Explanation> {
        let explanations = self.hits().filter_map(|fault| {
            let hit = |run: &&Run| run.worker == fault.worker;
            let settled = |(worker, which, at): &(String, i64, usize)| {
                (worker, *which) == (&fault.worker, work) && *at < fault.to
            };
            if self.settled.iter().any(settled) {
                return None;
            }
            if self.runs_of(id).filter(hit).any(|run| run.at < fault.to) {
                return Some(Explanation::InHand);
            }
            let taken_over = self.runs_of(id).any(|run| !hit(&run) && run.at > fault.from);
            (taken_over && self.runs_of(id).any(|run| hit(&run))).then_some(Explanation::Late)
        });
        explanations.min()
    }
}

/// What a process had to do with a message that it was hit with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Explanation {
    /// It had begun with it.
    InHand,
    /// It began with it when it went on after a stop, and somebody else had taken it over
    /// meanwhile. It had looked at its deadline before the stop, so there is at most one of these
    /// per handler that runs at the same time.
    Late,
}

fn number(word: &str) -> usize {
    word.parse().expect("a number")
}
