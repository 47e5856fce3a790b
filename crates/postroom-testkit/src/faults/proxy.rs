//! A TCP proxy that cuts a connection at COMMIT. It knows nothing else of what passes.

use std::io::Result;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Where to cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The server never sees COMMIT.
    BeforeCommit,
    /// The server has answered COMMIT, and the client does not hear of it.
    AfterCommit,
}

/// A proxy on a free loopback port. Dropping it stops listening.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    next: Next,
    listening: JoinHandle<()>,
}

type Next = Arc<Mutex<Option<Cut>>>;

impl Proxy {
    /// Passes everything on to `upstream`, given as host and port, until it is told to cut.
    ///
    /// # Panics
    /// When there is no free port.
    pub async fn to(upstream: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let next = Next::default();
        let cuts = Arc::clone(&next);
        let listening = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                // A connection that ends, ends.
                tokio::spawn(pass(client, upstream.clone(), Arc::clone(&cuts)));
            }
        });
        Self { address, next, listening }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Cuts the connection of the next COMMIT, and no other.
    pub fn cut_next(&self, cut: Cut) {
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) = Some(cut);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

async fn pass(mut client: TcpStream, upstream: String, next: Next) -> Result<()> {
    let mut server = TcpStream::connect(upstream).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut asked, mut answered) = (vec![0; 16_384], vec![0; 16_384]);
    loop {
        // Leaving closes both connections.
        tokio::select! {
            read = client.read(&mut asked) => {
                let Some(bytes) = some(&asked, read?) else { return Ok(()) };
                let cut = if is_commit(bytes) { take(&next) } else { None };
                if cut == Some(Cut::BeforeCommit) {
                    return Ok(());
                }
                server.write_all(bytes).await?;
                if cut == Some(Cut::AfterCommit) {
                    // It answers when it is done.
                    server.read_u8().await?;
                    return Ok(());
                }
            }
            read = server.read(&mut answered) => {
                let Some(bytes) = some(&answered, read?) else { return Ok(()) };
                client.write_all(bytes).await?;
            }
        }
    }
}

fn some(buffer: &[u8], read: usize) -> Option<&[u8]> {
    (read > 0).then(|| &buffer[..read])
}

/// A statement that is this word: PostgreSQL ends one with a zero, MySQL begins one with a 3.
/// Drivers wait for the answer to the one before, so it comes in one piece.
fn is_commit(bytes: &[u8]) -> bool {
    let bytes = bytes.to_ascii_lowercase();
    bytes.ends_with(b"commit\0") || bytes.ends_with(b"\x03commit")
}

fn take(next: &Next) -> Option<Cut> {
    next.lock().unwrap_or_else(PoisonError::into_inner).take()
}
