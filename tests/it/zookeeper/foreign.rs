//! Nodes of other clients in the queues: waiters of other libraries, which count, and junk, which
//! does not.

use std::time::Duration;

use distlock_testkit::proxy::Mode;
use zookeeper_client::CreateMode;

use crate::common::{
    Case, Harness, SOON, Waiter,
    cases::strangers,
    eventually, own_cases, release_both, take_turn, within,
    zookeeper::{Setup, ZooKeeper},
};

/// Joins a queue as another library's client would, and returns its node.
async fn foreign_waiter<const KIND: usize>(
    t: &Case<Setup<KIND>>,
    name: &str,
    prefix: &str,
    data: &[u8],
) -> String {
    let directory = format!("{}/{name}", t.namespace);
    t.store.make_directory(&directory).await;
    t.store.stranger(&format!("{directory}/{prefix}"), data).await
}

/// Names of Curator's `InterProcessMutex` nodes, with protection and without, as in old versions.
const FOREIGN: [&str; 2] = ["_c_0f0e8a5e-8b8d-4a9e-9a3a-5d6c1b1f7a10-lock-", "lock-"];

/// Names of the nodes of kazoo's `Lock` and `WriteLock`, and of its `ReadLock`.
const KAZOO: [&str; 2] =
    ["3c5b1f9a0e8d4a7fb2c6d1e09f8a7b6c__lock__", "3c5b1f9a0e8d4a7fb2c6d1e09f8a7b6c__rlock__"];

own_cases! { ZooKeeper, beside_others,
    distlock_waits_for_curator_and_kazoo,
    curator_waits_for_distlock,
    kazoo_waits_for_distlock,
    junk_is_passed_over,
    large_and_changing_foreign_nodes_are_waited_for,
    operators_find_the_owner_in_the_node,
    a_directory_that_vanishes_is_made_again,
    curator_and_kazoo_are_seen_in_the_queue,
    foreign_entries_are_exclusive,
    a_node_overwritten_before_its_create_reply_is_removed,
}

pub(crate) mod cases {
    use super::*;

    pub(crate) async fn distlock_waits_for_curator_and_kazoo<const KIND: usize>(
        t: &Case<Setup<KIND>>,
    ) {
        let (zookeeper, client) = (&t.store, t.client().await);
        for prefix in FOREIGN.into_iter().chain(KAZOO) {
            let theirs = foreign_waiter(t, "shared", prefix, b"").await;
            assert!(client.mutex("shared").try_lock().await.unwrap().is_none());
            let waiter = t.enqueue(&client, "shared").await;
            waiter.waits_throughout(Duration::from_millis(300), "the foreign node is ahead").await;
            zookeeper.delete_key(&theirs).await;
            waiter.served().await;
        }
    }

    /// Curator acquires the lock when its node has the lowest sequence number. Until then it
    /// watches the next lower one.
    pub(crate) async fn curator_waits_for_distlock<const KIND: usize>(t: &Case<Setup<KIND>>) {
        let (zookeeper, client) = (&t.store, t.client().await);
        let guard = client.mutex("shared").lock().await.unwrap();
        let number = |key: &str| {
            key.rsplit_once("lock-").expect("Curator splits names here").1.parse::<i32>().unwrap()
        };
        for prefix in FOREIGN {
            let theirs = foreign_waiter(t, "shared", prefix, b"").await;
            assert!(number(guard.key()) < number(&theirs), "{} and {theirs}", guard.key());
            zookeeper.delete_key(&theirs).await;
        }
        let theirs = foreign_waiter(t, "shared", FOREIGN[0], b"").await;
        let (_, _, watcher) = zookeeper.client().get_and_watch_data(guard.key()).await.unwrap();
        let last = t.enqueue(&client, "shared").await;
        guard.unlock().await.unwrap();
        within(SOON, "the foreign waiter is notified", watcher.changed()).await;
        last.waits_throughout(Duration::from_millis(300), "distlock waits behind Curator").await;
        zookeeper.delete_key(&theirs).await;
        last.served().await;
    }

