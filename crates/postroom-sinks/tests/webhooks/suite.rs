//! The suite that every sink passes, on a receiver that stores what it takes.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderMap, StatusCode};
use postroom_core::{Message, MessageBuilder};
use postroom_sinks::http::{HttpConfig, HttpSink};
use postroom_sinks::{CloudEvents, Mode};
use postroom_testkit::sinks::{Format, Proxy, Receiver, Settings, SinkHarness, Stored};
use tokio::net::TcpSocket;
use tokio::runtime::Runtime;

use crate::events::percent_decoded;
use crate::receiver::local;

/// What the receiver takes at most, in bytes.
const LIMIT: usize = 950_000;

type Records = Arc<Mutex<Vec<Stored>>>;

struct Webhooks {
    records: Records,
    address: SocketAddr,
    /// The receiver's own, so that all of it ends at once; none when it was killed.
    runtime: Option<Runtime>,
    proxy: Proxy,
}

postroom_testkit::sink_conformance!(Webhooks);

impl SinkHarness for Webhooks {
    type Sink = HttpSink;

    async fn fresh() -> Self {
        let records = Records::default();
        let (runtime, address) = start(&records, ([127, 0, 0, 1], 0).into());
        let proxy = Proxy::to(address.to_string());
        Self { records, address, runtime: Some(runtime), proxy }
    }

    async fn private() -> Self {
        Self::fresh().await
    }

    async fn receiver(&mut self, order: Receiver) {
        match order {
            Receiver::Killed => end(self.runtime.take()),
            Receiver::Back => self.runtime = Some(start(&self.records, self.address).0),
        }
    }

    fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    fn tenant(&self) -> &str {
        "shop"
    }

    fn sink(&self, settings: Settings) -> HttpSink {
        let mode = match settings.format {
            Format::Binary => Mode::Binary,
            Format::Structured => Mode::Structured,
        };
        let events = CloudEvents::new("/shop");
        let config = local(format!("http://{}/hook", self.proxy.address()));
        let config = HttpConfig { mode, events, timeout: settings.timeout, ..config };
        HttpSink::new(config).expect("legal")
    }

    async fn stored(&self) -> Vec<Stored> {
        self.records.lock().expect("alive").clone()
    }

    fn dedupes(&self) -> bool {
        false
    }

    fn unsendable(&self) -> Vec<MessageBuilder> {
        let message = || Message::builder("t").tenant_id(self.tenant());
        let header = |name: &str| message().header(name, "v");
        ["a:b", "a(b", "a\"b", "a,b", "[a]", "a/b"].map(header).into()
    }

    fn oversize(&self) -> Option<usize> {
        Some(LIMIT + 1)
    }
}

impl Drop for Webhooks {
    fn drop(&mut self) {
        end(self.runtime.take());
    }
}

/// Closes every connection, and finishes nothing. The port is free when this returns.
fn end(runtime: Option<Runtime>) {
    if let Some(runtime) = runtime {
        // A thread of a runtime may not wait for the end of another.
        let ended = std::thread::spawn(move || runtime.shutdown_timeout(Duration::from_secs(30)));
        ended.join().expect("it ended");
    }
}

fn start(records: &Records, address: SocketAddr) -> (Runtime, SocketAddr) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let entered = runtime.enter();
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_reuseaddr(true).expect("an option that exists");
    socket.bind(address).expect("a port");
    let listener = socket.listen(1_024).expect("nobody else listens");
    let address = listener.local_addr().expect("bound");
    let records = Arc::clone(records);
    let take = move |headers: HeaderMap, body: Bytes| async move {
        if body.len() > LIMIT {
            return StatusCode::PAYLOAD_TOO_LARGE;
        }
        records.lock().expect("alive").push(stored(&headers, &body));
        StatusCode::NO_CONTENT
    };
    let app = Router::new().fallback(take).layer(DefaultBodyLimit::disable());
    runtime.spawn(async move { axum::serve(listener, app).await });
    drop(entered);
    (runtime, address)
}

fn stored(headers: &HeaderMap, body: &Bytes) -> Stored {
    let mut stored = Stored { payload: body.to_vec(), ..Stored::default() };
    let mut rest = BTreeMap::new();
    for (name, value) in headers {
        let value = String::from_utf8(value.as_bytes().to_vec()).expect("UTF-8");
        match (name.as_str(), name.as_str().strip_prefix("ce-")) {
            (_, Some(attribute)) => {
                stored.attributes.insert(attribute.to_owned(), percent_decoded(&value));
            }
            ("content-type", _) => stored.content_type = value,
            ("webhook-id", _) => stored.id = value,
            (name, _) => {
                rest.insert(name.to_owned(), value);
            }
        }
    }
    stored.headers = rest;
    stored
}
