//! The message: everything the producer says, valid from the moment it is built, never changed
//! after.
//!
//! Delivery state (attempts, leases, outcome) is not here: it belongs to the store.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::builder::MessageBuilder;
use crate::clock::Timestamp;
use crate::error::{Error, ErrorKind, Result};
use crate::fresh::Fresh;
use crate::headers::Headers;
use crate::idempotency::IdempotencyKey;
use crate::ids::MessageId;
use crate::origin::Origin;
use crate::text::{
    AggregateId, AggregateType, CausationId, ContentType, CorrelationId, OrderingKey, TenantId,
    Topic,
};

/// A message: immutable, cheap to clone; the same payload bytes go to the row, the handler and the
/// sink.
///
/// ```
/// use postroom_core::Message;
///
/// let message = Message::builder("order.placed").payload(r#"{"order":7}"#).build()?;
/// assert_eq!(message.topic().as_str(), "order.placed");
/// # Ok::<(), postroom_core::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Message(pub(crate) Arc<Fields>);

#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Fields {
    pub(crate) id: MessageId,
    pub(crate) topic: Topic,
    pub(crate) payload: Bytes,
    pub(crate) content_type: Option<ContentType>,
    pub(crate) headers: Headers,
    pub(crate) aggregate_type: Option<AggregateType>,
    pub(crate) aggregate_id: Option<AggregateId>,
    pub(crate) ordering_key: Option<OrderingKey>,
    pub(crate) tenant_id: Option<TenantId>,
    pub(crate) correlation_id: Option<CorrelationId>,
    pub(crate) causation_id: Option<CausationId>,
    pub(crate) idempotency_key: Option<IdempotencyKey>,
    pub(crate) occurred_at: Option<Timestamp>,
    pub(crate) due: Option<When>,
    pub(crate) expires: Option<When>,
    pub(crate) priority: i16,
    pub(crate) origin: Option<Origin>,
    pub(crate) fresh: Fresh,
}

/// A point in time, or a distance from the database's present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At this time.
    At(Timestamp),
    /// This long after the database's time of writing.
    After(Duration),
}

impl When {
    /// The time meant, seen from `now`.
    #[must_use]
    pub fn resolve(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(time) => time,
            Self::After(delay) => now.saturating_add(delay),
        }
    }
}

impl Message {
    /// The content type of a message that names none.
    pub const DEFAULT_CONTENT_TYPE: &'static str = "application/json";

    /// Starts a message for `topic`.
    pub fn builder(topic: impl Into<String>) -> MessageBuilder {
        MessageBuilder::new(topic.into())
    }

    /// The identity.
    #[must_use]
    pub fn id(&self) -> MessageId {
        self.0.id
    }

    /// What it is about.
    #[must_use]
    pub fn topic(&self) -> &Topic {
        &self.0.topic
    }

    /// The bytes.
    #[must_use]
    pub fn payload(&self) -> &Bytes {
        &self.0.payload
    }

    /// The payload as a value of `T`, read as JSON.
    ///
    /// # Errors
    /// `Codec` when the bytes are not JSON of that shape: retrying will not help.
    pub fn json<'a, T: serde::Deserialize<'a>>(&'a self) -> Result<T> {
        serde_json::from_slice(&self.0.payload).map_err(|source| {
            Error::new(
                ErrorKind::Codec,
                format!("payload of {} does not decode as {}", self.topic(), type_name::<T>()),
            )
            .with_source(source)
        })
    }

    /// The media type of the payload.
    #[must_use]
    pub fn content_type(&self) -> &str {
        self.0.content_type.as_ref().map_or(Self::DEFAULT_CONTENT_TYPE, ContentType::as_str)
    }

    /// The headers.
    #[must_use]
    pub fn headers(&self) -> &Headers {
        &self.0.headers
    }

    /// The kind of thing that it happened to.
    #[must_use]
    pub fn aggregate_type(&self) -> Option<&AggregateType> {
        self.0.aggregate_type.as_ref()
    }

    /// Which of its kind.
    #[must_use]
    pub fn aggregate_id(&self) -> Option<&AggregateId> {
        self.0.aggregate_id.as_ref()
    }

    /// The key within which it is ordered.
    #[must_use]
    pub fn ordering_key(&self) -> Option<&OrderingKey> {
        self.0.ordering_key.as_ref()
    }

