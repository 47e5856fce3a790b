//! One run: processes come and go, producers publish, things break, and then they do not any more.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use postroom_core::{Dispatcher, ManualClock, Outbox, Running, Timestamp};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::check::is_stopped;
use super::ledger::Ledger;
use super::node::{Node, NodeStore};
use super::plan::{Blow, Plan};
use super::producer::{self, Producer};
use super::random::Random;
use super::sink::SimSink;
use crate::sim::{Bug, SimStore};

// How long after the last fault everything must be settled, by the slowest of plans.
const DRAINED_WITHIN: Duration = Duration::from_secs(120);
const TICK: Duration = Duration::from_millis(50);

/// A process with a dispatcher.
struct Process {
    store: Arc<NodeStore>,
    running: Running,
}

pub(super) struct World {
    pub(super) plan: Plan,
    pub(super) store: SimStore,
    pub(super) ledger: Arc<Ledger>,
    bug: Option<Bug>,
    random: Random,
    processes: Vec<Process>,
    producers: Vec<JoinHandle<()>>,
    nodes: Vec<Arc<Node>>,
    healed: bool,
}

impl World {
    pub(super) fn new(seed: u64, bug: Option<Bug>) -> Self {
        let mut random = Random::new(seed);
        let plan = Plan::new(&mut random);
        // The same time in every run.
        let clock = ManualClock::starting_at(Timestamp::from_micros(1_800_000_000_000_000));
        let mut store = SimStore::new(clock).ticking().halt(plan.halt);
        if let Some(bug) = bug {
            store = store.with_bug(bug);
        }
        let timeout = plan.config.handler_timeout;
        let ledger = Arc::new(Ledger::new(store.clone(), plan.halt, timeout));
        Self {
            plan,
            store,
            ledger,
            bug,
            random,
            processes: Vec::new(),
            producers: Vec::new(),
            nodes: Vec::new(),
            healed: false,
        }
    }

    /// Runs to the end, or to the first breach.
    pub(super) async fn run(&mut self) {
        for _ in 0..self.plan.processes {
            self.start_process();
        }
        self.start_producers();
        self.suffer().await;
        self.heal();
        if self.drain().await {
            self.stop().await;
        }
    }

    fn node(&mut self) -> Arc<NodeStore> {
        let random = self.random.fork();
        let ledger = Arc::clone(&self.ledger);
        let node = Node::new(self.nodes.len(), self.plan.weather, random, ledger);
        if self.healed {
            node.heal();
        }
        self.nodes.push(Arc::clone(&node));
        NodeStore::new(node, self.store.clone(), self.bug)
    }

    fn start_process(&mut self) {
        let store = self.node();
        let sink = SimSink {
            node: Arc::clone(&store.node),
            max_batch: self.plan.max_batch,
            takes_runs: self.plan.takes_runs,
            careless: self.plan.careless,
            bug: self.bug,
        };
        let dispatcher = Dispatcher::new(Arc::clone(&store) as _, sink);
        let running = dispatcher.config(self.plan.config.clone()).start().expect("legal settings");
        self.ledger.joined(store.node.number, running.owner());
        self.processes.push(Process { store, running });
    }

    /// Each in a process with a dispatcher, but for some.
    fn start_producers(&mut self) {
        let last = Arc::new(AtomicU64::new(0));
        for index in 0..self.plan.producers {
            let alone = self.random.percent(20);
            let store = match self.processes.get(index % self.processes.len()) {
                Some(process) if !alone => Arc::clone(&process.store),
                _ => self.node(),
            };
            let producer = Producer {
                outbox: Outbox::new(Arc::clone(&store)),
                ledger: Arc::clone(&self.ledger),
                plan: self.plan.clone(),
                random: self.random.fork(),
                last: Arc::clone(&last),
            };
            let task = tokio::spawn(producer.run());
            store.node.own(task.abort_handle());
            self.producers.push(task);
        }
    }

