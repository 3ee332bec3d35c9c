//! Persistent nodes with the names of waiters: created by an operator, restored from a backup, or
//! by kazoo with `ephemeral=False`. No session's end removes them, so they hold no place.

use std::time::Duration;

use zookeeper_client::{Acls, CreateMode};

use crate::common::{
    Case, Harness, SOON, locked, own_cases, release, release_both, throughout, within,
    zookeeper::{Setup, ZooKeeper},
};

/// Names ahead of all later ones: Curator's, kazoo's, distlock's, and distlock's with a label.
const NAMES: [&str; 6] = [
    "lock-0000000000",
    "_c_0f0e8a5e-8b8d-4a9e-9a3a-5d6c1b1f7a10-lock-0000000000",
    "3c5b1f9a0e8d4a7fb2c6d1e09f8a7b6c__lock__0000000000",
    "2a-lock-0000000000",
    "2a-w-lock-0000000000",
    "2a-1of1-lock-0000000000",
];

struct Junk<'a, const KIND: usize> {
    zookeeper: &'a Setup<KIND>,
    directory: String,
    nodes: Vec<String>,
}

impl<'a, const KIND: usize> Junk<'a, KIND> {
    async fn new(t: &'a Case<Setup<KIND>>, name: &str, names: &[&str]) -> Self {
        let directory = format!("{}/{name}", t.namespace);
        let zookeeper = &t.store;
        let container = CreateMode::Container.with_acls(Acls::anyone_all());
        let mut junk = Self { zookeeper, directory, nodes: Vec::new() };
        let keeper = format!("{}/keeps the directory", junk.directory);
        let persistent = CreateMode::Persistent.with_acls(Acls::anyone_all());
        // The server may remove an empty container at any moment, including the one of an earlier
        // round.
        let make = async || {
            zookeeper.client().mkdir(&junk.directory, &container).await?;
            zookeeper.client().create(&keeper, b"", &persistent).await
        };
        while let Err(error) = make().await {
            assert_eq!(error, zookeeper_client::Error::NoNode, "no directory with a node");
        }
        junk.nodes.push(keeper);
        for name in names {
            junk.add(name, CreateMode::Persistent).await;
        }
        junk
    }

    async fn add(&mut self, name: &str, mode: CreateMode) {
        let path = format!("{}/{name}", self.directory);
        self.zookeeper.make(&path, b"", mode).await;
        self.nodes.push(path);
    }

    /// Deletes the junk, all of which must still exist.
    async fn delete(self) {
        for node in self.nodes {
            self.zookeeper.client().delete(&node, None).await.expect("junk is not ours to delete");
        }
    }
}

own_cases! { ZooKeeper, beside_others,
    a_persistent_node_named_like_a_waiter_holds_no_place,
    a_persistent_node_in_the_place_just_ahead_is_passed_over,
    junk_that_is_deleted_grants_nothing,
    a_waiter_under_the_name_of_junk_is_waited_for,
    junk_counts_neither_as_reader_nor_writer_nor_permit,
    a_writer_does_not_wait_for_junk_that_looks_like_one_of_ours,
}

pub(crate) mod cases {
    use super::*;

    pub(crate) async fn a_persistent_node_named_like_a_waiter_holds_no_place<const KIND: usize>(
        t: &Case<Setup<KIND>>,
    ) {
        let [one, two] = t.clients().await;
        let mut junk = Junk::new(t, "m", &NAMES).await;
        junk.add("lock-0000000001", CreateMode::Container).await;
        let mutex = one.mutex("m");
        let guard = within(SOON, "the lock is free", mutex.try_lock())
            .await
            .unwrap()
            .expect("the lock is free");
        guard.unlock().await.unwrap();
        let guard = within(SOON, "the lock is free", mutex.lock()).await.unwrap();
        assert!(two.mutex("m").try_lock().await.unwrap().is_none(), "the lock is held");
        let waiters = [t.enqueue(&two, "m").await, t.enqueue(&one, "m").await];
        let queue = mutex.queue().await.unwrap();
        assert!(queue.iter().map(|entry| entry.key()).eq([
            guard.key(),
            &waiters[0].key,
            &waiters[1].key
        ]));
        throughout(Duration::from_millis(300), "the waiters wait", async || {
            waiters.iter().all(|one| one.waits())
        })
        .await;
        guard.unlock().await.unwrap();
        release(waiters).await;
        junk.delete().await;
    }

