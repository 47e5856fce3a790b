//! A connection with channels for many messages at a time.
//!
//! A channel carries one message at a time. A broker says of a message that no queue takes it, by
//! returning it, and confirms it afterwards; with several under way on one channel, and confirms
//! that may stand for many, it can not be told for sure whose return it was, and a lost message
//! would pass for a stored one. Besides, a mistake in one message closes no channel of another.

use std::fmt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions};
use lapin::tcp::{AMQPUriTcpExt as _, OwnedTLSConfig};
use lapin::types::{FieldTable, ShortString};
use lapin::uri::AMQPUri;
use lapin::{BasicProperties, Channel, Confirmation, ConnectionProperties, ExchangeKind};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{sleep, timeout};

use super::throttled;
use crate::fault::Fault;
use crate::link::Connection;

/// How many messages may be under way at a time.
pub(super) const LANES: usize = 100;

/// How soon a message that waits for its confirm learns that the broker has stopped reading.
const GLANCE: Duration = Duration::from_millis(100);

/// An open connection.
pub(super) struct Broker {
    connection: lapin::Connection,
    places: Semaphore,
    idle: Mutex<Vec<Channel>>,
}

impl Connection for Broker {
    fn is_alive(&self) -> bool {
        self.connection.status().connected()
    }
}

impl Broker {
    /// Connects and logs in.
    ///
    /// # Errors
    /// A text for people.
    pub(super) async fn open(server: AMQPUri, ca_file: Option<&Path>) -> Result<Self, String> {
        let mut tls = OwnedTLSConfig::default();
        if let Some(path) = ca_file {
            let problem = |error| format!("ca_file {}: {error}", path.display());
            tls.cert_chain = Some(tokio::fs::read_to_string(path).await.map_err(problem)?);
        }
        let text = |error: lapin::Error| error.to_string();
        let runtime = lapin::runtime::default_runtime().map_err(text)?;
        let dial = async move |mut address: AMQPUri, runtime| {
            // Whoever dials writes the address to the log, and needs no password.
            address.authority.userinfo.password.clear();
            Ok(address.connect_with_config_async(tls.as_ref(), &runtime).await?)
        };
        let properties = ConnectionProperties::default().with_connection_name("postroom".into());
        let opened = lapin::Connection::connector(server, runtime, dial, properties).await;
        let (places, idle) = (Semaphore::new(LANES), Mutex::default());
        Ok(Self { connection: opened.map_err(text)?, places, idle })
    }

    /// Whether the broker has said that it reads no messages for now.
    fn is_blocked(&self) -> bool {
        self.connection.status().blocked()
    }

    /// Ends when the broker says that.
    pub(super) async fn blocked(&self) {
        while !self.is_blocked() {
            sleep(GLANCE).await;
        }
    }

    /// A channel for one message.
    ///
    /// # Errors
    /// When the broker takes none for now, or too many are under way: nothing was sent.
    pub(super) async fn lane(&self, limit: Duration) -> Result<Lane<'_>, Fault> {
        if self.is_blocked() {
            return Err(throttled("the broker is short of memory or disk"));
        }
        let place = timeout(limit, self.places.acquire()).await;
        let Ok(Ok(place)) = place else {
            return Err(throttled("too many messages wait for their confirms"));
        };
        let idle = self.lock().pop().filter(|channel| channel.status().connected());
        let channel = match idle {
            Some(channel) => channel,
            None => self.channel().await.map_err(Fault::transient)?,
        };
        Ok(Lane { broker: self, channel, _place: place })
    }

    async fn channel(&self) -> lapin::Result<Channel> {
        let channel = self.connection.create_channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        Ok(channel)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Channel>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Broker").finish_non_exhaustive()
    }
}

/// A channel that carries one message. Dropping it closes it, since a confirm that comes later must
/// not pass for that of the next message.
pub(super) struct Lane<'a> {
    broker: &'a Broker,
    channel: Channel,
    _place: SemaphorePermit<'a>,
}

impl Lane<'_> {
    /// Sends it and waits for what the broker says.
    pub(super) async fn publish(
        &self,
        exchange: ShortString,
        key: ShortString,
        payload: &[u8],
        properties: BasicProperties,
    ) -> lapin::Result<Confirmation> {
        let options = BasicPublishOptions { mandatory: true, immediate: false };
        self.channel.basic_publish(exchange, key, options, payload, properties).await?.await
    }

    /// Fails when there is no such exchange.
    pub(super) async fn has_exchange(&self, name: ShortString) -> lapin::Result<()> {
        let options = ExchangeDeclareOptions { passive: true, ..Default::default() };
        let (kind, arguments) = (ExchangeKind::Direct, FieldTable::default());
        self.channel.exchange_declare(name, kind, options, arguments).await
    }

    /// Gives the channel back for another message: the broker has answered.
    pub(super) fn free(self) {
        self.broker.lock().push(self.channel);
    }
}
