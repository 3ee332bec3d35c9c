//! A TCP proxy that injects network faults between clients and a server.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
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

use crate::framing::Framing;

/// What the proxy does with data.
#[derive(Clone, Debug)]
pub enum Mode {
    /// Passes data on at once.
    Pass,
    /// Delays each direction by this time.
    Delay(Duration),
    /// Delays each packet by a random time between half and one and a half times this one. Packets
    /// stay in order.
    Jitter(Duration),
    /// Nothing passes. Data sent in the meantime arrives late, as with TCP after a network
    /// recovers.
    Blackhole,
    /// Nothing reaches the servers.
    BlackholeToServer,
    /// Nothing reaches the clients.
    BlackholeToClient,
    /// Requests sent from now on reach the server this much later, on their own connection. The end
    /// of the client or of this mode does not change that. Connections made after the end of the
    /// mode are not delayed.
    LateToServer(Duration),
    /// Loses the next reply and closes its connection, then acts as `Pass`.
    SwallowReply,
    /// Loses only packets to the client that contain these bytes.
    Drop(Arc<[u8]>),
    /// Loses the next packet to the client that contains these bytes, then acts as `Pass`.
    DropOne(Arc<[u8]>),
    /// Replaces packets to the client for which this function returns another one.
    Forge(fn(&[u8]) -> Option<Vec<u8>>),
    /// Refuses connections.
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

    /// Returns the delay of data that arrives now.
    fn lateness(&self, way: Way) -> Duration {
        match self {
            Self::LateToServer(late) if way == Way::ToServer => *late,
            _ => Duration::ZERO,
        }
    }
}

#[derive(Clone, Debug)]
struct State {
    mode: Mode,
    /// Connections of earlier generations are closed.
    generation: u64,
    /// The number of open connections.
    connections: usize,
    /// The number of connections ever accepted.
    accepted: usize,
    /// The number of packets sent to clients.
    packets: Arc<AtomicUsize>,
    /// The number of packets received from clients.
    requests: Arc<AtomicUsize>,
}

/// A proxy of one server. Nothing passes after the drop.
#[derive(Debug)]
pub struct Proxy {
    /// The address for clients.
    pub address: SocketAddr,
    state: watch::Sender<State>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// Starts a proxy. Without framing, the data of one read counts as a packet.
    pub async fn start(server: SocketAddr, framing: impl Into<Option<Framing>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let state = watch::Sender::new(State {
            mode: Mode::Pass,
            generation: 0,
            connections: 0,
            accepted: 0,
            packets: Arc::default(),
            requests: Arc::default(),
        });
        let accepting = tokio::spawn(accept(listener, server, framing.into(), state.clone()));
        Self { address, state, accepting }
    }

    /// Sets the mode, also for data that has arrived and not been passed on.
    pub fn set(&self, mode: Mode) {
        let refuse = matches!(mode, Mode::Refuse);
        self.state.send_modify(|state| state.mode = mode);
        if refuse {
            self.hang_up();
        }
    }

    /// Returns `true` if the mode is `Pass`, to which some modes change after one packet.
    pub fn passes(&self) -> bool {
        matches!(self.state.borrow().mode, Mode::Pass)
    }

    /// Closes all connections, and drops the data in flight.
    pub fn hang_up(&self) {
        self.state.send_modify(|state| state.generation += 1);
    }

    /// Returns the number of open connections.
    pub fn connections(&self) -> usize {
        self.state.borrow().connections
    }

    /// Returns the number of connections ever accepted.
    pub fn accepted(&self) -> usize {
        self.state.borrow().accepted
    }

    /// Returns the number of packets from clients, passed on or not.
    pub fn requests(&self) -> usize {
        self.state.borrow().requests.load(Ordering::Relaxed)
    }

    /// Returns the number of packets sent to clients.
    pub fn packets(&self) -> usize {
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
    framing: Option<Framing>,
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
                _ = connection(client, server, framing, &state) => {}
                _ = ends.wait_for(|state| state.generation > born) => {}
            }
            state.send_modify(|state| state.connections -= 1);
        });
    }
}

