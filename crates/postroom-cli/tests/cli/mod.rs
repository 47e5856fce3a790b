//! Runs the built binary, and the flows that have to work on every database.

pub(crate) mod filters;

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use postroom::store::{Store, TransactionalStore};
use postroom::{Inbox, Message, Outbox, OwnerToken, Received, WorkQueue};
use serde_json::Value;

/// The binary with the options that choose a database.
pub(crate) struct Cli {
    options: Vec<String>,
    folder: tempfile::TempDir,
}

/// How one run ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Cli {
    pub(crate) fn new(options: &[&str]) -> Self {
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        Self { options, folder: tempfile::tempdir().expect("a temporary folder") }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        self.run_with_input(arguments, b"")
    }

    pub(crate) fn run_with_input(&self, arguments: &[&str], input: &[u8]) -> Ran {
        let mut command = Command::new(env!("CARGO_BIN_EXE_postroom"));
        for name in ["POSTROOM_URL", "POSTROOM_SCHEMA", "POSTROOM_PREFIX", "NO_COLOR", "USER"] {
            command.env_remove(name);
        }
        let mut child = command
            .current_dir(self.folder())
            .args(&self.options)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        // A command that reads no input has closed its end: that is fine.
        let _ = child.stdin.take().expect("piped").write_all(input);
        let output = child.wait_with_output().expect("the binary ends");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        Ran {
            code: output.status.code().expect("no signal"),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }

    /// Standard output of a run that has to succeed.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let ran = self.run(arguments);
        assert_eq!(ran.code, 0, "{arguments:?}: {ran:?}");
        ran.stdout
    }

    /// The document of a run with `--json` that has to succeed.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let text = self.ok(&[arguments, &["--json"]].concat());
        serde_json::from_str(&text).expect("one JSON document")
    }

    /// Writes a message and returns its id.
    pub(crate) fn enqueue(&self, arguments: &[&str]) -> String {
        self.ok(&[&["enqueue"], arguments].concat()).trim().to_owned()
    }

    /// How many messages there are in all.
    pub(crate) fn count(&self) -> usize {
        self.json(&["list"]).as_array().expect("an array").len()
    }
}

const KEY: &str = "00000000-0000-4000-8000-00000000000a";
const ID: &str = "019a8a00-0000-7000-8000-000000000001";

/// Every field of a message comes back as it was given.
pub(crate) fn enqueue_takes_every_field(cli: &Cli) {
    let arguments = [
        "order.placed",
        "--payload=hello",
        "--content-type=text/plain",
        "--header=source=shop",
        "--header=query=a=b",
        "--tenant=acme",
        "--ordering-key=order-7",
        "--aggregate=order/7",
        &format!("--key={KEY}"),
        "--correlation-id=checkout-1",
        "--causation-id=click-1",
        "--due-in=1h",
        "--expires-at=2999-01-31T08:00:00+01:00",
        "--priority=-5",
        &format!("--id={ID}"),
    ];
    assert_eq!(cli.enqueue(&arguments), ID);
    let shown = cli.json(&["show", ID, "--payload"]);
    for (name, expected) in [
        ("id", ID),
        ("topic", "order.placed"),
        ("status", "pending"),
        ("payload", "hello"),
        ("payload_encoding", "utf-8"),
        ("content_type", "text/plain"),
        ("tenant_id", "acme"),
        ("ordering_key", "order-7"),
        ("aggregate_type", "order"),
        ("aggregate_id", "7"),
        ("idempotency_key", KEY),
        ("correlation_id", "checkout-1"),
        ("causation_id", "click-1"),
        ("expires_at", "2999-01-31T07:00:00.000000Z"),
    ] {
        assert_eq!(shown[name], expected, "{name}");
    }
    assert_eq!(shown["headers"], serde_json::json!({"source": "shop", "query": "a=b"}));
    assert_eq!((&shown["priority"], &shown["payload_bytes"]), (&(-5).into(), &5.into()));
    assert!(shown["due_at"].is_string(), "{shown:#}");

    let again = cli.run(&[&["enqueue"], &arguments[..]].concat());
    assert_eq!((again.code, again.stdout.trim()), (0, ID));
    assert!(again.stderr.contains("was there already"), "{}", again.stderr);
    let taken = cli.run(&["enqueue", "other.topic", "--payload={}", &format!("--id={ID}")]);
    assert_eq!(taken.code, 1, "{taken:?}");
    assert!(taken.stderr.contains("leave --id out"), "{}", taken.stderr);
}

