//! What others put into the queues: other languages' waiters, which count, and junk, which does
//! not.

use std::time::Duration;

use distlock_testkit::proxy::Mode;
use zookeeper_client::{Acls, CreateMode};

use crate::common::{
    Case, Harness, beside_others,
    case::{SOON, eventually, throughout, within},
    zookeeper::ZooKeeper,
};

/// Joins a queue as another library's client would, and gives its node.
async fn foreign_waiter(
    t: &Case,
    zookeeper: &ZooKeeper,
    name: &str,
    prefix: &str,
    data: &[u8],
) -> String {
    let (directory, raw) = (format!("{}/{name}", t.namespace), zookeeper.client());
    let container = CreateMode::Container.with_acls(Acls::anyone_all());
    raw.mkdir(&directory, &container).await.expect("a directory");
    let node = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
    let path = format!("{directory}/{prefix}");
    let (_, sequence) = raw.create(&path, data, &node).await.expect("a node");
    format!("{path}{sequence}")
}

/// As Curator's `InterProcessMutex` names its nodes, and as it did before it protected them.
const FOREIGN: [&str; 2] = ["_c_0f0e8a5e-8b8d-4a9e-9a3a-5d6c1b1f7a10-lock-", "lock-"];

/// As kazoo's `Lock` and `WriteLock`, and its `ReadLock`, name theirs.
const KAZOO: [&str; 2] =
    ["3c5b1f9a0e8d4a7fb2c6d1e09f8a7b6c__lock__", "3c5b1f9a0e8d4a7fb2c6d1e09f8a7b6c__rlock__"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn distlock_waits_for_curator_and_kazoo() {
    beside_others::<ZooKeeper>(async |t| {
        let (zookeeper, client) = (ZooKeeper::start().await, t.client().await);
        for prefix in FOREIGN.into_iter().chain(KAZOO) {
            let theirs = foreign_waiter(t, &zookeeper, "shared", prefix, b"").await;
            assert!(client.mutex("shared").try_lock().await.unwrap().is_none());
            let waiter = t.enqueue(&client, "shared").await;
            throughout(Duration::from_millis(300), "it has its turn first", async || {
                waiter.waits()
            })
            .await;
            zookeeper.delete_key(&theirs).await;
            waiter.served().await;
        }
    })
    .await;
}

/// Curator takes the lock when its node has the lowest sequence number, and watches the next lower
/// one until then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curator_waits_for_distlock() {
    beside_others::<ZooKeeper>(async |t| {
        let (zookeeper, client) = (ZooKeeper::start().await, t.client().await);
        let guard = client.mutex("shared").lock().await.unwrap();
        let number = |key: &str| {
            key.rsplit_once("lock-").expect("Curator looks for this").1.parse::<i32>().unwrap()
        };
        for prefix in FOREIGN {
            let theirs = foreign_waiter(t, &zookeeper, "shared", prefix, b"").await;
            assert!(number(guard.key()) < number(&theirs), "{} and {theirs}", guard.key());
            zookeeper.delete_key(&theirs).await;
        }
        let theirs = foreign_waiter(t, &zookeeper, "shared", FOREIGN[0], b"").await;
        let (_, _, watcher) = zookeeper.client().get_and_watch_data(guard.key()).await.unwrap();
        let last = t.enqueue(&client, "shared").await;
        guard.unlock().await.unwrap();
        within(SOON, "they hear that it is their turn", watcher.changed()).await;
        throughout(Duration::from_millis(300), "distlock waits behind them", async || last.waits())
            .await;
        zookeeper.delete_key(&theirs).await;
        last.served().await;
    })
    .await;
}

