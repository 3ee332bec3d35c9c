//! The directories of the queues: clients and operators create and remove them, sometimes with
//! restrictive rights.

use std::time::Duration;

use distlock_testkit::proxy::Mode;
use zookeeper_client::{Acl, AuthId, CreateMode, Permission};

use crate::common::{
    Case, Harness, SOON, eventually, handover, own_cases, release, release_both, throughout,
    within,
    zookeeper::{Setup, ZooKeeper},
};

/// Deletes a directory as an operator's `deleteall` does.
pub(crate) async fn delete_all<const KIND: usize>(zookeeper: &Setup<KIND>, directory: &str) {
    eventually(SOON, "the directory is deleted", async || {
        if let Ok(children) = zookeeper.client().list_children(directory).await {
            for child in children {
                let _ = zookeeper.client().delete(&format!("{directory}/{child}"), None).await;
            }
        }
        let _ = zookeeper.client().delete(directory, None).await;
        zookeeper.client().check_stat(directory).await.expect("a reply").is_none()
    })
    .await;
}

pub(crate) fn directory_of(key: &str) -> &str {
    key.rsplit_once('/').expect("a path").0
}

pub(crate) fn number(key: &str) -> &str {
    key.rsplit_once("lock-").expect("a waiter's node").1
}

async fn make_unwritable<const KIND: usize>(t: &Case<Setup<KIND>>, name: &str) {
    let directory = format!("{}/{name}", t.namespace);
    t.store.make_directory(&directory).await;
    let rights = Permission::READ | Permission::CREATE | Permission::DELETE | Permission::ADMIN;
    let acl = [Acl::new(rights, AuthId::anyone())];
    t.store.client().set_acl(&directory, &acl, None).await.expect("rights");
}

own_cases! { ZooKeeper, beside_others,
    reused_sequence_numbers_are_distinguished,
    a_late_release_spares_a_later_node_of_the_same_number,
    nodes_are_named_for_the_directory_they_are_in,
    a_taken_sequence_number_does_not_block_a_join,
    locks_work_in_an_unwritable_directory,
    a_join_whose_list_is_lost_leaves_one_node,
}

pub(crate) mod cases {
    use super::*;

    /// The sequence numbers restart with the directory. An old guard does not touch a new node that
    /// has its number.
    pub(crate) async fn reused_sequence_numbers_are_distinguished<const KIND: usize>(
        t: &Case<Setup<KIND>>,
    ) {
        let (zookeeper, [one, two]) = (&t.store, t.clients().await);
        for warm in [false, true] {
            // A client that knows the directory names its nodes after it.
            let count = if warm { 3 } else { 0 };
            for client in [&one, &two] {
                for _ in 0..count {
                    client.mutex("again").lock().await.unwrap().unlock().await.unwrap();
                }
            }
            let old = one.mutex("again").lock().await.unwrap();
            delete_all(zookeeper, directory_of(old.key())).await;
            let mut new = two.mutex("again").lock().await.unwrap();
            while number(new.key()) < number(old.key()) {
                let next = t.enqueue(&two, "again").await;
                new = handover(new, next).await;
            }
            assert_eq!(number(new.key()), number(old.key()));
            assert!(new.fencing_token() > old.fencing_token());
            let waiter = t.enqueue(&one, "again").await;
            let _ = old.unlock().await;
            waiter.waits_behind(&new, Duration::from_millis(500)).await;
            assert!(t.keys().await.iter().any(|key| key == new.key()));
            release_both(new, waiter).await;
        }
    }

    /// The reply to a release is lost, and the release is repeated when another node has its
    /// number.
    pub(crate) async fn a_late_release_spares_a_later_node_of_the_same_number<const KIND: usize>(
        t: &Case<Setup<KIND>>,
    ) {
        let proxies = t.proxies().await;
        let (client, other) = (t.hasty_client_by(&*proxies).await, t.client().await);
        let marker = client.mutex("marker").lock().await.unwrap();
        let old = client.mutex("late").lock().await.unwrap();
        let key = old.key().to_owned();
        proxies.set(&Mode::BlackholeToClient);
        let unlocking = tokio::spawn(old.unlock());
        eventually(SOON, "the lock is released", async || !t.keys().await.contains(&key)).await;
        delete_all(&t.store, directory_of(&key)).await;
        let new = other.mutex("late").lock().await.unwrap();
        assert_eq!(number(new.key()), number(&key));
        assert!(!unlocking.is_finished());
        // Longer than a request timeout, so the release is repeated.
        throughout(Duration::from_millis(1500), "the new guard holds the lock", async || {
            new.is_valid()
        })
        .await;
        proxies.set(&Mode::Pass);
        throughout(Duration::from_millis(500), "the new guard holds the lock", async || {
            new.is_valid()
        })
        .await;
        assert!(t.keys().await.iter().any(|key| key == new.key()));
        let _ = unlocking.await.unwrap();
        release([marker, new]).await;
    }

