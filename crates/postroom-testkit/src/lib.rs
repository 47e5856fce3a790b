//! For our tests and for yours: a store in memory, a clock to move, faults to inject, the conformance
//! suite that every store passes, and assertions.

pub mod assertions;
pub mod conformance;
mod drain;
mod harness;
pub mod model;
mod sim;

pub use drain::drain;
pub use harness::{Env, Harness, Options, run};
pub use sim::{Call, Fault, SimConn, SimSavepoint, SimStore, SimTx};