/// kazoo takes the lock when no name that ends in one of its patterns and a number has a lower
/// number than its own. It compares the ten characters, and watches the highest of the lower ones
/// until then. With `extra_lock_patterns=["-lock-"]` ours are among them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kazoo_waits_for_distlock() {
    beside_others::<ZooKeeper>(async |t| {
        let (zookeeper, client) = (ZooKeeper::start().await, t.client().await);
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
        let theirs = foreign_waiter(t, &zookeeper, "shared", KAZOO[0], b"").await;
        let last = t.enqueue(&client, "shared").await;
        assert!(number(guard.key()) < number(&theirs) && number(&theirs) < number(&last.key));
        let (_, _, watcher) = zookeeper.client().get_and_watch_data(guard.key()).await.unwrap();
        guard.unlock().await.unwrap();
        within(SOON, "they hear that it is their turn", watcher.changed()).await;
        throughout(Duration::from_millis(300), "distlock waits behind them", async || last.waits())
            .await;
        zookeeper.delete_key(&theirs).await;
        last.served().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn junk_is_passed_over() {
    beside_others::<ZooKeeper>(async |t| {
        let (zookeeper, client) = (ZooKeeper::start().await, t.client().await);
        let raw = zookeeper.client();
        let directory = format!("{}/junk", t.namespace);
        raw.mkdir(&directory, &CreateMode::Container.with_acls(Acls::anyone_all())).await.unwrap();
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
        let persistent = CreateMode::Persistent.with_acls(Acls::anyone_all());
        let megabyte = vec![b'v'; (1 << 20) - 1024];
        for name in names {
            raw.create(&format!("{directory}/{name}"), &megabyte, &persistent).await.unwrap();
        }
        raw.create(&format!("{directory}/junk/lock-0000000000"), b"", &persistent).await.unwrap();
        let guard = within(SOON, "junk is no holder", client.mutex("junk").try_lock())
            .await
            .unwrap()
            .unwrap();
        let waiter = t.enqueue(&client, "junk").await;
        raw.create(&format!("{directory}/between"), b"", &persistent).await.unwrap();
        throughout(Duration::from_millis(300), "the waiter waits", async || waiter.waits()).await;
        guard.unlock().await.unwrap();
        waiter.served().await;
        raw.delete(&format!("{directory}/junk/lock-0000000000"), None).await.unwrap();
        for name in names.iter().chain(&["between"]) {
            raw.delete(&format!("{directory}/{name}"), None)
                .await
                .expect("junk is not ours to delete");
        }
    })
    .await;
}

/// A waiter may watch a foreign node of any size, and is not woken for good by a change of its
/// data.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_and_changing_foreign_nodes_are_waited_for() {
    beside_others::<ZooKeeper>(async |t| {
        let (zookeeper, client) = (ZooKeeper::start().await, t.client().await);
        let megabyte = vec![b'v'; (1 << 20) - 1024];
        let theirs = foreign_waiter(t, &zookeeper, "large", FOREIGN[0], &megabyte).await;
        let waiter = t.enqueue(&client, "large").await;
        for data in ["one", "two", "three"] {
            zookeeper.client().set_data(&theirs, data.as_bytes(), None).await.unwrap();
            throughout(Duration::from_millis(100), "it has its turn first", async || {
                waiter.waits()
            })
            .await;
        }
        zookeeper.delete_key(&theirs).await;
        waiter.served().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_find_the_owner_in_the_node() {
    beside_others::<ZooKeeper>(async |t| {
        let zookeeper = ZooKeeper::start().await;
        let client = t.connect(t.builder().owner("worker-7 of gaia")).await;
        let guard = client.mutex("owned").lock().await.unwrap();
        let (data, stat) = zookeeper.get(guard.key()).await;
        assert!(String::from_utf8(data).unwrap().contains("worker-7 of gaia"));
        assert_ne!(stat.ephemeral_owner, 0, "it goes with its session");
        assert_eq!(
            stat.czxid,
            i64::try_from(guard.fencing_token().as_u64()).unwrap(),
            "the token can be looked up"
        );
        let unnamed = t.client().await.mutex("unnamed").lock().await.unwrap();
        let (data, _) = zookeeper.get(unnamed.key()).await;
        let process = std::process::id().to_string();
        assert!(
            String::from_utf8(data).unwrap().contains(&process),
            "by default it is the host and the process"
        );
    })
    .await;
}

/// The directory of a lock may be removed at any time that nobody is in it: between its making and
/// its use, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_that_vanishes_is_made_again() {
    beside_others::<ZooKeeper>(async |t| {
        let (zookeeper, client) = (ZooKeeper::start().await, t.client().await);
        let directory = format!("{}/vanishing", t.namespace);
        let (raw, path) = (zookeeper.client().clone(), directory.clone());
        let vandal = tokio::spawn(async move {
            loop {
                let _ = raw.delete(&path, None).await;
            }
        });
        for _ in 0..50 {
            let guard = within(SOON, "it is granted", client.mutex("vanishing").lock())
                .await
                .expect("granted");
            guard.unlock().await.unwrap();
        }
        vandal.abort();
        eventually(SOON, "nothing is left", async || t.keys().await.is_empty()).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curator_and_kazoo_are_seen_in_the_queue() {
    beside_others::<ZooKeeper>(async |t| {
        let (zookeeper, client) = (ZooKeeper::start().await, t.client().await);
        let mutex = client.mutex("shared");
        let mut theirs = Vec::new();
        for prefix in [FOREIGN[0], FOREIGN[1], KAZOO[0]] {
            theirs.push(foreign_waiter(t, &zookeeper, "shared", prefix, b"192.0.2.1").await);
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
        assert!(queue.is_sorted_by(|one, other| one.token() < other.token()));
        assert_eq!(mutex.holder().await.unwrap().as_ref(), queue.first());
        for key in theirs {
            zookeeper.delete_key(&key).await;
        }
        waiter.served().await;
    })
    .await;
}

/// What a node of another client's is for nobody knows: it is alone where readers share, and has a
/// permit where permits are counted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_are_not_shared_with() {
    beside_others::<ZooKeeper>(async |t| {
        let (zookeeper, client) = (ZooKeeper::start().await, t.client().await);
        let mut strangers = Vec::new();
        for (name, prefix) in [("m!rw", FOREIGN[0]), ("m!permits", KAZOO[0])] {
            strangers.push(foreign_waiter(t, &zookeeper, name, prefix, b"").await);
        }
        assert!(client.rw_lock("m").try_read().await.unwrap().is_none());
        assert!(client.semaphore("m", 1).try_acquire().await.unwrap().is_none());
        let permit = client.semaphore("m", 2).acquire().await.unwrap();
        let lock = client.rw_lock("m");
        let reader = t.stands(async move { lock.read().await }).await;
        throughout(Duration::from_millis(200), "it waits", async || reader.waits()).await;
        for stranger in strangers {
            zookeeper.delete_key(&stranger).await;
        }
        reader.granted().await.unlock().await.unwrap();
        permit.release().await.unwrap();
    })
    .await;
}

/// An operator writes over a node whose creation was not answered: its owner cannot know it again,
/// and all others would stand behind it for as long as the session lives.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_written_over_before_its_owner_knows_it_is_nobodys() {
    beside_others::<ZooKeeper>(async |t| {
        let (zookeeper, proxies) = (ZooKeeper::start().await, t.proxies().await);
        let client = t.connect(t.builder_for(&proxies.url())).await;
        client.mutex("over").lock().await.unwrap().unlock().await.unwrap();
        proxies.set(&Mode::SwallowReply);
        let lock = client.mutex("over");
        let waiter = tokio::spawn(async move { lock.lock().await });
        eventually(SOON, "its node is there", async || t.keys().await.len() == 1).await;
        proxies.set(&Mode::Refuse);
        let node = t.keys().await.remove(0);
        zookeeper.client().set_data(&node, b"a note", None).await.unwrap();
        proxies.set(&Mode::Pass);
        let guard = within(SOON * 3, "it is granted", waiter).await.unwrap().unwrap();
        assert_eq!(t.keys().await, [guard.key()]);
        guard.unlock().await.unwrap();
    })
    .await;
}
