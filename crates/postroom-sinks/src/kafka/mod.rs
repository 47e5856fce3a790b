//! Messages to Kafka.

mod config;
mod producer;

use std::fmt;
use std::time::Duration;

use postroom_core::lifecycle::Outcome;
use postroom_core::observe::Circuit;
use postroom_core::store::BoxFuture;
use postroom_core::{Delivery, Message, Sink};
use rdkafka::config::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::FutureRecord;

pub use self::config::KafkaConfig;
use self::producer::Producer;
use crate::chains::in_chains;
use crate::cloud_event::{Mode, STRUCTURED};
use crate::destination::Destination;
use crate::fault::Fault;
use crate::link::Link;
use crate::probe::{self, Probe, Probed};

/// How long to leave a client or a broker alone that has no room.
const RECOVERY: Duration = Duration::from_millis(500);

/// Produces each message as a record and waits until all replicas that are in sync have it.
///
/// The key of the record is the ordering key, and its partition is the one that Java's producer
/// would choose. Attributes of the event are headers `ce_<attribute>`, and `content-type` is that
/// of the payload. Headers of the message keep their names, except `ce_…` and `content-type`, which
/// belong to the event: these are not sent. The producer is idempotent, so that a retry inside the
/// client is stored once; a message that comes again after a failure or a restart is stored again,
/// with the same `ce_id`.
pub struct KafkaSink {
    config: KafkaConfig,
    client: ClientConfig,
    topic: Destination,
    link: Link<Producer>,
}

impl KafkaSink {
    /// A sink that connects when it is first needed.
    ///
    /// # Errors
    /// Names the setting that is wrong, and what it may be.
    pub fn new(config: KafkaConfig) -> Result<Self, String> {
        let topic = Destination::parse("topic", &config.topic)?;
        let client = config::client(&config)?;
        let link = Link::new("kafka", config.timeout);
        Ok(Self { config, client, topic, link })
    }

    async fn connect(&self) -> Result<Producer, String> {
        Producer::connect(self.client.clone(), self.config.timeout / 2).await
    }

    async fn send(&self, message: &Message) -> Result<(), Fault> {
        let topic = self.topic.of(message)?;
        check_topic(&topic)?;
        let structured;
        let payload = match self.config.mode {
            Mode::Binary => message.payload().as_ref(),
            Mode::Structured => {
                structured = self.config.events.structured(message);
                structured.as_bytes()
            }
        };
        let mut record = FutureRecord::to(&topic).payload(payload).headers(self.headers(message));
        if let Some(key) = message.ordering_key() {
            record = record.key(AsRef::<str>::as_ref(key));
        }
        let producer = self.link.get(|| self.connect()).await?;
        let client = producer.get().ok_or_else(|| Fault::transient("the client has ended"))?;
        let doubt = self.link.doubt(&producer);
        let error = match client.send_result(record) {
            Ok(report) => match report.await {
                Ok(Ok(_)) => None,
                Ok(Err((error, _))) => Some(error),
                Err(_) => return Err(Fault::transient("the client ended; it may have arrived")),
            },
            Err((error, _)) => Some(error),
        };
        if !error.as_ref().is_some_and(says_nothing) {
            doubt.answered();
        }
        error.map_or(Ok(()), |error| Err(fault(&error)))
    }

    fn headers(&self, message: &Message) -> OwnedHeaders {
        let own = message.headers().iter().filter(|(name, _)| !is_owned(name));
        let headers = own.fold(OwnedHeaders::new(), |headers, (name, value)| {
            headers.insert(Header { key: name, value: Some(value) })
        });
        let kind = match self.config.mode {
            Mode::Binary => message.content_type(),
            Mode::Structured => STRUCTURED,
        };
        let headers = headers.insert(Header { key: "content-type", value: Some(kind) });
        if self.config.mode == Mode::Structured {
            return headers;
        }
        let attributes = self.config.events.attributes(message);
        attributes.into_iter().fold(headers, |headers, (name, value)| {
            headers.insert(Header { key: &format!("ce_{name}"), value: Some(value.as_ref()) })
        })
    }

    async fn look(&self) -> Result<Probed, Fault> {
        let producer = self.link.get(|| self.connect()).await?;
        let (_, version) = rdkafka::util::get_rdkafka_version();
        let about = format!("cluster {}, librdkafka {version}", producer.cluster);
        Ok(Probed { about: Some(about), ..Probed::default() })
    }
}

