//! Every log event of the engine, in one place, with stable names and fields.
//!
//! Payloads and header values are never logged.

use crate::error::Error;
use crate::lifecycle::DeadReason;
use crate::message::Message;
use crate::store::Wakes;

/// Items came from a claim.
pub(crate) fn fetched(count: usize, dead: u32) {
    tracing::debug!(count, dead, "OUTBOX_WORKER_FETCH");
}

/// A message is about to be handled.
pub(crate) fn handling(message: &Message, attempt: u32) {
    tracing::info!(topic = %message.topic(), id = %message.id(), attempt, "handling a message");
}

/// A message took effect.
pub(crate) fn succeeded(message: &Message) {
    tracing::info!(id = %message.id(), key = %key(message), "OUTBOX_WORKER_DISPATCH_SUCCESS");
}

/// A message did not, and will be tried again.
pub(crate) fn failed(message: &Message, retry: u32, max: u32, error: &str) {
    let (id, key) = (message.id(), key(message));
    tracing::error!(%id, %key, retry, max, error, "OUTBOX_WORKER_DISPATCH_FAIL");
}

/// A message is a dead letter.
pub(crate) fn died(message: &Message, reason: DeadReason, error: &str) {
    let (id, topic) = (message.id(), message.topic());
    tracing::error!(%id, %topic, reason = reason.as_str(), error, "a message is dead");
}

/// Leases went to somebody else before they were settled.
pub(crate) fn lost(count: usize) {
    tracing::warn!(count, "leases were lost before they were settled");
}

/// Messages are published faster than they are handled; told once, until there is room again.
pub(crate) fn hot_queue_full(size: usize) {
    tracing::warn!(size, "the hot queue is full; further messages wait for a claim");
}

/// The database does not answer; told once, until it does again.
pub(crate) fn outage(during: &str, error: &Error) {
    let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    tracing::error!(during, error = %error, cause, "the store does not answer");
}

/// It answers again.
pub(crate) fn recovered(during: &str) {
    tracing::info!(during, "the store answers again");
}

fn key(message: &Message) -> String {
    message.idempotency_key().map_or_else(|| message.id().to_string(), |key| key.to_string())
}

/// Other processes' work is found in another way from now on.
pub(crate) fn wakes_changed(now: Wakes) {
    match now {
        Wakes::InProcess => {}
        Wakes::Listening => tracing::info!("other processes' messages are heard of at once"),
        Wakes::PollOnly { why } => {
            tracing::warn!(why = why.as_str(), "poll only: other processes' messages come later");
        }
    }
}
