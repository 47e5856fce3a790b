//! Events as lines of a file.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use postroom_core::lifecycle::Outcome;
use postroom_core::observe::Circuit;
use postroom_core::store::BoxFuture;
use postroom_core::{Delivery, Sink};
use tokio::task::spawn_blocking;

use crate::breaker::Breaker;
use crate::cloud_event::CloudEvents;
use crate::probe::{Probe, Probed};
use crate::stdout::lines;

/// Appends each message as a CloudEvents JSON object, one a line, to a file, and waits for the
/// disk.
///
/// The file may be moved away at any time, as `logrotate` does: a new one is begun. A line that a
/// crash has cut is left as it is, and the next one begins on a line of its own. Several processes
/// may append to one file.
#[derive(Debug)]
pub struct FileSink {
    events: CloudEvents,
    log: Arc<Log>,
    breaker: Breaker,
}

#[derive(Debug)]
struct Log {
    path: PathBuf,
    open: Mutex<Option<File>>,
}

impl FileSink {
    /// Appends events like these to this file. It is created when the first one comes.
    pub fn new(path: impl Into<PathBuf>, events: CloudEvents) -> Self {
        let path = path.into();
        let breaker = Breaker::new(format!("file {}", path.display()));
        Self { events, log: Arc::new(Log { path, open: Mutex::default() }), breaker }
    }

    async fn append(&self, lines: String) -> io::Result<()> {
        let log = Arc::clone(&self.log);
        spawn_blocking(move || log.append(lines.as_bytes())).await.map_err(io::Error::other)?
    }
}

impl Log {
    /// All or nothing, as far as a file can.
    fn append(&self, lines: &[u8]) -> io::Result<()> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let mut file = match open.take().filter(|file| is_at(file, &self.path)) {
            Some(file) => file,
            None => begin(&self.path)?,
        };
        let before = file.metadata()?.len();
        if let Err(error) = file.write_all(lines).and_then(|()| file.sync_data()) {
            // A full disk leaves half a line: take it back, or the retry would be glued to it.
            let _ = file.set_len(before);
            return Err(error);
        }
        *open = Some(file);
        Ok(())
    }
}

/// Opens the file for appending; a last line that was cut is ended.
fn begin(path: &Path) -> io::Result<File> {
    let mut file = OpenOptions::new().create(true).read(true).append(true).open(path)?;
    if file.metadata()?.len() > 0 {
        let mut last = [0];
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            file.write_all(b"\n")?;
        }
    }
    Ok(file)
}

/// Whether the open file is still the one with this name.
fn is_at(file: &File, path: &Path) -> bool {
    let identity = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
    match (file.metadata(), std::fs::metadata(path)) {
        (Ok(open), Ok(named)) => identity(open) == identity(named),
        _ => false,
    }
}

impl Sink for FileSink {
    fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> BoxFuture<'a, Vec<Outcome>> {
        Box::pin(async move {
            if let Err(fault) = self.breaker.check() {
                return vec![Outcome::from(fault); batch.len()];
            }
            let outcome = match self.append(lines(&self.events, batch)).await {
                Ok(()) => {
                    self.breaker.reached();
                    Outcome::Done
                }
                Err(error) => self.breaker.missed(error).into(),
            };
            vec![outcome; batch.len()]
        })
    }

    fn max_batch(&self) -> usize {
        100
    }

    fn takes_runs(&self) -> bool {
        true
    }
}

impl Probe for FileSink {
    fn probe(&self) -> BoxFuture<'_, Probed> {
        Box::pin(async move {
            match self.append(String::new()).await {
                Ok(()) => Probed::default(),
                Err(error) => Probed::broken(error),
            }
        })
    }

    fn circuit(&self) -> Circuit {
        self.breaker.circuit()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use postroom_core::Message;
    use tempfile::TempDir;

    use super::*;

    fn sink(folder: &TempDir) -> (FileSink, PathBuf) {
        let path = folder.path().join("events.jsonl");
        (FileSink::new(&path, CloudEvents::default()), path)
    }

    fn batch(topics: &[&str]) -> Vec<Delivery> {
        let message = |topic: &&str| Message::builder(*topic).build().expect("legal");
        topics.iter().map(|t| Delivery::detached(message(t), Duration::from_secs(9))).collect()
    }

    fn topics(path: &Path) -> Vec<String> {
        let text = fs::read_to_string(path).expect("a file");
        let event = |line: &str| serde_json::from_str::<serde_json::Value>(line);
        let topic = |line: &str| event(line).map_or("-".to_owned(), |e| e["type"].to_string());
        text.lines().map(topic).map(|topic| topic.replace('"', "")).collect()
    }

    #[tokio::test]
    async fn rly_2_done_means_that_the_line_is_in_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let (sink, path) = sink(&folder);
        assert_eq!(sink.deliver(&batch(&["a", "b"])).await, [Outcome::Done, Outcome::Done]);
        assert_eq!(topics(&path), ["a", "b"]);
    }

    #[tokio::test]
    async fn rly_2_a_line_that_a_crash_has_cut_does_not_spoil_the_next() {
        let folder = tempfile::tempdir().expect("a folder");
        let (sink, path) = sink(&folder);
        fs::write(&path, "{\"type\":\"cut").expect("written");
        sink.deliver(&batch(&["a"])).await;
        assert_eq!(topics(&path), ["-", "a"]);
    }

    #[tokio::test]
    async fn rly_2_a_file_that_was_moved_away_is_begun_anew() {
        let folder = tempfile::tempdir().expect("a folder");
        let (sink, path) = sink(&folder);
        sink.deliver(&batch(&["a"])).await;
        let old = folder.path().join("old");
        fs::rename(&path, &old).expect("moved");
        sink.deliver(&batch(&["b"])).await;
        assert_eq!((topics(&old), topics(&path)), (vec!["a".to_owned()], vec!["b".to_owned()]));
    }

    #[tokio::test]
    async fn rly_2_a_folder_that_is_missing_is_an_outage_and_no_loss() {
        let folder = tempfile::tempdir().expect("a folder");
        let sink = FileSink::new(folder.path().join("no/such"), CloudEvents::default());
        let outcome = sink.deliver(&batch(&["a"])).await.remove(0);
        assert!(matches!(outcome, Outcome::RetryAfter { counted: false, .. }), "{outcome:?}");
        assert!(sink.probe().await.broken.is_some());
    }
}
