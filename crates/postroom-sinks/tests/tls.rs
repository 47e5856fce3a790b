//! A server that can not prove who it is gets no byte of what we know.

#[allow(dead_code, reason = "each test file uses its own part")]
mod common;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use postroom_core::{Message, Sink};
use postroom_sinks::amqp::{AmqpConfig, AmqpSink};
use postroom_sinks::nats::{NatsConfig, NatsSink};
use postroom_sinks::redis::{RedisConfig, RedisSink};
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use tempfile::TempDir;

use common::{deliver_one, is_free};

/// What a NATS server says before the handshake.
const NATS_INFO: &str = concat!(
    r#"INFO {"server_id":"x","server_name":"x","version":"2.9.0","proto":1,"host":"h","port":1,"#,
    r#""headers":true,"max_payload":1048576,"jetstream":true,"client_id":1,"#,
    r#""tls_required":true}"#,
    "\r\n",
);

/// A server with a certificate for this name that nobody vouches for.
struct Impostor {
    address: String,
    ca_file: std::path::PathBuf,
    /// What each client has said to it in confidence.
    heard: mpsc::Receiver<Vec<u8>>,
    _folder: TempDir,
}

impl Impostor {
    fn named(name: &str, greeting: &'static str) -> Self {
        let own = rcgen::generate_simple_self_signed([name.to_owned()]).expect("a certificate");
        let folder = tempfile::tempdir().expect("a folder");
        let ca_file = folder.path().join("ca.pem");
        fs::write(&ca_file, own.cert.pem()).expect("written");
        let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).expect("a key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![own.cert.der().clone()], key)
            .expect("a server");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let (told, heard) = mpsc::channel();
        thread::spawn(move || serve(&listener, Arc::new(config), greeting, &told));
        Self { address: format!("localhost:{port}"), ca_file, heard, _folder: folder }
    }

    fn heard(&self) -> Vec<u8> {
        self.heard.recv_timeout(Duration::from_secs(20)).expect("a client")
    }
}

fn serve(
    listener: &TcpListener,
    config: Arc<ServerConfig>,
    greeting: &str,
    told: &mpsc::Sender<Vec<u8>>,
) {
    for client in listener.incoming() {
        let mut client = client.expect("a client");
        let _ = client.write_all(greeting.as_bytes());
        let server = ServerConnection::new(Arc::clone(&config)).expect("a connection");
        let mut stream = StreamOwned::new(server, client);
        let mut buffer = vec![0; 1_000];
        let read = stream.read(&mut buffer).unwrap_or(0);
        buffer.truncate(read);
        if told.send(buffer).is_err() {
            return;
        }
    }
}

/// The sink, told to trust the server's certificate or not, against servers with a certificate
/// that is right but for that, and one that has another name.
async fn x13<S: Sink>(greeting: &'static str, sink: impl Fn(&Impostor, bool) -> S) {
    let unknown = Impostor::named("localhost", greeting);
    let outcome = deliver_one(&sink(&unknown, false), Message::builder("t")).await;
    assert!(is_free(&outcome), "{outcome:?}");
    assert_eq!(unknown.heard(), b"", "nobody vouches for it");

    let misnamed = Impostor::named("other.example", greeting);
    let outcome = deliver_one(&sink(&misnamed, true), Message::builder("t")).await;
    assert!(is_free(&outcome), "{outcome:?}");
    assert_eq!(misnamed.heard(), b"", "it has another name");

    let trusted = Impostor::named("localhost", greeting);
    let sink = sink(&trusted, true);
    let heard = tokio::task::spawn_blocking(move || trusted.heard());
    let (_, heard) = tokio::join!(deliver_one(&sink, Message::builder("t")), heard);
    assert_ne!(heard.expect("heard"), b"", "this one is told");
}

fn ca_file(server: &Impostor, trusted: bool) -> Option<std::path::PathBuf> {
    trusted.then(|| server.ca_file.clone())
}

const TIMEOUT: Duration = Duration::from_secs(4);

#[tokio::test(flavor = "multi_thread")]
async fn x13_a_redis_client_tells_a_stranger_nothing() {
    x13("", |server, trusted| {
        let mut config = RedisConfig::new(format!("rediss://me:secret@{}", server.address));
        (config.ca_file, config.timeout) = (ca_file(server, trusted), TIMEOUT);
        RedisSink::new(config).expect("legal")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn x13_a_nats_client_tells_a_stranger_nothing() {
    x13(NATS_INFO, |server, trusted| {
        let mut config = NatsConfig::new(format!("tls://me:secret@{}", server.address));
        (config.ca_file, config.timeout) = (ca_file(server, trusted), TIMEOUT);
        NatsSink::new(config).expect("legal")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn x13_an_amqp_client_tells_a_stranger_nothing() {
    x13("", |server, trusted| {
        let mut config = AmqpConfig::new(format!("amqps://me:secret@{}/%2f", server.address));
        (config.ca_file, config.timeout) = (ca_file(server, trusted), TIMEOUT);
        AmqpSink::new(config).expect("legal")
    })
    .await;
}
