//! A proxy that changes the packets of clients, which imitates other kinds of servers or other
//! settings.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    task::JoinHandle,
};

/// A packet from a client, without its length.
pub(crate) struct Packet<'a> {
    /// The number of its connection, from 0.
    pub(crate) connection: usize,
    /// The number of the packet on its connection, from 0.
    pub(crate) number: usize,
    pub(crate) bytes: &'a mut Vec<u8>,
}

impl Packet<'_> {
    /// Returns `true` for the connect request of a client that reconnects.
    pub(crate) fn is_reconnect(&self) -> bool {
        self.connection > 0 && self.number == 0
    }

    /// Replaces bytes. A connect request has 4 bytes of version, 8 of the last zxid, 4 of the
    /// timeout, 8 of the session, 20 of the password.
    fn replace(&mut self, from: usize, with: &[u8]) {
        self.bytes[from..from + with.len()].copy_from_slice(with);
    }

    /// Requests another session timeout.
    pub(crate) fn set_timeout(&mut self, milliseconds: i32) {
        self.replace(12, &milliseconds.to_be_bytes());
    }

    /// Requests a new session instead of the old one.
    pub(crate) fn forget_session(&mut self) {
        self.replace(16, &0_i64.to_be_bytes());
    }

    /// Replaces the scheme of credentials by an unknown one.
    pub(crate) fn garble_credentials(&mut self) {
        let scheme = b"digest";
        if let Some(at) = self.bytes.windows(scheme.len()).position(|bytes| bytes == scheme) {
            self.replace(at, b"riddle");
        }
    }
}

type Forgery = dyn Fn(Packet<'_>) + Send + Sync;

pub(crate) struct Forger {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    accepting: JoinHandle<()>,
}

impl Forger {
    pub(crate) async fn start(
        server: SocketAddr,
        forgery: impl Fn(Packet<'_>) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let connections = Arc::new(AtomicUsize::new(0));
        let accepting =
            tokio::spawn(accept(listener, server, Arc::new(forgery), Arc::clone(&connections)));
        Self { address, connections, accepting }
    }

    /// Returns the number of connections so far.
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(SeqCst)
    }
}

impl Drop for Forger {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(
    listener: TcpListener,
    server: SocketAddr,
    forgery: Arc<Forgery>,
    connections: Arc<AtomicUsize>,
) {
    while let Ok((client, _)) = listener.accept().await {
        let (connection, forgery) = (connections.fetch_add(1, SeqCst), Arc::clone(&forgery));
        tokio::spawn(async move {
            let Ok(server) = TcpStream::connect(server).await else { return };
            let ((from_client, mut to_client), (mut from_server, to_server)) =
                (client.into_split(), server.into_split());
            tokio::select! {
                _ = forge(connection, from_client, to_server, &*forgery) => {}
                _ = tokio::io::copy(&mut from_server, &mut to_client) => {}
            }
        });
    }
}

async fn forge(
    connection: usize,
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    forgery: &Forgery,
) -> io::Result<()> {
    for number in 0.. {
        let mut bytes = vec![0; usize::try_from(from.read_u32().await?).expect("a length")];
        from.read_exact(&mut bytes).await?;
        forgery(Packet { connection, number, bytes: &mut bytes });
        let length = u32::try_from(bytes.len()).expect("a short packet");
        to.write_all(&[&length.to_be_bytes(), bytes.as_slice()].concat()).await?;
    }
    Ok(())
}
