//! Receivers, and what the tests send to them.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::{IntoResponse as _, Response};
use postroom_core::lifecycle::Outcome;
use postroom_core::{Delivery, Message, Sink as _};
use postroom_sinks::http::{HttpConfig, HttpSink};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("ASCII"))
    }
}

/// A receiver that remembers what came.
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    seen: Arc<Mutex<Vec<Received>>>,
    task: JoinHandle<()>,
}

impl Receiver {
    /// Answers each request by this.
    pub(crate) async fn answering<F>(answer: F) -> Self
    where
        F: Fn(&Received) -> Response + Clone + Send + Sync + 'static,
    {
        Self::at("127.0.0.1:0", answer).await
    }

    pub(crate) async fn at<F>(address: &str, answer: F) -> Self
    where
        F: Fn(&Received) -> Response + Clone + Send + Sync + 'static,
    {
        let seen: Arc<Mutex<Vec<Received>>> = Arc::default();
        let remember = Arc::clone(&seen);
        let handler = move |headers: HeaderMap, body: Bytes| async move {
            let received = Received { headers, body };
            let response = answer(&received);
            remember.lock().unwrap_or_else(PoisonError::into_inner).push(received);
            response
        };
        let listener = TcpListener::bind(address).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let app = Router::new().fallback(handler);
        let task = tokio::spawn(async move { axum::serve(listener, app).await.expect("serves") });
        Self { address, seen, task }
    }

    /// Takes everything.
    pub(crate) async fn start() -> Self {
        Self::answering(|_| StatusCode::NO_CONTENT.into_response()).await
    }

    /// Answers each request with this status and these headers.
    pub(crate) async fn saying(
        status: u16,
        headers: &'static [(&'static str, &'static str)],
    ) -> Self {
        Self::answering(move |_| response(status, headers)).await
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook?token=hunter2", self.address)
    }

    pub(crate) fn sink(&self) -> HttpSink {
        HttpSink::new(local(self.url())).expect("legal")
    }

    pub(crate) fn seen(&self) -> Vec<Received> {
        self.seen.lock().expect("alive").clone()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(crate) fn response(status: u16, headers: &[(&'static str, &'static str)]) -> Response {
    let mut response = StatusCode::from_u16(status).expect("a status").into_response();
    for (name, value) in headers {
        let value = value.parse().expect("a value");
        response.headers_mut().insert(HeaderName::from_static(name), value);
    }
    response
}

/// Listens, and has each connection served by this; `.1` counts them.
pub(crate) async fn raw<F, R>(serve: F) -> (SocketAddr, Arc<Mutex<usize>>)
where
    F: Fn(TcpStream) -> R + Send + Sync + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let count: Arc<Mutex<usize>> = Arc::default();
    let counted = Arc::clone(&count);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            *counted.lock().expect("alive") += 1;
            tokio::spawn(serve(stream));
        }
    });
    (address, count)
}

/// Reads a request up to the end of its headers; the bodies of these tests come with them.
pub(crate) async fn read_request(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> String {
    let mut text = Vec::new();
    let mut buffer = [0; 4096];
    while !text.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(count) => text.extend_from_slice(&buffer[..count]),
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// Reads a request and writes this, whatever it was.
pub(crate) async fn reply(stream: &mut TcpStream, text: &str) {
    read_request(stream).await;
    let _ = stream.write_all(text.as_bytes()).await;
}

/// A configuration that may send to loopback.
pub(crate) fn local(url: impl Into<String>) -> HttpConfig {
    let allow = vec!["127.0.0.0/8".parse().expect("a range")];
    HttpConfig { allow_http: true, allow, show_answers: true, ..HttpConfig::new(url.into()) }
}

pub(crate) fn sink_to(address: SocketAddr) -> HttpSink {
    HttpSink::new(local(format!("http://{address}/"))).expect("legal")
}

pub(crate) fn message() -> Message {
    Message::builder("order.placed").payload(r#"{"order":7}"#).build().expect("legal")
}

pub(crate) fn delivery(message: Message) -> Delivery {
    Delivery::detached(message, Duration::from_secs(30))
}

/// What becomes of one message.
pub(crate) async fn send(sink: &HttpSink) -> Outcome {
    sink.deliver(&[delivery(message())]).await.remove(0)
}

/// Whether it costs an attempt; the wait; the text.
pub(crate) fn described(outcome: Outcome) -> (&'static str, u64, String) {
    match outcome {
        Outcome::Done => ("done", 0, String::new()),
        Outcome::Failed(error) => ("failed", 0, error),
        Outcome::Permanent(error) => ("permanent", 0, error),
        Outcome::RetryAfter { delay, counted: false, error } => ("later", delay.as_secs(), error),
        Outcome::RetryAfter { error, .. } => ("counted later", 0, error),
        Outcome::Unstarted => ("unstarted", 0, String::new()),
    }
}
