//! Ctrl-C and friends, turned into a flag.
//!
//! A signal ends nothing by itself: it raises a flag, whoever waits looks at the flag, and the
//! error travels up through the guards that stop servers and remove folders.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use anyhow::Context as _;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// The error of a task that a signal ended.
#[derive(Debug)]
pub struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// Starts listening for SIGINT, SIGTERM and SIGHUP.
pub fn watch() -> anyhow::Result<()> {
    let flag = FLAG.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(flag))
            .with_context(|| format!("cannot listen for signal {signal}"))?;
    }
    Ok(())
}

/// Whether a signal arrived.
pub fn requested() -> bool {
    FLAG.get().is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// Fails once a signal arrived; called before anything new is started.
pub fn check() -> Result<(), Interrupted> {
    if requested() { Err(Interrupted) } else { Ok(()) }
}