    /// Whose it is.
    #[must_use]
    pub fn tenant_id(&self) -> Option<&TenantId> {
        self.0.tenant_id.as_ref()
    }

    /// What it belongs to.
    #[must_use]
    pub fn correlation_id(&self) -> Option<&CorrelationId> {
        self.0.correlation_id.as_ref()
    }

    /// What caused it.
    #[must_use]
    pub fn causation_id(&self) -> Option<&CausationId> {
        self.0.causation_id.as_ref()
    }

    /// The key under which a second publish is a duplicate.
    #[must_use]
    pub fn idempotency_key(&self) -> Option<IdempotencyKey> {
        self.0.idempotency_key
    }

    /// When it happened; the store fills in its own time when the producer names none.
    #[must_use]
    pub fn occurred_at(&self) -> Option<Timestamp> {
        self.0.occurred_at
    }

    /// When it may be delivered first.
    #[must_use]
    pub fn due(&self) -> Option<When> {
        self.0.due
    }

    /// When it must not be delivered any more.
    #[must_use]
    pub fn expires(&self) -> Option<When> {
        self.0.expires
    }

    /// Higher first among due messages.
    #[must_use]
    pub fn priority(&self) -> i16 {
        self.0.priority
    }

    /// Where it comes from and for whom it is; only a received message has that.
    #[must_use]
    pub fn origin(&self) -> Option<&Origin> {
        self.0.origin.as_ref()
    }

    /// Where order is kept: nothing for unordered messages. In an inbox each consumer has an order
    /// of its own, so that one does not wait for another.
    #[must_use]
    pub fn lane(&self) -> Option<Lane> {
        let key = self.ordering_key()?.as_str();
        let tenant = self.tenant_id().map_or("", TenantId::as_str);
        let hash = match self.origin() {
            None => hash64(&[tenant, key]),
            Some(origin) => hash64(&[tenant, key, origin.consumer.as_str()]),
        };
        Some(Lane::of_hash(hash))
    }

    /// What a box keeps to know this message by when it comes again, if anything: the hash of where
    /// it comes from, or of its idempotency key. For stores.
    #[must_use]
    pub fn unique_key(&self) -> Option<[u8; 32]> {
        let given = || self.idempotency_key().map(|key| key.scoped(self.tenant_id()));
        self.origin().map(Origin::key).or_else(given)
    }

    /// The 64-bit hash by which claims tell topics apart.
    #[must_use]
    pub fn topic_hash(&self) -> i64 {
        self.topic().hash64()
    }

    /// The 64-bit hash by which claims tell tenants apart.
    #[must_use]
    pub fn tenant_hash(&self) -> Option<i64> {
        self.tenant_id().map(|tenant| hash64(&[tenant.as_str()]))
    }

