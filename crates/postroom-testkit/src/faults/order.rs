//! Order, read off the ledger.

use std::collections::{HashMap, HashSet};

use super::ledger::{History, Run};

/// Nothing of a key starts before everything earlier of it ended well, whoever runs it, and nothing
/// starts while something else of the key runs in a process that no fault has hit.
///
/// An end is written before it is settled and a start after it was claimed, so the ledger's order
/// can only be right if the database's was. A process that was stopped may repeat what it had in
/// hand: that is a duplicate, and everything before it has ended.
pub(super) fn assert_in_order(history: &History) {
    let mut steps: Vec<(usize, bool, &Run)> = Vec::new();
    for run in history.runs.iter().filter(|run| run.key != "-") {
        steps.push((run.at, true, run));
        steps.extend(run.end.map(|(at, _)| (at, false, run)));
    }
    steps.sort_by_key(|(at, ..)| *at);
    let mut done: HashMap<&str, HashSet<usize>> = HashMap::new();
    let mut running: HashMap<&str, Vec<&Run>> = HashMap::new();
    for (at, starts, run) in steps {
        let done = done.entry(&run.key).or_default();
        let running = running.entry(&run.key).or_default();
        if !starts {
            running.retain(|other| other.at != run.at);
            if run.end.is_some_and(|(_, well)| well) {
                done.insert(run.n);
            }
            continue;
        }
        let missing = (0..run.n).find(|earlier| !done.contains(earlier));
        let of_key = || history.runs.iter().filter(|other| other.key == run.key);
        assert_eq!(
            missing,
            None,
            "not done when {run:?} began, {:#?}, {:#?}",
            of_key().filter(|other| Some(other.n) == missing).collect::<Vec<_>>(),
            history.faults,
        );
        running.retain(|other| !hit(history, other, at));
        assert!(running.is_empty() || done.contains(&run.n), "{running:?} ran when {run:?} began");
        running.push(run);
    }
}

/// Whether the process of a run was killed or stopped after it began and, at the latest, by `at`.
fn hit(history: &History, run: &Run, at: usize) -> bool {
    let mut faults = history.hits().filter(|fault| fault.worker == run.worker);
    faults.any(|fault| run.at < fault.to && fault.from < at)
}
