//! Signatures, checked by those who did not write them: the crate of Standard Webhooks, and the
//! snippets of the guide in Python and JavaScript.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use postroom_core::{Message, Sink as _, Timestamp};
use postroom_sinks::http::{HttpConfig, HttpSink};
use postroom_sinks::{Mode, Secret};
use standardwebhooks::Webhook;

use crate::receiver::{Received, Receiver, delivery, local};

const OLD: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const NEW: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oDSlbDPYAGwzA=";
const OTHER: &str = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

async fn sent(secrets: &[&str], mode: Mode, payload: &[u8]) -> Received {
    let receiver = Receiver::start().await;
    let secrets = secrets.iter().map(|secret| Secret::new(*secret)).collect();
    let config = HttpConfig { secrets, mode, ..local(receiver.url()) };
    let message = Message::builder("order.placed").payload(payload.to_vec()).build();
    let sink = HttpSink::new(config).expect("legal");
    sink.deliver(&[delivery(message.expect("legal"))]).await;
    receiver.seen().remove(0)
}

fn verifies(secret: &str, received: &Received, body: &[u8]) -> bool {
    Webhook::new(secret).expect("a secret").verify(body, &received.headers).is_ok()
}

#[tokio::test]
async fn x07_every_secret_verifies_during_a_rotation_and_no_other_does() {
    for mode in [Mode::Binary, Mode::Structured] {
        let before = Timestamp::host_now().as_micros() / 1_000_000;
        let received = sent(&[NEW, OLD], mode, br#"{"order":7}"#).await;
        let after = Timestamp::host_now().as_micros() / 1_000_000;
        assert!(verifies(OLD, &received, &received.body));
        assert!(verifies(NEW, &received, &received.body));
        assert!(!verifies(OTHER, &received, &received.body));
        let stamp: i64 = received.header("webhook-timestamp").parse().expect("seconds");
        assert!((before..=after).contains(&stamp), "{before} {stamp} {after}");
    }
}

#[tokio::test]
async fn x07_an_altered_byte_is_refused() {
    let received = sent(&[OLD], Mode::Binary, br#"{"order":7}"#).await;
    assert!(verifies(OLD, &received, &received.body));
    for at in 0..received.body.len() {
        let mut body = received.body.to_vec();
        body[at] ^= 1;
        assert!(!verifies(OLD, &received, &body), "byte {at}");
    }
    for name in ["webhook-id", "webhook-timestamp"] {
        let mut altered = received.clone();
        let value = format!("{}1", received.header(name)).parse().expect("a value");
        altered.headers.insert(axum::http::HeaderName::from_static(name), value);
        assert!(!verifies(OLD, &altered, &received.body), "{name}");
    }
}

#[tokio::test]
async fn x07_no_secret_no_signature() {
    let received = sent(&[], Mode::Binary, b"{}").await;
    assert!(!received.headers.contains_key("webhook-signature"));
    assert!(!received.header("webhook-id").is_empty());
}

/// The first block of code in this language in the guide.
fn snippet(language: &str) -> String {
    let guide = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/webhooks.md");
    let guide = std::fs::read_to_string(guide).expect("the guide");
    let (_, code) = guide.split_once(&format!("```{language}\n")).expect("a block");
    code.split_once("\n```").expect("its end").0.to_owned()
}

/// What a program says when it gets the secret, the headers and the clock as arguments and the body
/// as its input.
fn answer(program: &str, code: &str, secret: &str, received: &Received, now: i64) -> String {
    let extension = if program.contains("node") { "cjs" } else { "py" };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(format!("receiver.{extension}"));
    std::fs::write(&path, code).expect("written");
    let headers = ["webhook-id", "webhook-timestamp", "webhook-signature"];
    let mut child = Command::new(program)
        .arg(path)
        .arg(secret)
        .args(headers.map(|name| received.header(name)))
        .arg(now.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect(program);
    let mut input = child.stdin.take().expect("piped");
    input.write_all(&received.body).expect("written");
    drop(input);
    let output = child.wait_with_output().expect("ends");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {errors}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

async fn a_receiver_checks(program: &str, code: &str) {
    let received = sent(&[NEW, OLD], Mode::Binary, &[0, 255, b'.', b'\r', b'\n', 0x80]).await;
    let now = Timestamp::host_now().as_micros() / 1_000_000;
    let says = |secret, received: &Received, now| answer(program, code, secret, received, now);
    assert_eq!(says(OLD, &received, now), "true");
    assert_eq!(says(NEW, &received, now), "true");
    assert_eq!(says(OTHER, &received, now), "false");
    assert_eq!(says(OLD, &received, now + 240), "true", "four minutes late");
    assert_eq!(says(OLD, &received, now + 360), "false", "six minutes late");
    assert_eq!(says(OLD, &received, now - 360), "false", "from the future");
    let mut altered = received.clone();
    altered.body = vec![1, 255, b'.', b'\r', b'\n', 0x80].into();
    assert_eq!(says(OLD, &altered, now), "false");
}

#[tokio::test]
async fn x07_the_snippet_for_python_takes_what_is_genuine_and_nothing_else() {
    let python = std::env::var("POSTROOM_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let main = "
import sys
secret, id, timestamp, signature, now = sys.argv[1:]
headers = {'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signature}
print(str(is_genuine(secret, headers, sys.stdin.buffer.read(), int(now))).lower())
";
    a_receiver_checks(&python, &format!("{}\n{main}", snippet("python"))).await;
}

#[tokio::test]
async fn x07_the_snippet_for_node_takes_what_is_genuine_and_nothing_else() {
    let main = "
const [secret, id, timestamp, signature, now] = process.argv.slice(2);
const headers = { 'webhook-id': id, 'webhook-signature': signature };
headers['webhook-timestamp'] = timestamp;
console.log(isGenuine(secret, headers, require('fs').readFileSync(0), Number(now)));
";
    a_receiver_checks("node", &format!("{}\n{main}", snippet("js"))).await;
}
