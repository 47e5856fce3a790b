//! The part of the suite for sinks that the mock of a cluster can play. Brokers tell their own
//! addresses, so that no proxy can stand between them and a client.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver as Channel, Sender, channel};
use std::time::Duration;

use postroom_core::{Message, MessageBuilder};
use postroom_sinks::kafka::{KafkaConfig, KafkaSink};
use postroom_sinks::{CloudEvents, Mode};
use postroom_testkit::sinks::{Format, Proxy, Receiver, Settings, SinkHarness, Stored};
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Headers as _, Message as _};
use rdkafka::mocking::MockCluster;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

/// The topics of the cases. One partition each: what has no key has an order, too.
const TOPICS: [&str; 4] = ["order.placed", "t", "large", "small"];

struct Kafka {
    brokers: String,
    proxy: Proxy,
    /// The cluster lives on a thread of its own until this is dropped.
    _alive: Sender<()>,
}

mod kafka {
    use super::Kafka;

    postroom_testkit::sink_conformance_of!(Kafka, stored);
    postroom_testkit::sink_conformance_of!(Kafka, order);
    postroom_testkit::sink_conformance_of!(Kafka, names);
}

fn cluster(tell: &Sender<String>, ended: &Channel<()>) {
    let cluster = MockCluster::new(1).expect("a cluster");
    for topic in TOPICS {
        cluster.create_topic(topic, 1, 1).expect("a topic");
    }
    tell.send(cluster.bootstrap_servers()).expect("heard");
    let _ = ended.recv();
}

impl SinkHarness for Kafka {
    type Sink = KafkaSink;

    async fn fresh() -> Self {
        let (alive, ended) = channel();
        let (tell, told) = channel();
        std::thread::spawn(move || cluster(&tell, &ended));
        let brokers = told.recv().expect("a cluster");
        let proxy = Proxy::to(brokers.clone());
        Self { brokers, proxy, _alive: alive }
    }

    async fn private() -> Self {
        Self::fresh().await
    }

    async fn receiver(&mut self, order: Receiver) {
        panic!("{order:?}: these cases are in the tests of the mock itself");
    }

    fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    fn tenant(&self) -> &str {
        "shop"
    }

    fn sink(&self, settings: Settings) -> KafkaSink {
        let mode = match settings.format {
            Format::Binary => Mode::Binary,
            Format::Structured => Mode::Structured,
        };
        let config = KafkaConfig {
            mode,
            events: CloudEvents::new("/shop"),
            timeout: settings.timeout,
            ..KafkaConfig::new(self.brokers.clone())
        };
        KafkaSink::new(config).expect("legal")
    }

    async fn stored(&self) -> Vec<Stored> {
        let brokers = self.brokers.clone();
        tokio::task::spawn_blocking(move || read(&brokers)).await.expect("read")
    }

    fn dedupes(&self) -> bool {
        false
    }

    fn unsendable(&self) -> Vec<MessageBuilder> {
        let long = "x".repeat(250);
        let topics = ["a b", "a/b", "ä", "..", "a,b", &long];
        topics.map(|topic| Message::builder(topic).tenant_id(self.tenant())).into()
    }

    fn oversize(&self) -> Option<usize> {
        Some(1_000_001)
    }
}

/// All records, topic by topic.
fn read(brokers: &str) -> Vec<Stored> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", brokers).set("group.id", "reader");
    config.set("enable.partition.eof", "true");
    let consumer: BaseConsumer = config.create().expect("a consumer");
    let mut all = TopicPartitionList::new();
    for topic in TOPICS {
        all.add_partition_offset(topic, 0, Offset::Beginning).expect("legal");
    }
    consumer.assign(&all).expect("assigned");
    let (mut records, mut ends) = (Vec::new(), 0);
    while ends < TOPICS.len() {
        match consumer.poll(Duration::from_secs(30)).expect("an answer") {
            Ok(record) => records.push(stored(&record)),
            Err(KafkaError::PartitionEOF(_)) => ends += 1,
            Err(error) => panic!("{error}"),
        }
    }
    records
}

fn stored(record: &BorrowedMessage<'_>) -> Stored {
    let payload = record.payload().expect("no tombstone").to_vec();
    let mut stored = Stored { payload, ..Stored::default() };
    let mut rest = BTreeMap::new();
    for header in record.headers().expect("headers").iter() {
        let value = header.value.expect("a value").to_vec();
        let value = String::from_utf8(value).expect("UTF-8");
        match (header.key, header.key.strip_prefix("ce_")) {
            (_, Some(attribute)) => {
                stored.attributes.insert(attribute.to_owned(), value);
            }
            ("content-type", _) => stored.content_type = value,
            (name, _) => {
                rest.insert(name.to_owned(), value);
            }
        }
    }
    stored.headers = rest;
    stored.id = stored.attributes.get("id").cloned().unwrap_or_else(|| {
        let event: serde_json::Value = serde_json::from_slice(&stored.payload).expect("an event");
        event["id"].as_str().expect("an id").to_owned()
    });
    stored
}
