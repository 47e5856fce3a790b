//! A stream of its own for each test.

use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::{self, stream};
use postroom_core::{Message, MessageBuilder};
use postroom_servers::Kind;
use postroom_sinks::CloudEvents;
use postroom_sinks::nats::{NatsConfig, NatsSink};
use postroom_testkit::sinks::{Proxy, Receiver, Settings, SinkHarness, Stored};

use crate::common::{self, Place};

pub(crate) struct NatsHarness(pub(crate) Place);

impl NatsHarness {
    pub(crate) async fn at(place: Place, config: stream::Config) -> Self {
        let harness = Self(place);
        let (name, subjects) = (harness.0.tenant.clone(), vec![format!("{}.>", harness.0.tenant)]);
        let config = stream::Config { name, subjects, ..config };
        harness.direct().await.create_stream(config).await.expect("a stream");
        harness
    }

    pub(crate) fn config(&self) -> NatsConfig {
        let mut config = NatsConfig::new(self.0.proxied());
        config.subject = "{tenant}.{topic}".to_owned();
        config.events = CloudEvents::new("/shop");
        config
    }

    pub(crate) async fn direct(&self) -> jetstream::Context {
        jetstream::new(async_nats::connect(&self.0.url).await.expect("a connection"))
    }
}

impl SinkHarness for NatsHarness {
    type Sink = NatsSink;

    async fn fresh() -> Self {
        Self::at(Place::shared(Kind::Nats), stream::Config::default()).await
    }

    async fn private() -> Self {
        Self::at(Place::private(Kind::Nats), stream::Config::default()).await
    }

    async fn receiver(&mut self, order: Receiver) {
        self.0.receiver(order);
    }

    fn proxy(&self) -> &Proxy {
        &self.0.proxy
    }

    fn tenant(&self) -> &str {
        &self.0.tenant
    }

    fn sink(&self, settings: Settings) -> NatsSink {
        let (mode, timeout) = (common::mode(settings.format), settings.timeout);
        NatsSink::new(NatsConfig { mode, timeout, ..self.config() }).expect("legal")
    }

    async fn stored(&self) -> Vec<Stored> {
        let mut stream = self.direct().await.get_stream(&self.0.tenant).await.expect("a stream");
        let last = stream.info().await.expect("an answer").state.last_sequence;
        let mut stored = Vec::new();
        for sequence in 1..=last {
            stored.push(decode(stream.get_raw_message(sequence).await.expect("a message")));
        }
        stored
    }

    fn dedupes(&self) -> bool {
        true
    }

    fn unsendable(&self) -> Vec<MessageBuilder> {
        let topics = ["a b", "a\u{a0}b", "a.*", ">", "a.", ".a", "a..b", "*"];
        let with_topic = |topic: &str| Message::builder(topic).tenant_id(self.tenant());
        let headers = [("a:b", "v"), ("a,b", "v"), ("x", "v\u{1}"), ("x", "\u{7f}")];
        let with_header = |(name, value): (&str, &str)| with_topic("t").header(name, value);
        let bad = topics.into_iter().map(with_topic).chain(headers.into_iter().map(with_header));
        bad.chain([Message::builder("no.tenant")]).collect()
    }

    fn greets(&self) -> bool {
        true
    }

    fn oversize(&self) -> Option<usize> {
        Some(1_048_576)
    }
}

fn decode(message: StreamMessage) -> Stored {
    let mut stored = Stored { payload: message.payload.to_vec(), ..Stored::default() };
    for (name, values) in message.headers.iter() {
        let value = values.first().expect("a value").to_string();
        let name: &str = name.as_ref();
        match name.strip_prefix("ce-") {
            Some("datacontenttype") => stored.content_type = decoded(&value),
            Some(attribute) => {
                stored.attributes.insert(attribute.to_owned(), decoded(&value));
            }
            None if name == "Nats-Msg-Id" => stored.id = value,
            None if name == "Content-Type" => stored.content_type = value,
            None => {
                stored.headers.insert(name.to_owned(), value);
            }
        }
    }
    stored
}

/// Undoes the encoding of attributes, as readers do.
fn decoded(value: &str) -> String {
    let mut parts = value.split('%');
    let mut bytes = parts.next().expect("a first part").as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).expect("two digits"));
        bytes.extend(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).expect("text")
}
