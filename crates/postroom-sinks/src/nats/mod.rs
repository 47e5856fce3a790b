//! Messages to NATS JetStream.

mod config;

use std::borrow::Cow;
use std::error::Error as _;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use async_nats::jetstream::{self, ContextBuilder, ErrorCode};
use async_nats::{Client, Event, HeaderMap, HeaderName, HeaderValue};
use postroom_core::lifecycle::Outcome;
use postroom_core::observe::Circuit;
use postroom_core::store::BoxFuture;
use postroom_core::{Delivery, Message, Sink};
use tokio::sync::watch;

pub use self::config::NatsConfig;
use self::config::Servers;
use crate::chains::in_chains;
use crate::cloud_event::{Mode, STRUCTURED, percent_encoded};
use crate::destination::Destination;
use crate::fault::Fault;
use crate::link::{Connection, Link};
use crate::names;
use crate::probe::{self, Probe, Probed};
use crate::tls;

/// How long to leave a stream alone that has no room.
const RECOVERY: Duration = Duration::from_secs(1);

/// Publishes each message to the stream that takes its subject, and waits for the stream's
/// acknowledgement.
///
/// The message id is the `Nats-Msg-Id`, by which a stream recognises a message that comes again
/// within its duplicate window. Attributes of the event are headers `ce-<attribute>`, also
/// `ce-datacontenttype`; in structured mode `Content-Type` says that the payload is the whole
/// event. Headers of the message keep their names, except `Nats-…`, which are orders to the server,
/// and `ce-…` and `Content-Type`, which belong to the event: these are not sent.
#[derive(Debug)]
pub struct NatsSink {
    config: NatsConfig,
    servers: Servers,
    subject: Destination,
    link: Link<Line>,
}

/// An open connection.
#[derive(Debug)]
struct Line {
    client: Client,
    stream: jetstream::Context,
    /// Becomes true for good when the connection is lost. The client would make another one and
    /// send what it was given meanwhile; whoever gave it that must not wait for it.
    lost: watch::Receiver<bool>,
}

impl Connection for Line {
    fn is_alive(&self) -> bool {
        self.client.connection_state() == State::Connected && !*self.lost.borrow()
    }
}

impl NatsSink {
    /// A sink that connects when it is first needed.
    ///
    /// # Errors
    /// Names the setting that is wrong, and what it may be.
    pub fn new(config: NatsConfig) -> Result<Self, String> {
        config.check()?;
        let servers = Servers::parse(&config.url)?;
        let subject = Destination::parse("subject", &config.subject)?;
        let link = Link::new("nats", config.timeout);
        Ok(Self { config, servers, subject, link })
    }

    async fn connect(&self) -> Result<Line, String> {
        let (losing, lost) = watch::channel(false);
        let options = self.config.options(&self.servers).await?;
        let options = options
            .tls_client_config(tls::client(self.config.ca_file.clone()).await?)
            .connection_timeout(self.config.timeout / 2)
            // It may try each server once; a new connection is made when there is a message.
            .max_reconnects(self.servers.addresses().len())
            .reconnect_delay_callback(|_| Duration::ZERO)
            .event_callback(move |event| {
                if matches!(event, Event::Disconnected | Event::Closed) {
                    losing.send_replace(true);
                }
                std::future::ready(())
            });
        let client = options.connect(self.servers.addresses()).await;
        let client = client.map_err(|error| self.config.hidden_from(&chain(&error)))?;
        // Whoever sends has a limit of its own, which is shorter.
        let stream = ContextBuilder::new().ack_timeout(self.config.timeout * 2);
        let stream = stream.timeout(self.config.timeout * 2).build(client.clone());
        Ok(Line { client, stream, lost })
    }

    async fn send(&self, delivery: &Delivery) -> Result<(), Fault> {
        let message = delivery.message();
        let subject = self.subject(message)?;
        let publish = self.publish(message)?;
        let line = self.link.get(|| self.connect()).await?;
        let doubt = self.link.doubt(&line);
        let mut lost = line.lost.clone();
        let sent = async { line.stream.send_publish(subject, publish).await?.await };
        let sent = tokio::select! {
            sent = sent => sent,
            _ = lost.wait_for(|lost| *lost) => {
                return Err(Fault::transient("the connection was lost; it may have arrived"));
            }
        };
        // That it had the message already, `duplicate`, is as good as taking it.
        let Err(error) = sent else {
            doubt.answered();
            return Ok(());
        };
        if !matches!(error.kind(), PublishErrorKind::TimedOut | PublishErrorKind::BrokenPipe) {
            doubt.answered();
        }
        Err(fault(&error))
    }

