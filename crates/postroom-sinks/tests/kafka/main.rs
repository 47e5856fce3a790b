//! Records on librdkafka's mock of a cluster, read back by `kcat`.

#![cfg(feature = "kafka")]

mod conformance;

use std::collections::HashMap;
use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

use postroom_core::lifecycle::Outcome;
use postroom_core::{Delivery, Message, MessageBuilder, Sink as _};
use postroom_sinks::kafka::{KafkaConfig, KafkaSink};
use postroom_sinks::{Mode, Probe as _};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use serde_json::Value;

type Cluster = MockCluster<'static, DefaultProducerContext>;

fn cluster(partitions: i32) -> Cluster {
    let cluster = MockCluster::new(1).expect("a cluster");
    cluster.create_topic("orders", partitions, 1).expect("a topic");
    cluster
}

fn config(cluster: &Cluster) -> KafkaConfig {
    KafkaConfig { timeout: Duration::from_secs(4), ..KafkaConfig::new(cluster.bootstrap_servers()) }
}

fn sink(cluster: &Cluster) -> KafkaSink {
    KafkaSink::new(config(cluster)).expect("legal")
}

fn order(number: usize) -> MessageBuilder {
    Message::builder("orders").payload(format!("{{\"order\":{number}}}"))
}

fn delivery(message: MessageBuilder) -> Delivery {
    Delivery::detached(message.build().expect("legal"), Duration::from_secs(30))
}

