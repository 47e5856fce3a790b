//! What NATS has and other brokers have not.

use std::time::Duration;

use async_nats::jetstream::stream::{self, DiscardPolicy};
use postroom_core::lifecycle::Outcome;
use postroom_core::{Message, MessageBuilder};
use postroom_servers::Kind;
use postroom_sinks::Probe as _;
use postroom_sinks::nats::{NatsConfig, NatsSink};
use postroom_testkit::sinks::{Settings, SinkHarness as _, Traffic};

use crate::common::{Place, deliver, deliver_one, is_free, logged};
use crate::harness::NatsHarness;

async fn with(config: stream::Config) -> NatsHarness {
    NatsHarness::at(Place::shared(Kind::Nats), config).await
}

fn message(harness: &NatsHarness) -> MessageBuilder {
    Message::builder("order.placed").tenant_id(harness.tenant())
}

fn sink(config: NatsConfig) -> NatsSink {
    NatsSink::new(config).expect("legal")
}

#[tokio::test(flavor = "multi_thread")]
async fn rly_2_a_full_stream_asks_for_time() {
    let (max_messages, discard) = (1, DiscardPolicy::New);
    let harness = with(stream::Config { max_messages, discard, ..Default::default() }).await;
    let sink = harness.sink(Settings::default());
    assert_eq!(deliver_one(&sink, message(&harness)).await, Outcome::Done);
    let outcome = deliver_one(&sink, message(&harness)).await;
    assert!(is_free(&outcome), "{outcome:?}");
    let stream = harness.direct().await.get_stream(harness.tenant()).await.expect("a stream");
    stream.purge().await.expect("somebody has read");
    assert_eq!(deliver_one(&sink, message(&harness)).await, Outcome::Done);
}

#[tokio::test(flavor = "multi_thread")]
async fn sec_6_a_message_beyond_the_streams_own_limit_is_refused_alone() {
    let harness = with(stream::Config { max_message_size: 2_000, ..Default::default() }).await;
    let sink = harness.sink(Settings::default());
    let large = message(&harness).payload(vec![b'x'; 3_000]);
    let batch = vec![message(&harness), large, message(&harness)];
    let outcomes = deliver(&sink, batch).await;
    assert!(matches!(outcomes[1], Outcome::Permanent(_)), "{outcomes:?}");
    assert_eq!((&outcomes[0], &outcomes[2]), (&Outcome::Done, &Outcome::Done));
}

#[tokio::test(flavor = "multi_thread")]
async fn rly_2_no_stream_or_another_one_is_an_attempt_until_somebody_makes_it() {
    let harness = NatsHarness::fresh().await;
    let subject = "nowhere.{tenant}".to_owned();
    let nowhere = sink(NatsConfig { subject, ..harness.config() });
    let stream = Some("expected".to_owned());
    let other = sink(NatsConfig { stream, ..harness.config() });
    for sink in [&nowhere, &other] {
        let outcome = deliver_one(sink, message(&harness)).await;
        assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
    }
    let stream = Some(harness.tenant().to_owned());
    let right = sink(NatsConfig { stream, ..harness.config() });
    assert_eq!(deliver_one(&right, message(&harness)).await, Outcome::Done);
    assert_eq!(harness.stored().await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn x09_a_header_gives_no_orders_to_the_server() {
    let harness = with(stream::Config { allow_rollup: true, ..Default::default() }).await;
    let sink = harness.sink(Settings::default());
    assert_eq!(deliver_one(&sink, message(&harness)).await, Outcome::Done);
    let order = message(&harness).header("Nats-Rollup", "all").header("nats-msg-id", "forged");
    assert_eq!(deliver_one(&sink, order).await, Outcome::Done);
    assert_eq!(harness.stored().await.len(), 2, "it would have deleted the first");
}

#[tokio::test(flavor = "multi_thread")]
async fn b32_the_probe_warns_of_a_window_shorter_than_the_horizon() {
    let duplicate_window = Duration::from_secs(120);
    let harness = with(stream::Config { duplicate_window, ..Default::default() }).await;
    let at = |horizon: u64| {
        let (stream, horizon) = (Some(harness.tenant().to_owned()), Duration::from_secs(horizon));
        sink(NatsConfig { stream, retry_horizon: horizon, ..harness.config() })
    };
    let probed = at(120).probe().await;
    assert!(probed.about.is_some_and(|about| about.starts_with("NATS 2.")));
    assert_eq!((probed.broken, probed.warnings), (None, vec![]));
    let warnings = at(121).probe().await.warnings;
    assert!(warnings[0].contains("duplicate_window"), "{warnings:?}");
    assert_eq!(harness.stored().await, [], "a probe sends nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn rly_2_the_probe_tells_that_nobody_takes_the_subject_or_is_there() {
    let harness = NatsHarness::fresh().await;
    let subject = format!("nowhere.{}", harness.tenant());
    let warnings = sink(NatsConfig { subject, ..harness.config() }).probe().await.warnings;
    assert!(warnings[0].contains("no stream takes the subject"), "{warnings:?}");
    harness.proxy().set(Traffic::Refused).await;
    assert!(sink(harness.config()).probe().await.broken.is_some());
}

/// A process of its own: it listens to the whole log.
#[tokio::test(flavor = "multi_thread")]
async fn x12_no_log_line_shows_password_or_payload_and_no_coarse_one_headers() {
    let harness = NatsHarness::fresh().await;
    let url = harness.0.proxied().replace("nats://", "nats://me:hunter2@");
    let wrong = sink(NatsConfig { url: url.into(), ..harness.config() });
    let right = harness.sink(Settings::default());
    let secret = || message(&harness).payload("\"sesame\"").header("x-key", "swordfish");
    let work = async {
        deliver_one(&wrong, secret()).await;
        deliver_one(&right, secret()).await
    };
    let (outcome, log) = logged(work).await;
    assert_eq!(outcome, Outcome::Done);
    // The client itself writes headers to its finest log; the guide warns of that.
    let is_finest = |line: &str| line.contains("TRACE async_nats::connection");
    for secret in ["hunter2", "sesame", "swordfish"] {
        let lines = log.lines().filter(|line| secret != "swordfish" || !is_finest(line));
        let shown: Vec<_> = lines.filter(|line| line.contains(secret)).collect();
        assert!(shown.is_empty(), "{shown:?}");
    }
}
