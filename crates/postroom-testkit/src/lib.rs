//! For our tests and for yours: a store in memory, a clock to move, faults to inject, the
//! conformance suites that every store and every sink passes, and assertions.

pub mod acceptance;
pub mod around;
pub mod assertions;
pub mod conformance;
pub mod dispatch;
mod drain;
pub mod effects;
#[cfg(unix)]
pub mod faults;
mod harness;
mod home;
pub mod model;
pub mod savepoints;
mod sim;
pub mod simulation;
#[cfg(unix)]
pub mod sinks;

pub use drain::drain;
pub use harness::{Env, Harness, Options, run};
pub use home::SimHome;
pub use sim::{Answering, Bug, Call, Fault, SimConn, SimSavepoint, SimStore, SimTx};

/// How many random cases to run: `gate` of them, or ten times as many when `POSTROOM_TEST_FULL` is
/// set.
#[must_use]
pub fn cases(gate: u32) -> u32 {
    if is_full() { gate * 10 } else { gate }
}

/// Whether `POSTROOM_TEST_FULL` asks for the long versions of tests.
#[must_use]
pub fn is_full() -> bool {
    std::env::var_os("POSTROOM_TEST_FULL").is_some()
}
