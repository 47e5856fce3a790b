//! Whom the sink believes that he is the receiver.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use axum::body::Bytes;
use axum::http::{Response, StatusCode, Version};
use postroom_core::lifecycle::Outcome;
use postroom_core::store::BoxFuture;
use postroom_sinks::Probe as _;
use postroom_sinks::http::{HttpConfig, HttpSink, Lookup};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

use crate::receiver::{described, local, raw, read_request, send};

const NAME: &str = "receiver.example";

/// An authority that nobody knows, with its certificate in a file.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: TempDir,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("a certificate");
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("ca.pem"), issuer.pem()).expect("written");
        Self { issuer, folder }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// A server of this name.
    fn server(&self, name: &str, protocols: &[&[u8]]) -> TlsAcceptor {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        let certificate = params.signed_by(&key, &self.issuer).expect("signed");
        let key = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions().expect("versions");
        let config = config.with_no_client_auth();
        let mut config =
            config.with_single_cert(vec![certificate.der().clone()], key).expect("fits");
        config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        TlsAcceptor::from(Arc::new(config))
    }
}

/// Finds everybody on loopback.
#[derive(Debug)]
struct Here;

impl Lookup for Here {
    fn addresses(&self, _: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        Box::pin(std::future::ready(Ok(vec![Ipv4Addr::LOCALHOST.into()])))
    }
}

/// Takes everything; tells of each request.
async fn receiver(acceptor: TlsAcceptor) -> (SocketAddr, mpsc::UnboundedReceiver<String>) {
    let (tell, told) = mpsc::unbounded_channel();
    let (address, _) = raw(move |stream| {
        let (acceptor, tell) = (acceptor.clone(), tell.clone());
        async move {
            let Ok(mut stream) = acceptor.accept(stream).await else { return };
            let request = read_request(&mut stream).await;
            if !request.is_empty() {
                let _ = tell.send(request);
            }
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
            let _ = stream.shutdown().await;
        }
    })
    .await;
    (address, told)
}

fn sink(address: SocketAddr, ca_file: Option<PathBuf>) -> HttpSink {
    let config = local(format!("https://{NAME}:{}/", address.port()));
    let config = HttpConfig { ca_file, allow_http: false, ..config };
    HttpSink::with_lookup(config, Arc::new(Here)).expect("legal")
}

#[tokio::test]
async fn x13_a_receiver_of_an_unknown_authority_gets_nothing() {
    let authority = Authority::new();
    let (address, mut told) = receiver(authority.server(NAME, &[])).await;
    for file in [None, Some(Authority::new())] {
        let sink = sink(address, file.as_ref().map(Authority::file));
        let (kind, _, error) = described(send(&sink).await);
        assert_eq!(kind, "later", "{error}");
        assert!(error.contains("UnknownIssuer") || error.contains("BadSignature"), "{error}");
        assert!(sink.probe().await.broken.is_some());
    }
    told.try_recv().expect_err("nothing arrived");
}

#[tokio::test]
async fn x13_a_receiver_of_an_authority_in_the_file_is_believed() {
    let authority = Authority::new();
    let (address, mut told) = receiver(authority.server(NAME, &[])).await;
    assert_eq!(send(&sink(address, Some(authority.file()))).await, Outcome::Done);
    assert!(told.recv().await.expect("a request").starts_with("POST / HTTP/1.1"));
}

#[tokio::test]
async fn x13_a_receiver_with_another_name_gets_nothing() {
    let authority = Authority::new();
    let (address, mut told) = receiver(authority.server("other.example", &[])).await;
    let (kind, _, error) = described(send(&sink(address, Some(authority.file()))).await);
    assert_eq!(kind, "later", "{error}");
    assert!(error.contains("not valid for name"), "{error}");
    told.try_recv().expect_err("nothing arrived");
}

#[tokio::test]
async fn x13_a_file_without_certificates_is_refused_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let empty = folder.path().join("empty.pem");
    std::fs::write(&empty, "nothing").expect("written");
    for file in [empty, folder.path().join("missing.pem")] {
        let config = HttpConfig { ca_file: Some(file), ..HttpConfig::new("https://example.com/") };
        let error = HttpSink::new(config).expect_err("refused");
        assert!(error.starts_with("ca_file "), "{error}");
    }
}

#[tokio::test]
async fn rly_2_http_2_is_spoken_with_those_who_do() {
    let authority = Authority::new();
    let acceptor = authority.server(NAME, &[b"h2"]);
    let (tell, mut told) = mpsc::unbounded_channel();
    let (address, _) = raw(move |stream| {
        let (acceptor, tell) = (acceptor.clone(), tell.clone());
        async move {
            let stream = acceptor.accept(stream).await.expect("a handshake");
            let mut connection = h2::server::handshake(stream).await.expect("HTTP/2");
            while let Some(Ok((request, mut respond))) = connection.accept().await {
                let _ = tell.send((request.version(), request.headers().clone()));
                let response = Response::builder().status(StatusCode::ACCEPTED).body(());
                let mut body =
                    respond.send_response(response.expect("legal"), false).expect("sent");
                body.send_data(Bytes::new(), true).expect("sent");
            }
        }
    })
    .await;
    let sink = sink(address, Some(authority.file()));
    assert_eq!(send(&sink).await, Outcome::Done);
    let (version, headers) = told.recv().await.expect("a request");
    assert_eq!(version, Version::HTTP_2);
    assert_eq!(headers["ce-type"], "order.placed");
}