    /// kazoo acquires the lock when no name with one of its patterns and a number has a lower
    /// number. It compares the ten digits, and until then watches the highest of the lower names.
    /// With `extra_lock_patterns=["-lock-"]` it counts our names.
    pub(crate) async fn kazoo_waits_for_distlock<const KIND: usize>(t: &Case<Setup<KIND>>) {
        let (zookeeper, client) = (&t.store, t.client().await);
        let number = |key: &str| {
            let (mark, number) = key.split_at(key.len() - 10);
            assert!(
                mark.ends_with("-lock-") || mark.ends_with("__lock__"),
                "kazoo overlooks {key}"
            );
            assert!(number.bytes().all(|byte| byte.is_ascii_digit()), "kazoo overlooks {key}");
            number.to_owned()
        };
        let guard = client.mutex("shared").lock().await.unwrap();
        let theirs = foreign_waiter(t, "shared", KAZOO[0], b"").await;
        let last = t.enqueue(&client, "shared").await;
        assert!(number(guard.key()) < number(&theirs) && number(&theirs) < number(&last.key));
        let (_, _, watcher) = zookeeper.client().get_and_watch_data(guard.key()).await.unwrap();
        guard.unlock().await.unwrap();
        within(SOON, "the foreign waiter is notified", watcher.changed()).await;
        last.waits_throughout(Duration::from_millis(300), "distlock waits behind kazoo").await;
        zookeeper.delete_key(&theirs).await;
        last.served().await;
    }

    pub(crate) async fn junk_is_passed_over<const KIND: usize>(t: &Case<Setup<KIND>>) {
        let (zookeeper, client) = (&t.store, t.client().await);
        let raw = zookeeper.client();
        let directory = format!("{}/junk", t.namespace);
        zookeeper.make_directory(&directory).await;
        let names = [
            "junk",
            "lock-",
            "lock-7",
            "lock-00000000007",
            "_c_lock-x",
            "0000000000",
            "ключ",
            "a b",
        ];
        let megabyte = vec![b'v'; (1 << 20) - 1024];
        for name in names {
            zookeeper.make(&format!("{directory}/{name}"), &megabyte, CreateMode::Persistent).await;
        }
        zookeeper
            .make(&format!("{directory}/junk/lock-0000000000"), b"", CreateMode::Persistent)
            .await;
        let guard = within(SOON, "junk is no holder", client.mutex("junk").try_lock())
            .await
            .unwrap()
            .unwrap();
        let waiter = t.enqueue(&client, "junk").await;
        zookeeper.make(&format!("{directory}/between"), b"", CreateMode::Persistent).await;
        waiter.waits_throughout(Duration::from_millis(300), "the waiter waits").await;
        release_both(guard, waiter).await;
        raw.delete(&format!("{directory}/junk/lock-0000000000"), None).await.unwrap();
        for name in names.iter().chain(&["between"]) {
            raw.delete(&format!("{directory}/{name}"), None)
                .await
                .expect("junk is not ours to delete");
        }
    }

    /// A waiter may watch a foreign node of any size, and keeps waiting when its data changes.
    pub(crate) async fn large_and_changing_foreign_nodes_are_waited_for<const KIND: usize>(
        t: &Case<Setup<KIND>>,
    ) {
        let (zookeeper, client) = (&t.store, t.client().await);
        let megabyte = vec![b'v'; (1 << 20) - 1024];
        let theirs = foreign_waiter(t, "large", FOREIGN[0], &megabyte).await;
        let waiter = t.enqueue(&client, "large").await;
        for data in ["one", "two", "three"] {
            zookeeper.client().set_data(&theirs, data.as_bytes(), None).await.unwrap();
            waiter.waits_throughout(Duration::from_millis(100), "the foreign node is ahead").await;
        }
        zookeeper.delete_key(&theirs).await;
        waiter.served().await;
    }

