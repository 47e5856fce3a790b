//! NATS with JetStream, whose streams are in files.

use std::path::PathBuf;

use anyhow::Result;
use rustix::process::Signal;

use crate::process::Background;
use crate::{Place, Product, folder_of};

const PROGRAM: &str = "nats-server";

/// What the server writes to its log when it takes connections.
const READY: &str = "Server is ready";

pub(crate) struct Nats;

impl Product for Nats {
    fn name(&self) -> &'static str {
        "NATS"
    }

    fn variable(&self) -> &'static str {
        "POSTROOM_TEST_NATS_URL"
    }

    fn packages(&self) -> &'static [&'static str] {
        &["nats-server"]
    }

    fn user(&self) -> &'static str {
        "nats"
    }

    fn find(&self) -> Option<PathBuf> {
        folder_of(PROGRAM, &["/usr/sbin", "/usr/local/bin", "/opt/homebrew/bin"])
    }

    fn start(&self, place: &Place<'_>) -> Result<(Background, String)> {
        let mut command = place.server(PROGRAM, "INT");
        command.args(["--jetstream", "--addr", "127.0.0.1"]);
        command.arg("--port").arg(place.port.to_string()).arg("--store_dir").arg(place.home);
        let server = place.launch(&mut command, Signal::INT, |log| log.contains(READY))?;
        Ok((server, format!("nats://127.0.0.1:{}", place.port)))
    }
}
