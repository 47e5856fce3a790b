//! The engine under real faults: processes that are killed, stopped and terminated, and connections
//! that are cut.
//!
//! A test starts its own binary again, with orders in its environment, as [worker](work) processes
//! on the same database. They write every step into one [ledger](History) file, one `write` a line,
//! which survives whatever happens to them and puts the steps of all processes in one order.

mod effects;
mod fate;
mod joins;
mod ledger;
mod order;
mod processes;
mod proxy;
mod scenarios;
mod service;
mod worker;

pub use effects::{Kills, a_stopped_process_has_no_effect, effects_survive_kills};
pub use fate::Fate;
pub use joins::a_join_survives;
pub use ledger::{Explanation, Fault, History, Run};
pub use processes::{Worker, Workers};
pub use proxy::{Cut, Proxy};
pub use scenarios::{
    Site, a_killer_dies_alone, a_terminated_process_leaves_nothing_behind, order_survives,
    three_processes_survive,
};
pub use service::take_effect;
pub use worker::{Orders, work};
