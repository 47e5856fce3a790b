//! What a collector hears of a message that one process enqueues and the other delivers.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use prost::Message as _;
use tokio::runtime::Runtime;

const PAYLOAD: &str = r#"{"card":"4111-1111-secret"}"#;
const HEADER: &str = "header-value-secret";

/// A collector of this test alone. It keeps the bytes, so that nothing in them is overlooked.
struct Collector {
    address: String,
    received: Arc<Mutex<Vec<Bytes>>>,
    _runtime: Runtime,
}

impl Collector {
    fn start() -> Self {
        let received = Arc::<Mutex<Vec<Bytes>>>::default();
        let take = |State(received): State<Arc<Mutex<Vec<Bytes>>>>, body: Bytes| async move {
            received.lock().expect("lock").push(body);
            Bytes::new()
        };
        let router = Router::new().route("/v1/traces", post(take));
        let router = router.with_state(Arc::clone(&received));
        let runtime = Runtime::new().expect("a runtime");
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"));
        let listener = listener.expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        runtime.spawn(async move { axum::serve(listener, router).await });
        Self { address, received, _runtime: runtime }
    }

    /// What it got so far, once everybody who sends has ended.
    fn spans(&self) -> Vec<Span> {
        let received = self.received.lock().expect("lock");
        let requests = received.iter().map(|bytes| {
            let secret = [PAYLOAD, "4111-1111", HEADER];
            for secret in secret {
                let found = bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
                assert!(!found, "{secret} was sent to the collector");
            }
            ExportTraceServiceRequest::decode(bytes.clone()).expect("protobuf")
        });
        let resources = requests.flat_map(|request| request.resource_spans);
        resources.flat_map(|one| one.scope_spans).flat_map(|scope| scope.spans).collect()
    }
}

/// The binary with no settings but these.
fn postroom(folder: &Path, collector: &Collector, variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_postroom"));
    for (name, _) in std::env::vars_os() {
        let ours = name.to_string_lossy();
        if ours.starts_with("POSTROOM_") || ours.starts_with("OTEL_") {
            command.env_remove(&name);
        }
    }
    command.current_dir(folder).stdin(Stdio::null());
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.address);
    command.envs(variables.iter().copied());
    command
}

/// Enqueues a message and gives its id.
fn enqueue(folder: &Path, collector: &Collector, arguments: &[&str]) -> String {
    let header = format!("x-secret={HEADER}");
    let mut command = postroom(folder, collector, &[]);
    command.args(["enqueue", "order.placed", "--payload", PAYLOAD, "--header", &header]);
    let done = command.args(arguments).output().expect("the binary runs");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("text").trim().to_owned()
}

/// Delivers what is there, and gives it as it is on the wire.
fn deliver(
    folder: &Path,
    collector: &Collector,
    variables: &[(&str, &str)],
    count: usize,
) -> Vec<serde_json::Value> {
    let mut relay = postroom(folder, collector, variables)
        .args(["up", "--listen", "off", "--source", "/shop"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    let lines = BufReader::new(relay.stdout.take().expect("piped")).lines();
    let parse = |line: std::io::Result<String>| {
        serde_json::from_str(&line.expect("a line")).expect("a line of JSON")
    };
    let events: Vec<_> = lines.take(count).map(parse).collect();
    let pid = relay.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs").success());
    // What is left of the spans is sent before it ends.
    assert!(relay.wait().expect("it ends").success());
    assert_eq!(events.len(), count);
    events
}

fn pairs(attributes: &[KeyValue]) -> Vec<(&str, String)> {
    let text = |pair: &KeyValue| match pair.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    };
    attributes.iter().map(|pair| (pair.key.as_str(), text(pair))).collect()
}

fn of(attributes: &[KeyValue], name: &str) -> Option<String> {
    pairs(attributes).into_iter().find(|(key, _)| *key == name).map(|(_, value)| value)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn named<'a>(spans: &'a [Span], name: &str) -> Vec<&'a Span> {
    spans.iter().filter(|span| span.name == name).collect()
}

