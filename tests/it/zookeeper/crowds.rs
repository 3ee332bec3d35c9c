//! Hundreds of waiters of one client in one queue.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use tokio::{task::JoinSet, time::sleep};

use crate::{
    common::{
        Case, Members, SOON, eventually, own_cases, release, within,
        zookeeper::{Setup, ZooKeeper},
    },
    zookeeper::{
        directories::directory_of,
        forger::{Forger, Packet},
    },
};

const READERS: usize = 500;
const WAITERS: usize = 1300;

/// A safe number of bytes of paths in one session. A server can end a session with four times as
/// many.
const SAFE: usize = 512 * 1024;

/// Kinds of requests (`ZooDefs.OpCode`).
const GET_CHILDREN: [i32; 2] = [8, 12];
const MULTI_READ: i32 = 22;

/// Returns the kind of a request, except for a connect request.
fn kind(packet: &Packet<'_>) -> Option<i32> {
    let kind = packet.bytes.get(4..8).filter(|_| packet.number > 0)?;
    Some(i32::from_be_bytes(kind.try_into().ok()?))
}

own_cases! { ZooKeeper, beside_others,
    readers_list_their_queue_together,
    waiters_with_long_paths_need_several_sessions,
}

pub(crate) mod cases {
    use super::*;

    /// One list per reader, each of the whole queue, would take so long that the session expires.
    pub(crate) async fn readers_list_their_queue_together<const KIND: usize>(
        t: &Case<Setup<KIND>>,
    ) {
        let [lists, reads] = [(); 2].map(|()| Arc::new(AtomicUsize::new(0)));
        let (counted, reads_seen) = (Arc::clone(&lists), Arc::clone(&reads));
        let server = t.store.network().1[0];
        let forger = Forger::start(server, move |packet| match kind(&packet) {
            Some(kind) if GET_CHILDREN.contains(&kind) => _ = counted.fetch_add(1, SeqCst),
            Some(MULTI_READ) => _ = reads_seen.fetch_add(1, SeqCst),
            _ => {}
        })
        .await;
        let url = format!("zk://{}", forger.address);
        let recheck = Duration::from_secs(2);
        let (other, client) =
            (t.client().await, t.connect(t.builder_for(&url).recheck_interval(recheck)).await);
        let (zookeeper, elsewhere) = (&t.store, client.mutex("elsewhere").lock().await.unwrap());
        let writer = other.rw_lock("many").write().await.unwrap();
        let lock = client.rw_lock("many");
        let mut reading = JoinSet::new();
        for _ in 0..READERS {
            let lock = lock.clone();
            reading.spawn(async move { lock.read().await });
        }
        let directory = directory_of(writer.key());
        eventually(SOON * 2, "all readers have joined", async || {
            zookeeper.client().list_children(directory).await.unwrap().len() > READERS
        })
        .await;
        // Wait until each reader has read the queue and the writer's node.
        eventually(SOON * 2, "all readers wait", async || {
            let before = lists.load(SeqCst);
            sleep(Duration::from_millis(500)).await;
            lists.load(SeqCst) == before
        })
        .await;
        let joined = lists.swap(0, SeqCst);
        reads.store(0, SeqCst);
        eventually(SOON * 2, "each reader has rechecked", async || reads.load(SeqCst) > READERS)
            .await;
        let rechecked = lists.swap(0, SeqCst);
        writer.unlock().await.unwrap();
        let mut guards = Vec::new();
        while let Some(granted) =
            within(SOON * 2, "the readers are granted", reading.join_next()).await
        {
            guards.push(granted.unwrap().unwrap());
        }
        let granted = lists.load(SeqCst);
        println!("{READERS} readers: lists {joined} to join, {rechecked} to recheck, {granted}");
        assert!(joined < READERS / 2, "{joined}");
        assert_eq!(rechecked, 0);
        assert!(granted < READERS / 10, "{granted}");
        assert!(elsewhere.is_valid(), "the client keeps its other lock");
        release(guards).await;
        elsewhere.unlock().await.unwrap();
    }

    /// The server writes the paths of all nodes of a session into the transaction that ends it.
    /// With more than 2 MiB of paths no server can read that transaction, and the ensemble stops.
    pub(crate) async fn waiters_with_long_paths_need_several_sessions<const KIND: usize>(
        t: &Case<Setup<KIND>>,
    ) {
        let (namespace, name) = (format!("{}/{}", t.namespace, "n".repeat(200)), "w".repeat(250));
        let client = t.connect(t.builder().namespace(&namespace)).await;
        let (zookeeper, other) = (&t.store, t.connect(t.builder().namespace(&namespace)).await);
        let holder = other.mutex(&name).lock().await.unwrap();
        let mut waiting = JoinSet::new();
        for _ in 0..WAITERS {
            let mutex = client.mutex(&name);
            waiting.spawn(async move { mutex.lock().await });
        }
        let directory = directory_of(holder.key());
        let mut children = Vec::new();
        eventually(SOON * 3, "all waiters have joined", async || {
            children = zookeeper.client().list_children(directory).await.unwrap();
            children.len() > WAITERS
        })
        .await;
        let keys: Vec<_> = children.iter().map(|child| format!("{directory}/{child}")).collect();
        // Pipelined.
        let stats: Vec<_> = keys.iter().map(|key| zookeeper.client().check_stat(key)).collect();
        let mut bytes = HashMap::<_, usize>::new();
        for (key, stat) in keys.iter().zip(stats) {
            let stat = stat.await.unwrap().expect("the waiter's node exists");
            *bytes.entry(stat.ephemeral_owner).or_default() += key.len();
        }
        assert!(bytes.values().all(|bytes| *bytes <= SAFE), "{bytes:?}");
        waiting.shutdown().await;
        eventually(SOON * 3, "all waiters have left", async || {
            zookeeper.client().list_children(directory).await.unwrap().len() == 1
        })
        .await;
        holder.unlock().await.unwrap();
    }
}
