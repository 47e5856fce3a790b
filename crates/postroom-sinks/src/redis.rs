//! Messages to Redis Streams.

use std::path::PathBuf;
use std::time::Duration;

use crate::cloud_event::{CloudEvents, Mode};
use crate::secret::Secret;

/// How to reach Redis, and where messages go there.
#[derive(Clone, Debug)]
pub struct RedisConfig {
    /// The server: `redis://user:password@host:6379/0`, or `rediss://` for TLS.
    pub url: Secret,
    /// The key of the stream, in which `{topic}`, `{tenant}` and `{aggregate_type}` stand for the
    /// message's. Default: `{topic}`.
    pub stream: String,
    /// How many entries a stream keeps, about (`MAXLEN ~`). Older ones go, read or not. Default:
    /// all.
    pub max_len: Option<u64>,
    /// A PEM file with certificate authorities to trust instead of those of the system. Default:
    /// none.
    pub ca_file: Option<PathBuf>,
    /// The events that messages become.
    pub events: CloudEvents,
    /// How they travel. Default: binary.
    pub mode: Mode,
    /// How long a message may wait for its answer. Default: 10 s.
    pub timeout: Duration,
}

impl RedisConfig {
    /// The defaults, for this server.
    pub fn new(url: impl Into<Secret>) -> Self {
        Self {
            url: url.into(),
            stream: "{topic}".to_owned(),
            max_len: None,
            ca_file: None,
            events: CloudEvents::default(),
            mode: Mode::default(),
            timeout: Duration::from_secs(10),
        }
    }
}
