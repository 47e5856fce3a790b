//! The Redis sink on a real server.

#[path = "../common/mod.rs"]
mod common;
mod harness;
mod own;

use harness::RedisHarness;

postroom_testkit::sink_conformance!(RedisHarness);
