//! What every layer sends to PostgreSQL, and what the answers mean.
//!
//! The layers only bind [`Parameter`]s in order and run the statement.

use std::borrow::Cow;
use std::error::Error as StdError;

use postroom_core::{
    Error, ErrorKind, IntoMessage, Message, MessageId, OutboxConfig, Result, Timestamp, When,
    micros,
};
use postroom_stores::{StoreConfig, foreign};

use crate::{Enqueued, check_message, require_outbox};

const ENQUEUE: &str = include_str!("../sql/postgres/enqueue.sql");
const NOTIFY: &str = include_str!("../sql/postgres/notify.sql");

/// The earliest time that PostgreSQL knows (4714 BC), in microseconds since the Unix epoch.
const EARLIEST: i64 = -210_866_803_200_000_000;

/// An outbox in PostgreSQL, for all layers. Make it once; it holds no connection.
#[derive(Clone, Debug)]
pub struct PgOutbox {
    enqueue: String,
    channel: String,
    config: OutboxConfig,
}

impl PgOutbox {
    /// The outbox in the configured schema and with the configured prefix; other settings of a
    /// store do not matter here.
    ///
    /// # Errors
    /// `Invalid` when the schema or the prefix is not a plain lower-case identifier, or the
    /// configuration is that of an inbox.
    pub fn new(store: &StoreConfig) -> Result<Self> {
        require_outbox(store)?;
        Ok(Self {
            enqueue: foreign::postgres_sql(store, ENQUEUE)?,
            channel: foreign::postgres_channel(store)?,
            config: OutboxConfig::default(),
        })
    }

    /// The same outbox with other settings.
    ///
    /// # Errors
    /// `Invalid` when a setting is out of bounds.
    pub fn configure(self, config: OutboxConfig) -> Result<Self> {
        config.validate()?;
        Ok(Self { config, ..self })
    }

    /// The channel on which dispatchers listen. A layer's `wake` notifies it; you can too, with any
    /// payload and after the commit.
    #[must_use]
    pub fn channel(&self) -> &str {
        &self.channel
    }

    /// The statement that publishes. It answers with one text: an id.
    pub(crate) fn enqueue(&self) -> &str {
        &self.enqueue
    }

    /// The statement that wakes; its parameter is the channel.
    pub(crate) fn notify(&self) -> &'static str {
        NOTIFY
    }

    pub(crate) fn check(&self, message: impl IntoMessage) -> Result<Message> {
        check_message(&self.config, message)
    }

    /// The parameters of [`enqueue`](Self::enqueue), in order.
    pub(crate) fn parameters<'a>(&self, message: &'a Message) -> [Parameter<'a>; 19] {
        let (due_at, due_after) = split(message.due());
        let (expires_at, expires_after) = split(message.expires());
        let key = message.idempotency_key().map(|key| key.as_uuid().to_string());
        let max_payload_bytes = i64::try_from(self.config.max_payload_bytes).ok();
        [
            Parameter::text(message.topic().as_str()),
            Parameter::Bytes(message.payload()),
            Parameter::text(message.content_type()),
            Parameter::owned(message.headers().to_json()),
            Parameter::optional(message.aggregate_type()),
            Parameter::optional(message.aggregate_id()),
            Parameter::optional(message.ordering_key()),
            Parameter::optional(message.tenant_id()),
            Parameter::optional(message.correlation_id()),
            Parameter::optional(message.causation_id()),
            Parameter::owned(key),
            Parameter::Integer(message.occurred_at().map(since_epoch)),
            Parameter::Integer(due_at),
            Parameter::Integer(due_after),
            Parameter::Integer(expires_at),
            Parameter::Integer(expires_after),
            Parameter::Integer(Some(message.priority().into())),
            Parameter::owned(Some(message.id().to_string())),
            Parameter::Integer(max_payload_bytes),
        ]
    }
}

