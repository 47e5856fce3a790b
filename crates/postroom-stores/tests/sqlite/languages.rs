//! SQLite from Python: the script in `languages/sqlite`, run beside a dispatcher.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;

use crate::sqlite_harness::{InFile, Place, SqliteIn, open_in};
use crate::wakes_support::{listening, until_wakes};
use postroom_core::Message;
use postroom_core::store::{AdminStore, Wakes};
use postroom_testkit::Harness;
use serde_json::{Value, json};

/// Runs the script with the Python of the gate, or else with that of this machine. It needs nothing
/// but what Python comes with.
async fn run(file: String) -> Value {
    let python = std::env::var("POSTROOM_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let mut command = Command::new(python);
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/languages/sqlite");
    command.arg(format!("{folder}/publish.py")).env("POSTROOM_FILE", file);
    let output = tokio::task::spawn_blocking(move || command.output()).await;
    let output = output.expect("no panic").expect("Python runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the script failed:\n{errors}");
    serde_json::from_slice(&output.stdout).expect("one JSON document")
}

#[tokio::test(flavor = "multi_thread")]
async fn pub_8_python_publishes_in_its_own_transaction() {
    let folder = tempfile::tempdir().expect("a temp folder");
    let store = open_in(&folder).await;
    SqliteIn::<InFile>::set_up(&store).await;
    // It never polls: what it handles, the commits of the other process have woken it for.
    let mut dispatcher = listening(&store);
    until_wakes(&*store, Wakes::Listening).await;
    let said = run(InFile::url(&folder)).await;
    let limit = "topic must be text of 1 to 255 characters without control characters";
    assert_eq!(said["refused"], format!("CHECK constraint failed: {limit}"));

    let mut delivered: BTreeMap<String, Message> = BTreeMap::new();
    for _ in 0..3 {
        let id = dispatcher.next().await;
        let message = store.get(id).await.expect("get").expect("is there").record.message;
        let message = message.expect("decodes");
        delivered.insert(message.topic().to_string(), message);
    }
    dispatcher.shutdown().await;
    let stats = store.stats().await.expect("stats");
    assert_eq!((stats.done, stats.ready, stats.waiting, stats.dead), (3, 0, 1, 0));
    let env = SqliteIn::<InFile>::on(Arc::clone(&store));
    assert_eq!(env.business_rows().await, [1, 3, 4], "what was committed");

    let order = &delivered["order.placed"];
    let payload: Value = order.json().expect("JSON");
    assert_eq!(payload, json!({ "order": 1, "note": "Grüße" }));
    assert_eq!(order.content_type(), "application/json");
    let headers: Vec<_> = order.headers().iter().collect();
    assert_eq!(headers, [("source", "shop"), ("umlaut", "ä")]);
    assert_eq!(order.ordering_key().map(|key| key.as_str()), Some("order-1"));
    assert_eq!(order.tenant_id().map(|tenant| tenant.as_str()), Some("acme"));
    assert_eq!(order.correlation_id().map(|id| id.as_str()), Some("request-7"));
    let key = order.idempotency_key().expect("a key").as_uuid().to_string();
    assert_eq!(key, "267deaec-5c4f-87f2-a67a-544ae997a64d");
    let text = &delivered["note.text"];
    assert_eq!((text.payload().as_ref(), text.content_type()), (&b"plain"[..], "text/plain"));
    let bytes = &delivered["note.bytes"];
    assert_eq!((bytes.payload().as_ref(), bytes.content_type()), (&[0, 255][..], "image/png"));
    let waiting = store.list(&postroom_core::store::List::default()).await.expect("list").records;
    let due = waiting.iter().find(|record| record.topic == "report.due").expect("is there");
    assert_eq!(due.next_attempt_at.map(|at| at.as_micros()), said["due_at"].as_i64());
}
