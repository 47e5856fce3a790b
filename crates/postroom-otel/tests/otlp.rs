//! What a collector gets: one trace from the creation of a message to its effect.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
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
    let text = |value: &Value| match value {
        Value::StringValue(text) => text.clone(),
        Value::IntValue(number) => number.to_string(),
        other => format!("{other:?}"),
    };
    let pair = |pair: &opentelemetry_proto::tonic::common::v1::KeyValue| {
        pair.value.as_ref().and_then(|value| value.value.as_ref()).map(text)
    };
    span.attributes.iter().map(|one| (one.key.as_str(), pair(one).unwrap_or_default())).collect()
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn obs_5_one_trace_from_the_creation_of_a_message_to_its_effect() {
    let (address, received) = collector().await;
    let exporter = exporter_for(&address).await;
    tracing_subscriber::registry().with(exporter.layer()).init();
    let patience = Duration::from_secs(60);
    tokio::time::timeout(patience, story()).await.expect("it ends");
    tokio::task::spawn_blocking(move || exporter.shutdown()).await.expect("shut down");
    let received = received.lock().expect("lock");
    let resources = received.iter().flat_map(|request| &request.resource_spans);
    let scopes = resources.clone().flat_map(|resource| &resource.scope_spans);
    let spans: Vec<_> = scopes.flat_map(|scope| &scope.spans).collect();
    let resource = resources.clone().next().and_then(|one| one.resource.as_ref());
    let named = resource.expect("a resource").attributes.iter().any(|a| a.key == "service.name");
    assert!(named, "{resource:?}");
    let all = |name: &str| spans.iter().filter(|span| span.name == name).collect::<Vec<_>>();
    let names: Vec<_> = spans.iter().map(|span| &span.name).collect();
    let (request, create) = (all("request"), all("create order.placed"));
    let (send, process) = (all("send order.placed"), all("process order.placed"));
    assert_eq!(
        (request.len(), create.len(), send.len(), process.len()),
        (1, 1, 1, 2),
        "one that failed, and one that did not: {names:?}"
    );
    let (request, create) = (request[0], create[0]);
    assert_eq!(create.parent_span_id, request.span_id);
    for span in send.iter().chain(&process) {
        assert_eq!(span.parent_span_id, create.span_id, "{}", span.name);
        assert_eq!(span.trace_id, request.trace_id, "{}", span.name);
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
    assert_eq!(about["messaging.message.id"], attributes(create)["messaging.message.id"]);
}

/// Its client blocks, and is made where that may be.
async fn exporter_for(address: &str) -> Exporter {
    let address = address.to_owned();
    let made = tokio::task::spawn_blocking(move || Exporter::to(&address, "shop")).await;
    made.expect("it does not panic").expect("an exporter")
}