/// Filters, pages and counts.
pub(crate) fn lists_and_stats_agree(cli: &Cli) {
    let first = cli.enqueue(&["a", "--payload={}", "--tenant=acme"]);
    let second = cli.enqueue(&["b", "--payload={}", "--due-in=1h"]);
    let third = cli.enqueue(&["a", "--payload={}"]);
    let ids = |arguments: &[&str]| -> Vec<String> {
        let list = cli.json(&[&["list"], arguments].concat());
        let ids = list.as_array().expect("an array").iter();
        ids.map(|record| record["id"].as_str().expect("an id").to_owned()).collect()
    };
    assert_eq!(ids(&[]), [&*third, &second, &first]);
    assert_eq!(ids(&["--topic=a"]), [&*third, &first]);
    assert_eq!(ids(&["--tenant=acme"]), [&*first]);
    assert_eq!(ids(&["--limit=1"]), [&*third]);
    assert_eq!(ids(&["--limit=1", "--before", &third]), [&*second]);
    assert_eq!(ids(&["--status=pending"]).len(), 3);
    for status in ["leased", "failed", "done", "dead"] {
        assert!(ids(&[&format!("--status={status}")]).is_empty(), "{status}");
    }
    let page = cli.run(&["list", "--limit=2"]);
    assert_eq!(page.stdout.lines().count(), 3);
    assert_eq!(page.stderr.trim(), format!("There may be more: add --before {second}"));
    let stats = cli.json(&["stats"]);
    assert_eq!((&stats["ready"], &stats["waiting"]), (&2.into(), &1.into()));
    assert_eq!(stats["queue"], "outbox");
    let page = cli.ok(&["stats"]);
    assert!(page.starts_with("outbox of "), "{page}");
    assert!(page.contains("\nready    2  can be delivered now; the oldest is "), "{page}");
}