/// The names that Kafka has.
fn check_topic(name: &str) -> Result<(), Fault> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let fits = (1..=249).contains(&name.len()) && name != "." && name != "..";
    match fits && name.bytes().all(legal) {
        true => Ok(()),
        false => Err(Fault::Permanent(format!(
            "{name:?} is no topic of Kafka: 1 to 249 letters, digits, dots, dashes, underscores"
        ))),
    }
}

/// Whether a header means something to the mapping of the event.
fn is_owned(name: &str) -> bool {
    let starts = name.as_bytes().get(..3).is_some_and(|start| start.eq_ignore_ascii_case(b"ce_"));
    starts || name.eq_ignore_ascii_case("content-type")
}

/// Whether an error leaves open what became of the record, and the connection in doubt.
fn says_nothing(error: &KafkaError) -> bool {
    use RDKafkaErrorCode::{
        AllBrokersDown, BrokerTransportFailure, Fatal, MessageTimedOut, OperationTimedOut,
        RequestTimedOut,
    };
    matches!(
        error.rdkafka_error_code(),
        Some(
            AllBrokersDown
                | BrokerTransportFailure
                | Fatal
                | MessageTimedOut
                | OperationTimedOut
                | RequestTimedOut
        )
    )
}

/// What an error means for its record.
fn fault(error: &KafkaError) -> Fault {
    let why = producer::shown(error);
    match error.rdkafka_error_code() {
        Some(RDKafkaErrorCode::MessageSizeTooLarge) => Fault::Permanent(format!(
            "{why}: raise message.max.bytes of the topic, and in properties"
        )),
        Some(RDKafkaErrorCode::InvalidTopic | RDKafkaErrorCode::InvalidRecord) => {
            Fault::Permanent(why)
        }
        Some(RDKafkaErrorCode::QueueFull | RDKafkaErrorCode::ThrottlingQuotaExceeded) => {
            Fault::Throttled { after: RECOVERY, why }
        }
        _ if says_nothing(error) => Fault::Transient(format!("{why}; it may have arrived")),
        _ => Fault::Transient(why),
    }
}

impl Sink for KafkaSink {
    fn deliver<'a>(&'a self, batch: &'a [Delivery]) -> BoxFuture<'a, Vec<Outcome>> {
        Box::pin(in_chains(batch, self.config.timeout, |delivery| self.send(delivery.message())))
    }

    fn max_batch(&self) -> usize {
        256
    }

    fn takes_runs(&self) -> bool {
        true
    }
}

impl Probe for KafkaSink {
    fn probe(&self) -> BoxFuture<'_, Probed> {
        Box::pin(probe::within(self.config.timeout, self.look()))
    }

    fn circuit(&self) -> Circuit {
        self.link.circuit()
    }
}

impl fmt::Debug for KafkaSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaSink").field("config", &self.config).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn x09_names_that_kafka_does_not_have_are_refused_for_good() {
        for name in ["a", "Order.placed_v-1", &"x".repeat(249)] {
            assert_eq!(check_topic(name), Ok(()), "{name}");
        }
        let long = "x".repeat(250);
        for name in ["", ".", "..", "a b", "a/b", "ä", "a\n", "a\0b", "a,b", &long] {
            assert!(matches!(check_topic(name), Err(Fault::Permanent(_))), "{name}");
        }
    }

    #[test]
    fn rly_2_errors_have_their_meaning() {
        use RDKafkaErrorCode as Code;
        let fault = |code| fault(&KafkaError::MessageProduction(code));
        for code in [Code::MessageSizeTooLarge, Code::InvalidTopic, Code::InvalidRecord] {
            assert!(matches!(fault(code), Fault::Permanent(_)), "{code}");
        }
        for code in [Code::QueueFull, Code::ThrottlingQuotaExceeded] {
            assert!(matches!(fault(code), Fault::Throttled { .. }), "{code}");
        }
        let transient = [
            Code::MessageTimedOut,
            Code::UnknownTopicOrPartition,
            Code::UnknownTopic,
            Code::TopicAuthorizationFailed,
            Code::NotEnoughReplicas,
            Code::BrokerTransportFailure,
        ];
        for code in transient {
            assert!(matches!(fault(code), Fault::Transient(_)), "{code}");
        }
    }
}
