//! A TCP proxy with faults: what a network may do between a client and a server.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{mpsc, watch},
    task::JoinHandle,
    time::{Instant, sleep_until},
};

#[derive(Clone, Debug)]
pub(crate) enum Mode {
    Pass,
    /// Each way takes so long.
    Delay(Duration),
    /// Each way takes between half as long and half as long again, anew for each packet. They come
    /// in order.
    Jitter(Duration),
    /// Nothing gets through; what was sent meanwhile comes late, as TCP has it when a network is
    /// mended.
    Blackhole,
    /// The servers hear nothing.
    BlackholeToServer,
    /// The clients hear nothing.
    BlackholeToClient,
    /// The next reply is lost and its connection with it; then as `Pass`.
    SwallowReply,
    /// Packets to the client with these bytes in them are lost, and nothing else.
    Drop(Arc<[u8]>),
    /// The same with the next such packet; then as `Pass`.
    DropOne(Arc<[u8]>),
    /// Packets to the client for which this gives another one are replaced.
    Forge(fn(&[u8]) -> Option<Vec<u8>>),
    /// No connections.
    Refuse,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    ToServer,
    ToClient,
}

impl Mode {
    fn holds(&self, way: Way) -> bool {
        match self {
            Self::Blackhole => true,
            Self::BlackholeToServer => way == Way::ToServer,
            Self::BlackholeToClient => way == Way::ToClient,
            _ => false,
        }
    }
}

/// How a server's bytes fall into packets.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Framing {
    /// gRPC's frames: a length of three bytes, and six more of header.
    Http2,
    /// ZooKeeper's: a length of four bytes.
    Jute,
}

impl Framing {
    /// Takes the first whole packet out of the buffer.
    fn packet(self, buffer: &mut Vec<u8>) -> Option<Vec<u8>> {
        let length = match (self, buffer.as_slice()) {
            (Self::Http2, [a, b, c, ..]) => 9 + u32::from_be_bytes([0, *a, *b, *c]),
            (Self::Jute, [a, b, c, d, ..]) => 4 + u32::from_be_bytes([*a, *b, *c, *d]),
            _ => return None,
        };
        let length = usize::try_from(length).expect("a length");
        (buffer.len() >= length).then(|| buffer.drain(..length).collect())
    }
}

#[derive(Clone, Debug)]
struct State {
    mode: Mode,
    /// Connections of an earlier one are dead.
    generation: u64,
    /// How many there are.
    connections: usize,
    /// How many there have been.
    accepted: usize,
    /// How many packets have come for the clients.
    packets: Arc<AtomicUsize>,
}

/// One server, seen through it.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    state: watch::Sender<State>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    pub(crate) async fn start(server: SocketAddr, framing: Framing) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let state = watch::Sender::new(State {
            mode: Mode::Pass,
            generation: 0,
            connections: 0,
            accepted: 0,
            packets: Arc::default(),
        });
        let accepting = tokio::spawn(accept(listener, server, framing, state.clone()));
        Self { address, state, accepting }
    }

    pub(crate) fn set(&self, mode: Mode) {
        let refuse = matches!(mode, Mode::Refuse);
        self.state.send_modify(|state| state.mode = mode);
        if refuse {
            self.hang_up();
        }
    }

    /// Ends all connections, and with them what is on its way.
    pub(crate) fn hang_up(&self) {
        self.state.send_modify(|state| state.generation += 1);
    }

    pub(crate) fn connections(&self) -> usize {
        self.state.borrow().connections
    }

    pub(crate) fn accepted(&self) -> usize {
        self.state.borrow().accepted
    }

    pub(crate) fn packets(&self) -> usize {
        self.state.borrow().packets.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.hang_up();
    }
}

async fn accept(
    listener: TcpListener,
    server: SocketAddr,
    framing: Framing,
    state: watch::Sender<State>,
) {
    while let Ok((client, _)) = listener.accept().await {
        state.send_modify(|state| state.accepted += 1);
        if matches!(state.borrow().mode, Mode::Refuse) {
            continue;
        }
        let state = state.clone();
        tokio::spawn(async move {
            state.send_modify(|state| state.connections += 1);
            let (mut ends, born) = (state.subscribe(), state.borrow().generation);
            tokio::select! {
                () = connection(client, server, framing, &state) => {}
                _ = ends.wait_for(|state| state.generation > born) => {}
            }
            state.send_modify(|state| state.connections -= 1);
        });
    }
}

