//! OpenTelemetry traces of messages: from where a message was created, over its delivery, to where
//! it takes effect.
//!
//! - [`current_context`] is for [`OutboxConfig::trace`](postroom_core::OutboxConfig::trace): each
//!   message then carries the context of its own `create` span.
//! - [`Traces`] is an [`Interceptor`] for a dispatcher: each delivery is a child of that span,
//!   `send` from an outbox and `process` from an inbox.
#![cfg_attr(feature = "otlp", doc = "- [`otlp`] sends spans to a collector.")]
//!
//! All of it works on the spans of `tracing` that the other crates make, through the layer of
//! `tracing-opentelemetry`; without that layer nothing happens. Names and attributes follow the
//! semantic conventions of OpenTelemetry for messaging.
#![forbid(unsafe_code)]

#[cfg(feature = "otlp")]
pub mod otlp;

use std::collections::HashMap;
use std::future::ready;

use opentelemetry::propagation::{Extractor, TextMapPropagator as _};
use opentelemetry::trace::{Status, TraceContextExt as _};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use postroom_core::lifecycle::Outcome;
use postroom_core::store::BoxFuture;
use postroom_core::{Delivery, HandlerResult, Headers, Interceptor, TraceContext};
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

/// Makes the span of each delivery a child of the span that created its message.
#[derive(Clone, Copy, Debug, Default)]
pub struct Traces {
    processing: bool,
}

impl Traces {
    /// Every delivery is a `process` span: for handlers that work on an outbox in its own process.
    /// By default that is so for an inbox only, and an outbox has `send` spans.
    #[must_use]
    pub fn processing() -> Self {
        Self { processing: true }
    }
}

impl Interceptor for Traces {
    fn before<'a>(&'a self, delivery: &'a Delivery) -> BoxFuture<'a, HandlerResult> {
        let (message, span) = (delivery.message(), delivery.span());
        let created = TraceContextPropagator::new().extract(&Carrier(message.headers()));
        if created.span().span_context().is_valid() {
            // It fails only where no layer collects this span.
            let _ = span.set_parent(created);
        }
        let processing = self.processing || message.origin().is_some();
        let (operation, kind) =
            if processing { ("process", "consumer") } else { ("send", "client") };
        let topic = message.topic().as_str();
        span.record("otel.name", format!("{operation} {topic}"));
        span.record("otel.kind", kind);
        span.set_attribute("messaging.system", "postroom");
        span.set_attribute("messaging.operation.name", operation);
        span.set_attribute("messaging.operation.type", operation);
        span.set_attribute("messaging.destination.name", topic.to_owned());
        span.set_attribute("messaging.message.id", message.id().to_string());
        span.set_attribute("messaging.message.body.size", message.payload().len() as i64);
        Box::pin(ready(Ok(())))
    }

    fn after<'a>(&'a self, delivery: &'a Delivery, outcome: &'a Outcome) -> BoxFuture<'a, ()> {
        let failed = match outcome {
            Outcome::Done | Outcome::Unstarted => None,
            Outcome::Failed(error) => Some(("failed", error)),
            Outcome::Permanent(error) => Some(("permanent", error)),
            Outcome::RetryAfter { error, .. } => Some(("retry_after", error)),
        };
        if let Some((kind, error)) = failed {
            delivery.span().set_attribute("error.type", kind);
            delivery.span().set_status(Status::error(error.clone()));
        }
        Box::pin(ready(()))
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
