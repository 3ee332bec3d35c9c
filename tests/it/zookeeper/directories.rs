//! The directories of the queues: they are made, removed, and made again, by others too, and not
//! always with the rights that one would like.

use std::time::Duration;

use distlock_testkit::proxy::Mode;
use zookeeper_client::{Acl, Acls, AuthId, CreateMode, Permission};

use crate::common::{
    Case, Harness, beside_others,
    case::{SOON, eventually, throughout, within},
    zookeeper::ZooKeeper,
};

/// An operator's `deleteall`.
pub(crate) async fn delete_all(zookeeper: &ZooKeeper, directory: &str) {
    eventually(SOON, "the directory is gone", async || {
        if let Ok(children) = zookeeper.client().list_children(directory).await {
            for child in children {
                let _ = zookeeper.client().delete(&format!("{directory}/{child}"), None).await;
            }
        }
        let _ = zookeeper.client().delete(directory, None).await;
        zookeeper.client().check_stat(directory).await.expect("an answer").is_none()
    })
    .await;
}

pub(crate) fn directory_of(key: &str) -> &str {
    key.rsplit_once('/').expect("a path").0
}

pub(crate) fn number(key: &str) -> &str {
    key.rsplit_once("lock-").expect("a waiter's node").1
}

/// The numbers begin again with the directory. What is left of an old guard, which has the number
/// that another has now, does not touch the new one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_that_come_back_are_told_apart() {
    beside_others::<ZooKeeper>(async |t| {
        let (zookeeper, [one, two]) = (ZooKeeper::start().await, t.clients().await);
        for warm in [false, true] {
            // A client that knows the directory names its nodes for it.
            let count = if warm { 3 } else { 0 };
            for client in [&one, &two] {
                for _ in 0..count {
                    client.mutex("again").lock().await.unwrap().unlock().await.unwrap();
                }
            }
            let old = one.mutex("again").lock().await.unwrap();
            delete_all(&zookeeper, directory_of(old.key())).await;
            let mut new = two.mutex("again").lock().await.unwrap();
            while number(new.key()) < number(old.key()) {
                let next = t.enqueue(&two, "again").await;
                new.unlock().await.unwrap();
                new = next.granted().await;
            }
            assert_eq!(number(new.key()), number(old.key()));
            assert!(new.fencing_token() > old.fencing_token());
            let waiter = t.enqueue(&one, "again").await;
            let _ = old.unlock().await;
            throughout(Duration::from_millis(500), "the new one holds the lock", async || {
                new.is_valid() && waiter.waits()
            })
            .await;
            assert!(t.keys().await.iter().any(|key| key == new.key()));
            new.unlock().await.unwrap();
            waiter.served().await;
        }
    })
    .await;
}

/// The same with a release whose reply was lost, and that is repeated when the number is another's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_release_spares_who_has_its_number() {
    beside_others::<ZooKeeper>(async |t| {
        let (zookeeper, proxies) = (ZooKeeper::start().await, t.proxies().await);
        let builder = t.builder_for(&proxies.url()).request_timeout(Duration::from_millis(500));
        let (client, other) = (t.connect(builder).await, t.client().await);
        let marker = client.mutex("marker").lock().await.unwrap();
        let old = client.mutex("late").lock().await.unwrap();
        let key = old.key().to_owned();
        proxies.set(&Mode::BlackholeToClient);
        let unlocking = tokio::spawn(old.unlock());
        eventually(SOON, "it is released", async || !t.keys().await.contains(&key)).await;
        delete_all(&zookeeper, directory_of(&key)).await;
        let new = other.mutex("late").lock().await.unwrap();
        assert_eq!(number(new.key()), number(&key));
        assert!(!unlocking.is_finished());
        // More than a request timeout: it is repeated.
        throughout(Duration::from_millis(1500), "the new one holds the lock", async || {
            new.is_valid()
        })
        .await;
        proxies.set(&Mode::Pass);
        throughout(Duration::from_millis(500), "the new one holds the lock", async || {
            new.is_valid()
        })
        .await;
        assert!(t.keys().await.iter().any(|key| key == new.key()));
        let _ = unlocking.await.unwrap();
        for guard in [marker, new] {
            guard.unlock().await.unwrap();
        }
    })
    .await;
}

