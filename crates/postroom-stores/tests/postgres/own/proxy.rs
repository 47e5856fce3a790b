//! A pooler of the kind that lets no notification through.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

/// Every answer of the server begins with a letter; this one is a notification.
const NOTIFICATION: u8 = b'A';

/// Passes everything on but notifications, as long as the runtime lives. Answers with its port. The
/// connections must not be encrypted.
pub(crate) async fn without_notifications(server: String) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let port = listener.local_addr().expect("an address").port();
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(&server).await.expect("the test server answers");
            let (mut from_client, to_client) = client.into_split();
            let (from_server, mut to_server) = server.into_split();
            tokio::spawn(async move {
                let _ = tokio::io::copy(&mut from_client, &mut to_server).await;
            });
            tokio::spawn(filter(from_server, to_client));
        }
    });
    port
}

/// Until either side goes away.
async fn filter(mut server: OwnedReadHalf, mut client: OwnedWriteHalf) {
    let mut head = [0; 5];
    while server.read_exact(&mut head).await.is_ok() {
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let mut body = vec![0; length as usize - 4];
        if server.read_exact(&mut body).await.is_err() {
            return;
        }
        if head[0] == NOTIFICATION {
            continue;
        }
        if client.write_all(&head).await.is_err() || client.write_all(&body).await.is_err() {
            return;
        }
    }
}
