//! What arrived at each receiver, read with clients of our own.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_nats::jetstream;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use lapin::options::{
    BasicGetOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions,
};
use lapin::types::FieldTable;
use lapin::{Connection, ConnectionProperties};
use redis::AsyncCommands as _;
use serde::{Deserialize, Serialize};
use tokio::runtime::Runtime;

use super::runtime;

/// The payload of a message: its key and its number within the key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Numbered {
    pub(crate) key: String,
    pub(crate) n: usize,
}

/// A message that arrived.
#[derive(Clone, Debug)]
pub(crate) struct Arrived {
    pub(crate) id: String,
    pub(crate) what: Numbered,
}

impl Arrived {
    fn new(id: &str, payload: &[u8]) -> Self {
        let what = serde_json::from_slice(payload).expect("a payload as it was published");
        Self { id: id.to_owned(), what }
    }
}

/// Checks that nothing is lost and keys are in order; answers how many came more than once.
pub(crate) fn check(name: &str, arrived: &[Arrived], keys: usize, per_key: usize) -> usize {
    let mut next: HashMap<&str, usize> = HashMap::new();
    let mut repeated = 0;
    for Arrived { id, what } in arrived {
        let next = next.entry(&what.key).or_default();
        if what.n == *next {
            *next += 1;
        } else {
            // It came before. What comes too early was never preceded by all before it.
            assert!(what.n < *next, "{name}: {what:?} ({id}) came before number {next}");
            repeated += 1;
        }
    }
    assert_eq!(next.len(), keys, "{name}: keys");
    assert!(next.values().all(|next| *next == per_key), "{name}: something is lost: {next:?}");
    repeated
}

/// The stream that takes all subjects `nats.*`.
pub(crate) async fn nats_stream(url: &str) -> jetstream::stream::Stream {
    stream(url, "RELAY", "nats.>").await
}

/// A stream of its own.
pub(crate) async fn named_stream(url: &str, name: &str) {
    stream(url, name, &format!("{name}.>")).await;
}

async fn stream(url: &str, name: &str, subjects: &str) -> jetstream::stream::Stream {
    let client = async_nats::connect(url).await.expect("connects");
    let config = jetstream::stream::Config {
        name: name.to_owned(),
        subjects: vec![subjects.to_owned()],
        ..Default::default()
    };
    jetstream::new(client).get_or_create_stream(config).await.expect("a stream")
}

pub(crate) async fn in_nats(url: &str) -> Vec<Arrived> {
    let mut stream = nats_stream(url).await;
    let count = stream.info().await.expect("info").state.messages;
    let mut arrived = Vec::new();
    for sequence in 1..=count {
        let message = stream.get_raw_message(sequence).await.expect("a message");
        let id = message.headers.get("Nats-Msg-Id").expect("the message id").as_str().to_owned();
        arrived.push(Arrived::new(&id, &message.payload));
    }
    arrived
}

async fn rabbit(url: &str) -> (Connection, lapin::Channel) {
    let connection = Connection::connect(url, ConnectionProperties::default()).await;
    let connection = connection.expect("connects");
    let channel = connection.create_channel().await.expect("a channel");
    (connection, channel)
}

/// A durable exchange with one durable queue.
pub(crate) async fn rabbit_queue(url: &str) {
    let (_connection, channel) = rabbit(url).await;
    let durable = ExchangeDeclareOptions { durable: true, ..Default::default() };
    let topic = lapin::ExchangeKind::Topic;
    let none = FieldTable::default;
    channel.exchange_declare("relay".into(), topic, durable, none()).await.expect("an exchange");
    let durable = QueueDeclareOptions { durable: true, ..Default::default() };
    channel.queue_declare("relay".into(), durable, none()).await.expect("a queue");
    let bind = QueueBindOptions::default();
    channel
        .queue_bind("relay".into(), "relay".into(), "#".into(), bind, none())
        .await
        .expect("bound");
}

pub(crate) async fn in_rabbit(url: &str) -> Vec<Arrived> {
    let (_connection, channel) = rabbit(url).await;
    let mut arrived = Vec::new();
    let take = BasicGetOptions { no_ack: true };
    while let Some(message) = channel.basic_get("relay".into(), take).await.expect("an answer") {
        let id = message.delivery.properties.message_id().clone().expect("the message id");
        arrived.push(Arrived::new(id.as_str(), &message.delivery.data));
    }
    arrived
}

pub(crate) async fn in_redis(url: &str, stream: &str) -> Vec<Arrived> {
    let client = redis::Client::open(url).expect("a URL");
    // Thousands of entries in one answer take longer than the client waits by itself.
    let patient = redis::AsyncConnectionConfig::new().set_response_timeout(None);
    let connection = client.get_multiplexed_async_connection_with_config(&patient).await;
    let mut connection = connection.expect("connects");
    let all: redis::streams::StreamRangeReply =
        connection.xrange_all(stream).await.expect("entries");
    let one = |entry: &redis::streams::StreamId| {
        let id: String = entry.get("ce_id").expect("the message id");
        let data: Vec<u8> = entry.get("data").expect("the payload");
        Arrived::new(&id, &data)
    };
    all.ids.iter().map(one).collect()
}

/// From now on a client has to say this password.
pub(crate) async fn protect_redis(url: &str, password: &str) {
    let client = redis::Client::open(url).expect("a URL");
    let mut connection = client.get_multiplexed_async_connection().await.expect("connects");
    let mut set = redis::cmd("CONFIG");
    set.arg("SET").arg("requirepass").arg(password);
    set.exec_async(&mut connection).await.expect("set");
}

/// A receiver of webhooks on a port of its own, which can be killed with all its connections.
pub(crate) struct Webhook {
    address: SocketAddr,
    arrived: Arc<Mutex<Vec<Arrived>>>,
    running: Option<Runtime>,
}

impl Webhook {
    pub(crate) fn start() -> Self {
        let arrived = Arc::default();
        let mut hook = Self { address: ([127, 0, 0, 1], 0).into(), arrived, running: None };
        hook.start_again();
        hook
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hooks/canary-in-the-path", self.address)
    }

    pub(crate) fn kill(&mut self) {
        let runtime = self.running.take().expect("running");
        runtime.shutdown_timeout(Duration::from_secs(5));
    }

    pub(crate) fn start_again(&mut self) {
        let runtime = runtime();
        let arrived = Arc::clone(&self.arrived);
        let listener = runtime.block_on(tokio::net::TcpListener::bind(self.address));
        let listener = listener.expect("the port is free again");
        self.address = listener.local_addr().expect("an address");
        let app = Router::new().route("/{*any}", post(receive)).with_state(arrived);
        runtime.spawn(async move { axum::serve(listener, app).await });
        self.running = Some(runtime);
    }

    pub(crate) fn arrived(&self) -> Vec<Arrived> {
        self.arrived.lock().expect("alive").clone()
    }
}

async fn receive(
    State(arrived): State<Arc<Mutex<Vec<Arrived>>>>,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, Bytes) {
    if headers["ce-type"].as_bytes().ends_with(b"echo.event") {
        return (StatusCode::INTERNAL_SERVER_ERROR, body);
    }
    let id = headers["webhook-id"].to_str().expect("the message id");
    arrived.lock().expect("alive").push(Arrived::new(id, &body));
    (StatusCode::OK, Bytes::new())
}
