//! How much of the processor others used while a figure was measured. Who competes with the server
//! and with us moves ratios, also when all rounds look alike: what we add is hidden by waiting.

use std::collections::{HashMap, HashSet};
use std::fs;

/// More than this part of the processor, and verdicts say little.
pub(crate) const TOO_MUCH: f64 = 0.1;

const SERVERS: [&str; 3] = ["postgres", "mariadbd", "mysqld"];

/// The state of the clocks when it began, in ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Neighbours {
    all: f64,
    busy: f64,
    ours: f64,
}

impl Neighbours {
    /// Nothing where there is no `/proc`, or where the server that is needed is not of this run: it
    /// could not be told from others.
    pub(crate) fn look(needs_server: bool) -> Option<Self> {
        let [all, busy] = clocks(&fs::read_to_string("/proc/stat").ok()?)?;
        let processes = processes();
        let family = family(&processes, parent(&processes)?);
        let is_server = |pid: &&u32| SERVERS.contains(&processes[*pid].name.as_str());
        if needs_server && !family.iter().any(|pid| is_server(&pid)) {
            return None;
        }
        let ours = family.iter().map(|pid| processes[pid].ticks).sum();
        Some(Self { all, busy, ours })
    }

    /// The part of all processors that others have used since.
    pub(crate) fn share_until(self, now: Self) -> f64 {
        let others = (now.busy - self.busy) - (now.ours - self.ours);
        (others / (now.all - self.all).max(1.0)).clamp(0.0, 1.0)
    }
}

/// All time and busy time. What a host took away from us is busy.
fn clocks(stat: &str) -> Option<[f64; 2]> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<f64> = line.split_whitespace().take(8).map_while(|n| n.parse().ok()).collect();
    let [user, nice, system, idle, waiting, irq, soft, steal] = ticks.try_into().ok()?;
    let busy = user + nice + system + irq + soft + steal;
    Some([busy + idle + waiting, busy])
}

#[derive(Clone, Debug, PartialEq)]
struct Process {
    name: String,
    parent: u32,
    /// Its own time, and that of children that have ended.
    ticks: f64,
}

fn processes() -> HashMap<u32, Process> {
    let folders = fs::read_dir("/proc").into_iter().flatten().flatten();
    let process = |folder: fs::DirEntry| {
        let pid = folder.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(folder.path().join("stat")).ok()?;
        Some((pid, process_of(&stat)?))
    };
    folders.filter_map(process).collect()
}

fn process_of(stat: &str) -> Option<Process> {
    let (start, rest) = stat.rsplit_once(')')?;
    let name = start.split_once('(')?.1.to_owned();
    let fields: Vec<_> = rest.split_whitespace().collect();
    let ticks = fields.get(11..15)?.iter().map_while(|ticks| ticks.parse::<f64>().ok()).sum();
    Some(Process { name, parent: fields.get(1)?.parse().ok()?, ticks })
}

/// The task runner, which started the servers too.
fn parent(processes: &HashMap<u32, Process>) -> Option<u32> {
    Some(processes.get(&std::process::id())?.parent)
}

/// A process and all that descend from it.
fn family(processes: &HashMap<u32, Process>, head: u32) -> HashSet<u32> {
    let mut family = HashSet::from([head]);
    loop {
        let known = family.len();
        let children = processes.iter().filter(|(_, one)| family.contains(&one.parent));
        let children: Vec<u32> = children.map(|(pid, _)| *pid).collect();
        family.extend(children);
        family.retain(|pid| processes.contains_key(pid));
        if family.len() == known {
            return family;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_are_read() {
        let stat = "cpu  10 20 30 400 5 1 2 3 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
        assert_eq!(clocks(stat), Some([471.0, 66.0]));
    }

    #[test]
    fn a_process_may_be_called_anything() {
        let stat = "42 (a (b) c) S 7 1 1 0 -1 4 0 0 0 0 100 20 3 4 20 0 1 0 5";
        let expected = Process { name: "a (b) c".to_owned(), parent: 7, ticks: 127.0 };
        assert_eq!(process_of(stat), Some(expected));
    }

    #[test]
    fn a_family_has_grandchildren_and_no_neighbours() {
        let process = |parent| Process { name: String::new(), parent, ticks: 0.0 };
        let processes = HashMap::from([
            (1, process(0)),
            (2, process(1)),
            (3, process(2)),
            (4, process(3)),
            (5, process(1)),
        ]);
        assert_eq!(family(&processes, 2), HashSet::from([2, 3, 4]));
    }

    #[test]
    fn others_are_what_is_busy_and_not_ours() {
        let before = Neighbours { all: 0.0, busy: 0.0, ours: 0.0 };
        let now = Neighbours { all: 200.0, busy: 150.0, ours: 100.0 };
        assert_eq!(before.share_until(now), 0.25);
        let idle = Neighbours { all: 200.0, busy: 99.0, ours: 100.0 };
        assert_eq!(before.share_until(idle), 0.0);
    }
}
