//! What a collector gets: spans from the creation of a message to its effect, each with a link to
//! the first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use postroom_core::store::{AdminStore as _, TransactionalStore as _};
use postroom_core::{
    Backoff, Delivery, Dispatcher, DispatcherConfig, HandlerError, Handlers, Inbox, Message,
    Outbox, OutboxConfig, Retry,
};
use postroom_otel::Traces;
use postroom_otel::otlp::Exporter;
use postroom_testkit::SimStore;
use prost::Message as _;
use tokio::sync::Notify;
use tracing::Instrument as _;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

type Received = Arc<Mutex<Vec<ExportTraceServiceRequest>>>;

/// A collector: the address, and what it gets.
async fn collector() -> (String, Received) {
    let received = Received::default();
    let take = |State(received): State<Received>, body: Bytes| async move {
        let request = ExportTraceServiceRequest::decode(body).expect("protobuf");
        received.lock().expect("lock").push(request);
        Bytes::new()
    };
    let router = Router::new().route("/v1/traces", post(take)).with_state(Arc::clone(&received));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move { axum::serve(listener, router).await });
    (address, received)
}

fn attributes(span: &Span) -> BTreeMap<&str, String> {
    pairs(&span.attributes)
}

fn pairs(attributes: &[KeyValue]) -> BTreeMap<&str, String> {
    let text = |value: &Value| match value {
        Value::StringValue(text) => text.clone(),
        Value::IntValue(number) => number.to_string(),
        other => format!("{other:?}"),
    };
    let pair =
        |pair: &KeyValue| pair.value.as_ref().and_then(|value| value.value.as_ref()).map(text);
    attributes.iter().map(|one| (one.key.as_str(), pair(one).unwrap_or_default())).collect()
}

/// An order is placed in the span of a request; its message goes from an outbox into an inbox,
/// whose handler fails once.
async fn story() {
    let store = || Arc::new(SimStore::default().ticking());
    let (shop, billing) = (store(), store());
    let trace = Some(Arc::new(postroom_otel::current_context) as Arc<_>);
    let config = OutboxConfig { trace, ..OutboxConfig::default() };
    let outbox = Outbox::new(Arc::clone(&shop)).configure(config).expect("legal");
    let inbox = Inbox::new(&Outbox::new(Arc::clone(&billing)), "billing").expect("legal");
    let retry = Retry { backoff: Backoff::Fixed(Duration::from_millis(1)), max_attempts: 3 };
    let config = DispatcherConfig { retry, ..DispatcherConfig::default() };
    let sending = Dispatcher::new(shop, inbox.sink("shop").expect("legal"));
    let sending = sending.intercept(Traces::default()).config(config.clone()).start();
    let handlers = Handlers::new().all(|delivery: Delivery| async move {
        match delivery.attempt() {
            1 => Err(HandlerError::retry("not yet")),
            _ => Ok(()),
        }
    });
    let received = Arc::new(billing.inbox());
    let processing =
        Dispatcher::new(Arc::clone(&received) as _, handlers).intercept(Traces::default());
    let processing = processing.config(config).start();
    let request = tracing::info_span!(target: "postroom_example", "request");
    let publishing = outbox.publish(Message::builder("order.placed").payload("{}"));
    publishing.instrument(request).await.expect("published");
    while received.stats().await.expect("stats").done == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for running in [sending, processing] {
        assert!(running.expect("legal").shutdown(Duration::from_secs(5)).await);
    }
}

