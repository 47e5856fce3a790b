//! The Redis sink on a real server.

#[path = "../common/mod.rs"]
mod common;
mod harness;

use harness::RedisHarness;

postroom_testkit::sink_conformance!(RedisHarness);
