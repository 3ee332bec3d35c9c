//! The harness of ZooKeeper. The operator uses zookeeper-client, the four-letter commands, and a
//! raw connection to end sessions.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
};

use async_trait::async_trait;
use distlock::FailoverBehavior;
use distlock_testkit::{
    backend::Backend,
    proxies::Proxies,
    servers::{ask, endpoints},
};
use distlock_zookeeper_model::Front;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{sleep, timeout},
};
use zookeeper_client::{Acls, Client, CreateMode, Error, Stat};

use super::{Cost, Harness, Link, Members, SOON, Servers, Sessions};

/// The longest timeout that the servers grant, so that the operator outlives elections.
const OPERATOR_TTL: Duration = Duration::from_secs(20);

/// The deployments of ZooKeeper.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// An ensemble of three servers.
    Ensemble,
    /// The model of a server, in this process.
    Model,
}

const KINDS: [Kind; 2] = [Kind::Ensemble, Kind::Model];

/// The harness of one deployment, by its index.
pub(crate) struct Setup<const KIND: usize> {
    url: String,
    /// The servers as clients get them. A single server is listed several times.
    endpoints: Vec<SocketAddr>,
    client: Client,
}

pub(crate) type ZooKeeper = Setup<0>;
pub(crate) type Model = Setup<1>;

/// The model that all cases share, as they share the servers.
fn model() -> &'static Front {
    static MODEL: LazyLock<Front> = LazyLock::new(|| Front::start().expect("a port"));
    &MODEL
}

impl<const KIND: usize> Setup<KIND> {
    pub(crate) fn is_model() -> bool {
        KINDS[KIND] == Kind::Model
    }

    /// Returns the servers without duplicates.
    pub(crate) fn distinct(&self) -> &[SocketAddr] {
        match KINDS[KIND] {
            Kind::Ensemble => &self.endpoints,
            Kind::Model => &self.endpoints[..1],
        }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    pub(crate) async fn get(&self, key: &str) -> (Vec<u8>, Stat) {
        // The operator's server may be behind the one that has just replied to the client.
        self.client.sync("/").await.expect("ZooKeeper replies");
        self.client.get_data(key).await.unwrap_or_else(|error| panic!("no node {key}: {error}"))
    }

    /// Creates a node with an open ACL.
    pub(crate) async fn make(&self, path: &str, data: &[u8], mode: CreateMode) {
        let options = mode.with_acls(Acls::anyone_all());
        self.client.create(path, data, &options).await.expect("a node");
    }

    /// Joins a queue as another library's client does, and returns its node. The server appends a
    /// number to the path.
    pub(crate) async fn stranger(&self, path: &str, data: &[u8]) -> String {
        let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
        let (_, sequence) = self.client.create(path, data, &options).await.expect("a node");
        format!("{path}{sequence}")
    }

    /// Creates the directory of a queue unless it exists.
    pub(crate) async fn make_directory(&self, path: &str) {
        let container = CreateMode::Container.with_acls(Acls::anyone_all());
        self.client.mkdir(path, &container).await.expect("a directory");
    }

    /// Returns `true` if a server lists a watch of this session on the node.
    pub(crate) async fn watches(&self, node: &str, session: i64) -> bool {
        for endpoint in self.distinct() {
            if watches(*endpoint, node, session).await {
                return true;
            }
        }
        false
    }
}

#[async_trait]
impl<const KIND: usize> Harness for Setup<KIND> {
    async fn start() -> Self {
        let (url, endpoints) = match KINDS[KIND] {
            Kind::Ensemble => {
                let url = Backend::ZooKeeper.url();
                let endpoints = endpoints(&url).await;
                (url, endpoints)
            }
            Kind::Model => {
                let address = model().address;
                (format!("zk://{address}"), vec![address; 3])
            }
        };
        let cluster: Vec<_> = endpoints.iter().map(ToString::to_string).collect();
        let connector = Client::connector().with_session_timeout(OPERATOR_TTL);
        let client = connector
            .connect(&cluster.join(","))
            .await
            .expect("ZooKeeper replies: is it up? See docker/up");
        Self { url, endpoints, client }
    }

    fn url(&self) -> String {
        self.url.clone()
    }

    /// One server tick, and a second for a busy machine.
    fn grace(&self) -> Duration {
        Duration::from_secs(2)
    }