async fn connection(
    client: TcpStream,
    server: SocketAddr,
    framing: Framing,
    state: &watch::Sender<State>,
) {
    let _ = state.subscribe().wait_for(|state| !matches!(state.mode, Mode::Blackhole)).await;
    let Ok(server) = TcpStream::connect(server).await else { return };
    // Delays are this proxy's to choose.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let ((from_client, to_client), (from_server, to_server)) =
        (client.into_split(), server.into_split());
    tokio::select! {
        () = pump(Way::ToServer, from_client, to_server, None, state) => {}
        () = pump(Way::ToClient, from_server, to_client, Some(framing), state) => {}
    }
}

/// Carries what comes from one side to the other, and ends when it has carried the end.
async fn pump(
    way: Way,
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    framing: Option<Framing>,
    state: &watch::Sender<State>,
) {
    let (chunks, mut arrived) = mpsc::unbounded_channel();
    let read = async {
        let (mut bytes, mut buffer) = (vec![0; 1 << 16], Vec::new());
        loop {
            let count = from.read(&mut bytes).await.unwrap_or(0);
            buffer.extend_from_slice(&bytes[..count]);
            let Some(framing) = framing.filter(|_| count > 0) else {
                let _ = chunks.send((Instant::now(), std::mem::take(&mut buffer)));
                if count == 0 {
                    // The end is news that a blackhole keeps back, too.
                    let _ = chunks.send((Instant::now(), Vec::new()));
                    return std::future::pending().await;
                }
                continue;
            };
            while let Some(packet) = framing.packet(&mut buffer) {
                let _ = chunks.send((Instant::now(), packet));
            }
        }
    };
    let write = async {
        let mut states = state.subscribe();
        while let Some((at, mut chunk)) = arrived.recv().await {
            let Ok(mode) = states
                .wait_for(|state| !state.mode.holds(way))
                .await
                .map(|state| state.mode.clone())
            else {
                return;
            };
            match mode {
                Mode::Delay(time) => sleep_until(at + time).await,
                Mode::Jitter(time) => sleep_until(at + time.mul_f64(0.5 + fastrand::f64())).await,
                Mode::Forge(forge) if way == Way::ToClient => {
                    if let Some(forged) = forge(&chunk) {
                        chunk = forged;
                    }
                }
                Mode::SwallowReply if way == Way::ToClient => {
                    state.send_modify(|state| state.mode = Mode::Pass);
                    return;
                }
                Mode::Drop(needle) if way == Way::ToClient && contains(&chunk, &needle) => continue,
                Mode::DropOne(needle) if way == Way::ToClient && contains(&chunk, &needle) => {
                    state.send_modify(|state| state.mode = Mode::Pass);
                    continue;
                }
                _ => {}
            }
            if way == Way::ToClient {
                state.borrow().packets.fetch_add(1, Ordering::Relaxed);
            }
            if chunk.is_empty() || to.write_all(&chunk).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = read => {}
        () = write => {}
    }
}

fn contains(bytes: &[u8], needle: &[u8]) -> bool {
    bytes.windows(needle.len()).any(|window| window == needle)
}

/// A cluster behind proxies, one for each server.
pub(crate) struct Proxies {
    scheme: &'static str,
    pub(crate) all: Vec<Proxy>,
}

impl Proxies {
    pub(crate) async fn start(
        (scheme, servers, framing): (&'static str, &[SocketAddr], Framing),
    ) -> Self {
        let mut all = Vec::new();
        for server in servers {
            all.push(Proxy::start(*server, framing).await);
        }
        Self { scheme, all }
    }

    /// The cluster's URL by way of them.
    pub(crate) fn url(&self) -> String {
        let addresses: Vec<_> = self.all.iter().map(|proxy| proxy.address.to_string()).collect();
        format!("{}://{}", self.scheme, addresses.join(","))
    }

    pub(crate) fn set(&self, mode: &Mode) {
        for proxy in &self.all {
            proxy.set(mode.clone());
        }
    }

    /// How many packets have come for the clients.
    pub(crate) fn packets(&self) -> usize {
        self.all.iter().map(Proxy::packets).sum()
    }

    /// How many connections there have been.
    pub(crate) fn accepted(&self) -> usize {
        self.all.iter().map(Proxy::accepted).sum()
    }

    pub(crate) fn hang_up(&self) {
        for proxy in &self.all {
            proxy.hang_up();
        }
    }
}
