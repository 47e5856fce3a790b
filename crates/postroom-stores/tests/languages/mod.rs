//! Postroom from other languages: scripts that read like documentation, run by their own
//! interpreters with the clients that `cargo xtask clients` installs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use postroom_core::lifecycle::{DeadReason, State};
use postroom_core::store::{AdminStore, Store};
use postroom_core::{Delivery, Dispatcher, Handlers, IdempotencyKey, Message, MessageId, Outbox};
use postroom_testkit::Harness;
use serde_json::{Value, json};

/// The key that the scripts publish with.
const KEY: &str = "267deaec-5c4f-87f2-a67a-544ae997a64d";

/// What a script is told, in its environment.
pub(crate) struct Place<'a> {
    pub(crate) url: &'a str,
    pub(crate) schema: &'a str,
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set: see `cargo xtask clients`"))
}

/// Runs a script of this folder, such as `postgres/publish.py`, and reads the JSON that it prints.
async fn run(script: &'static str, place: &Place<'_>) -> Value {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/languages").join(script);
    let mut command = if script.ends_with(".py") {
        Command::new(variable("POSTROOM_TEST_PYTHON"))
    } else {
        let mut node = Command::new(variable("POSTROOM_TEST_NODE"));
        node.env("NODE_PATH", variable("POSTROOM_TEST_NODE_MODULES"));
        node
    };
    command.arg(path).env("POSTROOM_URL", place.url).env("POSTROOM_SCHEMA", place.schema);
    // Its interpreter may leave files beside the script otherwise.
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    let output = tokio::task::spawn_blocking(move || command.output()).await;
    let output = output.expect("no panic").expect("the interpreter runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script} failed:\n{errors}");
    serde_json::from_slice(&output.stdout).expect("one JSON document")
}

/// A script publishes in transactions of its own, and a dispatcher delivers what they committed:
/// all of it as given, and nothing else. Answers with the code of the error for a broken limit.
pub(crate) async fn publishes<H: Harness>(
    env: &H,
    script: &'static str,
    place: &Place<'_>,
) -> String {
    let said = run(script, place).await;
    assert_eq!(said["again"], said["first"], "the first message with this key");
    let refused = said["refused"]["message"].as_str().expect("a text");
    assert_eq!(refused, "topic must be 1 to 255 characters, got 0 characters");

    let delivered = deliver(env, 3).await;
    assert_eq!(env.business_rows().await, [1, 3, 4], "what was committed");
    let topics: Vec<_> = delivered.keys().map(String::as_str).collect();
    assert_eq!(topics, ["note.bytes", "note.text", "order.placed"]);

    let order = &delivered["order.placed"];
    assert_eq!(order.id().to_string(), said["first"]);
    let payload: Value = order.json().expect("JSON");
    assert_eq!(payload, json!({ "order": 1, "note": "Grüße" }));
    assert_eq!(order.content_type(), "application/json");
    let headers: Vec<_> = order.headers().iter().collect();
    assert_eq!(headers, [("source", "shop"), ("umlaut", "ä")]);
    assert_eq!(order.ordering_key().map(|key| key.as_str()), Some("order-1"));
    assert_eq!(order.tenant_id().map(|tenant| tenant.as_str()), Some("acme"));
    assert_eq!(order.correlation_id().map(|id| id.as_str()), Some("request-7"));
    let key: IdempotencyKey = KEY.parse().expect("a UUID");
    assert_eq!(order.idempotency_key(), Some(key));

    let text = &delivered["note.text"];
    assert_eq!((text.payload().as_ref(), text.content_type()), (&b"plain"[..], "text/plain"));
    let bytes = &delivered["note.bytes"];
    assert_eq!((bytes.payload().as_ref(), bytes.content_type()), (&[0, 255][..], "image/png"));
    said["refused"]["state"].as_str().expect("a text").to_owned()
}

/// Runs a dispatcher until so many messages are done; there must be no others. Answers with those
/// that it delivered, by topic.
async fn deliver<H: Harness>(env: &H, done: u64) -> BTreeMap<String, Message> {
    let delivered: Arc<Mutex<Vec<Message>>> = Arc::default();
    let seen = Arc::clone(&delivered);
    let handlers = Handlers::new().all(move |delivery: Delivery| {
        seen.lock().expect("lock").push(delivery.message().clone());
        async { Ok(()) }
    });
    let store = env.store();
    let running = Dispatcher::new(Arc::clone(&store) as Arc<dyn Store>, handlers);
    let running = running.start().expect("legal settings");
    let all = async {
        while store.stats().await.expect("stats").done < done {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), all).await.expect("all are delivered");
    assert!(running.shutdown(Duration::from_secs(30)).await, "nothing was cut");
    let stats = store.stats().await.expect("stats");
    assert_eq!((stats.ready, stats.waiting, stats.leased, stats.dead), (0, 0, 0, 0));
    let delivered = delivered.lock().expect("lock");
    let by_topic: BTreeMap<_, _> =
        delivered.iter().map(|message| (message.topic().to_string(), message.clone())).collect();
    assert_eq!(by_topic.len(), delivered.len(), "each once");
    by_topic
}

/// A worker in another language claims, acks, abandons and fails what Rust published; Rust sees
/// what became of it, and delivers what was abandoned.
pub(crate) async fn works<H: Harness>(env: &H, script: &'static str, place: &Place<'_>) {
    let store = env.store();
    let outbox = Outbox::new(Arc::clone(&store));
    let mut ids: BTreeMap<&str, MessageId> = BTreeMap::new();
    for topic in ["job.good", "job.shaky", "job.hopeless"] {
        let message = Message::builder(topic)
            .payload(json!({ "topic": topic, "note": "Grüße" }).to_string())
            .header("from", "rust")
            .tenant_id("acme")
            .ordering_key(topic);
        ids.insert(topic, outbox.publish(message).await.expect("publish").id);
    }
    let said = run(script, place).await;
    let seen = said["seen"].as_array().expect("a list");
    assert_eq!(seen.len(), ids.len(), "{said}");
    for (topic, id) in &ids {
        let expected = json!({
            "id": id.to_string(), "topic": topic, "headers": { "from": "rust" },
            "payload": { "topic": topic, "note": "Grüße" }, "tenant": "acme",
        });
        assert!(seen.contains(&expected), "{expected} is not in {said}");
    }
    let record = async |topic| {
        let found = store.get(ids[topic]).await.expect("get").expect("is there");
        let by = found.history.first().and_then(|attempt| attempt.by).or(found.record.processed_by);
        assert_eq!(by.map(|owner| owner.as_uuid().to_string()).as_deref(), said["owner"].as_str());
        found.record
    };
    let good = record("job.good").await;
    assert_eq!((good.state, good.attempts, good.last_error), (State::Done, 0, None));
    let hopeless = record("job.hopeless").await;
    assert_eq!((hopeless.state, hopeless.reason), (State::Dead, Some(DeadReason::Permanent)));
    assert_eq!(hopeless.last_error.as_deref(), Some("no such customer"));
    let shaky = record("job.shaky").await;
    assert_eq!((shaky.state, shaky.attempts), (State::Ready, 1));
    assert_eq!(shaky.last_error.as_deref(), Some("try me again"));
    let replayed = store.replay(&[ids["job.hopeless"]]).await.expect("replay");
    assert_eq!(replayed.applied, [ids["job.hopeless"]]);
    let delivered = deliver(env, 3).await;
    assert_eq!(delivered.into_keys().collect::<Vec<_>>(), ["job.hopeless", "job.shaky"]);
}