    fn promises(&self) -> (bool, FailoverBehavior) {
        match KINDS[KIND] {
            Kind::Ensemble => (true, FailoverBehavior::Continues),
            Kind::Model => (true, FailoverBehavior::Blocks),
        }
    }

    fn busy(&self) -> u64 {
        3
    }

    /// All ephemeral nodes below the namespace.
    async fn keys(&self, namespace: &str) -> Vec<String> {
        // This server catches up with what the others had applied.
        self.client.sync("/").await.expect("ZooKeeper replies");
        let (mut keys, mut paths) = (Vec::new(), vec![namespace.to_owned()]);
        while !paths.is_empty() {
            // Pipelined.
            let replies: Vec<_> = paths.iter().map(|path| self.client.get_children(path)).collect();
            let mut below = Vec::new();
            for (path, reply) in std::mem::take(&mut paths).into_iter().zip(replies) {
                match reply.await {
                    Ok((children, stat)) => {
                        below.extend(children.into_iter().map(|child| format!("{path}/{child}")));
                        if stat.ephemeral_owner != 0 {
                            keys.push(path);
                        }
                    }
                    Err(Error::NoNode) => {}
                    Err(error) => panic!("cannot list {path}: {error}"),
                }
            }
            paths = below;
        }
        keys
    }

    async fn delete_key(&self, key: &str) {
        self.client
            .delete(key, None)
            .await
            .unwrap_or_else(|error| panic!("no node {key}: {error}"));
    }

    async fn data(&self, key: &str) -> Option<Vec<u8>> {
        // This server catches up with what the others had applied.
        self.client.sync("/").await.expect("ZooKeeper replies");
        match self.client.get_data(key).await {
            Ok((value, _)) => Some(value),
            Err(Error::NoNode) => None,
            Err(error) => panic!("cannot read {key}: {error}"),
        }
    }

    async fn erase(&self, key: &str) {
        let mut path = key;
        loop {
            match self.client.delete(path, None).await {
                Ok(()) | Err(Error::NoNode) => {}
                Err(Error::NotEmpty) => return,
                Err(error) => panic!("cannot delete {path}: {error}"),
            }
            // Deletes the parents as well, except the root node that all cases share.
            match path.rsplit_once('/') {
                Some((parent, _)) if parent.matches('/').count() > 1 => path = parent,
                _ => return,
            }
        }
    }

    /// What is left are directories. They are containers, which the servers remove one after the
    /// other.
    async fn forget(&self, namespace: &str) {
        let start = Instant::now();
        while self.client.check_stat(namespace).await.expect("ZooKeeper replies").is_some() {
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "{namespace} is not removed: it contains a node that is not a container"
            );
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Reads the counters of these sessions' connections.
    async fn cost(&self, sessions: &[i64]) -> Cost {
        let mut cost = Cost::default();
        for endpoint in self.distinct() {
            for line in four_letters(*endpoint, "cons").await.lines() {
                if sessions.iter().any(|session| line.contains(&format!("sid=0x{session:x},"))) {
                    let (received, sent) = (field(line, "recved="), field(line, "sent="));
                    cost.requests += received;
                    // Every request has a reply. All other messages sent are events.
                    cost.events += sent.cast_signed() - received.cast_signed();
                }
            }
        }
        cost
    }

    async fn link(&self) -> Arc<dyn Link> {
        Arc::new(self.proxies().await)
    }
}

#[async_trait]
impl<const KIND: usize> Sessions for Setup<KIND> {
    async fn session_of(&self, key: &str) -> i64 {
        self.get(key).await.1.ephemeral_owner
    }

    async fn session_exists(&self, session: i64) -> bool {
        for endpoint in self.distinct() {
            let dump = four_letters(*endpoint, "dump").await;
            let (sessions, _) =
                dump.split_once("ephemeral nodes dump").expect("the sessions are listed first");
            if sessions
                .split_whitespace()
                .any(|word| word.trim_end_matches(',') == format!("0x{session:x}"))
            {
                return true;
            }
        }
        false
    }

    /// A client with the session's password may end the session. The servers derive the password
    /// from the id.
    async fn end_session_of(&self, key: &str) {
        let (session, start) = (self.session_of(key).await, Instant::now());
        // Its client may reconnect between the takeover and the end of the session.
        while self.session_exists(session).await {
            assert!(start.elapsed() < Duration::from_secs(15), "the session does not end");
            // There may be no reply if both connect at once.
            match timeout(Duration::from_secs(1), end_session(self.endpoints[0], session)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => println!("session {session:x}: {error}"),
                Err(_) => println!("session {session:x}: no reply"),
            }
        }
    }
}

#[async_trait]
impl<const KIND: usize> Servers for Setup<KIND> {
    async fn proxies(&self) -> Proxies {
        Proxies::start(Backend::ZooKeeper, &self.endpoints).await
    }

