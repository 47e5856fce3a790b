//! How to reach RabbitMQ.

use std::path::PathBuf;
use std::time::Duration;

use crate::cloud_event::{CloudEvents, Mode};
use crate::secret::Secret;

/// How to reach RabbitMQ, and where messages go there.
#[derive(Clone, Debug)]
pub struct AmqpConfig {
    /// The server and virtual host: `amqp://user:password@host:5672/vhost`, or `amqps://` for TLS.
    pub url: Secret,
    /// The exchange, which must exist. Default: the default exchange, where the routing key is the
    /// name of a queue.
    pub exchange: String,
    /// The routing key, in which `{topic}`, `{tenant}` and `{aggregate_type}` stand for the
    /// message's. Default: `{topic}`.
    pub routing_key: String,
    /// A PEM file with certificate authorities to trust besides those of the system. Default: none.
    pub ca_file: Option<PathBuf>,
    /// The events that messages become.
    pub events: CloudEvents,
    /// How they travel. Default: binary.
    pub mode: Mode,
    /// How long a message may wait for its confirm. Default: 10 s.
    pub timeout: Duration,
}

impl AmqpConfig {
    /// The defaults, for this server.
    pub fn new(url: impl Into<Secret>) -> Self {
        Self {
            url: url.into(),
            exchange: String::new(),
            routing_key: "{topic}".to_owned(),
            ca_file: None,
            events: CloudEvents::default(),
            mode: Mode::default(),
            timeout: Duration::from_secs(10),
        }
    }
}