    fn subject(&self, message: &Message) -> Result<String, Fault> {
        let subject = self.subject.of(message)?;
        match wrong_with(&subject) {
            None => Ok(subject),
            Some(wrong) => Err(Fault::Permanent(format!("the subject {subject:?} {wrong}"))),
        }
    }

    fn publish(&self, message: &Message) -> Result<PublishMessage, Fault> {
        names::check(message)?;
        let mut headers = HeaderMap::new();
        for (name, value) in message.headers().iter().filter(|(name, _)| !is_owned(name)) {
            insert(&mut headers, name, value)?;
        }
        let payload = match self.config.mode {
            Mode::Binary => {
                let kind = ("datacontenttype", Cow::from(message.content_type()));
                for (name, value) in
                    self.config.events.attributes(message).into_iter().chain([kind])
                {
                    insert(&mut headers, &format!("ce-{name}"), &percent_encoded(&value))?;
                }
                message.payload().clone()
            }
            Mode::Structured => {
                insert(&mut headers, "Content-Type", STRUCTURED)?;
                self.config.events.structured(message).into()
            }
        };
        let publish = PublishMessage::build().payload(payload).headers(headers);
        let publish = publish.message_id(message.id().to_string());
        Ok(match &self.config.stream {
            Some(stream) => publish.expected_stream(stream),
            None => publish,
        })
    }

    async fn look(&self) -> Result<Probed, Fault> {
        let line = self.link.get(|| self.connect()).await?;
        let about = format!("NATS {}", line.client.server_info().version);
        let mut probed = Probed { about: Some(about), ..Probed::default() };
        if !line.client.server_info().jetstream {
            probed.broken = Some("JetStream is off; start the server with it".to_owned());
            return Ok(probed);
        }
        for name in self.streams(&line).await? {
            let stream = line.stream.get_stream(&name).await.map_err(Fault::transient)?;
            let window = stream.cached_info().config.duplicate_window;
            if window < self.config.retry_horizon {
                probed.warnings.push(format!(
                    "stream {name} forgets message ids after {window:?}, and a message may come \
                     again for {horizon:?}: later ones are stored twice; set duplicate_window to \
                     at least that, or dedupe by id",
                    horizon = self.config.retry_horizon,
                ));
            }
        }
        if let Some(missing) = self.missing(&line).await? {
            probed.warnings.push(missing);
        }
        Ok(probed)
    }

    /// The streams that messages may go to: the expected one, or those of the subject.
    async fn streams(&self, line: &Line) -> Result<Vec<String>, Fault> {
        use futures_util::TryStreamExt as _;

        if let Some(stream) = &self.config.stream {
            let there = line.stream.get_stream(stream).await.is_ok();
            return Ok(there.then(|| stream.clone()).into_iter().collect());
        }
        match self.subject.fixed() {
            Some(subject) => Ok(line.stream.stream_by_subject(subject).await.into_iter().collect()),
            None => line.stream.stream_names().try_collect().await.map_err(Fault::transient),
        }
    }

    /// What to say when there is no stream for the messages.
    async fn missing(&self, line: &Line) -> Result<Option<String>, Fault> {
        if !self.streams(line).await?.is_empty() {
            return Ok(None);
        }
        let what = match (&self.config.stream, self.subject.fixed()) {
            (Some(stream), _) => format!("there is no stream {stream}"),
            (None, Some(subject)) => format!("no stream takes the subject {subject}"),
            (None, None) => "there is no stream".to_owned(),
        };
        Ok(Some(format!("{what}: messages are tried again until there is one; create it")))
    }
}

/// What is wrong with a subject, if anything. Spaces end it on the wire, wildcards are for readers,
/// and what begins with a dollar sign is an order to the server.
fn wrong_with(subject: &str) -> Option<&'static str> {
    if subject.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Some("has a space or control character");
    }
    if subject.contains(['*', '>']) {
        return Some("has a wildcard");
    }
    if subject.split('.').any(str::is_empty) {
        return Some("has nothing before, after or between its dots");
    }
    (subject.starts_with('$') || subject.starts_with("_INBOX.")).then_some("is the server's own")
}

