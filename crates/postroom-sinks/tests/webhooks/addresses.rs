//! Nothing is sent to where it should not go.

use std::io;
use std::net::IpAddr;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::response::IntoResponse as _;
use postroom_core::lifecycle::Outcome;
use postroom_core::store::BoxFuture;
use postroom_sinks::http::{HttpConfig, HttpSink, Lookup};

use crate::receiver::{Receiver, described, local, raw, read_request, reply, send};

/// Answers each question with the next of these, and the last one for ever.
#[derive(Debug)]
struct Flipping {
    answers: Vec<Vec<IpAddr>>,
    asked: AtomicUsize,
}

impl Flipping {
    fn new(answers: &[&[&str]]) -> Arc<Self> {
        let parsed =
            |list: &&[&str]| list.iter().map(|ip| ip.parse().expect("an address")).collect();
        Arc::new(Self { answers: answers.iter().map(parsed).collect(), asked: AtomicUsize::new(0) })
    }
}

impl Lookup for Flipping {
    fn addresses(&self, _: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let at = self.asked.fetch_add(1, Ordering::SeqCst).min(self.answers.len() - 1);
        let answer = self.answers[at].clone();
        Box::pin(std::future::ready(Ok(answer)))
    }
}

/// To a name with this port; only 127.0.0.2 may be connected to.
fn named(port: u16, lookup: Arc<Flipping>) -> HttpSink {
    let allow = vec!["127.0.0.2/32".parse().expect("a range")];
    let config = local(format!("http://receiver.example:{port}/"));
    HttpSink::with_lookup(HttpConfig { allow, ..config }, lookup).expect("legal")
}

async fn closing_receiver(address: String) -> Receiver {
    // So that each message needs a connection, and with it an address.
    Receiver::at(&address, |_| [("connection", "close")].into_response()).await
}

#[tokio::test]
async fn x06_a_name_that_flips_to_an_inner_address_is_not_followed_there() {
    let outer = closing_receiver("127.0.0.2:0".to_owned()).await;
    let port = outer.address.port();
    let inner = closing_receiver(format!("127.0.0.1:{port}")).await;
    let lookup = Flipping::new(&[&["127.0.0.2"], &["127.0.0.1"]]);
    let sink = named(port, Arc::clone(&lookup));
    assert_eq!(send(&sink).await, Outcome::Done);
    assert_eq!(lookup.asked.load(Ordering::SeqCst), 1, "what was checked is what is connected to");
    let (kind, _, error) = described(send(&sink).await);
    assert_eq!((kind, outer.seen().len(), inner.seen().len()), ("later", 1, 0), "{error}");
    assert!(error.contains("127.0.0.1 is not a public address"), "{error}");
}

#[tokio::test]
async fn x06_one_bad_address_spoils_all() {
    let outer = closing_receiver("127.0.0.2:0".to_owned()).await;
    let port = outer.address.port();
    let inner = closing_receiver(format!("127.0.0.1:{port}")).await;
    for bad in ["127.0.0.1", "::1", "::ffff:127.0.0.1", "169.254.169.254", "10.0.0.1", "::"] {
        for answer in [["127.0.0.2", bad], [bad, "127.0.0.2"]] {
            let sink = named(port, Flipping::new(&[&answer]));
            assert_eq!(described(send(&sink).await).0, "later", "{answer:?}");
        }
    }
    assert_eq!((outer.seen().len(), inner.seen().len()), (0, 0));
}

#[tokio::test]
async fn x06_localhost_is_not_public() {
    let receiver = Receiver::start().await;
    let url = format!("http://localhost:{}/", receiver.address.port());
    let config = HttpConfig { allow_http: true, ..HttpConfig::new(url) };
    let (kind, _, error) = described(send(&HttpSink::new(config).expect("a name")).await);
    assert_eq!((kind, receiver.seen().len()), ("later", 0), "{error}");
    assert!(error.contains("loopback"), "{error}");
}

#[tokio::test]
async fn x06_a_proxy_of_the_configuration_is_used_and_finds_the_receiver_itself() {
    let asked: Arc<Mutex<String>> = Arc::default();
    let heard = Arc::clone(&asked);
    let (proxy, _) = raw(move |mut stream| {
        let heard = Arc::clone(&heard);
        async move {
            let request = read_request(&mut stream).await;
            heard.lock().expect("alive").push_str(&request);
            let text = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
            let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, text.as_bytes()).await;
        }
    })
    .await;
    let lookup = Flipping::new(&[&["127.0.0.1"]]);
    let config = HttpConfig {
        allow_http: true,
        proxy: Some(format!("http://user:hunter2@{proxy}").into()),
        ..HttpConfig::new("http://receiver.example/hook")
    };
    let sink = HttpSink::with_lookup(config, Arc::clone(&lookup) as _).expect("legal");
    assert_eq!(send(&sink).await, Outcome::Done);
    let asked = asked.lock().expect("alive").to_ascii_lowercase();
    assert!(asked.starts_with("post http://receiver.example/hook http/1.1"), "{asked}");
    assert!(asked.contains("proxy-authorization: basic "), "{asked}");
    assert_eq!(lookup.asked.load(Ordering::SeqCst), 0);
}

/// Variables belong to a process, so this test starts itself again with them.
#[tokio::test]
async fn x06_proxies_of_the_environment_are_not_used() {
    const SELF: &str = "addresses::x06_proxies_of_the_environment_are_not_used";
    if std::env::var_os("POSTROOM_TEST_PROXIED").is_some() {
        let receiver = Receiver::start().await;
        assert_eq!(send(&receiver.sink()).await, Outcome::Done);
        return;
    }
    let (trap, caught) = raw(|mut stream| async move {
        reply(&mut stream, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    })
    .await;
    let mut again = Command::new(std::env::current_exe().expect("this test"));
    again.args(["--exact", SELF]).env("POSTROOM_TEST_PROXIED", "1");
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"] {
        again.env(name, format!("http://{trap}"));
    }
    let output = tokio::task::spawn_blocking(move || again.output()).await.expect("ran");
    let output = output.expect("started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
    assert_eq!(*caught.lock().expect("alive"), 0);
}
