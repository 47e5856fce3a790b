//! Where messages go when they leave the process: webhooks, brokers, files.
//!
//! Every sink waits for the receiver's own acknowledgement before it says that a message is done,
//! passes the message id on so that the receiver can recognise a message that comes again, and
//! ends each send within a time that is shorter than the lease. What it answers when that fails is
//! decided in one place: see [`Fault`].
//!
//! | feature | sink | acknowledged by |
//! |---|---|---|
//! | | [`StdoutSink`], [`FileSink`] | the operating system, or the disk |
#![cfg_attr(feature = "http", doc = "| `http` | [`HttpSink`](http::HttpSink) | a 2xx answer |")]
#![cfg_attr(feature = "nats", doc = "| `nats` | [`NatsSink`](nats::NatsSink) | the stream |")]
#![cfg_attr(feature = "amqp", doc = "| `amqp` | [`AmqpSink`](amqp::AmqpSink) | a confirm |")]
#![cfg_attr(feature = "redis", doc = "| `redis` | [`RedisSink`](redis::RedisSink) | the answer |")]
#![cfg_attr(
    feature = "kafka",
    doc = "| `kafka` | [`KafkaSink`](kafka::KafkaSink) | all replicas |"
)]
//!
//! Messages of one ordering key are sent one after the other, and nothing behind one that failed;
//! different keys, and messages without one, are sent side by side.

#[cfg(feature = "amqp")]
pub mod amqp;
mod breaker;
mod chains;
mod cloud_event;
#[cfg(any(feature = "amqp", feature = "kafka", feature = "nats", feature = "redis", test))]
mod destination;
mod fault;
mod file;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "kafka")]
pub mod kafka;
#[cfg(any(feature = "amqp", feature = "kafka", feature = "nats", feature = "redis"))]
mod link;
#[cfg(any(feature = "http", feature = "nats", test))]
mod names;
#[cfg(feature = "nats")]
pub mod nats;
mod probe;
#[cfg(feature = "redis")]
pub mod redis;
mod secret;
mod stdout;
#[cfg(any(feature = "http", feature = "nats", feature = "redis"))]
mod tls;

pub use breaker::Breaker;
pub use chains::in_chains;
pub use cloud_event::{CloudEvents, Mode, STRUCTURED};
pub use fault::Fault;
pub use file::FileSink;
pub use probe::{Probe, Probed};
pub use secret::Secret;
pub use stdout::StdoutSink;