/// What another client finds in the topic.
fn read(cluster: &Cluster) -> Vec<Value> {
    let output = Command::new("kcat")
        .args(["-C", "-e", "-q", "-J", "-o", "beginning", "-t", "orders"])
        .args(["-b", &cluster.bootstrap_servers()])
        .output()
        .expect("kcat: `apt-get install kcat`");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn headers(record: &Value) -> HashMap<&str, &str> {
    let flat = record["headers"].as_array().expect("headers");
    let pairs = flat.chunks(2).map(|pair| (pair[0].as_str(), pair[1].as_str()));
    pairs.map(|(name, value)| (name.expect("text"), value.expect("text"))).collect()
}

fn orders(records: &[Value]) -> Vec<usize> {
    let order = |record: &Value| {
        let payload = record["payload"].as_str().expect("text");
        let payload: Value = serde_json::from_str(payload).expect("JSON");
        payload["order"].as_u64().expect("a number") as usize
    };
    records.iter().map(order).collect()
}

/// Delivers until nothing is left; tells how many attempts were counted.
async fn drain(sink: &KafkaSink, mut waiting: Vec<Delivery>) -> usize {
    let mut counted = 0;
    while !waiting.is_empty() {
        let outcomes = sink.deliver(&waiting).await;
        let wait = outcomes.iter().find_map(|outcome| match outcome {
            Outcome::RetryAfter { delay, .. } => Some(*delay),
            _ => None,
        });
        counted += outcomes.iter().filter(|o| matches!(o, Outcome::Failed(_))).count();
        let mut outcomes = outcomes.into_iter();
        waiting.retain(|_| outcomes.next() != Some(Outcome::Done));
        tokio::time::sleep(wait.unwrap_or(Duration::from_millis(20))).await;
    }
    counted
}

#[tokio::test(flavor = "multi_thread")]
async fn rly_2_another_client_reads_the_record() {
    let cluster = cluster(1);
    let message = order(7).ordering_key("order/7").aggregate("order", "7").header("x-tenant", "ä");
    let message = message.header("CE_id", "forged").header("content-type", "forged");
    let delivery = delivery(message);
    let id = delivery.message().id().to_string();
    let sink = sink(&cluster);
    assert_eq!(sink.deliver(&[delivery]).await, [Outcome::Done]);
    let records = read(&cluster);
    let record = &records[0];
    assert_eq!(record["key"], "order/7");
    assert_eq!(record["payload"], "{\"order\":7}");
    let headers = headers(record);
    let expected = [
        ("ce_id", id.as_str()),
        ("ce_type", "orders"),
        ("ce_subject", "7"),
        ("ce_specversion", "1.0"),
        ("ce_source", "postroom"),
        ("ce_partitionkey", "order/7"),
        ("content-type", "application/json"),
        ("x-tenant", "ä"),
    ];
    for (name, value) in expected {
        assert_eq!(headers.get(name), Some(&value), "{name}");
    }
    assert!(!headers.values().any(|value| *value == "forged"), "{headers:?}");
    let probed = sink.probe().await;
    assert!(probed.about.is_some_and(|about| about.contains("librdkafka")));
}

#[tokio::test(flavor = "multi_thread")]
async fn rly_2_structured_mode_is_one_event() {
    let cluster = cluster(1);
    let config = KafkaConfig { mode: Mode::Structured, ..config(&cluster) };
    let sink = KafkaSink::new(config).expect("legal");
    assert_eq!(sink.deliver(&[delivery(order(7))]).await, [Outcome::Done]);
    let records = read(&cluster);
    assert!(headers(&records[0])["content-type"].starts_with("application/cloudevents+json"));
    let event = records[0]["payload"].as_str().expect("text");
    let event: cloudevents::Event = serde_json::from_str(event).expect("an event");
    assert_eq!(cloudevents::AttributesReader::ty(&event), "orders");
}

#[tokio::test(flavor = "multi_thread")]
async fn rly_2_an_empty_payload_is_empty_and_no_tombstone() {
    let cluster = cluster(1);
    let message = Message::builder("orders").ordering_key("k");
    assert_eq!(sink(&cluster).deliver(&[delivery(message)]).await, [Outcome::Done]);
    assert_eq!(read(&cluster)[0]["payload"], "");
}

#[tokio::test(flavor = "multi_thread")]
async fn ord_1_records_of_a_key_are_in_order() {
    let cluster = cluster(4);
    let sink = sink(&cluster);
    for part in 0..5 {
        let keyed = |at: usize| order(part * 100 + at).ordering_key(format!("key {}", at % 7));
        let batch: Vec<_> = (0..100).map(keyed).map(delivery).collect();
        assert_eq!(sink.deliver(&batch).await, vec![Outcome::Done; 100]);
    }
    let records = read(&cluster);
    assert_eq!(records.len(), 500);
    for key in 0..7 {
        let key = format!("key {key}");
        let of_key = records.iter().filter(|record| record["key"] == key.as_str());
        let of_key: Vec<_> = of_key.cloned().collect();
        assert!(orders(&of_key).is_sorted(), "{key}");
        let partitions = of_key.iter().map(|record| record["partition"].as_i64());
        assert_eq!(partitions.collect::<std::collections::HashSet<_>>().len(), 1);
    }
}

/// The values of Java's `Utils.murmur2`, from Kafka's own tests.
#[tokio::test(flavor = "multi_thread")]
async fn rly_2_a_key_has_the_partition_that_java_gives_it() {
    const PARTITIONS: i32 = 13;
    let golden = [
        ("21", -973_932_308),
        ("foobar", -790_332_482),
        ("a-little-bit-long-string", -985_981_536),
        ("a-little-bit-longer-string", -1_486_304_829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
        ("abc", 479_470_107),
    ];
    let cluster = cluster(PARTITIONS);
    let batch: Vec<_> = golden.map(|(key, _)| delivery(order(1).ordering_key(key))).into();
    assert_eq!(sink(&cluster).deliver(&batch).await, vec![Outcome::Done; golden.len()]);
    let records = read(&cluster);
    for (key, hash) in golden {
        let record = records.iter().find(|record| record["key"] == key).expect("the record");
        let expected = i64::from((hash & i32::MAX) % PARTITIONS);
        assert_eq!(record["partition"].as_i64(), Some(expected), "{key}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn b31_a_record_that_is_too_large_fails_alone_and_for_good() {
    let cluster = cluster(2);
    let large = || Message::builder("orders").payload(vec![b'x'; 1 << 20]);
    let batch = [
        order(1),
        order(2).ordering_key("k"),
        large().ordering_key("k"),
        order(3).ordering_key("k"),
        large(),
        order(4),
    ]
    .map(delivery);
    let outcomes = sink(&cluster).deliver(&batch).await;
    for (at, expected) in [0, 1, 5].into_iter().zip([Outcome::Done, Outcome::Done, Outcome::Done]) {
        assert_eq!(outcomes[at], expected, "{at}");
    }
    for at in [2, 4] {
        let text = format!("{:?}", outcomes[at]);
        assert!(text.starts_with("Permanent") && text.contains("message.max.bytes"), "{text}");
    }
    assert_eq!(outcomes[3], Outcome::Unstarted, "it is behind one that failed");
    let mut found = orders(&read(&cluster));
    found.sort_unstable();
    assert_eq!(found, [1, 2, 4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn b37_what_the_client_tries_again_is_stored_once_and_in_order() {
    let cluster = cluster(1);
    let sink = sink(&cluster);
    assert_eq!(sink.deliver(&[delivery(order(0))]).await, [Outcome::Done]);
    let passing = RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS;
    cluster.request_errors(RDKafkaApiKey::Produce, &[passing, passing]);
    let batch: Vec<_> = (1..20).map(|at| delivery(order(at).ordering_key("k"))).collect();
    assert_eq!(sink.deliver(&batch).await, vec![Outcome::Done; 19]);
    assert_eq!(orders(&read(&cluster)), (0..20).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn rly_2_what_a_broker_refuses_costs_an_attempt_until_it_is_allowed() {
    let cluster = cluster(1);
    let often = ("topic.metadata.refresh.interval.ms".to_owned(), "200".into());
    let config = KafkaConfig { properties: [often].into(), ..config(&cluster) };
    let sink = KafkaSink::new(config).expect("legal");
    let refused = RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
    cluster.request_errors(RDKafkaApiKey::Produce, &[refused]);
    let outcome = sink.deliver(&[delivery(order(1))]).await.remove(0);
    assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
    drain(&sink, vec![delivery(order(2))]).await;
    assert_eq!(orders(&read(&cluster)), [2]);
}

/// Only an idempotent producer asks for an id.
#[tokio::test(flavor = "multi_thread")]
async fn b37_the_producer_is_idempotent() {
    let cluster = cluster(1);
    let refused = RDKafkaRespErr::RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED;
    cluster.request_errors(RDKafkaApiKey::InitProducerId, &[refused; 20]);
    let outcome = sink(&cluster).deliver(&[delivery(order(1))]).await.remove(0);
    assert_ne!(outcome, Outcome::Done);
    assert_eq!(read(&cluster).len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn b30_a_cluster_that_is_away_costs_no_attempt_and_its_return_is_noticed() {
    let port = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("one").port();
    let nobody = KafkaConfig::new(format!("127.0.0.1:{port}"));
    let nobody = KafkaConfig { timeout: Duration::from_secs(2), ..nobody };
    let nobody = KafkaSink::new(nobody).expect("legal");
    let outcome = nobody.deliver(&[delivery(order(1))]).await.remove(0);
    assert!(matches!(outcome, Outcome::RetryAfter { counted: false, .. }), "{outcome:?}");
    let broken = nobody.probe().await.broken.expect("nobody is there");
    assert!(broken.contains("no broker answers") || broken.contains("away"), "{broken}");

    let cluster = cluster(1);
    cluster.broker_down(1).expect("down");
    let sink = sink(&cluster);
    let batch = || (0..40).map(|at| delivery(order(at))).collect::<Vec<_>>();
    for outcome in sink.deliver(&batch()).await {
        assert!(matches!(outcome, Outcome::RetryAfter { counted: false, .. }), "{outcome:?}");
    }
    cluster.broker_up(1).expect("up");
    assert_eq!(drain(&sink, batch()).await, 0);
    let mut found = orders(&read(&cluster));
    found.sort_unstable();
    assert_eq!(found, (0..40).collect::<Vec<_>>(), "the whole backlog, once");
}

#[tokio::test(flavor = "multi_thread")]
async fn b30_a_cluster_that_goes_away_in_between_is_found_again() {
    let cluster = cluster(1);
    let sink = sink(&cluster);
    assert_eq!(sink.deliver(&[delivery(order(0))]).await, [Outcome::Done]);
    cluster.broker_down(1).expect("down");
    let keyed = |at: usize| delivery(order(at).ordering_key("k"));
    let batch: Vec<_> = (1..10).map(keyed).collect();
    let outcomes = sink.deliver(&batch).await;
    assert!(!outcomes.contains(&Outcome::Done), "{outcomes:?}");
    cluster.broker_up(1).expect("up");
    drain(&sink, batch).await;
    let mut found = orders(&read(&cluster));
    found.dedup();
    assert_eq!(found, (0..10).collect::<Vec<_>>(), "in order, although some may be there twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn x09_a_name_that_kafka_does_not_have_is_a_dead_letter_and_breaks_nothing() {
    let cluster = cluster(1);
    let sink = sink(&cluster);
    let batch = [Message::builder("a b"), Message::builder("ä"), Message::builder(".."), order(1)];
    let outcomes = sink.deliver(&batch.map(delivery)).await;
    for outcome in &outcomes[..3] {
        assert!(matches!(outcome, Outcome::Permanent(_)), "{outcome:?}");
    }
    assert_eq!(outcomes[3], Outcome::Done);
}