/// Whether a header means something to the server or to the mapping of the event.
fn is_owned(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.starts_with("nats-") || name.starts_with("ce-") || name == "content-type"
}

fn insert(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), Fault> {
    let refused = |_| Fault::Permanent(format!("header {name:?} does not fit into a line"));
    let value: HeaderValue = value.parse().map_err(refused)?;
    let refused = |_| Fault::Permanent(format!("header name {name:?} is not a plain name"));
    headers.insert(HeaderName::try_from(name).map_err(refused)?, value);
    Ok(())
}

/// What the answer means, or that there was none.
fn fault(error: &PublishError) -> Fault {
    let why = chain(error);
    match error.kind() {
        PublishErrorKind::MaxPayloadExceeded => return Fault::Permanent(why),
        PublishErrorKind::TimedOut | PublishErrorKind::BrokenPipe => {
            return Fault::Transient(format!("{why}; it may have arrived"));
        }
        _ => {}
    }
    let source = error.source().and_then(|source| source.downcast_ref::<jetstream::Error>());
    match source.map(jetstream::Error::error_code) {
        Some(
            ErrorCode::STREAM_MESSAGE_EXCEEDS_MAXIMUM | ErrorCode::STREAM_HEADER_EXCEEDS_MAXIMUM,
        ) => Fault::Permanent(why),
        // The stream is full, or the server is: it takes messages again when somebody has read.
        Some(
            ErrorCode::STREAM_STORE_FAILED
            | ErrorCode::INSUFFICIENT_RESOURCES
            | ErrorCode::STORAGE_RESOURCES_EXCEEDED
            | ErrorCode::MEMORY_RESOURCES_EXCEEDED
            | ErrorCode::ACCOUNT_RESOURCES_EXCEEDED
            | ErrorCode::CLUSTER_NOT_AVAILABLE,
        ) => Fault::Throttled { after: RECOVERY, why },
        _ => Fault::Transient(why),
    }
}

/// An error with its causes, without what is said twice.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

impl Sink for NatsSink {
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

impl Probe for NatsSink {
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
    fn x09_a_subject_that_would_break_out_or_give_orders_is_refused() {
        for subject in ["order.placed", "a", "Ünïcode.ok", "a-b_c.d$e"] {
            assert_eq!(wrong_with(subject), None, "{subject}");
        }
        let wrong = ["", ".", ".a", "a.", "a..b", "a b", "a\tb", "a\r\nPUB x 0\r\n", "a\0", "a.*"];
        for subject in wrong.into_iter().chain([">", "a.>", "$JS.API.STREAM.PURGE.X", "_INBOX.1"]) {
            assert!(wrong_with(subject).is_some(), "{subject:?}");
        }
    }

    #[test]
    fn rly_2_a_setting_that_is_wrong_is_named() {
        let good = || NatsConfig::new("nats://me:hunter2@host:4222");
        let sink = NatsSink::new(good()).expect("legal");
        assert!(!format!("{sink:?}").contains("hunter2"), "{sink:?}");
        let mut wrong = [good(), good(), good(), good(), good()];
        wrong[0].url = "http://me:hunter2@host".into();
        wrong[1].subject = "{id}".to_owned();
        wrong[2].stream = Some("a\r\nb".to_owned());
        wrong[3].timeout = Duration::ZERO;
        (wrong[4].token, wrong[4].credentials_file) = (Some("t".into()), Some("f".into()));
        let names = ["url", "subject", "stream", "timeout", "token"];
        for (config, name) in wrong.into_iter().zip(names) {
            let error = NatsSink::new(config).expect_err(name);
            assert!(error.starts_with(name) && !error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn x09_headers_that_give_orders_to_the_server_are_not_passed_on() {
        for name in ["Nats-Rollup", "nats-msg-id", "NATS-TTL", "ce-id", "Content-Type"] {
            assert!(is_owned(name), "{name}");
        }
        assert!(!is_owned("traceparent") && !is_owned("x-nats-tenant"));
    }
}