    /// A client that knows a directory notices its replacement.
    pub(crate) async fn nodes_are_named_for_the_directory_they_are_in<const KIND: usize>(
        t: &Case<Setup<KIND>>,
    ) {
        let (zookeeper, [one, two]) = (&t.store, t.clients().await);
        let is_named = async |key: &str| {
            let (_, stat) = zookeeper.get(directory_of(key)).await;
            key.contains(&format!("/{:x}-lock-", stat.czxid))
        };
        let mut named = 0;
        for _ in 0..20 {
            one.mutex("renewed").lock().await.unwrap().unlock().await.unwrap();
            let guard = one.mutex("renewed").lock().await.unwrap();
            // A directory may be removed in between.
            named += i32::from(is_named(guard.key()).await);
            delete_all(zookeeper, directory_of(guard.key())).await;
            drop(guard);
            let (theirs, waiter) = t.contended(&two, &one, "renewed").await;
            // Its first node, named after the old directory, holds no place.
            eventually(SOON, "the node is named after the new directory", async || {
                let keys = t.keys().await;
                let mut others = keys.iter().filter(|key| *key != theirs.key());
                matches!((others.next(), others.next()), (Some(key), None) if is_named(key).await)
            })
            .await;
            release_both(theirs, waiter).await;
        }
        assert!(named > 10, "{named} of 20 knew the directory");
    }

    /// An operator has created a node with the next number.
    pub(crate) async fn a_taken_sequence_number_does_not_block_a_join<const KIND: usize>(
        t: &Case<Setup<KIND>>,
    ) {
        let (zookeeper, client) = (&t.store, t.client().await);
        let (marker, second) = t.contended(&client, &client, "taken").await;
        let directory = directory_of(&second.key).to_owned();
        let next: u32 = number(&second.key).parse::<u32>().unwrap() + 1;
        // Creating it uses one more number.
        let prefix = second.key.strip_suffix(number(&second.key)).unwrap();
        let theirs = format!("{prefix}{:010}", next + 1);
        zookeeper.make(&theirs, b"", CreateMode::Ephemeral).await;
        let third = t.enqueue(&client, "taken").await;
        assert_eq!(directory_of(&third.key), directory);
        assert_eq!(number(&third.key), number(&theirs));
        release_both(marker, second).await;
        third
            .waits_throughout(
                Duration::from_millis(200),
                "the foreign node of the same number is ahead",
            )
            .await;
        zookeeper.delete_key(&theirs).await;
        third.served().await;
    }

    /// An operator has made the directory read-only, so clients list it.
    pub(crate) async fn locks_work_in_an_unwritable_directory<const KIND: usize>(
        t: &Case<Setup<KIND>>,
    ) {
        let [one, two] = t.clients().await;
        make_unwritable(t, "unwritten").await;
        let guard = one.mutex("unwritten").lock().await.unwrap();
        let waiters = t.enqueue_all([&two, &one, &two], "unwritten").await;
        assert!(two.mutex("unwritten").try_lock().await.unwrap().is_none());
        throughout(Duration::from_millis(200), "the waiters wait", async || waiters[0].waits())
            .await;
        guard.unlock().await.unwrap();
        release(waiters).await;
        assert!(one.mutex("unwritten").try_lock().await.unwrap().is_some());
    }

    /// The node is known to exist, and the reply with the list is lost.
    pub(crate) async fn a_join_whose_list_is_lost_leaves_one_node<const KIND: usize>(
        t: &Case<Setup<KIND>>,
    ) {
        let proxies = t.proxies().await;
        let (client, other) = (t.hasty_client_by(&*proxies).await, t.client().await);
        let marker = client.mutex("marker").lock().await.unwrap();
        make_unwritable(t, "unlisted").await;
        let guard = other.mutex("unlisted").lock().await.unwrap();
        let name = guard.key().rsplit_once('/').unwrap().1;
        proxies.set(&Mode::DropOne(name.as_bytes().into()));
        let waiter = t.enqueue(&client, "unlisted").await;
        throughout(Duration::from_millis(1200), "it retries without another node", async || {
            t.keys().await.len() == 3 && waiter.waits()
        })
        .await;
        release_both(guard, waiter).await;
        proxies.set(&Mode::Pass);
        within(SOON, "the marker is released", marker.unlock()).await.unwrap();
    }
}