/// What a worker does to a message is what `show` tells.
pub(crate) fn show_tells_what_happened(cli: &Cli, store: Arc<dyn Store>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let worker = OwnerToken::random();
    let fails = cli.enqueue(&["fails", r#"--payload={"order":7}"#]);
    let works = cli.enqueue(&["works", "--payload={}"]);
    let dies = cli.enqueue(&["dies", "--payload={}"]);
    runtime.block_on(async {
        let queue = WorkQueue::new(store);
        let claimed = queue.claim(worker, Duration::from_secs(30), 10).await.expect("claims");
        let [first, second, third] = &claimed.items[..] else { panic!("{claimed:?}") };
        let later = Duration::from_secs(3_600);
        let settled = [
            queue.abandon_for(worker, &[first.lease], later, "no\u{1b}[2J route").await,
            queue.ack(worker, &[second.lease]).await,
            queue.fail(worker, &[third.lease], "never").await,
        ];
        for settled in settled {
            assert_eq!(settled.expect("settles").applied, 1);
        }
    });

    let failed = cli.json(&["show", &fails]);
    assert_eq!((&failed["status"], &failed["attempts"]), (&"failed".into(), &1.into()));
    assert_eq!(failed["history"][0]["error"], "no\u{1b}[2J route");
    assert_eq!(failed["history"][0]["by"], worker.to_string());
    assert_eq!(failed.get("payload"), None);
    let page = cli.ok(&["show", &fails, "--payload"]);
    assert!(page.contains("status          failed (retry in "), "{page}");
    assert!(page.contains(r"attempt failed: no\u{1b}[2J route (owner "), "{page}");
    assert!(page.contains("Payload (JSON)\n  {\n    \"order\": 7\n  }\n"), "{page}");

    assert_eq!(cli.json(&["show", &works])["status"], "done");
    assert_eq!(cli.json(&["list", "--status=done"])[0]["id"], works);
    let dead = cli.json(&["list", "--status=dead"]);
    assert_eq!((&dead[0]["id"], &dead[0]["reason"]), (&dies.into(), &"permanent_error".into()));
    let stats = cli.json(&["stats"]);
    let counts = ["waiting", "failed", "done", "dead", "ready"].map(|name| &stats[name]);
    assert_eq!(counts, [&1.into(), &1.into(), &1.into(), &1.into(), &Value::from(0)]);
    let missing = cli.run(&["show", "019a8a00-0000-7000-8000-0000000000ff"]);
    assert_eq!((missing.code, missing.stdout.as_str()), (3, ""));
    assert!(missing.stderr.starts_with("error: no message 019a8a00-"), "{missing:?}");
}

/// A message in the inbox says who sent it, under which name, and for whom it is.
pub(crate) fn show_tells_the_origin(cli: &Cli, store: Arc<impl TransactionalStore>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let id = runtime.expect("a runtime").block_on(async {
        let inbox = Inbox::new(&Outbox::new(store), "billing").expect("legal");
        let message = Message::builder("order.placed").payload("{}");
        match inbox.receive("shop", "order-7", message).await.expect("receives") {
            Received::New(id) => id.to_string(),
            other => panic!("{other:?}"),
        }
    });
    let page = cli.ok(&["--queue=inbox", "show", &id]);
    assert!(page.contains("  from            shop as order-7\n"), "{page}");
    assert!(page.contains("  for             billing\n"), "{page}");
    let origin = &cli.json(&["--queue=inbox", "show", &id])["origin"];
    let expected = r#"{"source":"shop","message_id":"order-7","consumer":"billing"}"#;
    assert_eq!(*origin, serde_json::from_str::<Value>(expected).expect("JSON"));
    assert_eq!(cli.run(&["show", &id]).code, 3, "it is not in the outbox");
}

/// A dead letter is discarded and replayed, and the command says what it could not do.
pub(crate) fn dead_letters_are_helped(cli: &Cli) {
    let waits = cli.enqueue(&["waits", "--payload={}", "--due-in=1h"]);
    let other = cli.enqueue(&["other", "--payload={}"]);
    assert_eq!(
        cli.ok(&["discard", &waits, &other]),
        format!("{waits}  discarded\n{other}  discarded\n")
    );
    let dead = cli.json(&["list", "--status=dead"]);
    assert_eq!(
        (&dead[0]["reason"], &dead[1]["reason"]),
        (&"discarded".into(), &"discarded".into())
    );
    let replayed = cli.json(&["replay", &other]);
    assert_eq!(replayed, serde_json::json!({ "replayed": [other], "refused": [] }));
    assert_eq!(cli.json(&["show", &other])["status"], "pending");

    let again = cli.run(&["replay", &waits, &other]);
    assert_eq!((again.code, again.stderr.as_str()), (1, "1 of 2 not replayed.\n"));
    assert_eq!(again.stdout, format!("{waits}  replayed\n{other}  not replayed: not dead\n"));
    let missing = cli.run(&["replay", ID, "--json"]);
    assert_eq!(missing.code, 3, "{missing:?}");
    assert!(missing.stdout.contains(r#""reason": "no_such_message""#), "{missing:?}");
    assert_eq!(cli.run(&["replay"]).code, 2);
    assert_eq!(cli.run(&["discard", "7"]).code, 2);
}

/// A pause is seen by workers, named in a list, and ended.
pub(crate) fn pauses_are_kept(cli: &Cli, store: Arc<dyn Store>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let queue = WorkQueue::new(store);
    let claim = || {
        let claimed = queue.claim(OwnerToken::random(), Duration::from_secs(30), 10);
        runtime.block_on(claimed).expect("claims").items.len()
    };
    cli.enqueue(&["quiet", "--payload={}"]);
    let paused = cli.ok(&["pause", "--topic=quiet", "--reason=broker full", "--by=ann"]);
    assert_eq!(paused, "Paused topic quiet.\n");
    assert_eq!(claim(), 0);
    assert_eq!(cli.ok(&["pause", "--topic=quiet"]), "Topic quiet was paused already.\n");
    let again = cli.json(&["pause", "--topic=quiet"]);
    assert_eq!(again, serde_json::json!({ "topic": "quiet", "already_paused": true }));
    assert_eq!(cli.ok(&["pause"]), "Paused the whole queue.\n");
    let listed = cli.json(&["pauses"]);
    assert_eq!((&listed[0]["topic"], &listed[1]["topic"]), (&Value::Null, &"quiet".into()));
    assert_eq!((&listed[1]["by"], &listed[1]["reason"]), (&"ann".into(), &"broker full".into()));
    assert!(listed[1]["since"].is_string() && listed[0]["by"].is_null(), "{listed:#}");
    let page = cli.ok(&["pauses"]);
    assert!(page.starts_with("TOPIC") && page.contains("\n(all)"), "{page}");

    let resumed = cli.run(&["resume"]);
    assert_eq!((resumed.code, resumed.stdout.as_str()), (0, "Resumed the whole queue.\n"));
    assert!(resumed.stderr.starts_with("Pauses in force: 1;"), "{resumed:?}");
    assert_eq!(claim(), 0, "the topic is still paused");
    let ended = cli.json(&["resume", "--topic=quiet"]);
    assert_eq!(ended, serde_json::json!({ "topic": "quiet", "was_paused": true }));
    assert_eq!(cli.ok(&["resume", "--topic=quiet"]), "Topic quiet was not paused.\n");
    assert_eq!(cli.run(&["pauses"]).stderr, "Nothing is paused.\n");
    assert_eq!(claim(), 1);
    assert_eq!(cli.run(&["pause", "--topic="]).code, 2);
}
