//! The model and the engine of Postroom: no SQL, no broker, no HTTP, no clock of its own.
//!
//! Applications depend on the `postroom` crate, which re-exports this one. Start with [`Outbox`] to
//! publish and [`WorkQueue`] to claim; [`store`] is the boundary to the databases.

mod builder;
mod clock;
mod contention;
mod dispatcher;
mod error;
mod event;
pub mod fleet;
mod fresh;
mod handler;
mod headers;
mod idempotency;
mod ids;
mod inbox;
mod join;
pub mod lifecycle;
mod local;
mod message;
pub mod observe;
mod origin;
mod outbox;
mod pattern;
mod retry;
mod routes;
mod sink;
pub mod store;
mod text;
mod transaction;
mod work_queue;

pub use builder::{MessageBuilder, PRIORITY_RANGE};
pub use clock::{Clock, ManualClock, Timestamp, micros};
pub use dispatcher::{Dispatcher, DispatcherConfig, Rate, Running, TopicConfig};
pub use error::{Error, ErrorKind, Result};
pub use event::{Event, IntoMessage};
pub use handler::{Handler, HandlerError, HandlerResult, Handlers, UnknownTopic};
pub use headers::Headers;
pub use idempotency::IdempotencyKey;
pub use ids::{JoinId, Lease, LeaseToken, MessageId, OwnerToken, WorkId};
pub use inbox::{
    Inbox, InboxConfig, InboxHandlerResult, InboxHandlers, InboxTransaction, Once, Received,
    ToInbox,
};
pub use join::{IntoJoin, Join, JoinBuilder};
pub use message::{Lane, Message, TraceContext, When};
pub use observe::{Counts, Depth, Latency, Snapshot, Throughput};
pub use origin::Origin;
pub use outbox::{Outbox, OutboxConfig, Published};
pub use retry::{Backoff, Retry};
pub use routes::{RouteTo, Routes};
pub use sink::{Call, Delivery, Interceptor, Sink};
pub use text::{
    AggregateId, AggregateType, CausationId, Consumer, ContentType, CorrelationId, OrderingKey,
    Source, SourceMessageId, StoreId, TenantId, Topic,
};
pub use transaction::{Committed, OutboxTransaction, Savepoint};
pub use work_queue::WorkQueue;

/// What the derive macro names in the code that it writes, and what our simulator and our stores
/// need; not for people.
#[doc(hidden)]
pub mod __private {
    pub use crate::clock::{random_unit, seed_randomness};
    pub use serde::Serialize;
}