    async fn suffer(&mut self) {
        let began = Instant::now();
        let mut blows = std::mem::take(&mut self.plan.blows).into_iter().peekable();
        while began.elapsed() < self.plan.heal && !self.is_broken() {
            while let Some((_, blow)) = blows.next_if(|(at, _)| *at <= began.elapsed()) {
                self.strike(blow);
            }
            self.tick().await;
        }
    }

    fn strike(&mut self, blow: Blow) {
        if let Blow::Jump(by) = blow {
            self.ledger.jump(by);
            self.store.clock().advance(by);
            return;
        }
        if self.processes.is_empty() {
            return;
        }
        let victim = self.random.index(self.processes.len());
        let node = Arc::clone(&self.processes[victim].store.node);
        match blow {
            Blow::Crash => node.crash(),
            Blow::Stall(time) => node.stall(time),
            Blow::Outage(time) => node.cut_from_database(time),
            Blow::NoSettles(time) => node.refuse_settles(time),
            Blow::Stop(grace) => {
                let Process { running, .. } = self.processes.remove(victim);
                let what = format!("is told to stop within {grace:?}");
                match self.plan.faultless {
                    true => self.ledger.note(&format!("p{} {what}", node.number)),
                    // Its last settle is not repeated for ever.
                    false => self.ledger.fault(node.number, &what),
                }
                tokio::spawn(running.shutdown(grace));
            }
            Blow::Jump(_) => {}
        }
    }

    /// Lets some time pass, and buries and replaces the dead.
    async fn tick(&mut self) {
        sleep(TICK).await;
        let before = self.processes.len();
        self.processes.retain(|process| !process.store.node.is_dead());
        let died = before > self.processes.len();
        let comes_back = died && self.random.percent(70) || self.random.percent(1);
        if self.processes.is_empty() || (comes_back && self.processes.len() < self.plan.processes) {
            self.start_process();
        }
        if self.plan.reaps && self.random.percent(5) {
            let (ledger, now) = (&self.ledger, self.store.now());
            let max_attempts = self.plan.config.retry.max_attempts;
            let reap = self.store.locked(|state, rules| {
                let _ = state.reap(100, max_attempts, rules, now);
                ledger.reaped(state);
            });
            reap.await;
        }
    }

    fn heal(&mut self) {
        self.ledger.note("all is well again");
        self.healed = true;
        self.nodes.iter().for_each(|node| node.heal());
    }

    /// Waits until nothing is left to do; answers whether that came to pass.
    async fn drain(&mut self) -> bool {
        let until = Instant::now() + producer::LONGEST + DRAINED_WITHIN;
        while !self.is_broken() {
            let published = self.producers.iter().all(JoinHandle::is_finished);
            if published && self.open_rows().await == 0 {
                return true;
            }
            if Instant::now() > until {
                let open = self.open_rows().await;
                self.breach(format!("L4: {open} messages are still there long after the faults"));
            }
            self.tick().await;
        }
        false
    }

    /// Rows that are neither settled nor behind a halted one.
    async fn open_rows(&self) -> usize {
        let now = self.store.now();
        let count = self.store.locked(|state, _| {
            let halted: Vec<_> = state.halted.values().copied().collect();
            let rows = state.queue.values().chain(state.parked.values());
            rows.filter(|row| !is_stopped(row, &halted, now)).count()
        });
        count.await
    }

    /// Nothing is kept by anybody, and whoever is told to stop does.
    async fn stop(&mut self) {
        let until = Instant::now() + Duration::from_secs(30);
        while !self.processes.iter().all(|process| process.running.is_idle()) {
            if Instant::now() > until {
                self.breach("S8: a dispatcher with nothing to do keeps a place".to_owned());
                return;
            }
            self.tick().await;
        }
        for process in std::mem::take(&mut self.processes) {
            if !process.running.shutdown(Duration::from_secs(10)).await {
                self.breach(format!("S8: p{} does not stop", process.store.node.number));
            }
        }
    }

    fn is_broken(&self) -> bool {
        self.ledger.book().problem.is_some()
    }

    fn breach(&self, problem: String) {
        self.ledger.book().breach(problem);
    }
}