/// Passes data in both directions until both have ended or one fails.
async fn connection(
    client: TcpStream,
    server: SocketAddr,
    framing: Option<Framing>,
    state: &watch::Sender<State>,
) -> io::Result<()> {
    let _ = state.subscribe().wait_for(|state| !matches!(state.mode, Mode::Blackhole)).await;
    let server = TcpStream::connect(server).await?;
    // Only this proxy delays data. Otherwise the kernel would hold small packets until earlier ones
    // are acknowledged.
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let ((from_client, to_client), (from_server, to_server)) =
        (client.into_split(), server.into_split());
    let late = AtomicBool::new(false);
    tokio::try_join!(
        pump(Way::ToServer, from_client, to_server, None, &late, state),
        pump(Way::ToClient, from_server, to_client, framing, &late, state),
    )?;
    Ok(())
}

/// Passes data in one direction, and its end at last. `late`: the connection has late requests.
async fn pump(
    way: Way,
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    framing: Option<Framing>,
    late: &AtomicBool,
    state: &watch::Sender<State>,
) -> io::Result<()> {
    // Unbounded: data in flight must not block what follows.
    let (sender, arrived) = mpsc::unbounded_channel();
    tokio::try_join!(
        read(way, from, framing, sender, late, state),
        write(way, to, arrived, late, state),
    )?;
    Ok(())
}

/// Data with its time of arrival. Empty at the end of the stream, which a blackhole also holds
/// back.
type Arrival = (Instant, Vec<u8>);

async fn read(
    way: Way,
    mut from: OwnedReadHalf,
    framing: Option<Framing>,
    arrivals: mpsc::UnboundedSender<Arrival>,
    late: &AtomicBool,
    state: &watch::Sender<State>,
) -> io::Result<()> {
    let (mut bytes, mut buffer) = (vec![0; 1 << 16], Vec::new());
    let arrived = |chunk| {
        let lateness = state.borrow().mode.lateness(way);
        if !lateness.is_zero() {
            late.store(true, Ordering::Relaxed);
        }
        drop(arrivals.send((Instant::now() + lateness, chunk)));
        if way == Way::ToServer {
            state.borrow().requests.fetch_add(1, Ordering::Relaxed);
        }
    };
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        let Some(framing) = framing else {
            arrived(bytes[..count].to_vec());
            continue;
        };
        buffer.extend_from_slice(&bytes[..count]);
        while let Some(packet) = framing.packet(&mut buffer) {
            arrived(packet);
        }
    }
    if !buffer.is_empty() {
        arrived(buffer);
    }
    arrived(Vec::new());
    Ok(())
}

async fn write(
    way: Way,
    mut to: OwnedWriteHalf,
    mut arrived: mpsc::UnboundedReceiver<Arrival>,
    late: &AtomicBool,
    state: &watch::Sender<State>,
) -> io::Result<()> {
    let mut states = state.subscribe();
    while let Some((at, mut chunk)) = arrived.recv().await {
        if at > Instant::now() {
            sleep_until(at).await;
        }
        let passing = states.wait_for(|state| !state.mode.holds(way)).await;
        let mode = passing.map_err(io::Error::other)?.mode.clone();
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
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            Mode::Drop(needle) if way == Way::ToClient && contains(&chunk, &needle) => continue,
            Mode::DropOne(needle) if way == Way::ToClient && contains(&chunk, &needle) => {
                state.send_modify(|state| state.mode = Mode::Pass);
                continue;
            }
            _ => {}
        }
        if chunk.is_empty() {
            break;
        }
        if way == Way::ToClient {
            state.borrow().packets.fetch_add(1, Ordering::Relaxed);
        }
        match to.write_all(&chunk).await {
            // The client is gone. Its late requests must reach the server nevertheless.
            Err(_) if way == Way::ToClient && late.load(Ordering::Relaxed) => {}
            written => written?,
        }
    }
    to.shutdown().await
}