/// A client that has known a directory takes the one that has replaced it for what it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_are_named_for_the_directory_they_are_in() {
    beside_others::<ZooKeeper>(async |t| {
        let (zookeeper, [one, two]) = (ZooKeeper::start().await, t.clients().await);
        let is_named = async |key: &str| {
            let (_, stat) = zookeeper.get(directory_of(key)).await;
            key.contains(&format!("/{:x}-lock-", stat.czxid))
        };
        let mut named = 0;
        for _ in 0..20 {
            one.mutex("renewed").lock().await.unwrap().unlock().await.unwrap();
            let guard = one.mutex("renewed").lock().await.unwrap();
            // A directory may vanish by itself in between.
            named += i32::from(is_named(guard.key()).await);
            delete_all(&zookeeper, directory_of(guard.key())).await;
            drop(guard);
            let theirs = two.mutex("renewed").lock().await.unwrap();
            let waiter = t.enqueue(&one, "renewed").await;
            // Its first node, named for the old one, is no place.
            eventually(SOON, "it is named for the new one", async || {
                let keys = t.keys().await;
                let mut others = keys.iter().filter(|key| *key != theirs.key());
                matches!((others.next(), others.next()), (Some(key), None) if is_named(key).await)
            })
            .await;
            theirs.unlock().await.unwrap();
            waiter.served().await;
        }
        assert!(named > 10, "{named} of 20 knew the directory");
    })
    .await;
}

/// A node that somebody has made by hand has the next number.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_number_that_is_taken_is_no_obstacle() {
    beside_others::<ZooKeeper>(async |t| {
        let (zookeeper, client) = (ZooKeeper::start().await, t.client().await);
        let marker = client.mutex("taken").lock().await.unwrap();
        let second = t.enqueue(&client, "taken").await;
        let (directory, raw) = (directory_of(&second.key).to_owned(), zookeeper.client());
        let next: u32 = number(&second.key).parse::<u32>().unwrap() + 1;
        // Making it takes one number more.
        let prefix = second.key.strip_suffix(number(&second.key)).unwrap();
        let theirs = format!("{prefix}{:010}", next + 1);
        raw.create(&theirs, b"", &CreateMode::Ephemeral.with_acls(Acls::anyone_all()))
            .await
            .unwrap();
        let third = t.enqueue(&client, "taken").await;
        assert_eq!(directory_of(&third.key), directory);
        assert_eq!(number(&third.key), number(&theirs));
        marker.unlock().await.unwrap();
        second.served().await;
        throughout(Duration::from_millis(200), "who has the same number goes first", async || {
            third.waits()
        })
        .await;
        raw.delete(&theirs, None).await.unwrap();
        third.served().await;
    })
    .await;
}

async fn make_unwritable(t: &Case, zookeeper: &ZooKeeper, name: &str) {
    let (raw, directory) = (zookeeper.client(), format!("{}/{name}", t.namespace));
    raw.mkdir(&directory, &CreateMode::Container.with_acls(Acls::anyone_all()))
        .await
        .expect("a directory");
    let rights = Permission::READ | Permission::CREATE | Permission::DELETE | Permission::ADMIN;
    raw.set_acl(&directory, &[Acl::new(rights, AuthId::anyone())], None).await.expect("rights");
}

/// An operator lets nobody write to the directory: then it is listed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_that_cannot_be_written_to_serves() {
    beside_others::<ZooKeeper>(async |t| {
        let (zookeeper, [one, two]) = (ZooKeeper::start().await, t.clients().await);
        make_unwritable(t, &zookeeper, "unwritten").await;
        let guard = one.mutex("unwritten").lock().await.unwrap();
        let mut waiters = Vec::new();
        for client in [&two, &one, &two] {
            waiters.push(t.enqueue(client, "unwritten").await);
        }
        assert!(two.mutex("unwritten").try_lock().await.unwrap().is_none());
        throughout(Duration::from_millis(200), "they wait", async || waiters[0].waits()).await;
        guard.unlock().await.unwrap();
        for waiter in waiters {
            waiter.served().await;
        }
        assert!(one.mutex("unwritten").try_lock().await.unwrap().is_some());
    })
    .await;
}

/// The node is known to be there, and the list is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_whose_list_is_lost_leaves_one_node() {
    beside_others::<ZooKeeper>(async |t| {
        let (zookeeper, proxies) = (ZooKeeper::start().await, t.proxies().await);
        let builder = t.builder_for(&proxies.url()).request_timeout(Duration::from_millis(500));
        let (client, other) = (t.connect(builder).await, t.client().await);
        let marker = client.mutex("marker").lock().await.unwrap();
        make_unwritable(t, &zookeeper, "unlisted").await;
        let guard = other.mutex("unlisted").lock().await.unwrap();
        let name = guard.key().rsplit_once('/').unwrap().1;
        proxies.set(&Mode::DropOne(name.as_bytes().into()));
        let waiter = t.enqueue(&client, "unlisted").await;
        throughout(Duration::from_millis(1200), "it asks again without another node", async || {
            t.keys().await.len() == 3 && waiter.waits()
        })
        .await;
        guard.unlock().await.unwrap();
        waiter.served().await;
        proxies.set(&Mode::Pass);
        within(SOON, "it is released", marker.unlock()).await.unwrap();
    })
    .await;
}