    pub(crate) async fn operators_find_the_owner_in_the_node<const KIND: usize>(
        t: &Case<Setup<KIND>>,
    ) {
        let zookeeper = &t.store;
        let client = t.connect(t.builder().owner("worker-7 of gaia")).await;
        let guard = client.mutex("owned").lock().await.unwrap();
        let (data, stat) = zookeeper.get(guard.key()).await;
        assert!(String::from_utf8(data).unwrap().contains("worker-7 of gaia"));
        assert_ne!(stat.ephemeral_owner, 0, "the node is ephemeral");
        assert_eq!(
            stat.czxid,
            i64::try_from(guard.fencing_token().as_u64()).unwrap(),
            "the token is the node's czxid"
        );
        let unnamed = t.client().await.mutex("unnamed").lock().await.unwrap();
        let (data, _) = zookeeper.get(unnamed.key()).await;
        let process = std::process::id().to_string();
        assert!(
            String::from_utf8(data).unwrap().contains(&process),
            "the default owner is the host and the process"
        );
    }

    /// The server may remove an empty directory of a lock at any time, even between its creation
    /// and its use.
    pub(crate) async fn a_directory_that_vanishes_is_made_again<const KIND: usize>(
        t: &Case<Setup<KIND>>,
    ) {
        let (zookeeper, client) = (&t.store, t.client().await);
        let directory = format!("{}/vanishing", t.namespace);
        let (raw, path) = (zookeeper.client().clone(), directory.clone());
        let vandal = tokio::spawn(async move {
            loop {
                let _ = raw.delete(&path, None).await;
            }
        });
        for _ in 0..50 {
            take_turn(&client, "vanishing").await;
        }
        vandal.abort();
        eventually(SOON, "nothing is left", async || t.keys().await.is_empty()).await;
    }

    pub(crate) async fn curator_and_kazoo_are_seen_in_the_queue<const KIND: usize>(
        t: &Case<Setup<KIND>>,
    ) {
        let (zookeeper, client) = (&t.store, t.client().await);
        let mutex = client.mutex("shared");
        let mut theirs = Vec::new();
        for prefix in [FOREIGN[0], FOREIGN[1], KAZOO[0]] {
            theirs.push(foreign_waiter(t, "shared", prefix, b"192.0.2.1").await);
        }
        let waiter = t.enqueue(&client, "shared").await;
        let queue = mutex.queue().await.unwrap();
        assert_eq!(queue.len(), 4);
        for (position, (entry, key)) in
            queue.iter().zip(theirs.iter().chain([&waiter.key])).enumerate()
        {
            assert_eq!((entry.position(), entry.key()), (position, &**key));
            assert!(entry.since().is_some());
            assert_eq!(entry.is_own(), position == 3);
            assert_eq!(entry.owner() == "192.0.2.1", position < 3);
        }
        assert!(queue.is_sorted_by(|one, other| one.fencing_token() < other.fencing_token()));
        assert_eq!(mutex.holder().await.unwrap().as_ref(), queue.first());
        for key in theirs {
            zookeeper.delete_key(&key).await;
        }
        waiter.served().await;
    }

    /// The purpose of a foreign node is unknown. It counts as exclusive among readers, and as one
    /// permit of a semaphore.
    pub(crate) async fn foreign_entries_are_exclusive<const KIND: usize>(t: &Case<Setup<KIND>>) {
        let strangers = [
            foreign_waiter(t, "m!rw", FOREIGN[0], b"").await,
            foreign_waiter(t, "m!permits", KAZOO[0], b"").await,
        ];
        strangers::are_not_shared_with(t, strangers).await;
    }

    /// An operator overwrites a node before its owner got the reply to its creation. The owner
    /// cannot recognize it, and other clients would wait for it until the session ends.
    pub(crate) async fn a_node_overwritten_before_its_create_reply_is_removed<const KIND: usize>(
        t: &Case<Setup<KIND>>,
    ) {
        let (zookeeper, proxies) = (&t.store, t.proxies().await);
        let client = t.connect(t.builder_for(&proxies.url())).await;
        client.mutex("over").lock().await.unwrap().unlock().await.unwrap();
        proxies.set(&Mode::SwallowReply);
        let waiter = Waiter::of(&client, "over");
        eventually(SOON, "its node exists", async || t.keys().await.len() == 1).await;
        proxies.set(&Mode::Refuse);
        let node = t.keys().await.remove(0);
        zookeeper.client().set_data(&node, b"a note", None).await.unwrap();
        proxies.set(&Mode::Pass);
        let guard = waiter.result(SOON * 3).await.expect("granted");
        assert_eq!(t.keys().await, [guard.key()]);
        guard.unlock().await.unwrap();
    }
}
