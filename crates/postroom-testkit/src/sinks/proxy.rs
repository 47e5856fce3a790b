//! A TCP proxy that does what networks do. It knows nothing of what passes.

use std::io::Result;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{broadcast, watch};
use tokio::task::JoinHandle;

/// What becomes of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// They pass.
    Passes,
    /// Nobody listens: who connects is refused. Open connections are cut.
    Refused,
    /// What the client sends arrives, and what the server answers does not.
    AnswersLost,
    /// Nothing arrives, and nobody learns of that. New connections are as mute.
    Frozen,
}

#[derive(Clone, Copy, Debug)]
struct Order {
    traffic: Traffic,
    /// Connections that were opened under another number are to be closed.
    era: u64,
}

/// A proxy on a free loopback port. It stops when it is dropped.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    upstream: String,
    orders: watch::Sender<Order>,
    words: broadcast::Sender<Vec<u8>>,
    listening: Mutex<Option<JoinHandle<()>>>,
    /// Keeps the port while nobody listens on it.
    _port: TcpSocket,
}

impl Proxy {
    /// Passes everything on to this host and port, until it is told otherwise.
    ///
    /// # Panics
    /// When there is no free port.
    #[must_use]
    pub fn to(upstream: impl Into<String>) -> Self {
        let port = socket((Ipv4Addr::LOCALHOST, 0).into());
        let address = port.local_addr().expect("it is bound");
        let (orders, _) = watch::channel(Order { traffic: Traffic::Passes, era: 0 });
        let (upstream, words) = (upstream.into(), broadcast::Sender::new(16));
        let listening = Mutex::default();
        let proxy = Self { address, upstream, orders, words, listening, _port: port };
        *proxy.lock() = Some(proxy.listen());
        proxy
    }

    /// Where it listens, or would.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Handles what is sent from now on like this.
    pub async fn set(&self, traffic: Traffic) {
        let listening = self.lock().take();
        let listening = match (traffic, listening) {
            (Traffic::Refused, None) => None,
            (Traffic::Refused, Some(listening)) => {
                listening.abort();
                // Then its socket is closed.
                let _ = listening.await;
                None
            }
            (_, None) => Some(self.listen()),
            (_, listening) => listening,
        };
        *self.lock() = listening;
        self.orders.send_modify(|order| {
            order.traffic = traffic;
            order.era += u64::from(traffic == Traffic::Refused);
        });
    }

    /// Closes every connection that is open now.
    pub fn cut(&self) {
        self.orders.send_modify(|order| order.era += 1);
    }

    /// Says this to every client, as if its server had. Their servers should be silent meanwhile.
    pub fn say(&self, words: impl Into<Vec<u8>>) {
        // Nobody is connected, else.
        let _ = self.words.send(words.into());
    }

    fn listen(&self) -> JoinHandle<()> {
        let listener = socket(self.address).listen(1_024).expect("nobody else listens");
        let (orders, words) = (self.orders.subscribe(), self.words.clone());
        tokio::spawn(accept(listener, self.upstream.clone(), orders, words))
    }

    fn lock(&self) -> MutexGuard<'_, Option<JoinHandle<()>>> {
        self.listening.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Some(listening) = self.lock().take() {
            listening.abort();
        }
        self.cut();
    }
}

/// A socket on this port, beside others.
fn socket(address: SocketAddr) -> TcpSocket {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_reuseport(true).expect("an option that exists");
    socket.set_reuseaddr(true).expect("an option that exists");
    socket.bind(address).expect("a free port");
    socket
}

async fn accept(
    listener: TcpListener,
    upstream: String,
    heard: watch::Receiver<Order>,
    words: broadcast::Sender<Vec<u8>>,
) {
    while let Ok((client, _)) = listener.accept().await {
        // A connection that ends, ends.
        tokio::spawn(pass(client, upstream.clone(), heard.clone(), words.subscribe()));
    }
}

