//! Messages to RabbitMQ, by AMQP 0.9.1.

mod broker;
mod config;
mod properties;

use std::time::Duration;

use lapin::protocol::AMQPErrorKind;
use lapin::types::ShortString;
use lapin::uri::{AMQPScheme, AMQPUri};
use lapin::{Confirmation, ErrorKind};
use postroom_core::lifecycle::Outcome;
use postroom_core::observe::Circuit;
use postroom_core::store::BoxFuture;
use postroom_core::{Delivery, Sink};

use self::broker::Broker;
pub use self::config::AmqpConfig;
use crate::chains::in_chains;
use crate::cloud_event::Mode;
use crate::destination::Destination;
use crate::fault::Fault;
use crate::link::Link;
use crate::probe::{self, Probe, Probed};

/// How long to leave a broker alone that has no room.
const RECOVERY: Duration = Duration::from_secs(1);

/// Publishes each message to an exchange, persistent and mandatory, and waits for the broker's
/// confirm.
///
/// RabbitMQ does not recognise a message that comes again: its id is the property `message-id`, for
/// whoever reads. A message that no queue takes is refused for good. Attributes of the event are
/// headers `cloudEvents_<attribute>`, and the type of the payload is the property `content-type`;
/// the properties `type`, `app-id`, `timestamp` and `correlation-id` are set as well. Headers of
/// the message keep their names, except `CC` and `BCC`, which would route it elsewhere, and
/// `cloudEvents_…` and `cloudEvents:…`, which belong to the event: these are not sent.
#[derive(Debug)]
pub struct AmqpSink {
    config: AmqpConfig,
    exchange: ShortString,
    routing_key: Destination,
    link: Link<Broker>,
}

impl AmqpSink {
    /// A sink that connects when it is first needed.
    ///
    /// # Errors
    /// Names the setting that is wrong, and what it may be.
    pub fn new(config: AmqpConfig) -> Result<Self, String> {
        let routing_key = Destination::parse("routing_key", &config.routing_key)?;
        if config.timeout.is_zero() {
            return Err("timeout is zero; the default is 10 s".to_owned());
        }
        let exchange = ShortString::try_new(config.exchange.as_str());
        let exchange = exchange.map_err(|_| "exchange is longer than 255 bytes".to_owned())?;
        let is_plain = server(&config)?.scheme == AMQPScheme::AMQP;
        if config.ca_file.is_some() && is_plain {
            return Err("ca_file is set and url is not amqps://".to_owned());
        }
        let link = Link::new("rabbitmq", config.timeout);
        Ok(Self { config, exchange, routing_key, link })
    }

    async fn connect(&self) -> Result<Broker, String> {
        let opened = Broker::open(server(&self.config)?, self.config.ca_file.as_deref()).await;
        opened.map_err(|error| self.config.url.hidden_from(&error))
    }

    async fn send(&self, delivery: &Delivery) -> Result<(), Fault> {
        let message = delivery.message();
        let key = ShortString::try_new(self.routing_key.of(message)?);
        let key = key.map_err(|_| Fault::permanent("the routing key is longer than 255 bytes"))?;
        let properties = properties::of(message, &self.config.events, self.config.mode)?;
        let structured;
        let payload = match self.config.mode {
            Mode::Binary => message.payload().as_ref(),
            Mode::Structured => {
                structured = self.config.events.structured(message);
                structured.as_bytes()
            }
        };
        let broker = self.link.get(|| self.connect()).await?;
        let lane = broker.lane(self.config.timeout / 2).await?;
        let doubt = self.link.doubt(&broker);
        let confirmed = lane.publish(self.exchange.clone(), key, payload, properties);
        let confirmed = tokio::select! {
            confirmed = confirmed => confirmed,
            () = broker.blocked() => {
                // It has told us so: it is there, and will read on when it has room.
                doubt.answered();
                return Err(throttled("the broker is short of memory or disk; it may have arrived"));
            }
        };
        match confirmed {
            Ok(confirmation) => {
                doubt.answered();
                lane.free();
                verdict(confirmation)
            }
            Err(error) => {
                // The broker has closed the channel of this message, and that alone.
                if error.is_amqp_soft_error() {
                    doubt.answered();
                }
                Err(fault(&error))
            }
        }
    }

