//! Redis, which writes every command to a file before it answers.

use std::path::PathBuf;

use anyhow::Result;
use rustix::process::Signal;

use crate::process::Background;
use crate::{Durability, Place, Product, folder_of};

const PROGRAM: &str = "redis-server";

/// What the server writes to its log when it takes connections.
const READY: &str = "Ready to accept connections";

pub(crate) struct Redis;

impl Product for Redis {
    fn name(&self) -> &'static str {
        "Redis"
    }

    fn variable(&self) -> &'static str {
        "POSTROOM_TEST_REDIS_URL"
    }

    fn packages(&self) -> &'static [&'static str] {
        &["redis-server"]
    }

    fn user(&self) -> &'static str {
        "redis"
    }

    fn find(&self) -> Option<PathBuf> {
        folder_of(PROGRAM, &["/usr/bin", "/usr/local/bin", "/opt/homebrew/bin"])
    }

    fn start(&self, place: &Place<'_>) -> Result<(Background, String)> {
        // A kill of the process loses nothing either way; the disk matters when the machine dies.
        let fsync = match place.durability {
            Durability::Discarded => "no",
            Durability::Real => "always",
        };
        let mut command = place.server(PROGRAM, "TERM");
        command.args(["--bind", "127.0.0.1"]);
        command.arg("--port").arg(place.port.to_string()).arg("--dir").arg(place.home);
        command.args(["--save", "", "--appendonly", "yes", "--appendfsync", fsync]);
        let server = place.launch(&mut command, Signal::TERM, |log| log.contains(READY))?;
        Ok((server, format!("redis://127.0.0.1:{}", place.port)))
    }
}
