//! A proxy that delivers the replies to early requests before the reply to the connect request, as
//! servers that run on Netty may.

use std::{
    io,
    net::SocketAddr,
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

pub(crate) struct Hasty {
    pub(crate) address: SocketAddr,
    accepting: JoinHandle<()>,
}

impl Hasty {
    pub(crate) async fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(serve(client, server));
            }
        });
        Self { address, accepting }
    }
}

impl Drop for Hasty {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn serve(mut client: TcpStream, server: SocketAddr) -> io::Result<()> {
    let mut server = TcpStream::connect(server).await?;
    let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
        (client.split(), server.split());
    let requests_seen = AtomicUsize::new(0);
    let requests = async {
        loop {
            pass(&mut from_client, &mut to_server).await?;
            requests_seen.fetch_add(1, SeqCst);
        }
    };
    let replies = async {
        let session = packet(&mut from_server).await?;
        // By now the client has sent everything that it sends without a session.
        if requests_seen.load(SeqCst) > 1 {
            pass(&mut from_server, &mut to_client).await?;
        }
        to_client.write_all(&session).await?;
        loop {
            pass(&mut from_server, &mut to_client).await?;
        }
    };
    tokio::select! {
        ended = requests => ended,
        ended = replies => ended,
    }
}

async fn pass(
    from: &mut (impl AsyncRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
) -> io::Result<()> {
    to.write_all(&packet(from).await?).await
}

/// Returns the next packet, with its length.
async fn packet(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let length = from.read_u32().await?;
    let mut bytes = length.to_be_bytes().to_vec();
    bytes.resize(4 + usize::try_from(length).expect("a length"), 0);
    from.read_exact(&mut bytes[4..]).await?;
    Ok(bytes)
}
