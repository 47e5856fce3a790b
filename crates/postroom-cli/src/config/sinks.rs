//! The sinks of a configuration file.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use postroom::store::BoxFuture;
use postroom_sinks::amqp::{AmqpConfig, AmqpSink};
use postroom_sinks::http::{HttpConfig, HttpSink};
use postroom_sinks::nats::{NatsConfig, NatsSink};
use postroom_sinks::redis::{RedisConfig, RedisSink};
use postroom_sinks::{CloudEvents, FileSink, Probe, StdoutSink};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::text::{Hidden, Span, Text};

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// A sink by its kind, as in `[sinks.events.nats]`.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Sink {
    /// CloudEvents as lines on standard output
    Stdout(Stdout),
    /// CloudEvents as lines of a file
    File(File),
    /// A webhook
    Http(Http),
    /// A JetStream stream of NATS
    Nats(Nats),
    /// An exchange of RabbitMQ
    Rabbitmq(RabbitMq),
    /// Streams of Redis
    Redis(Redis),
    /// Topics of Kafka
    Kafka(Kafka),
}

/// How an event travels.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Mode {
    /// The attributes are headers, and the payload is the body as it is
    #[default]
    Binary,
    /// The whole event is the body, as JSON
    Structured,
}

impl From<Mode> for postroom_sinks::Mode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Binary => Self::Binary,
            Mode::Structured => Self::Structured,
        }
    }
}

/// What sinks take from the rest of the file.
pub(super) struct Common<'a> {
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
        let hidden = || Hidden::from(url);
        Ok(match url.split_once(':').map_or(url, |(scheme, _)| scheme) {
            "stdout" => Self::Stdout(Stdout {}),
            "file" => Self::File(File { path: Text::from(url.trim_start_matches("file:")) }),
            // Who names a receiver by hand has looked at it.
            "http" => Self::Http(Http { allow_http: true, ..Http::new(hidden()) }),
            "https" => Self::Http(Http::new(hidden())),
            "nats" | "tls" => Self::Nats(Nats::new(hidden())),
            "amqp" | "amqps" => Self::Rabbitmq(RabbitMq::new(hidden())),
            "redis" | "rediss" => Self::Redis(Redis::new(hidden())),
            "kafka" => Self::Kafka(Kafka::new(url.trim_start_matches("kafka://").into())),
            _ => return Err("it begins with no scheme that is known".to_owned()),
        })
    }

    /// How much at once a receiver of this kind can be asked for, if nobody says otherwise.
    pub(super) fn polite_concurrency(&self) -> Option<usize> {
        matches!(self, Self::Http(_)).then_some(32)
    }

    pub(super) fn build(&self, common: &Common<'_>) -> Result<Built, String> {
        match self {
            Self::Stdout(Stdout {}) => Ok(Built::stdout(StdoutSink::new(common.events()))),
            Self::File(file) => {
                let path = PathBuf::from(file.path.as_str());
                Ok(Built::new("file", FileSink::new(path, common.events())))
            }
            Self::Http(http) => http.build(common),
            Self::Nats(nats) => nats.build(common),
            Self::Rabbitmq(rabbitmq) => rabbitmq.build(common),
            Self::Redis(redis) => redis.build(common),
            Self::Kafka(kafka) => kafka.build(common),
        }
    }
}

