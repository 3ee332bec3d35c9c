//! Requests that reach a server long after their client has given up on them.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use distlock::Client;
use distlock_testkit::{
    framing::Framing,
    proxy::{Mode, Proxy},
};
use zookeeper_client::{self as zk, Acls, CreateMode};

use crate::{
    common::{
        Case, Members, SOON, Sessions, eventually, own_cases, release, throughout,
        zookeeper::{Setup, ZooKeeper, exchange, take_over},
    },
    zookeeper::forger::{Forger, Packet},
};

own_cases! { ZooKeeper, beside_others,
    a_node_created_after_its_release_is_removed,
    a_node_created_after_its_downgrade_is_removed,
}

/// Kinds of requests (`ZooDefs.OpCode`).
const CREATING: [i32; 2] = [14, 15];

/// Returns `true` if a packet creates a node with a number in a directory, by itself or in a
/// transaction.
fn creates(packet: &Packet<'_>, directory: &str) -> bool {
    let kind = packet.bytes[4..8].try_into().map(i32::from_be_bytes).expect("four bytes");
    let has = |text: &str| packet.bytes.windows(text.len()).any(|part| part == text.as_bytes());
    CREATING.contains(&kind) && has(&format!("{directory}/")) && has("lock-")
}

pub(crate) mod cases {
    use super::*;

    /// The reply to the first request to create a node is lost. That request reaches the server
    /// again long after the release, together with a connect request. A recovering network can
    /// deliver both, which moves the session to the former connection.
    pub(crate) async fn a_node_created_after_its_release_is_removed<const KIND: usize>(
        t: &Case<Setup<KIND>>,
    ) {
        let (late, other) = (Late::start(t, "late").await, t.client().await);
        let lock = late.client.mutex("late");
        late.proxy.set(Mode::SwallowReply);
        let guard = lock.lock().await.unwrap();
        let session = t.store.session_of(guard.key()).await;
        guard.unlock().await.unwrap();
        late.create(session).await;
        let next = other.mutex("late").lock_timeout(RECHECK.mul_f64(1.25) + SOON).await.unwrap();
        let next = next.expect("the late node does not block the lock for long");
        // The session continues, and its own later nodes are kept.
        next.unlock().await.unwrap();
        let again = lock.lock().await.unwrap();
        assert_eq!(t.store.session_of(again.key()).await, session);
        throughout(RECHECK * 2, "the lock is held", async || again.is_valid()).await;
        again.unlock().await.unwrap();
        late.end().await;
    }

    /// The lock is still held, by another node with the same ticket.
    pub(crate) async fn a_node_created_after_its_downgrade_is_removed<const KIND: usize>(
        t: &Case<Setup<KIND>>,
    ) {
        let (late, other) = (Late::start(t, "late!rw").await, t.client().await);
        late.proxy.set(Mode::SwallowReply);
        let writer = late.client.rw_lock("late").write().await.unwrap();
        let session = t.store.session_of(writer.key()).await;
        let reader = writer.downgrade().await.unwrap();
        late.create(session).await;
        let lock = other.rw_lock("late");
        let second = lock.read_timeout(RECHECK.mul_f64(1.25) + SOON).await.unwrap();
        let second = second.expect("the late node does not keep readers out for long");
        assert!(reader.is_valid());
        release([reader, second]).await;
        late.end().await;
    }
}

const RECHECK: Duration = Duration::from_secs(2);

/// A client of one server, and copies of its requests to create a node in a queue.
struct Late {
    client: Client,
    proxy: Proxy,
    server: SocketAddr,
    directory: String,
    zookeeper: zk::Client,
    sent: Arc<Mutex<Vec<Vec<u8>>>>,
    _forger: Forger,
}

impl Late {
    async fn start<const KIND: usize>(t: &Case<Setup<KIND>>, queue: &str) -> Self {
        let zookeeper = t.store.client().clone();
        // A persistent directory: the server would remove an empty container.
        let directory = format!("{}/{queue}", t.namespace);
        let persistent = CreateMode::Persistent.with_acls(Acls::anyone_all());
        zookeeper.mkdir(&directory, &persistent).await.expect("a directory");
        let server = t.store.network().1[0];
        let (sent, seen) = (Arc::<Mutex<Vec<Vec<u8>>>>::default(), directory.clone());
        let copies = Arc::clone(&sent);
        let forger = Forger::start(server, move |packet| {
            if creates(&packet, &seen) {
                copies.lock().expect("no panic").push(packet.bytes.clone());
            }
        })
        .await;
        let proxy = Proxy::start(forger.address, Framing::Jute).await;
        let url = format!("zk://{}", proxy.address);
        let client = t.connect(t.builder_for(&url).recheck_interval(RECHECK)).await;
        Self { client, proxy, server, directory, zookeeper, sent, _forger: forger }
    }

    /// Delivers the request to the server once more.
    async fn create(&self, session: i64) {
        // The reads that follow soon after an unknown outcome are over.
        tokio::time::sleep(Duration::from_secs(15)).await;
        let request = self.sent.lock().expect("no panic")[0].clone();
        // The client may be reconnecting after the last attempt, and take the session back in
        // between.
        eventually(SOON, "the server creates the node", async || {
            let Ok(mut connection) = take_over(self.server, session).await else { return false };
            let reply = exchange(&mut connection, &request).await;
            reply.is_ok_and(|reply| reply[12..16] == [0; 4])
        })
        .await;
    }

    async fn end(self) {
        self.zookeeper.delete(&self.directory, None).await.expect("the directory is empty");
    }
}