    /// What the producer said, as a hash. Ids, times and trace context are left out, because they
    /// differ between two tries to say the same thing.
    #[must_use]
    pub fn content_hash(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        let mut part = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_be_bytes());
            hash.update(bytes);
        };
        part(self.topic().as_str().as_bytes());
        part(self.payload());
        part(self.content_type().as_bytes());
        for text in [
            self.aggregate_type().map(AggregateType::as_str),
            self.aggregate_id().map(AggregateId::as_str),
            self.ordering_key().map(OrderingKey::as_str),
            self.tenant_id().map(TenantId::as_str),
            self.correlation_id().map(CorrelationId::as_str),
            self.causation_id().map(CausationId::as_str),
        ] {
            part(text.unwrap_or_default().as_bytes());
        }
        part(self.idempotency_key().map_or([0; 16], |key| *key.as_uuid().as_bytes()).as_slice());
        part(&self.priority().to_be_bytes());
        for (name, value) in self.headers().iter().filter(|(n, _)| !Headers::TRACE.contains(n)) {
            part(name.as_bytes());
            part(value.as_bytes());
        }
        hash.finalize().into()
    }

    /// Whether this is the first try to write a message whose id nobody else can have. For stores.
    #[doc(hidden)]
    #[must_use]
    pub fn take_fresh(&self) -> bool {
        self.0.fresh.take()
    }

    /// The same message as a store gives it back, had it been written at `now`. For stores.
    #[doc(hidden)]
    #[must_use]
    pub fn as_written(&self, now: Timestamp) -> Self {
        let mut fields = (*self.0).clone();
        fields.occurred_at = fields.occurred_at.or(Some(now));
        fields.due = fields.due.map(|due| When::At(due.resolve(now)));
        fields.expires = fields.expires.map(|expires| When::At(expires.resolve(now)));
        Self(Arc::new(fields))
    }

    /// The same message without its payload, as lists have it. For stores.
    #[doc(hidden)]
    #[must_use]
    pub fn without_payload(&self) -> Self {
        let mut fields = (*self.0).clone();
        fields.payload = Bytes::new();
        Self(Arc::new(fields))
    }

    /// The same content as a message that came from there: with an id of its own in the inbox.
    pub(crate) fn received(self, origin: Origin) -> Self {
        let mut fields = Arc::unwrap_or_clone(self.0);
        (fields.id, fields.origin) = (MessageId::new(), Some(origin));
        fields.fresh = Fresh::yes();
        Self(Arc::new(fields))
    }

    /// Whether it has trace headers, from whoever created it.
    pub(crate) fn is_traced(&self) -> bool {
        self.headers().get(Headers::TRACE[0]).is_some()
    }

    /// The same message with trace headers, unless it already has some.
    pub(crate) fn traced(self, trace: &TraceContext) -> Result<Self> {
        if self.is_traced() {
            return Ok(self);
        }
        let mut fields = Arc::unwrap_or_clone(self.0);
        fields.headers.insert(Headers::TRACE[0], &*trace.traceparent)?;
        if let Some(state) = &trace.tracestate {
            fields.headers.insert(Headers::TRACE[1], &**state)?;
        }
        Ok(Self(Arc::new(fields)))
    }
}

impl std::fmt::Debug for Message {
    /// Payload and header values are left out: they are nobody's business in a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Message")
            .field("id", &self.0.id)
            .field("topic", &self.0.topic)
            .field("payload_bytes", &self.0.payload.len())
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Fields {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fields").field("topic", &self.topic).finish_non_exhaustive()
    }
}

/// A slot and a key within it; see the section on order in ARCHITECTURE.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lane {
    /// Which of the slots.
    pub slot: i16,
    /// The hash of tenant and ordering key. A collision only makes two keys wait for each other.
    pub key_hash: i64,
}

impl Lane {
    /// How many slots a queue has.
    pub const SLOTS: i16 = 256;

    fn of_hash(key_hash: i64) -> Self {
        Self { slot: i16::from(key_hash.to_be_bytes()[7]), key_hash }
    }
}

/// The W3C trace context of the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// The `traceparent` header.
    pub traceparent: String,
    /// The `tracestate` header.
    pub tracestate: Option<String>,
}

/// The first eight bytes of SHA-256 over length-prefixed parts: computable in every database.
impl Topic {
    /// See [`Message::topic_hash`].
    #[must_use]
    pub fn hash64(&self) -> i64 {
        hash64(&[self.as_str()])
    }
}

fn hash64(parts: &[&str]) -> i64 {
    let mut first = [0; 8];
    first.copy_from_slice(&hash256(parts)[..8]);
    i64::from_be_bytes(first)
}

/// SHA-256 over length-prefixed parts.
pub(crate) fn hash256(parts: &[&str]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    hash.finalize().into()
}