impl Common<'_> {
    fn events(&self) -> CloudEvents {
        CloudEvents::new(self.source)
    }

    /// How long one send may take: what the file says, or ten seconds as far as there is room.
    fn timeout(&self, written: Option<Span>) -> Result<Duration, String> {
        let limit = self.limit;
        let timeout = written.map_or(DEFAULT_TIMEOUT.min(limit / 2), |span| span.0);
        if timeout.is_zero() || timeout >= limit {
            let bounds = "must be more than 0 and less than dispatcher.timeout";
            return Err(format!("timeout {bounds}, which is {limit:?}; it is {timeout:?}"));
        }
        Ok(timeout)
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

/// A webhook: CloudEvents by HTTP, signed as in Standard Webhooks.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Http {
    /// Where to
    url: Hidden,
    /// Whether attributes are headers or part of the body
    #[serde(default)]
    mode: Mode,
    /// The secrets that sign, `whsec_…`: all of them, so that one can be changed
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    secrets: Vec<Hidden>,
    /// Headers that every request has, such as authorization
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    headers: BTreeMap<String, Hidden>,
    /// How long a request may take; 10s by default
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeout: Option<Span>,
    /// Addresses that may be connected to although they are not public, such as 10.0.0.0/8
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    allow: Vec<String>,
    /// Addresses that are never connected to
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    deny: Vec<String>,
    /// Whether the URL may begin with http:
    #[serde(default)]
    allow_http: bool,
    /// Whether the beginning of the body of a failure is kept with the error, and logged
    #[serde(default)]
    show_answers: bool,
    /// Certificates of authorities that are trusted beside those of the operating system
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ca_file: Option<PathBuf>,
    /// A proxy that all requests go through
    #[serde(default, skip_serializing_if = "Option::is_none")]
    proxy: Option<Hidden>,
    /// How many messages are sent side by side; 16 by default
    #[serde(default, skip_serializing_if = "Option::is_none")]
    batch: Option<usize>,
}

impl Http {
    fn new(url: Hidden) -> Self {
        Self { url, ..Self::default() }
    }

    fn build(&self, common: &Common<'_>) -> Result<Built, String> {
        let defaults = HttpConfig::new(self.url.reveal());
        let headers = self.headers.iter();
        let config = HttpConfig {
            mode: self.mode.into(),
            events: common.events(),
            secrets: self.secrets.iter().map(|secret| secret.reveal().into()).collect(),
            headers: headers.map(|(name, value)| (name.clone(), value.reveal().into())).collect(),
            timeout: common.timeout(self.timeout)?,
            allow: ranges("allow", &self.allow)?,
            deny: ranges("deny", &self.deny)?,
            allow_http: self.allow_http,
            show_answers: self.show_answers,
            ca_file: self.ca_file.clone(),
            proxy: self.proxy.as_ref().map(|proxy| proxy.reveal().into()),
            batch: self.batch.unwrap_or(defaults.batch),
            ..defaults
        };
        Ok(Built::new("http", HttpSink::new(config)?))
    }
}

/// Ranges of addresses.
fn ranges<T: std::str::FromStr>(key: &str, texts: &[String]) -> Result<Vec<T>, String> {
    let range = |text: &String| {
        text.parse().map_err(|_| format!("{key}: {text:?} is no range such as 10.0.0.0/8"))
    };
    texts.iter().map(range).collect()
}

/// A JetStream stream of NATS.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Nats {
    /// nats://HOST:PORT or tls://HOST:PORT
    url: Hidden,
    /// A file with credentials, as `nsc` makes it
    #[serde(default, skip_serializing_if = "Option::is_none")]
    credentials_file: Option<PathBuf>,
    /// A token to log in with
    #[serde(default, skip_serializing_if = "Option::is_none")]
    token: Option<Hidden>,
    /// Certificates of authorities that are trusted beside those of the operating system
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ca_file: Option<PathBuf>,
    /// The subject; {topic}, {tenant} and {aggregate_type} stand for what a message has
    #[serde(default = "topic")]
    subject: String,
    /// The stream that must take the messages
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stream: Option<String>,
    /// Whether attributes are headers or part of the body
    #[serde(default)]
    mode: Mode,
    /// How long one send may take; 10s by default
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeout: Option<Span>,
}

impl Nats {
    fn new(url: Hidden) -> Self {
        Self { url, subject: topic(), ..Self::default() }
    }

    fn build(&self, common: &Common<'_>) -> Result<Built, String> {
        let config = NatsConfig {
            credentials_file: self.credentials_file.clone(),
            token: self.token.as_ref().map(|token| token.reveal().into()),
            ca_file: self.ca_file.clone(),
            subject: self.subject.clone(),
            stream: self.stream.clone(),
            events: common.events(),
            mode: self.mode.into(),
            timeout: common.timeout(self.timeout)?,
            retry_horizon: common.horizon,
            ..NatsConfig::new(self.url.reveal())
        };
        Ok(Built::new("nats", NatsSink::new(config)?))
    }
}

