//! The RabbitMQ sink on a real server.

#[allow(dead_code, reason = "each test file uses its own part")]
#[path = "../common/mod.rs"]
mod common;
mod harness;
mod own;

use harness::RabbitHarness;

postroom_testkit::sink_conformance!(RabbitHarness);
