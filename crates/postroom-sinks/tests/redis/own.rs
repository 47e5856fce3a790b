//! What Redis has and other brokers have not.

use postroom_core::lifecycle::Outcome;
use postroom_core::{Message, MessageBuilder};
use postroom_servers::Kind;
use postroom_sinks::Probe as _;
use postroom_sinks::redis::{RedisConfig, RedisSink};
use postroom_testkit::sinks::{Settings, SinkHarness as _};

use crate::common::{Place, deliver, deliver_one, is_free, logged};
use crate::harness::RedisHarness;

fn message(harness: &RedisHarness) -> MessageBuilder {
    Message::builder("t").tenant_id(harness.tenant()).aggregate_type("order")
}

fn key(harness: &RedisHarness) -> String {
    format!("{}:order:t", harness.tenant())
}

async fn command(harness: &RedisHarness, words: &[&str]) {
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    command.exec_async(&mut harness.direct().await).await.expect("done");
}

/// A server whose settings are ours to change.
fn private() -> RedisHarness {
    RedisHarness(Place::private(Kind::Redis))
}

#[tokio::test(flavor = "multi_thread")]
async fn rly_2_a_server_without_memory_asks_for_time() {
    let harness = private();
    let sink = harness.sink(Settings::default());
    command(&harness, &["CONFIG", "SET", "maxmemory", "1"]).await;
    let outcome = deliver_one(&sink, message(&harness)).await;
    assert!(is_free(&outcome), "{outcome:?}");
    command(&harness, &["CONFIG", "SET", "maxmemory", "0"]).await;
    assert_eq!(deliver_one(&sink, message(&harness)).await, Outcome::Done);
}

#[tokio::test(flavor = "multi_thread")]
async fn rly_2_a_replica_or_a_key_of_another_kind_is_an_attempt() {
    let harness = private();
    let sink = harness.sink(Settings::default());
    command(&harness, &["SET", &key(&harness), "no stream"]).await;
    let wrong_kind = deliver_one(&sink, message(&harness)).await;
    command(&harness, &["DEL", &key(&harness)]).await;
    command(&harness, &["REPLICAOF", "127.0.0.1", "1"]).await;
    let replica = deliver_one(&sink, message(&harness)).await;
    let probed = sink.probe().await;
    assert!(probed.broken.is_some_and(|why| why.contains("primary")));
    command(&harness, &["REPLICAOF", "NO", "ONE"]).await;
    for outcome in [wrong_kind, replica] {
        assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
    }
    assert_eq!(deliver_one(&sink, message(&harness)).await, Outcome::Done);
}

#[tokio::test(flavor = "multi_thread")]
async fn sec_2_a_wrong_password_is_an_outage_and_not_shown() {
    let harness = private();
    let url = harness.0.proxied().replace("redis://", "redis://default:hunter2@");
    let wrong = RedisSink::new(RedisConfig { url: url.into(), ..harness.config() });
    let wrong = wrong.expect("legal");
    command(&harness, &["CONFIG", "SET", "requirepass", "other"]).await;
    let without = deliver_one(&harness.sink(Settings::default()), message(&harness)).await;
    assert!(matches!(without, Outcome::Failed(_)), "{without:?}");
    let outcome = deliver_one(&wrong, message(&harness)).await;
    assert!(is_free(&outcome), "{outcome:?}");
    let shown = format!("{wrong:?} {outcome:?} {:?}", wrong.probe().await);
    assert!(!shown.contains("hunter2"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rly_2_a_stream_keeps_about_as_many_as_it_should() {
    let harness = RedisHarness::fresh().await;
    let sink = RedisSink::new(RedisConfig { max_len: Some(100), ..harness.config() });
    let sink = sink.expect("legal");
    for _ in 0..3 {
        let batch = (0..200).map(|_| message(&harness)).collect();
        let outcomes = deliver(&sink, batch).await;
        assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Done));
    }
    let kept = harness.stored().await.len();
    assert!((100..300).contains(&kept), "{kept}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rly_2_the_probe_warns_of_a_server_that_forgets() {
    let harness = private();
    let sink = harness.sink(Settings::default());
    let probed = sink.probe().await;
    assert!(probed.about.is_some_and(|about| about.starts_with("Redis ")));
    assert_eq!((probed.broken, probed.warnings), (None, vec![]));
    command(&harness, &["CONFIG", "SET", "appendonly", "no"]).await;
    command(&harness, &["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).await;
    let warnings = sink.probe().await.warnings;
    assert!(warnings[0].contains("appendonly") && warnings[1].contains("noeviction"));
}

/// A process of its own: it listens to the whole log.
#[tokio::test(flavor = "multi_thread")]
async fn x12_no_log_line_shows_password_payload_or_headers() {
    let harness = RedisHarness::fresh().await;
    let url = harness.0.proxied().replace("redis://", "redis://default:hunter2@");
    let wrong = RedisSink::new(RedisConfig { url: url.into(), ..harness.config() }).expect("legal");
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
