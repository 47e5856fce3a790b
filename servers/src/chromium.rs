//! Chromium, driven by ChromeDriver: what tests of pages look with.

use std::path::PathBuf;

use anyhow::Result;
use rustix::process::Signal;

use crate::process::Background;
use crate::{Place, Product, family, folder_of};

const PROGRAM: &str = "chromedriver";

/// What it writes to its log when it takes connections.
const READY: &str = "started successfully";

pub(crate) struct Chromium;

impl Product for Chromium {
    fn name(&self) -> &'static str {
        "Chromium"
    }

    fn variable(&self) -> &'static str {
        "POSTROOM_TEST_CHROMIUM_URL"
    }

    fn packages(&self) -> &'static [&'static str] {
        &["chromium", "chromium-driver"]
    }

    fn user(&self) -> &'static str {
        "nobody"
    }

    fn find(&self) -> Option<PathBuf> {
        folder_of(PROGRAM, &["/usr/bin", "/usr/local/bin", "/opt/homebrew/bin"])
    }

    fn start(&self, place: &Place<'_>) -> Result<(Background, String)> {
        let mut command = place.server(PROGRAM, "TERM");
        command.arg(format!("--port={}", place.port));
        // Browsers keep their profiles and their crash reports there.
        command.env("HOME", place.home).env("TMPDIR", place.home);
        // A driver that is killed ends no browser, and browsers leave its group.
        let home = place.home.to_string_lossy();
        family::mark(&mut command, &home);
        let server = place.launch(&mut command, Signal::TERM, |log| log.contains(READY))?;
        Ok((server.with_family(home.into()), format!("http://127.0.0.1:{}", place.port)))
    }
}
