//! An exchange and a queue of its own for each test.

use lapin::options::{
    BasicGetOptions, BasicNackOptions, ExchangeDeclareOptions, QueueBindOptions,
    QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{Channel, Connection, ConnectionProperties, ExchangeKind};
use postroom_core::{Message, MessageBuilder};
use postroom_servers::Kind;
use postroom_sinks::CloudEvents;
use postroom_sinks::amqp::{AmqpConfig, AmqpSink};
use postroom_testkit::sinks::{Proxy, Receiver, Settings, SinkHarness, Stored};

use crate::common::{self, Place};

pub(crate) struct RabbitHarness(pub(crate) Place);

impl RabbitHarness {
    pub(crate) async fn at(place: Place, arguments: FieldTable) -> Self {
        let harness = Self(place);
        let (_connection, channel) = harness.direct().await;
        let name = harness.name();
        let options = ExchangeDeclareOptions { durable: true, ..Default::default() };
        let none = FieldTable::default;
        channel
            .exchange_declare(name.clone(), ExchangeKind::Topic, options, none())
            .await
            .expect("an exchange");
        let options = QueueDeclareOptions { durable: true, ..Default::default() };
        channel.queue_declare(name.clone(), options, arguments).await.expect("a queue");
        let key: ShortString = format!("{name}.#").into();
        channel
            .queue_bind(name.clone(), name, key, QueueBindOptions::default(), none())
            .await
            .expect("a binding");
        harness
    }

    pub(crate) fn name(&self) -> ShortString {
        self.0.tenant.as_str().into()
    }

    pub(crate) fn config(&self) -> AmqpConfig {
        let mut config = AmqpConfig::new(self.0.proxied());
        config.exchange = self.0.tenant.clone();
        config.routing_key = "{tenant}.{topic}".to_owned();
        config.events = CloudEvents::new("/shop");
        config
    }

    pub(crate) async fn direct(&self) -> (Connection, Channel) {
        let connection = Connection::connect(&self.0.url, ConnectionProperties::default()).await;
        let connection = connection.expect("a connection");
        let channel = connection.create_channel().await.expect("a channel");
        (connection, channel)
    }
}

impl SinkHarness for RabbitHarness {
    type Sink = AmqpSink;
    const KILLS: usize = 1;

    async fn fresh() -> Self {
        Self::at(Place::shared(Kind::RabbitMq), FieldTable::default()).await
    }

    async fn private() -> Self {
        Self::at(Place::private(Kind::RabbitMq), FieldTable::default()).await
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

    fn sink(&self, settings: Settings) -> AmqpSink {
        let (mode, timeout) = (common::mode(settings.format), settings.timeout);
        AmqpSink::new(AmqpConfig { mode, timeout, ..self.config() }).expect("legal")
    }

    async fn stored(&self) -> Vec<Stored> {
        let (_connection, channel) = self.direct().await;
        let (mut stored, mut last) = (Vec::new(), None);
        let options = BasicGetOptions { no_ack: false };
        while let Some(got) = channel.basic_get(self.name(), options).await.expect("an answer") {
            last = Some(got.delivery.delivery_tag);
            stored.push(decode(got.delivery));
        }
        if let Some(last) = last {
            let options = BasicNackOptions { multiple: true, requeue: true };
            channel.basic_nack(last, options).await.expect("given back");
        }
        // When this is answered they are back in their places.
        let options = QueueDeclareOptions { passive: true, ..Default::default() };
        let queue = channel.queue_declare(self.name(), options, FieldTable::default()).await;
        queue.expect("a queue");
        stored
    }

    fn dedupes(&self) -> bool {
        false
    }

    fn unsendable(&self) -> Vec<MessageBuilder> {
        let long = Message::builder("ü".repeat(200)).tenant_id(self.tenant());
        vec![long, Message::builder("no.tenant")]
    }

    fn greets(&self) -> bool {
        true
    }

    fn oversize(&self) -> Option<usize> {
        Some(128 * 1_024 * 1_024 + 1)
    }
}

fn decode(delivery: lapin::message::Delivery) -> Stored {
    let properties = &delivery.properties;
    let text =
        |text: &Option<ShortString>| text.as_ref().map_or("", ShortString::as_str).to_owned();
    assert_eq!(properties.delivery_mode(), &Some(2), "persistent");
    let mut stored = Stored {
        id: text(properties.message_id()),
        content_type: text(properties.content_type()),
        payload: delivery.data.clone(),
        ..Stored::default()
    };
    let headers = properties.headers().as_ref().expect("headers");
    for (name, value) in headers.inner() {
        let AMQPValue::LongString(value) = value else { panic!("{name}: {value:?}") };
        let value = String::from_utf8(value.as_bytes().to_vec()).expect("text");
        match name.as_str().strip_prefix("cloudEvents_") {
            Some(attribute) => stored.attributes.insert(attribute.to_owned(), value),
            None => stored.headers.insert(name.as_str().to_owned(), value),
        };
    }
    stored
}
