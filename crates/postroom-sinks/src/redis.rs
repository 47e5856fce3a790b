//! Messages to Redis Streams.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use postroom_core::lifecycle::Outcome;
use postroom_core::observe::Circuit;
use postroom_core::store::BoxFuture;
use postroom_core::{Delivery, Message, Sink};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _};
use redis::{RedisError, RedisResult};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::AbortHandle;
use tokio_rustls::TlsConnector;

use crate::chains::in_chains;
use crate::cloud_event::{CloudEvents, Mode, STRUCTURED};
use crate::destination::Destination;
use crate::fault::Fault;
use crate::link::{Connection, Link};
use crate::probe::{self, Probe, Probed};
use crate::secret::Secret;
use crate::tls;

/// How long to leave a server alone that has no room or is not ready.
const RECOVERY: Duration = Duration::from_secs(1);

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
    /// A PEM file with certificate authorities to trust besides those of the system. Default: none.
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

/// Adds each message to a stream (`XADD`), and waits for the answer.
///
/// Redis does not recognise a message that comes again: the id is in the field `ce_id`, or in the
/// event, for whoever reads. What "stored" is worth is a matter of the server's `appendfsync` and
/// of its replicas. The fields of an entry:
///
/// | field | binary | structured |
/// |---|---|---|
/// | `ce_<attribute>` | the attributes of the event | |
/// | `content-type` | of the payload | `application/cloudevents+json; charset=utf-8` |
/// | `data` | the payload | the event |
/// | `h_<name>` | the headers of the message | the headers of the message |
#[derive(Debug)]
pub struct RedisSink {
    config: RedisConfig,
    server: ConnectionInfo,
    stream: Destination,
    link: Link<Line>,
}

/// An open connection. Commands of many sends share it, each followed by the next without waiting.
#[derive(Debug)]
struct Line {
    commands: MultiplexedConnection,
    driver: AbortHandle,
}