async fn pass(
    client: TcpStream,
    upstream: String,
    mut heard: watch::Receiver<Order>,
    words: broadcast::Receiver<Vec<u8>>,
) {
    let era = heard.borrow().era;
    let (mut in_one, mut in_other) = (heard.clone(), heard.clone());
    let both = async move {
        let server = TcpStream::connect(upstream).await?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        // When one direction ends, both do.
        tokio::select! {
            ended = pump(from_client, to_server, (&mut in_one, era), None) => ended,
            ended = pump(from_server, to_client, (&mut in_other, era), Some(words)) => ended,
        }
    };
    tokio::select! {
        _ = both => {}
        _ = heard.wait_for(|order| order.era != era) => {}
    }
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    (heard, era): (&mut watch::Receiver<Order>, u64),
    mut words: Option<broadcast::Receiver<Vec<u8>>>,
) -> Result<()> {
    let mut buffer = vec![0; 65_536];
    loop {
        let read = tokio::select! {
            read = from.read(&mut buffer) => read?,
            words = next(&mut words) => {
                to.write_all(&words).await?;
                continue;
            }
        };
        if read == 0 {
            return Ok(());
        }
        let thawed = heard.wait_for(|order| order.traffic != Traffic::Frozen).await;
        let Ok(order) = thawed.map(|order| *order) else { return Ok(()) };
        // What was cut stays so, whatever is said about traffic afterwards.
        if order.era != era {
            return Ok(());
        }
        let is_answer = words.is_some();
        if !(is_answer && order.traffic == Traffic::AnswersLost) {
            to.write_all(&buffer[..read]).await?;
        }
    }
}

/// What the proxy says itself, where there are answers.
async fn next(words: &mut Option<broadcast::Receiver<Vec<u8>>>) -> Vec<u8> {
    match words {
        Some(words) => match words.recv().await {
            Ok(words) => words,
            Err(_) => std::future::pending().await,
        },
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    const SOON: Duration = Duration::from_secs(10);

    /// A server that answers each byte with itself, and says what it has heard.
    async fn echo() -> (String, watch::Receiver<Vec<u8>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound").to_string();
        let (told, heard) = watch::channel(Vec::new());
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let told = told.clone();
                tokio::spawn(async move {
                    while let Ok(byte) = client.read_u8().await {
                        told.send_modify(|heard| heard.push(byte));
                        let _ = client.write_u8(byte).await;
                    }
                });
            }
        });
        (address, heard)
    }

    async fn ask(client: &mut TcpStream, byte: u8) -> Result<u8> {
        client.write_u8(byte).await?;
        client.read_u8().await
    }

    #[tokio::test]
    async fn f15_a_refusing_proxy_refuses_and_listens_again() {
        let (address, _) = echo().await;
        let proxy = Proxy::to(address);
        let mut client = TcpStream::connect(proxy.address()).await.expect("open");
        assert_eq!(ask(&mut client, 1).await.expect("passed"), 1);
        proxy.set(Traffic::Refused).await;
        assert!(client.read_u8().await.is_err(), "cut");
        TcpStream::connect(proxy.address()).await.expect_err("refused");
        proxy.set(Traffic::Passes).await;
        let mut client = TcpStream::connect(proxy.address()).await.expect("open");
        assert_eq!(ask(&mut client, 2).await.expect("passed"), 2);
    }

    #[tokio::test]
    async fn f16_lost_answers_are_lost_and_frozen_bytes_arrive_late() {
        let (address, mut heard) = echo().await;
        let proxy = Proxy::to(address);
        let mut client = TcpStream::connect(proxy.address()).await.expect("open");
        assert_eq!(ask(&mut client, 1).await.expect("passed"), 1);
        proxy.set(Traffic::AnswersLost).await;
        client.write_u8(2).await.expect("sent");
        let both = timeout(SOON, heard.wait_for(|heard| heard == &[1, 2])).await.is_ok();
        assert!(both, "the server has heard it");
        proxy.set(Traffic::Frozen).await;
        client.write_u8(3).await.expect("sent");
        let mute = timeout(Duration::from_millis(50), client.read_u8()).await;
        assert!(mute.is_err() && heard.borrow().len() == 2, "nothing arrives");
        proxy.set(Traffic::Passes).await;
        // The answer to the second byte may have been in the server's hands for so long.
        while client.read_u8().await.expect("late") != 3 {}
        proxy.cut();
        assert!(client.read_u8().await.is_err(), "cut");
    }
}
