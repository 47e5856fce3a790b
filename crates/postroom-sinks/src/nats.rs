//! Messages to NATS JetStream.

use std::path::PathBuf;
use std::time::Duration;

use postroom_core::Retry;

use crate::cloud_event::{CloudEvents, Mode};
use crate::secret::Secret;

/// How to reach NATS, and where messages go there.
#[derive(Clone, Debug)]
pub struct NatsConfig {
    /// The server: `nats://host:4222`, or `tls://host:4222` to insist on TLS. Several, separated by
    /// commas, are members of one cluster. A user and password, `nats://user:password@host`, are
    /// taken from the first.
    pub url: Secret,
    /// A file of credentials, as `nsc` makes them. Default: none.
    pub credentials_file: Option<PathBuf>,
    /// A token. Default: none.
    pub token: Option<Secret>,
    /// A PEM file with certificate authorities to trust besides those of the system. Default: none.
    pub ca_file: Option<PathBuf>,
    /// The subject, in which `{topic}`, `{tenant}` and `{aggregate_type}` stand for the message's.
    /// Default: `{topic}`.
    pub subject: String,
    /// The stream that must take it (`Nats-Expected-Stream`). Default: whichever takes the subject.
    pub stream: Option<String>,
    /// The events that messages become.
    pub events: CloudEvents,
    /// How they travel. Default: binary.
    pub mode: Mode,
    /// How long a message may wait for its acknowledgement. Default: 10 s.
    pub timeout: Duration,
    /// The longest time between the first and the last attempt of a message. A stream that forgets
    /// ids sooner may store one twice, which the probe warns of. Default: that of the default retry
    /// policy, about two and a half minutes.
    pub retry_horizon: Duration,
}

impl NatsConfig {
    /// The defaults, for this server.
    pub fn new(url: impl Into<Secret>) -> Self {
        Self {
            url: url.into(),
            credentials_file: None,
            token: None,
            ca_file: None,
            subject: "{topic}".to_owned(),
            stream: None,
            events: CloudEvents::default(),
            mode: Mode::default(),
            timeout: Duration::from_secs(10),
            retry_horizon: horizon(&Retry::default()),
        }
    }
}

/// The longest time between the first and the last attempt under this policy, when all of them
/// fail at once.
#[must_use]
pub fn horizon(retry: &Retry) -> Duration {
    (1..retry.max_attempts).map(|attempt| retry.delay(attempt, 1.0)).sum()
}