impl Connection for Line {
    fn is_alive(&self) -> bool {
        !self.driver.is_finished()
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl RedisSink {
    /// A sink that connects when it is first needed.
    ///
    /// # Errors
    /// Names the setting that is wrong, and what it may be.
    pub fn new(config: RedisConfig) -> Result<Self, String> {
        let stream = Destination::parse("stream", &config.stream)?;
        if config.timeout.is_zero() {
            return Err("timeout is zero; the default is 10 s".to_owned());
        }
        if config.max_len == Some(0) {
            return Err("max_len is 0; leave it out to keep all entries".to_owned());
        }
        let wrong = "url is not one of Redis; write redis://host:6379/0, or rediss:// for TLS";
        let url = config.url.reveal();
        if !url.starts_with("redis://") && !url.starts_with("rediss://") {
            return Err(wrong.to_owned());
        }
        if url.contains('#') {
            return Err("url has a fragment; certificates are always verified".to_owned());
        }
        let server = url.into_connection_info().map_err(|_| wrong.to_owned())?;
        let link = Link::new("redis", config.timeout);
        Ok(Self { config, server, stream, link })
    }

    async fn connect(&self) -> Result<Line, String> {
        let opened = match self.server.addr() {
            ConnectionAddr::Tcp(host, port) => self.open(dial(host, *port).await?).await,
            ConnectionAddr::TcpTls { host, port, .. } => {
                let name = ServerName::try_from(host.clone()).map_err(|error| error.to_string())?;
                let config = tls::client(self.config.ca_file.clone()).await?;
                let stream = dial(host, *port).await?;
                let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
                self.open(stream.map_err(|error| error.to_string())?).await
            }
            other => return Err(format!("{other} is not reached by TCP")),
        };
        opened.map_err(|error| self.config.url.hidden_from(&said(&error)))
    }

    async fn open<S>(&self, stream: S) -> RedisResult<Line>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        // Whoever waits for an answer has a limit of its own.
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        let settings = self.server.redis_settings();
        let (commands, driver) =
            MultiplexedConnection::new_with_config(settings, stream, config).await?;
        Ok(Line { commands, driver: tokio::spawn(driver).abort_handle() })
    }

    async fn send(&self, delivery: &Delivery) -> Result<(), Fault> {
        let command = self.command(delivery.message())?;
        let line = self.link.get(|| self.connect()).await?;
        let doubt = self.link.doubt(&line);
        let mut commands = line.commands.clone();
        match command.query_async::<String>(&mut commands).await {
            Ok(_) => {
                doubt.answered();
                Ok(())
            }
            Err(error) => {
                let fault = fault(&error);
                // A replica that was the primary stays one: look for the primary again.
                if error.code().is_some_and(|code| code != "READONLY") {
                    doubt.answered();
                }
                Err(fault)
            }
        }
    }

    fn command(&self, message: &Message) -> Result<Cmd, Fault> {
        let mut command = redis::cmd("XADD");
        command.arg(self.stream.of(message)?);
        if let Some(most) = self.config.max_len {
            command.arg("MAXLEN").arg("~").arg(most);
        }
        command.arg("*");
        match self.config.mode {
            Mode::Binary => {
                for (name, value) in self.config.events.attributes(message) {
                    command.arg(format!("ce_{name}")).arg(value.as_ref());
                }
                command.arg("content-type").arg(message.content_type());
                command.arg("data").arg(message.payload().as_ref());
            }
            Mode::Structured => {
                command.arg("content-type").arg(STRUCTURED);
                command.arg("data").arg(self.config.events.structured(message));
            }
        }
        for (name, value) in message.headers().iter() {
            command.arg(format!("h_{name}")).arg(value);
        }
        Ok(command)
    }

    async fn look(&self) -> Result<Probed, Fault> {
        let line = self.link.get(|| self.connect()).await?;
        let mut commands = line.commands.clone();
        let info = redis::cmd("INFO").query_async::<String>(&mut commands).await;
        let info = info.map_err(|error| fault(&error))?;
        let told = |name: &str| info.lines().find_map(|line| line.strip_prefix(name));
        let mut probed = Probed {
            about: told("redis_version:").map(|version| format!("Redis {version}")),
            ..Probed::default()
        };
        if told("role:") == Some("slave") {
            let why = "it is a read-only replica; give the address of the primary";
            probed.broken = Some(why.to_owned());
        }
        if told("aof_enabled:") == Some("0") {
            let warning = "appendonly is off: a crash of the server loses messages that were \
                           acknowledged; set appendonly to yes";
            probed.warnings.push(warning.to_owned());
        }
        if told("maxmemory_policy:").is_some_and(|policy| policy != "noeviction") {
            let warning = "maxmemory-policy lets the server delete whole streams when memory is \
                           short; set it to noeviction";
            probed.warnings.push(warning.to_owned());
        }
        Ok(probed)
    }
}

async fn dial(host: &str, port: u16) -> Result<TcpStream, String> {
    let problem = |error: std::io::Error| format!("{host}:{port}: {error}");
    let stream = TcpStream::connect((host, port)).await.map_err(problem)?;
    stream.set_nodelay(true).map_err(problem)?;
    Ok(stream)
}

/// What the server's answer means, or that there was none.
fn fault(error: &RedisError) -> Fault {
    let why = said(error);
    match error.code() {
        // It stored nothing, for reasons of its own, and will when they are gone.
        Some("BUSY" | "LOADING" | "MASTERDOWN" | "MISCONF" | "NOREPLICAS" | "OOM" | "TRYAGAIN") => {
            Fault::Throttled { after: RECOVERY, why }
        }
        Some(_) => Fault::Transient(why),
        None => Fault::Transient(format!("{why}; it may have arrived")),
    }
}

/// The server's words. An old one repeats the arguments of a command that it does not know.
fn said(error: &RedisError) -> String {
    let text = error.to_string();
    text.split(", with args").next().unwrap_or_default().to_owned()
}

impl Sink for RedisSink {
    fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> BoxFuture<'a, Vec<Outcome>> {
        Box::pin(in_chains(batch, self.config.timeout, |delivery| self.send(delivery)))
    }

    fn max_batch(&self) -> usize {
        200
    }

    fn takes_runs(&self) -> bool {
        true
    }
}

impl Probe for RedisSink {
    fn probe(&self) -> BoxFuture<'_, Probed> {
        Box::pin(probe::within(self.config.timeout, self.look()))
    }

    fn circuit(&self) -> Circuit {
        self.link.circuit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rly_2_a_setting_that_is_wrong_is_named() {
        let good = || RedisConfig::new("rediss://me:hunter2@host:6379/2");
        RedisSink::new(good()).expect("legal");
        let mut wrong = [good(), good(), good(), good(), good(), good()];
        wrong[0].url = "http://me:hunter2@host".into();
        wrong[1].url = "rediss://me:hunter2@host/#insecure".into();
        wrong[2].url = "redis://me:hunter2@host/no-number".into();
        wrong[3].stream = "{id}".to_owned();
        wrong[4].max_len = Some(0);
        wrong[5].timeout = Duration::ZERO;
        let names = ["url", "url", "url", "stream", "max_len", "timeout"];
        for (config, name) in wrong.into_iter().zip(names) {
            let error = RedisSink::new(config).expect_err(name);
            assert!(error.starts_with(name) && !error.contains("hunter2"), "{error}");
        }
    }
}