fn type_name<T>() -> &'static str {
    let full = std::any::type_name::<T>();
    full.rsplit("::").next().unwrap_or(full)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(builder: MessageBuilder) -> String {
        let error = builder.build().expect_err("breaks a limit");
        assert_eq!(error.kind(), ErrorKind::Invalid);
        error.to_string()
    }

    #[test]
    fn msg_2_every_text_field_passes_at_its_limit_and_fails_one_past_it() {
        type Set = fn(MessageBuilder, String) -> MessageBuilder;
        let fields: [(&str, usize, Set); 7] = [
            ("content_type", 255, |b, t| b.content_type(t)),
            ("aggregate_type", 64, |b, t| b.aggregate_type(t)),
            ("aggregate_id", 128, |b, t| b.aggregate_id(t)),
            ("ordering_key", 255, |b, t| b.ordering_key(t)),
            ("tenant_id", 64, |b, t| b.tenant_id(t)),
            ("correlation_id", 255, |b, t| b.correlation_id(t)),
            ("causation_id", 255, |b, t| b.causation_id(t)),
        ];
        for (name, max, set) in fields {
            assert!(set(Message::builder("t"), "é".repeat(max)).build().is_ok(), "{name}");
            let message = refused(set(Message::builder("t"), "é".repeat(max + 1)));
            let expected =
                format!("{name} must be 1 to {max} characters, got {} characters", max + 1);
            assert_eq!(message, expected);
        }
    }

    #[test]
    fn msg_2_priority_is_bounded() {
        for fits in [-100, 100] {
            assert!(Message::builder("t").priority(fits).build().is_ok());
        }
        assert_eq!(
            refused(Message::builder("t").priority(101)),
            "priority must be -100 to 100, got 101"
        );
        assert!(refused(Message::builder("t").priority(-101)).contains("got -101"));
    }

    #[test]
    fn the_first_error_is_the_one_reported() {
        let text = refused(Message::builder("").tenant_id("").priority(999));
        assert!(text.starts_with("topic"), "{text}");
    }

    #[test]
    fn empty_correlation_and_causation_count_as_none() {
        let message = Message::builder("t").correlation_id("").causation_id("").build();
        let message = message.expect("legal");
        assert_eq!((message.correlation_id(), message.causation_id()), (None, None));
    }

    #[test]
    fn msg_1_clones_share_the_payload_bytes() {
        let message = Message::builder("t").json(&[1, 2, 3]).build().expect("legal");
        assert_eq!(message.payload().as_ptr(), message.clone().payload().as_ptr());
        assert_eq!(message.json::<Vec<u8>>().expect("its own JSON"), [1, 2, 3]);
    }

    #[test]
    fn msg_3_a_payload_of_another_shape_is_a_codec_error() {
        let message = Message::builder("order.placed").payload("[]").build().expect("legal");
        let error = message.json::<u32>().expect_err("not a number");
        assert_eq!(error.kind(), ErrorKind::Codec);
        assert_eq!(error.to_string(), "payload of order.placed does not decode as u32");
    }

    #[test]
    fn content_ignores_ids_times_and_trace_but_nothing_else() {
        let base = || Message::builder("t").payload("p").header("h", "v");
        let same = base().due_after(Duration::from_secs(9)).header("traceparent", "x");
        let hash = |b: MessageBuilder| b.build().expect("legal").content_hash();
        assert_eq!(hash(base()), hash(same));
        for other in [
            base().payload("q"),
            base().header("h", "w"),
            base().tenant_id("p"),
            base().correlation_id("p"),
            base().priority(1),
            base().idempotency_key(uuid::Uuid::from_u128(1)),
        ] {
            assert_ne!(hash(base()), hash(other));
        }
    }

    #[test]
    fn ord_1_the_scope_of_a_lane_is_tenant_and_key_across_topics() {
        let lane = |topic: &str, tenant: &str| {
            let b = Message::builder(topic).ordering_key("order-7").tenant_id(tenant);
            b.build().expect("legal").lane().expect("ordered")
        };
        assert_eq!(lane("a", "acme"), lane("b", "acme"));
        assert_ne!(lane("a", "acme"), lane("a", "umbrella"));
        assert!((0..Lane::SLOTS).contains(&lane("a", "acme").slot));
    }

    #[test]
    fn ord_1_in_an_inbox_each_consumer_has_an_order_of_its_own() {
        let lane = |consumer: &str| {
            let message = Message::builder("t").ordering_key("order-7").build().expect("legal");
            message.received(Origin::new("shop", "1", consumer).expect("legal")).lane()
        };
        assert_eq!(lane("billing"), lane("billing"));
        assert_ne!(lane("billing"), lane("shipping"));
    }

    #[test]
    fn obs_1_debug_shows_neither_payload_nor_headers() {
        let message = Message::builder("t").payload("s3cret").header("h", "s3cret");
        let message = message.build().expect("legal");
        assert!(!format!("{message:?}").contains("s3cret"));
    }

    #[test]
    fn msg_5_trace_context_is_added_once() {
        let context = |id: &str| TraceContext { traceparent: id.to_owned(), tracestate: None };
        let message = Message::builder("t").build().expect("legal");
        let traced = message.traced(&context("first")).expect("legal");
        let again = traced.traced(&context("second")).expect("legal");
        assert_eq!(again.headers().get("traceparent"), Some("first"));
    }
}
