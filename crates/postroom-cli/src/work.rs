//! Long work: in chunks, with a bar on a terminal, and an end between two chunks when a person
//! wants it.

use indicatif::{ProgressBar, ProgressStyle};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::{Exit, Failure};

/// Work under way.
pub(crate) struct Work {
    bar: ProgressBar,
    interrupt: Signal,
    terminate: Signal,
}

impl Work {
    /// From now on Ctrl-C and SIGTERM stop the work, not the process, after what is under way. The
    /// bar is drawn on standard error when that is a terminal; without a total it only counts.
    pub(crate) fn begin(
        what: &str,
        under_way: &str,
        total: Option<usize>,
    ) -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|error| {
                Failure::new(Exit::Error, "can not listen for signals").why(&error)
            })
        };
        let (interrupt, terminate) =
            (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
        eprintln!("{what}; Ctrl-C stops after {under_way}");
        let bar = match total {
            Some(total) => ProgressBar::new(total as u64)
                .with_style(style("{wide_bar} {human_pos} of {human_len}, {eta} left")),
            None => ProgressBar::no_length().with_style(style("{spinner} {human_pos}")),
        };
        bar.tick();
        Ok(Self { bar, interrupt, terminate })
    }

    pub(crate) fn advance(&self, by: usize) {
        self.bar.inc(by as u64);
    }

    /// Writes something while the bar is out of the way.
    pub(crate) fn around<T>(&self, write: impl FnOnce() -> T) -> T {
        self.bar.suspend(write)
    }

    /// Whether a person wants it to stop; to be asked between two chunks.
    pub(crate) async fn must_stop(&mut self) -> bool {
        // The signal that came during the last chunk has to be noticed first.
        tokio::task::yield_now().await;
        tokio::select! {
            biased;
            _ = self.interrupt.recv() => true,
            _ = self.terminate.recv() => true,
            () = std::future::ready(()) => false,
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("a template of our own")
}