#[test]
fn obs_5_a_message_is_created_here_and_sent_there_and_the_collector_hears_of_both() {
    let (folder, collector) = (tempfile::tempdir().expect("a folder"), Collector::start());
    let id = enqueue(folder.path(), &collector, &[]);
    let events = deliver(folder.path(), &collector, &[], 1);
    let spans = collector.spans();
    let [create] = named(&spans, "create order.placed")[..] else { panic!("{spans:?}") };
    let [send] = named(&spans, "send order.placed")[..] else { panic!("{spans:?}") };
    assert_eq!(spans.len(), 2, "nothing else: {spans:?}");
    let kinds = (create.kind, send.kind);
    assert_eq!(kinds, (SpanKind::Producer as i32, SpanKind::Client as i32));
    let wire = format!("00-{}-{}-01", hex(&create.trace_id), hex(&create.span_id));
    assert_eq!(events[0]["traceparent"], wire.as_str(), "the creation travels, not the delivery");
    let [link] = &send.links[..] else { panic!("one link: {send:?}") };
    assert_eq!((&link.trace_id, &link.span_id), (&create.trace_id, &create.span_id));
    assert_eq!(of(&link.attributes, "messaging.message.id").as_ref(), Some(&id));
    assert_ne!(send.trace_id, create.trace_id);
    assert!(send.parent_span_id.is_empty() && create.parent_span_id.is_empty());
    for (span, operation) in [(create, "create"), (send, "send")] {
        let expected = [
            ("messaging.system", "postroom"),
            ("messaging.operation.name", operation),
            ("messaging.operation.type", operation),
            ("messaging.destination.name", "order.placed"),
            ("messaging.message.id", id.as_str()),
        ];
        for (name, value) in expected {
            let found = of(&span.attributes, name);
            assert_eq!(found.as_deref(), Some(value), "{name} of {operation}");
        }
    }
    let size = of(&send.attributes, "messaging.message.body.size");
    assert_eq!(size, Some(PAYLOAD.len().to_string()));
}

#[test]
fn msg_5_a_context_that_a_message_brings_along_is_linked_or_joined_and_sent_on() {
    let (trace, span) = ("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7");
    let context = format!("traceparent=00-{trace}-{span}-01");
    for (shape, parent) in [("links", ""), ("joined", span)] {
        let (folder, collector) = (tempfile::tempdir().expect("a folder"), Collector::start());
        enqueue(folder.path(), &collector, &["--header", &context]);
        let variables = [("POSTROOM_TRACES", shape)];
        let events = deliver(folder.path(), &collector, &variables, 1);
        assert_eq!(events[0]["traceparent"], context["traceparent=".len()..]);
        let spans = collector.spans();
        let [send] = &spans[..] else { panic!("its creation was told by others: {spans:?}") };
        assert_eq!((send.name.as_str(), send.links.len()), ("send order.placed", 1));
        let link = &send.links[0];
        assert_eq!((hex(&link.trace_id), hex(&link.span_id)), (trace.into(), span.into()));
        assert_eq!(hex(&send.parent_span_id), parent, "{shape}");
        assert_eq!(hex(&send.trace_id) == trace, shape == "joined");
    }
}

/// However many go in one call, each is linked once.
#[test]
fn obs_5_every_message_of_a_batch_has_a_link() {
    let (folder, collector) = (tempfile::tempdir().expect("a folder"), Collector::start());
    let ids: Vec<_> = (0..5).map(|_| enqueue(folder.path(), &collector, &[])).collect();
    deliver(folder.path(), &collector, &[("POSTROOM_TRACES", "joined")], ids.len());
    let spans = collector.spans();
    assert_eq!(named(&spans, "create order.placed").len(), ids.len());
    let mut linked = Vec::new();
    for send in named(&spans, "send order.placed") {
        let count = of(&send.attributes, "messaging.batch.message_count");
        let expected = (send.links.len() > 1).then(|| send.links.len().to_string());
        assert_eq!(count, expected, "{send:?}");
        linked.extend(send.links.iter().filter_map(|l| of(&l.attributes, "messaging.message.id")));
    }
    linked.sort();
    let mut ids = ids;
    ids.sort();
    assert_eq!(linked, ids);
}

#[test]
fn obs_5_traces_that_are_not_understood_are_refused() {
    let (folder, collector) = (tempfile::tempdir().expect("a folder"), Collector::start());
    let variables = [("POSTROOM_TRACES", "sideways")];
    let ended = postroom(folder.path(), &collector, &variables).arg("up").output();
    let ended = ended.expect("the binary runs");
    assert_eq!(ended.status.code(), Some(2));
    let told = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(told.contains("POSTROOM_TRACES is links or joined"), "{told}");
}

/// A collector that is away keeps nobody from delivering.
#[test]
fn obs_5_a_collector_that_is_away_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut collector = Collector::start();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    collector.address = format!("http://{}", taken.local_addr().expect("an address"));
    drop(taken);
    enqueue(folder.path(), &collector, &[]);
    assert_eq!(deliver(folder.path(), &collector, &[], 1).len(), 1);
    assert!(collector.spans().is_empty());
}
