//! The sinks of a configuration file.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use postroom::store::BoxFuture;
use postroom_sinks::{CloudEvents, FileSink, Probe, StdoutSink};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::text::Text;

/// A sink by its kind, as in `[sinks.events.nats]`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Sink {
    /// CloudEvents as lines on standard output
    Stdout(Stdout),
    /// CloudEvents as lines of a file
    File(File),
}

/// What sinks take from the rest of the file.
pub(super) struct Common<'a> {
    pub(super) name: &'a str,
    pub(super) source: &'a str,
    /// How long a delivery may take.
    pub(super) limit: Duration,
    /// How long after its first attempt a message may come again.
    pub(super) horizon: Duration,
}

/// A sink that is ready to use; it has not connected yet.
pub(super) struct Built {
    pub(super) kind: &'static str,
    pub(super) sink: Arc<dyn postroom::Sink>,
    pub(super) probe: Arc<dyn Probe + Send + Sync>,
    /// Ends when nobody reads what it writes any more.
    pub(super) reader_gone: Option<BoxFuture<'static, ()>>,
}

impl Built {
    fn new<S: postroom::Sink + Probe>(kind: &'static str, sink: S) -> Self {
        let sink = Arc::new(sink);
        Self { kind, probe: Arc::<S>::clone(&sink), sink, reader_gone: None }
    }

    fn stdout(sink: StdoutSink) -> Self {
        let gone: BoxFuture<'static, ()> = Box::pin(sink.reader_gone());
        Self { reader_gone: Some(gone), ..Self::new("stdout", sink) }
    }
}

impl Sink {
    /// The sink that a URL names, with its defaults.
    pub(super) fn of_url(url: &str) -> Result<Self, String> {
        match url.split_once(':') {
            None if url == "stdout" => Ok(Self::Stdout(Stdout {})),
            Some(("file", path)) => Ok(Self::File(File { path: Text::from(path) })),
            _ => Err("it begins with no scheme that is known".to_owned()),
        }
    }

    pub(super) fn build(&self, common: &Common<'_>) -> Result<Built, String> {
        match self {
            Self::Stdout(Stdout {}) => Ok(Built::stdout(StdoutSink::new(common.events()))),
            Self::File(file) => {
                let path = PathBuf::from(file.path.as_str());
                Ok(Built::new("file", FileSink::new(path, common.events())))
            }
        }
    }
}

impl Common<'_> {
    fn events(&self) -> CloudEvents {
        CloudEvents::new(self.source)
    }
}

/// CloudEvents as lines on standard output.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Stdout {}

/// CloudEvents as lines of a file.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    /// Where it is; it is created, its folder is not
    path: Text,
}
