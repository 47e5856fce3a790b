//! The NATS sink on a real server.

#[path = "../common/mod.rs"]
mod common;
mod harness;
mod own;

use harness::NatsHarness;

postroom_testkit::sink_conformance!(NatsHarness);