/// A value that any driver can bind.
#[derive(Debug)]
pub(crate) enum Parameter<'a> {
    /// `text`.
    Text(Option<Cow<'a, str>>),
    /// `bytea`.
    Bytes(&'a [u8]),
    /// `bigint`.
    Integer(Option<i64>),
}

impl<'a> Parameter<'a> {
    fn text(text: &'a str) -> Self {
        Self::Text(Some(Cow::Borrowed(text)))
    }

    fn optional(text: Option<&'a impl AsRef<str>>) -> Self {
        Self::Text(text.map(|text| Cow::Borrowed(text.as_ref())))
    }

    fn owned(text: Option<String>) -> Self {
        Self::Text(text.map(Cow::Owned))
    }
}

fn split(when: Option<When>) -> (Option<i64>, Option<i64>) {
    match when {
        None => (None, None),
        Some(When::At(time)) => (Some(since_epoch(time)), None),
        Some(When::After(delay)) => (None, Some(micros(delay))),
    }
}

fn since_epoch(time: Timestamp) -> i64 {
    time.as_micros().max(EARLIEST)
}

/// The answer of the statement.
pub(crate) fn enqueued(message: &Message, answer: &str) -> Result<Enqueued> {
    let id: MessageId = answer.parse().map_err(|error| {
        let problem = format!("publish: the database answered {answer:?} instead of an id");
        Error::new(ErrorKind::Database, problem).with_source(error)
    })?;
    Ok(Enqueued { id, already_existed: id != message.id() })
}

/// The error of the statement; `code` is the SQLSTATE, as far as the driver tells it.
pub(crate) fn refused(
    message: &Message,
    code: Option<&str>,
    source: impl Into<Box<dyn StdError + Send + Sync>>,
) -> Error {
    let error = match code {
        Some("23505") => postroom_core::store::id_taken(message.id()),
        Some("22023") => Error::new(ErrorKind::Invalid, "publish: a limit is broken"),
        code => failed("publish", code),
    };
    error.with_source(source)
}

/// The error of a notification.
pub(crate) fn not_woken(
    code: Option<&str>,
    source: impl Into<Box<dyn StdError + Send + Sync>>,
) -> Error {
    failed("wake", code).with_source(source)
}

fn failed(what: &str, code: Option<&str>) -> Error {
    let (kind, problem) = match code {
        Some(code) => foreign::sqlstate(code),
        // Without a code it was the driver and not the server.
        None => (ErrorKind::Database, "the driver reported an error"),
    };
    Error::new(kind, format!("{what}: {problem}"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use postroom_core::{Origin, TraceContext};
    use postroom_stores::Queue;

    use super::*;

    fn outbox() -> PgOutbox {
        PgOutbox::new(&StoreConfig::default()).expect("legal names")
    }

    #[test]
    fn sch_2_the_configured_names_are_in_the_statement() {
        let config =
            StoreConfig { schema: "mail".into(), prefix: "x_".into(), ..StoreConfig::default() };
        let named = PgOutbox::new(&config).expect("legal names");
        assert!(named.enqueue().contains("\"mail\".x_outbox_enqueue("), "{}", named.enqueue());
        assert!(outbox().enqueue().contains("\"postroom\".outbox_enqueue("));
        assert_ne!(named.channel(), outbox().channel());
    }

    #[test]
    fn x08_hostile_names_and_inboxes_are_refused() {
        let hostile = StoreConfig { schema: "a\"; drop".into(), ..StoreConfig::default() };
        let inbox = StoreConfig { queue: Queue::Inbox, ..StoreConfig::default() };
        for (config, field) in [(hostile, "schema must be"), (inbox, "queue must be")] {
            let error = PgOutbox::new(&config).expect_err(field);
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().starts_with(field), "{error}");
        }
    }

    #[test]
    fn every_parameter_has_its_place_in_the_statement() {
        let message = Message::builder("t").build().expect("legal");
        let count = outbox().parameters(&message).len();
        for place in 1..=count {
            assert!(ENQUEUE.contains(&format!("${place}::")), "${place}");
        }
        assert!(!ENQUEUE.contains(&format!("${}", count + 1)));
    }

    #[test]
    fn msg_2_the_settings_of_an_outbox_count() {
        let config = OutboxConfig { max_payload_bytes: 3, ..OutboxConfig::default() };
        let small = outbox().configure(config).expect("legal");
        assert!(small.check(Message::builder("t").payload("abc")).is_ok());
        let error = small.check(Message::builder("t").payload("abcd")).expect_err("too large");
        let expected = "payload must be at most 3 bytes (max_payload_bytes), got 4 bytes";
        assert_eq!(error.to_string(), expected);
        let none = OutboxConfig { max_payload_bytes: 0, ..OutboxConfig::default() };
        assert!(outbox().configure(none).is_err());
    }

    #[test]
    fn msg_5_the_trace_context_of_the_caller_travels_along() {
        let context = TraceContext { traceparent: "00-1-2-01".into(), tracestate: None };
        let trace = Some(Arc::new(move || Some(context.clone())) as Arc<_>);
        let config = OutboxConfig { trace, ..OutboxConfig::default() };
        let traced = outbox().configure(config).expect("legal").check(Message::builder("t"));
        assert_eq!(traced.expect("legal").headers().get("traceparent"), Some("00-1-2-01"));
    }

    #[test]
    fn a_received_message_is_not_published_as_it_is() {
        let origin = Origin::new("shop", "7", "billing").expect("legal");
        let received = Message::builder("t").origin(origin);
        let error = outbox().check(received).expect_err("where it came from would be lost");
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }

    #[test]
    fn states_map_to_what_the_caller_can_do() {
        let message = Message::builder("t").build().expect("legal");
        for (code, kind) in [
            (Some("23505"), ErrorKind::IdTaken),
            (Some("22023"), ErrorKind::Invalid),
            (Some("40001"), ErrorKind::Contention),
            (Some("42883"), ErrorKind::Schema),
            (Some("08006"), ErrorKind::Unavailable),
            (Some("42501"), ErrorKind::Database),
            (None, ErrorKind::Database),
        ] {
            assert_eq!(refused(&message, code, "why").kind(), kind, "{code:?}");
        }
    }
}
