//! OpenTelemetry traces of messages: from where a message was created, over its delivery, to where
//! it takes effect.
//!
//! - [`current_context`] is for [`OutboxConfig::trace`](postroom_core::OutboxConfig::trace): each
//!   message then carries the context of its own `create` span.
//! - [`Traces`] is an [`Interceptor`] for a dispatcher: each delivery has a span, `send` from an
//!   outbox and `process` from an inbox, with a link to the `create` span of each of its messages.
#![cfg_attr(feature = "otlp", doc = "- [`otlp`] sends spans to a collector.")]
//!
//! All of it works on the spans of `tracing` that the other crates make, through the layer of
//! `tracing-opentelemetry`; without that layer nothing happens. Names and attributes follow the
//! semantic conventions of OpenTelemetry for messaging.
#![forbid(unsafe_code)]

#[cfg(feature = "otlp")]
pub mod otlp;

use std::collections::HashMap;

use opentelemetry::KeyValue;
use opentelemetry::propagation::{Extractor, TextMapPropagator as _};
use opentelemetry::trace::{Status, TraceContextExt as _};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use postroom_core::lifecycle::Outcome;
use postroom_core::{Delivery, Headers, Interceptor, Message, TraceContext};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// The W3C trace context of the current span, if there is one.
///
/// ```
/// use std::sync::Arc;
/// use postroom_core::OutboxConfig;
///
/// let config = OutboxConfig {
///     trace: Some(Arc::new(postroom_otel::current_context)),
///     ..OutboxConfig::default()
/// };
/// ```
#[must_use]
pub fn current_context() -> Option<TraceContext> {
    let context = Span::current().context();
    if !context.span().span_context().is_valid() {
        return None;
    }
    let mut carrier = HashMap::new();
    TraceContextPropagator::new().inject_context(&context, &mut carrier);
    let traceparent = carrier.remove("traceparent")?;
    let tracestate = carrier.remove("tracestate").filter(|state| !state.is_empty());
    Some(TraceContext { traceparent, tracestate })
}

/// Links the span of each delivery to the spans that created its messages.
///
/// A delivery of many messages in one call is one span with many links. It belongs to no single
/// trace, so links are all that it can have; see [`joined`](Self::joined) for the others.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traces {
    processing: bool,
    joined: bool,
}

impl Traces {
    /// Every delivery is a `process` span: for handlers that work on an outbox in its own process.
    /// By default that is so for an inbox only, and an outbox has `send` spans.
    #[must_use]
    pub fn processing() -> Self {
        Self { processing: true, ..Self::default() }
    }

    /// Makes a delivery of a single message a child of the span that created it, too, so that both
    /// are in one trace. Such a trace lasts until the last attempt, which may be days later.
    #[must_use]
    pub fn joined(self) -> Self {
        Self { joined: true, ..self }
    }

    fn name_of(self, first: &Message) -> (&'static str, &'static str) {
        match self.processing || first.origin().is_some() {
            true => ("process", "consumer"),
            false => ("send", "client"),
        }
    }
}

impl Interceptor for Traces {
    fn call_begins(&self, batch: &[Delivery]) {
        let Some(first) = batch.first() else { return };
        let (message, span) = (first.message(), first.span());
        let (operation, kind) = self.name_of(message);
        span.record("otel.kind", kind);
        span.set_attribute("messaging.system", "postroom");
        span.set_attribute("messaging.operation.name", operation);
        span.set_attribute("messaging.operation.type", operation);
        let topic = message.topic();
        if batch.iter().all(|delivery| delivery.message().topic() == topic) {
            span.record("otel.name", format!("{operation} {topic}"));
            span.set_attribute("messaging.destination.name", topic.as_str().to_owned());
        } else {
            span.record("otel.name", operation);
        }
        if batch.len() == 1 {
            span.set_attribute("messaging.message.id", message.id().to_string());
            span.set_attribute("messaging.message.body.size", message.payload().len() as i64);
        } else {
            span.set_attribute("messaging.batch.message_count", batch.len() as i64);
        }
        for message in batch.iter().map(Delivery::message) {
            let created = TraceContextPropagator::new().extract(&Carrier(message.headers()));
            let context = created.span().span_context().clone();
            if !context.is_valid() {
                continue;
            }
            let id = KeyValue::new("messaging.message.id", message.id().to_string());
            span.add_link_with_attributes(context, vec![id]);
            if self.joined && batch.len() == 1 {
                // It fails only where no layer collects this span.
                let _ = span.set_parent(created);
            }
        }
    }

    /// An error of one message is the error of the call.
    fn call_ended(&self, batch: &[Delivery], outcomes: &[Outcome]) {
        let failed = outcomes.iter().find_map(|outcome| match outcome {
            Outcome::Done | Outcome::Unstarted => None,
            Outcome::Failed(error) => Some(("failed", error)),
            Outcome::Permanent(error) => Some(("permanent", error)),
            Outcome::RetryAfter { error, .. } => Some(("retry_after", error)),
        });
        if let (Some(first), Some((kind, error))) = (batch.first(), failed) {
            first.span().set_attribute("error.type", kind);
            first.span().set_status(Status::error(error.clone()));
        }
    }
}

/// The headers of a message, to read a context from.
struct Carrier<'a>(&'a Headers);

impl Extractor for Carrier<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)
    }

    fn keys(&self) -> Vec<&str> {
        vec!["traceparent", "tracestate"]
    }
}