/// An exchange of RabbitMQ.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RabbitMq {
    /// amqp://USER:PASSWORD@HOST/VHOST or amqps://
    url: Hidden,
    /// The exchange; the default one, which knows queues by their names, if empty
    #[serde(default)]
    exchange: String,
    /// The routing key; {topic}, {tenant} and {aggregate_type} stand for what a message has
    #[serde(default = "topic")]
    routing_key: String,
    /// Certificates of authorities that are trusted beside those of the operating system
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ca_file: Option<PathBuf>,
    /// Whether attributes are headers or part of the body
    #[serde(default)]
    mode: Mode,
    /// How long one send may take; 10s by default
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeout: Option<Span>,
}

impl RabbitMq {
    fn new(url: Hidden) -> Self {
        Self { url, routing_key: topic(), ..Self::default() }
    }

    fn build(&self, common: &Common<'_>) -> Result<Built, String> {
        let config = AmqpConfig {
            exchange: self.exchange.clone(),
            routing_key: self.routing_key.clone(),
            ca_file: self.ca_file.clone(),
            events: common.events(),
            mode: self.mode.into(),
            timeout: common.timeout(self.timeout)?,
            ..AmqpConfig::new(self.url.reveal())
        };
        Ok(Built::new("rabbitmq", AmqpSink::new(config)?))
    }
}

/// Streams of Redis.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Redis {
    /// redis://USER:PASSWORD@HOST:PORT/DATABASE or rediss://
    url: Hidden,
    /// The name of the stream; {topic}, {tenant} and {aggregate_type} stand for what a message has
    #[serde(default = "topic")]
    stream: String,
    /// About how many entries a stream keeps; all by default
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_len: Option<u64>,
    /// Certificates of authorities that are trusted beside those of the operating system
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ca_file: Option<PathBuf>,
    /// Whether attributes are fields or part of the data
    #[serde(default)]
    mode: Mode,
    /// How long one send may take; 10s by default
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeout: Option<Span>,
}

impl Redis {
    fn new(url: Hidden) -> Self {
        Self { url, stream: topic(), ..Self::default() }
    }

    fn build(&self, common: &Common<'_>) -> Result<Built, String> {
        let config = RedisConfig {
            stream: self.stream.clone(),
            max_len: self.max_len,
            ca_file: self.ca_file.clone(),
            events: common.events(),
            mode: self.mode.into(),
            timeout: common.timeout(self.timeout)?,
            ..RedisConfig::new(self.url.reveal())
        };
        Ok(Built::new("redis", RedisSink::new(config)?))
    }
}

/// Topics of Kafka. Only in builds with the feature `kafka`.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Kafka {
    /// Where the brokers are: HOST:PORT, with commas between several
    brokers: Text,
    /// The topic; {topic}, {tenant} and {aggregate_type} stand for what a message has
    #[serde(default = "topic")]
    topic: String,
    /// Whether attributes are headers or part of the value
    #[serde(default)]
    mode: Mode,
    /// How long one send may take; 10s by default
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeout: Option<Span>,
    /// Further settings of librdkafka, such as sasl.password
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    properties: BTreeMap<String, Hidden>,
}

impl Kafka {
    fn new(brokers: Text) -> Self {
        Self { brokers, topic: topic(), ..Self::default() }
    }

    #[cfg(feature = "kafka")]
    fn build(&self, common: &Common<'_>) -> Result<Built, String> {
        use postroom_sinks::kafka::{KafkaConfig, KafkaSink};

        let properties = self.properties.iter();
        let config = KafkaConfig {
            topic: self.topic.clone(),
            mode: self.mode.into(),
            events: common.events(),
            timeout: common.timeout(self.timeout)?,
            properties: properties
                .map(|(name, value)| (name.clone(), value.reveal().into()))
                .collect(),
            ..KafkaConfig::new(self.brokers.as_str())
        };
        Ok(Built::new("kafka", KafkaSink::new(config)?))
    }

    #[cfg(not(feature = "kafka"))]
    fn build(&self, _: &Common<'_>) -> Result<Built, String> {
        Err("this postroom was built without Kafka; build it with --features kafka".to_owned())
    }
}

fn topic() -> String {
    "{topic}".to_owned()
}
