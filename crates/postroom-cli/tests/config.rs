//! `postroom config`, and `postroom up` by a configuration file, on embedded databases.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// Generous: it bounds a hang, it measures nothing.
const PATIENCE: Duration = Duration::from_secs(60);

const FILE: &str = r#"
source = "https://shop.example"

[stores.one]
url = "sqlite:one.db"

[stores.two]
url = "sqlite:${POSTROOM_TEST_FILE}"

[sinks.orders.file]
path = "orders.jsonl"

[sinks.rest.file]
path = "rest.jsonl"

[[routes]]
topics = "*"
sink = "rest"

[[routes]]
topics = "order.*"
sink = "orders"
"#;

fn postroom(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_postroom"));
    for name in ["URL", "SCHEMA", "PREFIX", "SOURCE", "CONFIG", "SINK", "LOG"] {
        command.env_remove(format!("POSTROOM_{name}"));
    }
    command.env("POSTROOM_TEST_FILE", "two.db");
    command.current_dir(folder).stdin(Stdio::null());
    command
}

fn run(folder: &Path, arguments: &[&str]) -> Output {
    postroom(folder).args(arguments).output().expect("the binary runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

fn folder(file: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("postroom.toml"), file).expect("written");
    folder
}

/// A running relay, ended with its test.
struct Up(Child);

impl Up {
    fn start(folder: &Path, arguments: &[&str]) -> Self {
        let mut command = postroom(folder);
        command.arg("up").args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().expect("the binary starts"))
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The types of the events in a file, sorted, once there are so many.
fn topics(path: &Path, count: usize) -> Vec<String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let lines = std::fs::read_to_string(path).unwrap_or_default();
        let events = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let topic = |event: Value| event["type"].as_str().expect("a type").to_owned();
        let mut topics: Vec<_> = events.map(topic).collect();
        if topics.len() >= count {
            topics.sort();
            return topics;
        }
        assert!(Instant::now() < deadline, "{}: {topics:?}", path.display());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn rly_1_many_databases_go_where_the_routes_say() {
    let folder = folder(FILE);
    let folder = folder.path();
    let _up = Up::start(folder, &["--config", "postroom.toml"]);
    for (url, topic) in [
        ("sqlite:one.db", "order.placed"),
        ("sqlite:two.db", "order.sent"),
        ("sqlite:two.db", "mail"),
    ] {
        let done = run(folder, &["--url", url, "enqueue", topic, "--payload", "{}"]);
        assert!(done.status.success(), "{}", text(&done.stderr));
    }
    assert_eq!(topics(&folder.join("orders.jsonl"), 2), ["order.placed", "order.sent"]);
    assert_eq!(topics(&folder.join("rest.jsonl"), 1), ["mail"]);
    let lines = std::fs::read_to_string(folder.join("rest.jsonl")).expect("a file");
    assert!(lines.contains(r#""source":"https://shop.example""#), "{lines}");
}

#[test]
fn rly_1_one_sink_needs_no_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let _up = Up::start(folder, &["--sink", "file:events.jsonl", "--source", "/shop"]);
    assert!(run(folder, &["enqueue", "a", "--payload", "{}"]).status.success());
    assert_eq!(topics(&folder.join("events.jsonl"), 1), ["a"]);
}

#[test]
fn cli_1_check_says_what_a_file_means() {
    let folder = folder(FILE);
    let checked = run(folder.path(), &["config", "check", "--topic", "order.x", "--topic", "mail"]);
    assert!(checked.status.success(), "{}", text(&checked.stderr));
    insta::assert_snapshot!(text(&checked.stdout), @r"
           NAME     IS
    store  one      outbox of sqlite:one.db, schema postroom
    store  two      outbox of sqlite:two.db, schema postroom
    sink   orders   file
    sink   rest     file
    route  *        rest
    route  order.*  orders
    topic  order.x  orders
    topic  mail     rest
    ");
    let json = run(folder.path(), &["config", "check", "--json"]);
    let json: Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!(json["config"][2]["name"], "orders");
}

#[test]
fn cli_1_check_goes_there_when_asked_to() {
    let file = FILE.replace("path = \"rest.jsonl\"", "path = \"no/such/folder\"");
    let folder = folder(&file);
    let checked = run(folder.path(), &["config", "check", "--connect"]);
    assert_eq!(checked.status.code(), Some(5));
    let (table, note) = (text(&checked.stdout), text(&checked.stderr));
    assert!(table.contains("there is no database file one.db"), "{table}");
    assert!(table.contains("No such file or directory"), "{table}");
    assert!(note.contains("3 can not be used."), "{note}");
}

#[test]
fn cli_1_a_file_that_is_wrong_is_refused_with_its_place() {
    let wrong = FILE.replace("sink = \"orders\"", "sink = \"order\"");
    let folder = folder(&wrong);
    for arguments in
        [&["config", "check"][..], &["config", "print"], &["up", "--config", "postroom.toml"]]
    {
        let refused = run(folder.path(), arguments);
        assert_eq!(refused.status.code(), Some(2));
        let error = text(&refused.stderr);
        let expected = "postroom.toml:22:8: there is no sink \"order\"; there is orders, rest";
        assert!(error.contains(expected), "{error}");
    }
    let missing = run(folder.path(), &["config", "check", "--config", "none.toml"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(text(&missing.stderr).contains("can not read none.toml"));
}

#[test]
fn cli_1_print_fills_in_the_defaults() {
    let folder = folder(FILE);
    let printed = text(&run(folder.path(), &["config", "print"]).stdout);
    assert!(printed.contains("url = \"sqlite:${POSTROOM_TEST_FILE}\""), "{printed}");
    assert!(printed.contains("lease = \"30s\"") && printed.contains("attempts = 10"), "{printed}");
}

#[test]
fn cli_1_the_schema_is_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let schema = run(folder.path(), &["config", "schema"]);
    let schema: Value = serde_json::from_slice(&schema.stdout).expect("JSON");
    assert!(schema["properties"]["routes"]["description"].is_string(), "{schema:#}");
    assert_eq!(schema["additionalProperties"], false);
}

/// A receiver that takes connections and never answers.
#[test]
fn rly_2_a_sink_that_hangs_does_not_hold_up_the_others() {
    let hung = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = hung.local_addr().expect("an address");
    let folder = folder(&format!(
        r#"
[dispatcher]
workers = 64

[sinks.hung.http]
url = "http://{address}/"
allow_http = true
allow = ["127.0.0.0/8"]
timeout = "20s"
batch = 1

[sinks.fine.file]
path = "fine.jsonl"

[[routes]]
topics = "hung"
sink = "hung"

[[routes]]
topics = "fine"
sink = "fine"
"#
    ));
    let folder = folder.path();
    // More than there are workers.
    for _ in 0..100 {
        assert!(run(folder, &["enqueue", "hung", "--payload", "{}"]).status.success());
    }
    let _up = Up::start(folder, &["--config", "postroom.toml"]);
    let (_connection, _) = hung.accept().expect("a request");
    for _ in 0..20 {
        assert!(run(folder, &["enqueue", "fine", "--payload", "{}"]).status.success());
    }
    topics(&folder.join("fine.jsonl"), 20);
    let stats = run(folder, &["stats", "--json"]).stdout;
    let stats: Value = serde_json::from_slice(&stats).expect("JSON");
    assert_eq!(stats["failed"], 0, "they came only when requests to the other had ended: {stats}");
}
