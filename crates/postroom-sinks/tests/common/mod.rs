//! What the tests of all brokers share.

use std::time::Duration;

use postroom_core::lifecycle::Outcome;
use postroom_core::{Delivery, Message, MessageBuilder, Sink};
use postroom_servers::{Durability, Kind, Server, url_in_environment};
use postroom_sinks::Mode;
use postroom_testkit::sinks::{Format, Proxy, Receiver};

/// A server and the way to it.
pub(crate) struct Place {
    server: Option<Server>,
    /// Its URL, past the proxy.
    pub(crate) url: String,
    pub(crate) proxy: Proxy,
    /// A name that no other test uses.
    pub(crate) tenant: String,
}

impl Place {
    /// At the server that tests share.
    pub(crate) fn shared(kind: Kind) -> Self {
        let url = url_in_environment(kind.variable());
        let url =
            url.unwrap_or_else(|| panic!("{} is not set: `cargo xtask servers`", kind.variable()));
        Self::at(None, url)
    }

    /// At one of its own. Called on the test's own thread, with which the server dies.
    pub(crate) fn private(kind: Kind) -> Self {
        let server = Server::start(kind, Durability::Discarded).expect("a server");
        let url = server.url().to_owned();
        Self::at(Some(server), url)
    }

    fn at(server: Option<Server>, url: String) -> Self {
        let proxy = Proxy::to(host(&url));
        let id = Message::builder("t").build().expect("legal").id().to_string();
        Self { server, proxy, tenant: format!("t{}", id.replace('-', "")), url }
    }

    /// The URL by way of the proxy.
    pub(crate) fn proxied(&self) -> String {
        self.url.replace(host(&self.url), &self.proxy.address().to_string())
    }

    pub(crate) fn receiver(&mut self, order: Receiver) {
        let server = self.server.as_mut().expect("a server of its own");
        match order {
            Receiver::Killed => server.kill(),
            Receiver::Back => server.start_again().expect("it starts again"),
        }
    }
}

/// Host and port of a URL.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").expect("a URL").1;
    let host = rest.split('/').next().expect("an address");
    host.rsplit('@').next().expect("a host")
}

pub(crate) fn mode(format: Format) -> Mode {
    match format {
        Format::Binary => Mode::Binary,
        Format::Structured => Mode::Structured,
    }
}

/// The outcomes of a batch.
pub(crate) async fn deliver(sink: &impl Sink, messages: Vec<MessageBuilder>) -> Vec<Outcome> {
    let time = Duration::from_secs(60);
    let message = |message: MessageBuilder| message.build().expect("legal");
    let batch = messages.into_iter().map(|m| Delivery::detached(message(m), time));
    sink.deliver(&batch.collect::<Vec<_>>()).await
}

/// The outcome of one message.
pub(crate) async fn deliver_one(sink: &impl Sink, message: MessageBuilder) -> Outcome {
    deliver(sink, vec![message]).await.remove(0)
}

/// The id of an event in one piece.
pub(crate) fn id_inside(event: &[u8]) -> String {
    let event: serde_json::Value = serde_json::from_slice(event).expect("an event");
    event["id"].as_str().expect("an id").to_owned()
}

/// Whether it is to be tried again and costs no attempt.
pub(crate) fn is_free(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::RetryAfter { counted: false, .. })
}

/// Everything that anybody logs while this runs, at every level.
pub(crate) async fn logged<F: Future>(what: F) -> (F::Output, String) {
    let log = Log::default();
    let writer = Log(std::sync::Arc::clone(&log.0));
    tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_ansi(false)
        .with_writer(move || Log(std::sync::Arc::clone(&writer.0)))
        .init();
    tracing::info!("I can hear you");
    let output = what.await;
    let text = log.0.lock().expect("alive").clone();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(text.contains("I can hear you"));
    (output, text)
}

#[derive(Default)]
struct Log(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("alive").extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