fn contains(bytes: &[u8], needle: &[u8]) -> bool {
    bytes.windows(needle.len()).any(|window| window == needle)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAY: Duration = Duration::from_millis(30);

    /// A server that reads all of a client's data, and sends it back in one packet of Jute.
    async fn server() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let mut heard = Vec::new();
                client.read_to_end(&mut heard).await.expect("the end");
                let length = u32::try_from(heard.len()).expect("a length").to_be_bytes();
                client.write_all(&[&length, &heard[..]].concat()).await.expect("the proxy accepts");
            }
        });
        address
    }

    /// Returns what comes back for a few bytes, and how long that takes.
    async fn echo(proxy: &Proxy) -> (io::Result<Vec<u8>>, Duration) {
        let start = Instant::now();
        let mut stream = TcpStream::connect(proxy.address).await.expect("the proxy accepts");
        stream.write_all(b"some").await.expect("the proxy accepts");
        stream.shutdown().await.expect("the proxy accepts");
        let mut reply = Vec::new();
        let read = stream.read_to_end(&mut reply).await.map(|_| reply);
        (read, start.elapsed())
    }

    #[tokio::test]
    async fn the_end_of_one_way_leaves_the_other_open() {
        for framing in [None, Some(Framing::Jute)] {
            let proxy = Proxy::start(server().await, framing).await;
            let (reply, _) = echo(&proxy).await;
            assert_eq!(reply.expect("the end"), b"\0\0\0\x04some");
            proxy.set(Mode::Delay(WAY));
            let (reply, time) = echo(&proxy).await;
            assert_eq!(reply.expect("the end"), b"\0\0\0\x04some");
            assert!(time >= WAY * 2, "{time:?}");
            assert_eq!(proxy.accepted(), 2);
            while proxy.connections() > 0 {
                tokio::task::yield_now().await;
            }
        }
    }

    #[tokio::test]
    async fn late_requests_arrive_after_their_client_disconnected() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let proxy = Proxy::start(listener.local_addr().expect("an address"), None).await;
        proxy.set(Mode::LateToServer(WAY * 10));
        let (sent, mut late) =
            (Instant::now(), TcpStream::connect(proxy.address).await.expect("the proxy accepts"));
        let (mut server, _) = listener.accept().await.expect("a connection");
        late.write_all(b"late").await.expect("the proxy accepts");
        late.flush().await.expect("the proxy accepts");
        // What the proxy reads after the mode has ended is not late.
        while proxy.requests() == 0 {
            tokio::task::yield_now().await;
        }
        drop(late);
        // What the server sends to a client that is gone does not end the connection.
        for events in 1..=3 {
            server.write_all(b"event").await.expect("the connection is open");
            while proxy.packets() < events && proxy.connections() > 0 {
                tokio::task::yield_now().await;
            }
        }
        proxy.set(Mode::Pass);
        let mut soon = TcpStream::connect(proxy.address).await.expect("the proxy accepts");
        let (mut other, _) = listener.accept().await.expect("a connection");
        soon.write_all(b"soon").await.expect("the proxy accepts");
        let mut heard = [0; 4];
        other.read_exact(&mut heard).await.expect("the request");
        assert_eq!((&heard, sent.elapsed() < WAY * 10), (b"soon", true));
        server.read_exact(&mut heard).await.expect("the request");
        assert_eq!((&heard, sent.elapsed() >= WAY * 10), (b"late", true));
    }

    #[tokio::test]
    async fn drop_modes_lose_one_packet() {
        let proxy = Proxy::start(server().await, Framing::Jute).await;
        for mode in [Mode::SwallowReply, Mode::DropOne(b"om".as_slice().into())] {
            proxy.set(mode);
            let (reply, _) = echo(&proxy).await;
            assert_eq!(reply.unwrap_or_default(), b"");
            // Only once.
            let (reply, _) = echo(&proxy).await;
            assert_eq!(reply.expect("the end"), b"\0\0\0\x04some");
        }
        assert_eq!(proxy.packets(), 2);
    }
}
