//! The RabbitMQ sink on a real server.

#[path = "../common/mod.rs"]
mod common;
mod harness;
mod own;

use harness::RabbitHarness;

postroom_testkit::sink_conformance!(RabbitHarness);