    /// The client drops a server that is silent for a quarter of the TTL.
    fn bearable_round_trip(&self) -> f64 {
        0.35
    }
}

#[async_trait]
impl<const KIND: usize> Members for Setup<KIND> {
    fn network(&self) -> (Backend, &[SocketAddr]) {
        (Backend::ZooKeeper, &self.endpoints)
    }

    async fn serves(&self, server: SocketAddr) -> bool {
        // A server outside the quorum has no mode.
        mode_of(server).await != "none"
    }
}

fn field(line: &str, name: &str) -> u64 {
    let (_, rest) = line.split_once(name).unwrap_or_else(|| panic!("no {name} in {line}"));
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}

/// Returns `true` if this server lists a watch of this session on the node.
pub(crate) async fn watches(endpoint: SocketAddr, node: &str, session: i64) -> bool {
    let watches = four_letters(endpoint, "wchp").await;
    let lines = watches.lines().skip_while(|line| *line != node).skip(1);
    let mut sessions = lines.take_while(|line| line.starts_with('\t'));
    sessions.any(|line| line.trim() == format!("0x{session:x}"))
}

/// Sends a four-letter command, and returns the server's reply.
pub(crate) async fn four_letters(endpoint: SocketAddr, word: &str) -> String {
    ask(endpoint, word, SOON).await.expect("ZooKeeper replies")
}

/// Returns the mode that a server reports: `leader`, `follower` or `standalone`. Returns `none` if
/// it does not serve or does not reply.
pub(crate) async fn mode_of(endpoint: SocketAddr) -> String {
    let answer = ask(endpoint, "srvr", Duration::from_secs(1)).await.unwrap_or_default();
    answer.lines().find_map(|line| line.strip_prefix("Mode: ")).unwrap_or("none").to_owned()
}

/// Takes over the session. It belongs to this connection until its client reconnects.
pub(crate) async fn take_over(server: SocketAddr, session: i64) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(server).await?;
    let mut connect = Vec::new();
    connect.extend(0_i32.to_be_bytes()); // protocol version
    connect.extend(0_i64.to_be_bytes()); // last zxid seen
    connect.extend(10_000_i32.to_be_bytes()); // timeout
    connect.extend(session.to_be_bytes());
    connect.extend(16_i32.to_be_bytes());
    connect.extend(password(session));
    connect.push(0); // not read-only
    let answer = exchange(&mut stream, &connect).await?;
    if answer[8..16] != session.to_be_bytes() {
        return Err(io::Error::other(
            "the session is unknown to the server, or has another password",
        ));
    }
    Ok(stream)
}

/// Takes over the session and closes it.
async fn end_session(server: SocketAddr, session: i64) -> io::Result<()> {
    let mut stream = take_over(server, session).await?;
    let (xid, close_session) = (1_i32, -11_i32);
    exchange(&mut stream, &[xid.to_be_bytes(), close_session.to_be_bytes()].concat()).await?;
    Ok(())
}

/// Sends a packet, and returns the next one received.
pub(crate) async fn exchange(stream: &mut TcpStream, packet: &[u8]) -> io::Result<Vec<u8>> {
    let length = u32::try_from(packet.len()).expect("a short packet");
    stream.write_all(&[&length.to_be_bytes(), packet].concat()).await?;
    let mut answer = vec![0; usize::try_from(stream.read_u32().await?).expect("a length")];
    stream.read_exact(&mut answer).await?;
    Ok(answer)
}

/// Computes the session's password as `ZooKeeperServer.generatePasswd` does with
/// `java.util.Random`.
pub(crate) fn password(session: i64) -> Vec<u8> {
    const MULTIPLIER: u64 = 0x5_DEEC_E66D;
    const MASK: u64 = (1 << 48) - 1;
    let mut seed = ((session ^ 0xB341_5C00).cast_unsigned() ^ MULTIPLIER) & MASK;
    let mut next = || {
        seed = seed.wrapping_mul(MULTIPLIER).wrapping_add(0xB) & MASK;
        ((seed >> 16) as u32).to_le_bytes()
    };
    (0..4).flat_map(|_| next()).collect()
}
