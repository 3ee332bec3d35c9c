//! Requests that a server gets when their client has long given them up.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use distlock_testkit::{
    framing::Framing,
    proxy::{Mode, Proxy},
};
use zookeeper_client::{Acls, CreateMode};

use crate::{
    common::{
        Case, Harness, Members, SOON, eventually, own_cases, throughout,
        zookeeper::{ZooKeeper, exchange, take_over},
    },
    zookeeper::forger::{Forger, Packet},
};

own_cases! { ZooKeeper, beside_others, a_node_created_after_its_release_is_removed }

/// Kinds of requests (`ZooDefs.OpCode`).
const CREATING: [i32; 2] = [14, 15];

/// Returns `true` if a packet creates a node with a number in a directory, by itself or in a
/// transaction.
fn creates(packet: &Packet<'_>, directory: &str) -> bool {
    let kind = packet.bytes[4..8].try_into().map(i32::from_be_bytes).expect("four bytes");
    let has = |text: &str| packet.bytes.windows(text.len()).any(|part| part == text.as_bytes());
    CREATING.contains(&kind) && has(&format!("{directory}/")) && has("lock-")
}

mod cases {
    use super::*;

    /// The reply to the first request to create a node is lost. That request reaches the server
    /// again long after the lock was released, together with a request to connect. A network that
    /// comes back delivers both, and makes a former connection the session's once more.
    pub(super) async fn a_node_created_after_its_release_is_removed(t: &Case<ZooKeeper>) {
        let (zookeeper, other) = (&t.store, t.client().await);
        // Kept by a node that is nobody's: the server removes an empty one.
        let directory = format!("{}/late", t.namespace);
        let persistent = CreateMode::Persistent.with_acls(Acls::anyone_all());
        zookeeper.client().mkdir(&directory, &persistent).await.expect("a directory");

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
        let recheck = Duration::from_secs(2);
        let url = format!("zk://{}", proxy.address);
        let client = t.connect(t.builder_for(&url).recheck_interval(recheck)).await;
        let lock = client.mutex("late");
        proxy.set(Mode::SwallowReply);
        let guard = lock.lock().await.unwrap();
        let session = t.store.session_of(guard.key()).await;
        guard.unlock().await.unwrap();
        // The looks soon after the doubt are over.
        tokio::time::sleep(Duration::from_secs(15)).await;

        let request = sent.lock().expect("no panic")[0].clone();
        // The client may be on its way back from the last time, and come in between.
        eventually(SOON, "the server creates the node", async || {
            let Ok(mut connection) = take_over(server, session).await else { return false };
            let reply = exchange(&mut connection, &request).await;
            reply.is_ok_and(|reply| reply[12..16] == [0; 4])
        })
        .await;
        let limit = recheck.mul_f64(1.25) + SOON;
        let next = other.mutex("late").lock_timeout(limit).await.unwrap();
        let next = next.expect("the late node does not block the lock for long");
        // The session lives on, and its own later nodes are left alone.
        next.unlock().await.unwrap();
        let again = lock.lock().await.unwrap();
        assert_eq!(t.store.session_of(again.key()).await, session);
        throughout(recheck * 2, "what is held stays", async || again.is_valid()).await;
        again.unlock().await.unwrap();
        zookeeper.client().delete(&directory, None).await.expect("it is empty");
    }
}
