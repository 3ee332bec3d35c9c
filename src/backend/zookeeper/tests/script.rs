//! A scripted server: one that is too old, or that grants rights as no real server can.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::{
    backend::{remote::Remote, zookeeper::ZooKeeper},
    runtime::mutex::Mutex,
};

/// Kinds of requests (`ZooDefs.OpCode`).
pub(crate) const EXISTS: i32 = 3;
const SYNC: i32 = 9;
const PING: i32 = 11;
pub(crate) const GET_CHILDREN2: i32 = 12;
pub(crate) const MULTI: i32 = 14;
pub(crate) const CREATE2: i32 = 15;
pub(crate) const CREATE_CONTAINER: i32 = 19;
pub(crate) const GET_EPHEMERALS: i32 = 103;
pub(crate) const CLOSE_SESSION: i32 = -11;

/// Errors (`KeeperException.Code`).
pub(crate) const UNIMPLEMENTED: i32 = -6;
pub(crate) const NO_NODE: i32 = -101;
pub(crate) const NO_AUTH: i32 = -102;
pub(crate) const AUTH_FAILED: i32 = -115;
pub(crate) const QUOTA_EXCEEDED: i32 = -125;

/// The reply to a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    /// Success without content: an empty list, or a node whose numbers are all zero.
    Nothing,
    Refused(i32),
    /// In a transaction of two operations, the second one is refused with this error.
    SecondRefused(i32),
    HangUp,
    /// The server closes the connection, and no longer has the session.
    Ends,
    /// The server closes the connection, and no longer replies to any client.
    Vanishes,
}

/// Returns the kind of a request, and the reply.
type Script = dyn Fn(&[u8]) -> (i32, Answer) + Send + Sync;

pub(crate) struct Server {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    transactions: Arc<Mutex<Vec<String>>>,
}

impl Server {
    pub(crate) async fn start(script: impl Fn(i32) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, connections) = (listener.local_addr().unwrap(), Arc::default());
        let counted = Arc::<AtomicUsize>::clone(&connections);
        let transactions = Arc::<Mutex<Vec<String>>>::default();
        let (end, seen) = (Arc::<OnceLock<Answer>>::default(), Arc::clone(&transactions));
        let script = Arc::new(move |request: &[u8]| {
            let kind = i32::from_be_bytes([request[4], request[5], request[6], request[7]]);
            if kind == MULTI {
                seen.lock().push(String::from_utf8_lossy(request).into_owned());
            }
            (kind, if kind == PING { Answer::Nothing } else { script(kind) })
        });
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counted.fetch_add(1, SeqCst);
                let (script, end) = (Arc::clone(&script), Arc::clone(&end));
                tokio::spawn(async move { serve(stream, &*script, &end).await });
            }
        });
        Self { address, connections, transactions }
    }

    pub(crate) fn url(&self) -> String {
        format!("zk://{}", self.address)
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(SeqCst)
    }

    /// Returns the requested transactions as text.
    pub(crate) fn transactions(&self) -> Vec<String> {
        self.transactions.lock().clone()
    }

    pub(crate) fn backend(&self) -> ZooKeeper {
        ZooKeeper::new(Remote::plain(vec![self.address.to_string()])).unwrap()
    }
}

/// Serves one connection: opens a session, and then replies by the script.
async fn serve(mut stream: TcpStream, script: &Script, end: &OnceLock<Answer>) -> io::Result<()> {
    let asked = receive(&mut stream).await?;
    let known = match end.get() {
        Some(Answer::Vanishes) => return Ok(()),
        end => end.is_none(),
    };
    let mut session = Vec::new();
    session.extend(0_i32.to_be_bytes()); // protocol version
    session.extend(&asked[12..16]); // timeout
    session.extend(if known { 7_i64 } else { 0 }.to_be_bytes()); // session
    session.extend(16_i32.to_be_bytes()); // password
    session.extend([0; 16]);
    session.push(0); // not read-only
    send(&mut stream, &session).await?;
    loop {
        let request = receive(&mut stream).await?;
        let (kind, answer) = script(&request);
        let (error, body) = match answer {
            Answer::Nothing if kind == EXISTS => (0, vec![0; 68]),
            Answer::Nothing if kind == SYNC || kind == GET_EPHEMERALS => (0, vec![0; 4]),
            Answer::Nothing if kind == GET_CHILDREN2 => (0, vec![0; 72]),
            Answer::Nothing => (0, vec![]),
            Answer::Refused(error) => (error, vec![]),
            Answer::SecondRefused(error) => (0, failed([0, error])),
            Answer::HangUp => return Ok(()),
            Answer::Ends | Answer::Vanishes => {
                end.get_or_init(|| answer);
                return Ok(());
            }
        };
        let mut reply = request[..4].to_vec(); // the request's number
        reply.extend(0_i64.to_be_bytes()); // zxid
        reply.extend(error.to_be_bytes());
        reply.extend(body);
        send(&mut stream, &reply).await?;
    }
}

/// Returns the results of a transaction's operations if not all of them can be applied.
fn failed(errors: [i32; 2]) -> Vec<u8> {
    let result = |done: u8, error: i32| {
        [&(-1_i32).to_be_bytes()[..], &[done], &error.to_be_bytes()].concat()
    };
    let each = errors.map(|error| [&result(0, error)[..], &error.to_be_bytes()].concat());
    [each.concat(), result(1, -1)].concat()
}

async fn receive(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut packet = vec![0; usize::try_from(stream.read_u32().await?).unwrap()];
    stream.read_exact(&mut packet).await?;
    Ok(packet)
}

async fn send(stream: &mut TcpStream, packet: &[u8]) -> io::Result<()> {
    let length = u32::try_from(packet.len()).unwrap();
    stream.write_all(&[&length.to_be_bytes(), packet].concat()).await
}
