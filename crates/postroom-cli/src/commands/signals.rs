//! The signals that a relay hears.

use std::fs::File;
use std::io::Write as _;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::{Exit, Failure};

/// Ctrl-C and SIGTERM.
pub(super) struct Stop {
    interrupt: Signal,
    terminate: Signal,
}

impl Stop {
    pub(super) fn new() -> Result<Self, Failure> {
        let interrupt = listen(SignalKind::interrupt())?;
        Ok(Self { interrupt, terminate: listen(SignalKind::terminate())? })
    }

    pub(super) async fn told(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// SIGHUP: somebody wants it to look again, or its terminal was closed.
pub(super) struct Hangup {
    hangup: Signal,
    had_terminal: bool,
}

impl Hangup {
    pub(super) fn new() -> Result<Self, Failure> {
        Ok(Self { hangup: listen(SignalKind::hangup())?, had_terminal: has_terminal() })
    }

    /// Waits for it; `false` when the terminal is gone.
    pub(super) async fn told(&mut self) -> bool {
        self.hangup.recv().await;
        !self.had_terminal || has_terminal()
    }
}

fn has_terminal() -> bool {
    File::open("/dev/tty").is_ok()
}

fn listen(kind: SignalKind) -> Result<Signal, Failure> {
    signal(kind)
        .map_err(|error| Failure::new(Exit::Error, "can not listen for signals").why(&error))
}

/// A line for whoever watches, who may be gone.
pub(super) fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