/// Messages that wait for each other go to their handler together, all but the first.
async fn story_of_a_batch(messages: usize) {
    let store = Arc::new(SimStore::default().ticking());
    let trace = Some(Arc::new(postroom_otel::current_context) as Arc<_>);
    let config = OutboxConfig { trace, ..OutboxConfig::default() };
    let outbox = Outbox::new(Arc::clone(&store)).configure(config).expect("legal");
    let (begun, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let gate = (Arc::clone(&begun), Arc::clone(&go_on));
    let handlers = Handlers::new().batch("*", messages, move |batch: Vec<Delivery>| {
        let (begun, go_on) = gate.clone();
        async move {
            if batch[0].message().topic().as_str() == "first" {
                begun.notify_one();
                go_on.notified().await;
            }
            let inside = tracing::info_span!(target: "postroom_example", "inside").entered();
            drop(inside);
            batch.iter().map(|_| Err(HandlerError::dead("no"))).collect()
        }
    });
    let config = DispatcherConfig { workers: 1, hot_queue: 1_000, ..Default::default() };
    let running = Dispatcher::new(Arc::clone(&store) as _, handlers);
    let running = running.intercept(Traces::processing().joined()).config(config).start();
    outbox.publish(Message::builder("first")).await.expect("published");
    begun.notified().await;
    for n in 0..messages {
        let topic = if n == 0 { "other" } else { "same" };
        outbox.publish(Message::builder(topic)).await.expect("published");
    }
    while outbox.snapshot().hot.is_none_or(|hot| hot.held <= messages) {
        tokio::task::yield_now().await;
    }
    go_on.notify_one();
    while store.stats().await.expect("stats").dead <= messages as u64 {
        tokio::task::yield_now().await;
    }
    assert!(running.expect("legal").shutdown(Duration::from_secs(5)).await);
}

/// What a collector got, of all stories. There is one subscriber in a process.
struct Told {
    requests: Vec<ExportTraceServiceRequest>,
}

impl Told {
    fn spans(&self) -> impl Iterator<Item = &Span> {
        let resources = self.requests.iter().flat_map(|request| &request.resource_spans);
        resources.flat_map(|one| &one.scope_spans).flat_map(|scope| &scope.spans)
    }

    fn named(&self, name: &str) -> Vec<&Span> {
        self.spans().filter(|span| span.name == name).collect()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn obs_5_spans_from_the_creation_of_a_message_to_its_effect() {
    let (address, received) = collector().await;
    let exporter = exporter_for(&address).await;
    tracing_subscriber::registry().with(exporter.layer()).init();
    let patience = Duration::from_secs(60);
    tokio::time::timeout(patience, story()).await.expect("it ends");
    tokio::time::timeout(patience, story_of_a_batch(200)).await.expect("it ends");
    tokio::task::spawn_blocking(move || exporter.shutdown()).await.expect("shut down");
    let told = Told { requests: received.lock().expect("lock").clone() };
    let mut resources = told.requests.iter().flat_map(|request| &request.resource_spans);
    let resource = resources.next().and_then(|one| one.resource.as_ref());
    let named = resource.expect("a resource").attributes.iter().any(|a| a.key == "service.name");
    assert!(named, "{resource:?}");
    single_messages_are_linked(&told);
    many_messages_are_one_span_with_many_links(&told);
}

fn single_messages_are_linked(told: &Told) {
    let (request, create) = (told.named("request"), told.named("create order.placed"));
    let (send, process) = (told.named("send order.placed"), told.named("process order.placed"));
    assert_eq!(
        (request.len(), create.len(), send.len(), process.len()),
        (1, 1, 1, 2),
        "one that failed, and one that did not"
    );
    let (request, create) = (request[0], create[0]);
    assert_eq!(create.parent_span_id, request.span_id);
    let id = attributes(create)["messaging.message.id"].clone();
    for span in send.iter().chain(&process) {
        let [link] = &span.links[..] else { panic!("one link: {:?}", span.links) };
        assert_eq!((&link.trace_id, &link.span_id), (&create.trace_id, &create.span_id));
        let linked = &pairs(&link.attributes)["messaging.message.id"];
        assert_eq!(*linked, attributes(span)["messaging.message.id"], "{}", span.name);
        assert_ne!(span.trace_id, request.trace_id, "a trace of its own: {}", span.name);
        assert!(span.parent_span_id.is_empty(), "{}", span.name);
    }
    assert_eq!(create.kind, SpanKind::Producer as i32);
    assert_eq!(send[0].kind, SpanKind::Client as i32);
    assert!(process.iter().all(|span| span.kind == SpanKind::Consumer as i32));
    let failed: Vec<_> =
        process.iter().filter(|span| attributes(span).contains_key("error.type")).collect();
    assert_eq!(failed.len(), 1);
    let status = failed[0].status.as_ref().expect("a status");
    assert_eq!((status.code, status.message.as_str()), (StatusCode::Error as i32, "not yet"));
    let about = attributes(send[0]);
    assert_eq!(about["messaging.destination.name"], "order.placed");
    assert_eq!(about["messaging.operation.name"], "send");
    assert_eq!(about["messaging.message.id"], id);
}

fn many_messages_are_one_span_with_many_links(told: &Told) {
    let first = told.named("process first");
    let (parent, trace) = (&first[0].parent_span_id, &first[0].trace_id);
    let created = told.named("create first");
    assert_eq!((parent, trace), (&created[0].span_id, &created[0].trace_id), "joined");
    assert_eq!(first[0].links.len(), 1, "and linked as well");
    let [many] = told.named("process")[..] else { panic!("one span for different topics") };
    let created: BTreeSet<_> = told.named("create same").iter().map(|span| &span.span_id).collect();
    let linked: BTreeSet<_> = many.links.iter().map(|link| &link.span_id).collect();
    assert_eq!((created.len(), linked.len(), many.links.len()), (199, 200, 200));
    assert!(linked.is_superset(&created));
    assert!(many.parent_span_id.is_empty(), "they have no parent in common");
    assert_eq!(many.kind, SpanKind::Consumer as i32);
    let about = attributes(many);
    assert_eq!(about["messaging.batch.message_count"], "200");
    assert!(!about.contains_key("messaging.destination.name"), "{about:?}");
    assert!(!about.contains_key("messaging.message.id"), "{about:?}");
    let errors = many.attributes.iter().filter(|one| one.key == "error.type");
    assert_eq!(errors.count(), 1, "once, however many failed");
    let inside = told.named("inside");
    assert!(inside.iter().any(|span| span.parent_span_id == many.span_id), "handlers are inside");
}

/// Its client blocks, and is made where that may be.
async fn exporter_for(address: &str) -> Exporter {
    let address = address.to_owned();
    let made = tokio::task::spawn_blocking(move || Exporter::to(&address, "shop")).await;
    made.expect("it does not panic").expect("an exporter")
}
