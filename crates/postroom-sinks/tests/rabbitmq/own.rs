//! What RabbitMQ has and other brokers have not.

use lapin::ExchangeKind;
use lapin::options::{BasicGetOptions, ExchangeDeclareOptions, QueuePurgeOptions};
use lapin::types::{AMQPValue, FieldTable};
use postroom_core::lifecycle::Outcome;
use postroom_core::{Message, MessageBuilder};
use postroom_servers::Kind;
use postroom_sinks::Probe as _;
use postroom_sinks::amqp::{AmqpConfig, AmqpSink};
use postroom_testkit::sinks::{Settings, SinkHarness as _, Traffic};

use crate::common::{Place, deliver, deliver_one, is_free, logged};
use crate::harness::RabbitHarness;

fn message(harness: &RabbitHarness) -> MessageBuilder {
    Message::builder("t").tenant_id(harness.tenant())
}

fn sink(config: AmqpConfig) -> AmqpSink {
    AmqpSink::new(config).expect("legal")
}

#[tokio::test(flavor = "multi_thread")]
async fn b33_what_no_queue_takes_is_refused_and_its_neighbours_are_not() {
    let harness = RabbitHarness::fresh().await;
    let sink = sink(AmqpConfig { routing_key: "{topic}".to_owned(), ..harness.config() });
    let routed = format!("{}.t", harness.tenant());
    // Returns come in the middle of confirms, which may stand for many: whose they are matters.
    let is_routed = |n: usize| n % 3 != 1;
    for _ in 0..5 {
        let topic = |n| if is_routed(n) { routed.as_str() } else { "nobody" };
        let batch = (0..90).map(|n| Message::builder(topic(n))).collect();
        for (n, outcome) in deliver(&sink, batch).await.into_iter().enumerate() {
            match outcome {
                Outcome::Done => assert!(is_routed(n), "{n} was lost"),
                Outcome::Permanent(why) => {
                    assert!(!is_routed(n) && why.contains("NO_ROUTE"), "{n}: {why}");
                }
                other => panic!("{n}: {other:?}"),
            }
        }
    }
    assert_eq!(harness.stored().await.len(), 5 * 60);
}

#[tokio::test(flavor = "multi_thread")]
async fn rly_2_a_missing_exchange_is_an_attempt_until_somebody_makes_it() {
    let harness = RabbitHarness::fresh().await;
    let exchange = format!("{}-late", harness.tenant());
    let sink = sink(AmqpConfig { exchange: exchange.clone(), ..harness.config() });
    let broken = sink.probe().await.broken;
    assert!(broken.is_some_and(|why| why.contains("NOT_FOUND")));
    let batch = (0..20).map(|_| message(&harness)).collect();
    let outcomes = deliver(&sink, batch).await;
    assert!(outcomes.iter().all(|o| matches!(o, Outcome::Failed(_))), "{outcomes:?}");
    let (_connection, channel) = harness.direct().await;
    let options = ExchangeDeclareOptions { durable: true, ..Default::default() };
    let name = exchange.as_str();
    let made = channel.exchange_declare(name.into(), ExchangeKind::Fanout, options, none()).await;
    made.expect("an exchange");
    let bound =
        channel.queue_bind(harness.name(), name.into(), "".into(), Default::default(), none());
    bound.await.expect("a binding");
    assert_eq!(sink.probe().await.broken, None);
    assert_eq!(deliver_one(&sink, message(&harness)).await, Outcome::Done);
}

fn none() -> FieldTable {
    FieldTable::default()
}

#[tokio::test(flavor = "multi_thread")]
async fn rly_2_a_full_queue_asks_for_time() {
    let mut arguments = none();
    arguments.insert("x-max-length".into(), AMQPValue::LongInt(1));
    arguments.insert("x-overflow".into(), AMQPValue::LongString("reject-publish".into()));
    let harness = RabbitHarness::at(Place::shared(Kind::RabbitMq), arguments).await;
    let sink = harness.sink(Settings::default());
    let mut refused = false;
    for _ in 0..10 {
        // The queue tells its channels that it is full, a little later.
        refused |= is_free(&deliver_one(&sink, message(&harness)).await);
    }
    assert!(refused);
    let (_connection, channel) = harness.direct().await;
    channel.queue_purge(harness.name(), QueuePurgeOptions::default()).await.expect("read");
    let mut outcome = deliver_one(&sink, message(&harness)).await;
    while is_free(&outcome) {
        outcome = deliver_one(&sink, message(&harness)).await;
    }
    assert_eq!(outcome, Outcome::Done);
}

