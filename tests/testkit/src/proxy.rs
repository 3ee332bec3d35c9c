//! A TCP proxy with faults: what a network may do between a client and a server.

use std::{
    io,
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

use crate::framing::Framing;

/// What it does with that which comes.
#[derive(Clone, Debug)]
pub enum Mode {
    /// Carries it at once.
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
    /// What the clients send from now on reaches the servers this much later, on the connection
    /// that it was sent on, whatever has become of the client and of this mode by then. A new
    /// connection made after the mode has ended is not late.
    LateToServer(Duration),
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

    /// How much later than now it carries what comes now.
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
    /// Connections of an earlier one are dead.
    generation: u64,
    /// How many there are.
    connections: usize,
    /// How many there have been.
    accepted: usize,
    /// How many packets have come for the clients.
    packets: Arc<AtomicUsize>,
    /// How many have come from them.
    requests: Arc<AtomicUsize>,
}

/// One server, seen through it. Nothing goes through any more when this is dropped.
#[derive(Debug)]
pub struct Proxy {
    /// Where clients connect to.
    pub address: SocketAddr,
    state: watch::Sender<State>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// Without framing the bytes are carried as they come, and what is said of packets holds for
    /// those of one read.
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

    /// From now on, also for what it has heard and not yet carried.
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

    /// Ends all connections, and with them what is on its way.
    pub fn hang_up(&self) {
        self.state.send_modify(|state| state.generation += 1);
    }

    /// How many connections there are.
    pub fn connections(&self) -> usize {
        self.state.borrow().connections
    }

    /// How many connections there have been.
    pub fn accepted(&self) -> usize {
        self.state.borrow().accepted
    }

    /// How many packets have come from the clients, whether they have been carried on or not.
    pub fn requests(&self) -> usize {
        self.state.borrow().requests.load(Ordering::Relaxed)
    }

    /// How many packets have come for the clients.
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

/// Carries both ways until both have come to their end, or one fails.
async fn connection(
    client: TcpStream,
    server: SocketAddr,
    framing: Option<Framing>,
    state: &watch::Sender<State>,
) -> io::Result<()> {
    let _ = state.subscribe().wait_for(|state| !matches!(state.mode, Mode::Blackhole)).await;
    let server = TcpStream::connect(server).await?;
    // Delays are this proxy's to choose: else the kernel would hold small packets back until
    // earlier ones are acknowledged.
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let ((from_client, to_client), (from_server, to_server)) =
        (client.into_split(), server.into_split());
    tokio::try_join!(
        pump(Way::ToServer, from_client, to_server, None, state),
        pump(Way::ToClient, from_server, to_client, framing, state),
    )?;
    Ok(())
}

/// Carries what comes from one side to the other, and its end at last.
async fn pump(
    way: Way,
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    framing: Option<Framing>,
    state: &watch::Sender<State>,
) -> io::Result<()> {
    // Without a bound: what is on its way must not hold up what follows.
    let (sender, arrived) = mpsc::unbounded_channel();
    tokio::try_join!(read(way, from, framing, sender, state), write(way, to, arrived, state))?;
    Ok(())
}

/// What came at some moment; empty at the end, which is news that a blackhole keeps back, too.
type Arrival = (Instant, Vec<u8>);

async fn read(
    way: Way,
    mut from: OwnedReadHalf,
    framing: Option<Framing>,
    arrivals: mpsc::UnboundedSender<Arrival>,
    state: &watch::Sender<State>,
) -> io::Result<()> {
    let (mut bytes, mut buffer) = (vec![0; 1 << 16], Vec::new());
    let arrived = |chunk| {
        let late = state.borrow().mode.lateness(way);
        drop(arrivals.send((Instant::now() + late, chunk)));
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
        to.write_all(&chunk).await?;
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

    /// A server that hears all that one client says, and then says it in one packet of Jute.
    async fn server() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let mut heard = Vec::new();
                client.read_to_end(&mut heard).await.expect("the end");
                let length = u32::try_from(heard.len()).expect("a length").to_be_bytes();
                client.write_all(&[&length, &heard[..]].concat()).await.expect("it listens");
            }
        });
        address
    }

    /// What comes back of a few bytes, and how long that takes.
    async fn echo(proxy: &Proxy) -> (io::Result<Vec<u8>>, Duration) {
        let start = Instant::now();
        let mut stream = TcpStream::connect(proxy.address).await.expect("it listens");
        stream.write_all(b"some").await.expect("it listens");
        stream.shutdown().await.expect("it listens");
        let mut answer = Vec::new();
        let read = stream.read_to_end(&mut answer).await.map(|_| answer);
        (read, start.elapsed())
    }

    #[tokio::test]
    async fn the_end_of_one_way_leaves_the_other_open() {
        for framing in [None, Some(Framing::Jute)] {
            let proxy = Proxy::start(server().await, framing).await;
            let (answer, _) = echo(&proxy).await;
            assert_eq!(answer.expect("the end"), b"\0\0\0\x04some");
            proxy.set(Mode::Delay(WAY));
            let (answer, time) = echo(&proxy).await;
            assert_eq!(answer.expect("the end"), b"\0\0\0\x04some");
            assert!(time >= WAY * 2, "{time:?}");
            assert_eq!(proxy.accepted(), 2);
            while proxy.connections() > 0 {
                tokio::task::yield_now().await;
            }
        }
    }

    #[tokio::test]
    async fn late_requests_arrive_although_their_client_has_gone() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let proxy = Proxy::start(listener.local_addr().expect("an address"), None).await;
        proxy.set(Mode::LateToServer(WAY * 10));
        let (sent, mut late) =
            (Instant::now(), TcpStream::connect(proxy.address).await.expect("it"));
        let (mut server, _) = listener.accept().await.expect("a connection");
        late.write_all(b"late").await.expect("it listens");
        late.flush().await.expect("it listens");
        // What the proxy reads after the mode has ended is not late.
        while proxy.requests() == 0 {
            tokio::task::yield_now().await;
        }
        drop(late);
        proxy.set(Mode::Pass);
        let mut soon = TcpStream::connect(proxy.address).await.expect("it listens");
        let (mut other, _) = listener.accept().await.expect("a connection");
        soon.write_all(b"soon").await.expect("it listens");
        let mut heard = [0; 4];
        other.read_exact(&mut heard).await.expect("the request");
        assert_eq!((&heard, sent.elapsed() < WAY * 10), (b"soon", true));
        server.read_exact(&mut heard).await.expect("the request");
        assert_eq!((&heard, sent.elapsed() >= WAY * 10), (b"late", true));
    }

    #[tokio::test]
    async fn packets_are_lost_as_they_should() {
        let proxy = Proxy::start(server().await, Framing::Jute).await;
        for mode in [Mode::SwallowReply, Mode::DropOne(b"om".as_slice().into())] {
            proxy.set(mode);
            let (answer, _) = echo(&proxy).await;
            assert_eq!(answer.unwrap_or_default(), b"");
            // Once only.
            let (answer, _) = echo(&proxy).await;
            assert_eq!(answer.expect("the end"), b"\0\0\0\x04some");
        }
        assert_eq!(proxy.packets(), 2);
    }
}