    /// Junk has the number just below the waiter's, under the name that a predecessor would have.
    pub(crate) async fn a_persistent_node_in_the_place_just_ahead_is_passed_over<
        const KIND: usize,
    >(
        t: &Case<Setup<KIND>>,
    ) {
        let client = t.client().await;
        let mut junk = Junk::new(t, "m", &[]).await;
        let mutex = client.mutex("m");
        mutex.lock().await.unwrap().unlock().await.unwrap();
        let guard = mutex.lock().await.unwrap();
        let (prefix, number) = guard.key().split_at(guard.key().len() - 10);
        let next: u32 = number.parse().unwrap();
        // Creating the node uses one number.
        junk.add(
            &format!("{}{:010}", prefix.rsplit_once('/').unwrap().1, next + 1),
            CreateMode::Persistent,
        )
        .await;
        let waiter = t.enqueue(&client, "m").await;
        assert!(waiter.key.ends_with(&format!("-lock-{:010}", next + 2)), "{}", waiter.key);
        waiter.waits_throughout(Duration::from_millis(300), "the waiter waits").await;
        release_both(guard, waiter).await;
        junk.delete().await;
    }

    pub(crate) async fn junk_that_is_deleted_grants_nothing<const KIND: usize>(
        t: &Case<Setup<KIND>>,
    ) {
        let [one, two] = t.clients().await;
        let junk = Junk::new(t, "m", &NAMES).await;
        let guard = locked(&one, "m").await;
        let waiters =
            [t.enqueue(&two, "m").await, t.enqueue(&one, "m").await, t.enqueue(&two, "m").await];
        junk.delete().await;
        throughout(Duration::from_millis(500), "the waiters wait", async || {
            guard.is_valid() && waiters.iter().all(|one| one.waits())
        })
        .await;
        guard.unlock().await.unwrap();
        release(waiters).await;
    }

    /// A later node of the same name is not taken for junk.
    pub(crate) async fn a_waiter_under_the_name_of_junk_is_waited_for<const KIND: usize>(
        t: &Case<Setup<KIND>>,
    ) {
        let client = t.client().await;
        for name in NAMES {
            let mut junk = Junk::new(t, "m", &[name]).await;
            let guard = locked(&client, "m").await;
            let before = t.enqueue(&client, "m").await;
            release_both(guard, before).await;
            let node = junk.nodes.pop().expect("the node named like a waiter's");
            t.store.delete_key(&node).await;
            junk.add(name, CreateMode::Ephemeral).await;
            let waiter = t.enqueue(&client, "m").await;
            waiter
                .waits_throughout(Duration::from_millis(300), "the foreign waiter is ahead")
                .await;
            assert!(client.mutex("m").try_lock().await.unwrap().is_none());
            junk.delete().await;
            waiter.served().await;
        }
    }

    pub(crate) async fn junk_counts_neither_as_reader_nor_writer_nor_permit<const KIND: usize>(
        t: &Case<Setup<KIND>>,
    ) {
        let client = t.client().await;
        let mut junk = Vec::new();
        for name in ["m!rw", "m!permits", "m!gate"] {
            junk.push(Junk::new(t, name, &NAMES).await);
        }
        // In the second round the client knows the directories.
        for _ in 0..2 {
            let (lock, semaphore) = (client.rw_lock("m"), client.semaphore("m", 1));
            let reader = lock.try_read().await.unwrap().expect("there is no writer");
            assert!(lock.try_write().await.unwrap().is_none(), "there is a reader");
            reader.unlock().await.unwrap();
            lock.try_write().await.unwrap().expect("the lock is free").unlock().await.unwrap();
            within(SOON, "there is no writer", lock.read()).await.unwrap().unlock().await.unwrap();
            within(SOON, "the lock is free", lock.write()).await.unwrap().unlock().await.unwrap();
            let permit = semaphore.try_acquire().await.unwrap().expect("the permit is free");
            assert!(semaphore.try_acquire().await.unwrap().is_none(), "the permit is taken");
            permit.release().await.unwrap();
            within(SOON, "the permit is free", semaphore.acquire())
                .await
                .unwrap()
                .release()
                .await
                .unwrap();
        }
        for junk in junk {
            junk.delete().await;
        }
    }

    /// Junk has the name of a node that one of our clients creates for its first lock.
    pub(crate) async fn a_writer_does_not_wait_for_junk_that_looks_like_one_of_ours<
        const KIND: usize,
    >(
        t: &Case<Setup<KIND>>,
    ) {
        let client = t.client().await;
        let name = "0f0e8a5e8b8d4a9e-w-lock-0000000000";
        let mut junk = Junk::new(t, "m!rw", &[name]).await;
        let lock = client.rw_lock("m");
        within(SOON, "the lock is free", lock.write()).await.unwrap().unlock().await.unwrap();
        within(SOON, "there is no writer", lock.read()).await.unwrap().unlock().await.unwrap();
        // The client knows the node as junk. Now an ephemeral node has its name.
        let node = junk.nodes.pop().expect("the node named like a waiter's");
        t.store.delete_key(&node).await;
        junk.add(name, CreateMode::Ephemeral).await;
        assert!(lock.try_read().await.unwrap().is_none(), "there is a writer");
        assert!(lock.try_write().await.unwrap().is_none(), "there is a writer");
        junk.delete().await;
    }
}