/// What the broker says when it is short of memory or disk, and when it is not any more.
fn connection_method(number: u8, arguments: &[u8]) -> Vec<u8> {
    let length = u8::try_from(4 + arguments.len()).expect("short");
    let mut frame = vec![1, 0, 0, 0, 0, 0, length, 0, 10, 0, number];
    frame.extend(arguments);
    frame.push(0xCE);
    frame
}

#[tokio::test(flavor = "multi_thread")]
async fn dsp_12_a_broker_short_of_memory_costs_no_attempt() {
    let harness = RabbitHarness::fresh().await;
    let sink = harness.sink(Settings::default());
    assert_eq!(deliver_one(&sink, message(&harness)).await, Outcome::Done);
    harness.proxy().set(Traffic::AnswersLost).await;
    let blocked = connection_method(60, b"\x0alow memory");
    let say = async {
        while harness.stored().await.len() < 2 {
            tokio::task::yield_now().await;
        }
        harness.proxy().say(blocked);
    };
    let (outcome, ()) = tokio::join!(deliver_one(&sink, message(&harness)), say);
    assert!(is_free(&outcome), "it was under way: {outcome:?}");
    harness.proxy().set(Traffic::Passes).await;
    let outcome = deliver_one(&sink, message(&harness)).await;
    assert!(is_free(&outcome), "it was not sent: {outcome:?}");
    assert_eq!(harness.stored().await.len(), 2);
    assert_eq!(sink.probe().await.broken, Some("the broker is short of memory or disk".to_owned()));
    harness.proxy().say(connection_method(61, b""));
    let mut outcome = deliver_one(&sink, message(&harness)).await;
    while is_free(&outcome) {
        outcome = deliver_one(&sink, message(&harness)).await;
    }
    assert_eq!(outcome, Outcome::Done);
}

#[tokio::test(flavor = "multi_thread")]
async fn rly_2_properties_tell_people_what_it_is() {
    let harness = RabbitHarness::fresh().await;
    let sink = harness.sink(Settings::default());
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
    let message = message(&harness).correlation_id("c").occurred_at(time);
    assert_eq!(deliver_one(&sink, message).await, Outcome::Done);
    let (_connection, channel) = harness.direct().await;
    let got = channel.basic_get(harness.name(), BasicGetOptions::default()).await;
    let properties = got.expect("an answer").expect("a message").delivery.properties;
    let text = |text: &Option<lapin::types::ShortString>| text.as_ref().expect("set").to_string();
    assert_eq!(text(properties.kind()), "t");
    assert_eq!(text(properties.app_id()), "/shop");
    assert_eq!(text(properties.correlation_id()), "c");
    assert_eq!(properties.timestamp(), &Some(1_700_000_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn sec_2_a_wrong_password_is_an_outage_and_not_shown() {
    let harness = RabbitHarness::fresh().await;
    let url = harness.0.proxied().replace("guest:guest@", "guest:hunter2@");
    let sink = sink(AmqpConfig { url: url.into(), ..harness.config() });
    let outcome = deliver_one(&sink, message(&harness)).await;
    assert!(is_free(&outcome), "{outcome:?}");
    let shown = format!("{sink:?} {outcome:?} {:?}", sink.probe().await);
    assert!(!shown.contains("hunter2"), "{shown}");
}

/// A process of its own: it listens to the whole log.
#[tokio::test(flavor = "multi_thread")]
async fn x12_no_log_line_shows_password_payload_or_headers() {
    let harness = RabbitHarness::fresh().await;
    let url = harness.0.proxied().replace("guest:guest@", "guest:hunter2@");
    let wrong = sink(AmqpConfig { url: url.into(), ..harness.config() });
    let right = harness.sink(Settings::default());
    let secret = || message(&harness).payload("\"sesame\"").header("x-key", "swordfish");
    let work = async {
        deliver_one(&wrong, secret()).await;
        deliver_one(&right, secret()).await
    };
    let (outcome, log) = logged(work).await;
    assert_eq!(outcome, Outcome::Done);
    for secret in ["hunter2", "sesame", "swordfish"] {
        let shown: Vec<_> = log.lines().filter(|line| line.contains(secret)).collect();
        assert!(shown.is_empty(), "{shown:?}");
    }
}