    /// The client does not tell the broker's version.
    async fn look(&self) -> Result<Probed, Fault> {
        let broker = self.link.get(|| self.connect()).await?;
        let lane = broker.lane(self.config.timeout / 2).await?;
        let mut probed = Probed { about: Some("AMQP 0.9.1".to_owned()), ..Probed::default() };
        if !self.config.exchange.is_empty() {
            match lane.has_exchange(self.exchange.clone()).await {
                Ok(()) => lane.free(),
                Err(error) => probed.broken = Some(error.to_string()),
            }
        }
        Ok(probed)
    }
}

/// The address, with the password in plain text: read when it is needed and kept nowhere.
fn server(config: &AmqpConfig) -> Result<AMQPUri, String> {
    let wrong = "url is not one of AMQP; write amqp://user:password@host:5672/vhost, or amqps:// \
                 for TLS";
    config.url.reveal().parse().map_err(|_| wrong.to_owned())
}

/// What a confirm says. The broker returns a message that no queue takes, and then confirms it.
fn verdict(confirmation: Confirmation) -> Result<(), Fault> {
    match confirmation {
        Confirmation::Ack(None) => Ok(()),
        Confirmation::Ack(Some(returned)) | Confirmation::Nack(Some(returned)) => {
            let (code, text) = (returned.reply_code, returned.reply_text);
            Err(Fault::Permanent(format!("no queue takes it: {code} {text}; bind one")))
        }
        Confirmation::Nack(None) => Err(throttled("the queue refused it, as a full one does")),
        Confirmation::NotRequested => Err(Fault::transient("the channel gives no confirms")),
    }
}

fn throttled(why: &str) -> Fault {
    Fault::Throttled { after: RECOVERY, why: why.to_owned() }
}

/// What an error means for the message that was sent.
fn fault(error: &lapin::Error) -> Fault {
    let ErrorKind::ProtocolError(told) = error.kind() else {
        return Fault::Transient(format!("{error}; it may have arrived"));
    };
    let is_soft = matches!(told.kind(), AMQPErrorKind::Soft(_));
    match is_soft && told.get_message().as_str().contains("larger than") {
        true => Fault::permanent(error),
        false => Fault::transient(error),
    }
}

impl Sink for AmqpSink {
    fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> BoxFuture<'a, Vec<Outcome>> {
        Box::pin(in_chains(batch, self.config.timeout, |delivery| self.send(delivery)))
    }

    fn max_batch(&self) -> usize {
        broker::LANES
    }

    fn takes_runs(&self) -> bool {
        true
    }
}

impl Probe for AmqpSink {
    fn probe(&self) -> BoxFuture<'_, Probed> {
        Box::pin(probe::within(self.config.timeout, self.look()))
    }

    fn circuit(&self) -> Circuit {
        self.link.circuit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rly_2_a_setting_that_is_wrong_is_named() {
        let good = || AmqpConfig::new("amqp://me:hunter2@host/v");
        AmqpSink::new(good()).expect("legal");
        let mut wrong = [good(), good(), good(), good(), good()];
        wrong[0].url = "http://me:hunter2@host".into();
        wrong[1].exchange = "x".repeat(256);
        wrong[2].routing_key = "{id}".to_owned();
        wrong[3].ca_file = Some("ca.pem".into());
        wrong[4].timeout = Duration::ZERO;
        let names = ["url", "exchange", "routing_key", "ca_file", "timeout"];
        for (config, name) in wrong.into_iter().zip(names) {
            let error = AmqpSink::new(config).expect_err(name);
            assert!(error.starts_with(name) && !error.contains("hunter2"), "{error}");
        }
    }
}
