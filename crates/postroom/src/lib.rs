//! Postroom is a transactional **outbox** for Rust: events that leave your service exactly when the
//! change that caused them is committed.
//!
//! # Why
//!
//! A service that writes to its database and to a broker loses one of the two sooner or later:
//!
//! ```text
//! let mut tx = pool.begin().await?;
//! insert_order(&mut tx, &order).await?;
//! tx.commit().await?;
//! // A crash here, or a broker that is away: the order exists and nobody hears of it.
//! broker.publish(OrderPlaced::from(&order)).await?;
//! // Publish before the commit, and a rollback leaves an event about an order that never was.
//! ```
//!
//! With an outbox there is one write. The event is a row in the same transaction, and somebody
//! delivers it as often as it takes:
//!
//! ```text
//! let mut tx = outbox.begin().await?;
//! insert_order(tx.conn(), &order).await?;
//! tx.publish(&OrderPlaced::from(&order))?;
//! tx.commit().await?;
//! // Both are there, or neither is. What comes next can crash as it likes.
//! ```
//!
//! # Quickstart
//!
#![cfg_attr(feature = "sqlite", doc = "```")]
#![cfg_attr(not(feature = "sqlite"), doc = "```text")]
//! use postroom::{Event, Outbox, OwnerToken, SqliteStore, StoreConfig, WorkQueue};
//! use postroom::store::AdminStore;
//! use std::{sync::Arc, time::Duration};
//!
//! #[derive(serde::Serialize, Event)]
//! #[event(topic = "order.placed")]
//! struct OrderPlaced {
//!     order_id: i64,
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = Arc::new(SqliteStore::in_memory(StoreConfig::default()).await?);
//! store.migrate().await?;
//! let outbox = Outbox::<SqliteStore>::new(Arc::clone(&store));
//!
//! let mut tx = outbox.begin().await?;
//! sqlx::query("create table orders (id integer)").execute(tx.conn()).await?;
//! sqlx::query("insert into orders values (7)").execute(tx.conn()).await?;
//! tx.publish(&OrderPlaced { order_id: 7 })?;
//! tx.commit().await?;
//!
//! let (queue, me) = (WorkQueue::new(store), OwnerToken::random());
//! let claimed = queue.claim(me, Duration::from_secs(30), 10).await?;
//! assert_eq!(claimed.items[0].message.payload().as_ref(), br#"{"order_id":7}"#);
//! queue.ack(me, &[claimed.items[0].lease]).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Concepts
//!
//! - A [`Message`] is what the producer says: a topic, bytes, headers and what it is about. It is
//!   valid from the moment it is built and never changes.
//! - An [`Event`](trait@Event) is a type that knows its topic; [`derive(Event)`](macro@Event)
//!   writes it from attributes. An event with an aggregate is ordered by it, unless it is
//!   `unordered`. Messages with the same ordering key are handled one at a time, in order.
//! - An [`Outbox`] publishes, in one of three ways: in a transaction that
//!   [it begins](Outbox::begin), in one [that you began](Outbox::publish_in), or in
//!   [one of its own](Outbox::publish).
//! - An [`IdempotencyKey`] makes the second publish of the same thing a success that writes
//!   nothing.
//! - A [`WorkQueue`] claims messages and settles them. A claim is a *lease*: it ends when you
//!   acknowledge, abandon, fail or release the message, or when its time is up. Then somebody else
//!   may claim it, and your late answer changes nothing.
//! - A message that failed too often, or will never work, is a *dead letter*: kept, and not tried
//!   again by itself. [`Retry`] says how often and how fast.
//! - A [store] is one database. Its clock decides, so your hosts' clocks need not agree.
//!
//! # Guarantees
//!
//! Promised:
//! - Your rows and your messages commit together or not at all.
//! - A committed message can be claimed until it is acknowledged, dead or expired, whatever
//!   crashes.
//! - Two workers never hold a live lease on the same message, and a worker that lost its lease can
//!   not settle the message any more.
//! - A message with an idempotency key is written once, however many publishers race, and their
//!   transactions stay usable.
//! - A broken limit is an error that names the field, before anything is written.
//!
//! Not promised:
//! - Delivery exactly once. It is *at least* once; dedupe by [`MessageId`].
//! - That a worker that lost its lease stops at once.
//! - That an idempotency key is remembered for ever: a [purge](WorkQueue::purge) forgets it 30 days
//!   after its message was settled, unless told otherwise.
//! - A time by which a message arrives while the database or the receiver is away.
//!
//! # Features
//!
//! | feature | what it adds |
//! |---|---|
//! | `sqlite` (default) | `SqliteStore`, with SQLite built in |
//! | `postgres` | `PgStore` |
//! | `mysql` | `MySqlStore`, for MySQL 8.0 and MariaDB 10.6 or later |
//! | `sinks` | `sinks`: files and standard output, and what a sink of your own can use |
//! | `http`, `nats`, `amqp`, `redis`, `kafka` | webhooks and brokers, in `sinks` |
//!
//! Without any of them there are the model and the traits, for a store of your own.

#[doc(inline)]
pub use postroom_core::*;
/// ```
/// use postroom::Event;
/// use serde::Serialize;
///
/// #[derive(Serialize, Event)]
/// #[event(topic = "order.placed")]
/// struct OrderPlaced {
///     #[event(aggregate = "order")]
///     order_id: u64,
///     #[event(tenant)]
///     shop: String,
///     total_cents: u64,
/// }
/// # let event = OrderPlaced { order_id: 7, shop: "acme".into(), total_cents: 1 };
/// # assert_eq!(event.aggregate(), Some(("order".into(), "7".into())));
/// # assert_eq!(event.tenant_id().as_deref(), Some("acme"));
/// ```
///
pub use postroom_derive::Event;

#[cfg(feature = "sinks")]
pub use postroom_sinks as sinks;
#[cfg(any(feature = "postgres", feature = "mysql"))]
pub use postroom_stores::Roles;
#[cfg(feature = "sqlite")]
pub use postroom_stores::fleet::SqliteFolder;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
pub use postroom_stores::fleet::{SqlQuery, StoreUrl};
#[cfg(feature = "mysql")]
pub use postroom_stores::{MySqlServers, MySqlStore, mysql};
#[cfg(feature = "postgres")]
pub use postroom_stores::{PgServers, PgStore, postgres};
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
pub use postroom_stores::{Queue, StoreConfig};
#[cfg(feature = "sqlite")]
pub use postroom_stores::{SqliteStore, sqlite};

/// The code of the guide compiles.
#[cfg(all(doctest, feature = "sqlite"))]
#[doc = include_str!("../../../docs/guide/inbox.md")]
mod guide {}

/// The code of the guide compiles.
#[cfg(all(doctest, feature = "sqlite"))]
#[doc = include_str!("../../../docs/guide/many-databases.md")]
mod many_databases {}
