//! The builder of a message: collects the fields and reports the first broken limit.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use serde::Serialize;

use crate::error::{Error, ErrorKind, Result};
use crate::fresh::Fresh;
use crate::headers::Headers;
use crate::idempotency::IdempotencyKey;
use crate::ids::MessageId;
use crate::message::{Fields, Message, When};
use crate::origin::Origin;
use crate::text::{
    AggregateId, AggregateType, CausationId, ContentType, CorrelationId, OrderingKey, TenantId,
    Topic,
};

/// Higher first among due messages.
pub const PRIORITY_RANGE: std::ops::RangeInclusive<i16> = -100..=100;

/// Collects the fields of a [`Message`]; [`build`](Self::build) reports the first broken limit.
#[derive(Debug)]
#[must_use]
pub struct MessageBuilder {
    fields: Result<Fields>,
}

impl MessageBuilder {
    pub(crate) fn new(topic: String) -> Self {
        let fields = Topic::new(topic).map(|topic| Fields {
            id: MessageId::new(),
            topic,
            payload: Bytes::new(),
            content_type: None,
            headers: Headers::default(),
            aggregate_type: None,
            aggregate_id: None,
            ordering_key: None,
            tenant_id: None,
            correlation_id: None,
            causation_id: None,
            idempotency_key: None,
            occurred_at: None,
            due: None,
            expires: None,
            priority: 0,
            origin: None,
            fresh: Fresh::yes(),
        });
        Self { fields }
    }

    fn set(mut self, change: impl FnOnce(&mut Fields) -> Result<()>) -> Self {
        if let Ok(fields) = &mut self.fields
            && let Err(error) = change(fields)
        {
            self.fields = Err(error);
        }
        self
    }

    /// Chooses the id. Without it the message gets a fresh UUIDv7.
    pub fn id(self, id: MessageId) -> Self {
        self.set(|fields| {
            (fields.id, fields.fresh) = (id, Fresh::no());
            Ok(())
        })
    }

    /// The bytes, any bytes.
    pub fn payload(self, payload: impl Into<Bytes>) -> Self {
        self.set(|fields| {
            fields.payload = payload.into();
            Ok(())
        })
    }

    /// The payload as JSON, serialised here and once.
    pub fn json<T: Serialize + ?Sized>(self, value: &T) -> Self {
        self.set(|fields| {
            let bytes = serde_json::to_vec(value).map_err(|source| {
                Error::new(
                    ErrorKind::Codec,
                    format!("payload for {} does not serialise as JSON", fields.topic),
                )
                .with_source(source)
            })?;
            fields.payload = bytes.into();
            Ok(())
        })
    }

    /// The media type of the payload. Default: `application/json`.
    pub fn content_type(self, content_type: impl Into<String>) -> Self {
        self.set(|fields| {
            fields.content_type = Some(ContentType::new(content_type)?);
            Ok(())
        })
    }

    /// Sets a header.
    pub fn header(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.set(|fields| fields.headers.insert(name, value))
    }

    /// The thing that it happened to.
    pub fn aggregate(self, kind: impl Into<String>, id: impl Into<String>) -> Self {
        self.aggregate_type(kind).aggregate_id(id)
    }

    /// The kind of thing that it happened to.
    pub fn aggregate_type(self, kind: impl Into<String>) -> Self {
        self.set(|fields| {
            fields.aggregate_type = Some(AggregateType::new(kind)?);
            Ok(())
        })
    }

    /// Which of its kind.
    pub fn aggregate_id(self, id: impl Into<String>) -> Self {
        self.set(|fields| {
            fields.aggregate_id = Some(AggregateId::new(id)?);
            Ok(())
        })
    }

    /// Handle messages with this key one at a time, in order.
    pub fn ordering_key(self, key: impl Into<String>) -> Self {
        self.set(|fields| {
            fields.ordering_key = Some(OrderingKey::new(key)?);
            Ok(())
        })
    }

    /// Whose message it is.
    pub fn tenant_id(self, tenant: impl Into<String>) -> Self {
        self.set(|fields| {
            fields.tenant_id = Some(TenantId::new(tenant)?);
            Ok(())
        })
    }

    /// What it belongs to. Empty counts as none.
    pub fn correlation_id(self, id: impl Into<String>) -> Self {
        self.set(|fields| {
            fields.correlation_id = none_if_empty(id).map(CorrelationId::new).transpose()?;
            Ok(())
        })
    }

    /// What caused it. Empty counts as none.
    pub fn causation_id(self, id: impl Into<String>) -> Self {
        self.set(|fields| {
            fields.causation_id = none_if_empty(id).map(CausationId::new).transpose()?;
            Ok(())
        })
    }

    /// The second message with this key, in the same tenant, is a duplicate and is not written.
    pub fn idempotency_key(self, key: impl Into<IdempotencyKey>) -> Self {
        self.set(|fields| {
            fields.idempotency_key = Some(key.into());
            Ok(())
        })
    }

    /// When it happened. Default: the database's time of writing.
    pub fn occurred_at(self, time: SystemTime) -> Self {
        self.set(|fields| {
            fields.occurred_at = Some(time.into());
            Ok(())
        })
    }

    /// Deliver not before. A past time counts as now.
    pub fn due(self, when: When) -> Self {
        self.set(|fields| {
            fields.due = Some(when);
            Ok(())
        })
    }

    /// Deliver not before this time.
    pub fn due_at(self, time: SystemTime) -> Self {
        self.due(When::At(time.into()))
    }

    /// Deliver not before this long after it was written.
    pub fn due_after(self, delay: Duration) -> Self {
        self.due(When::After(delay))
    }

    /// Never deliver after: it becomes dead with the reason `expired`.
    pub fn expires(self, when: When) -> Self {
        self.set(|fields| {
            fields.expires = Some(when);
            Ok(())
        })
    }

    /// Never deliver after this time.
    pub fn expires_at(self, time: SystemTime) -> Self {
        self.expires(When::At(time.into()))
    }

    /// Never deliver later than this long after it was written.
    pub fn expires_after(self, delay: Duration) -> Self {
        self.expires(When::After(delay))
    }

    /// Higher first among due messages; −100 to 100, default 0.
    pub fn priority(self, priority: i16) -> Self {
        self.set(|fields| {
            if !PRIORITY_RANGE.contains(&priority) {
                return Err(Error::limit("priority", "-100 to 100", priority));
            }
            fields.priority = priority;
            Ok(())
        })
    }

    /// Where it came from: for stores that read a received message back.
    #[doc(hidden)]
    pub fn origin(self, origin: Origin) -> Self {
        self.set(|fields| {
            fields.origin = Some(origin);
            Ok(())
        })
    }

    /// Finishes the message.
    ///
    /// # Errors
    /// `Invalid` for the first field that broke a limit; `Codec` when the payload did not
    /// serialise.
    pub fn build(self) -> Result<Message> {
        self.fields.map(|fields| Message(Arc::new(fields)))
    }
}

fn none_if_empty(text: impl Into<String>) -> Option<String> {
    Some(text.into()).filter(|text| !text.is_empty())
}
