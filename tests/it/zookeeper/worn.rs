//! A directory in which 2^31 nodes were created: from then on the server hands out one number again
//! and again.

use std::time::Duration;

use zookeeper_client::{Acls, CreateMode};

use crate::{
    common::{
        beside_others,
        case::{SOON, eventually, throughout, within},
        zookeeper::ZooKeeper,
    },
    zookeeper::own::OwnZooKeeper,
};

const DIRECTORY: &str = "/locks/worn";

/// The directory outlives its waiters, like the directory of a semaphore with a note, or a
/// directory that an operator has created.
async fn worn_out() -> OwnZooKeeper {
    let mut server = OwnZooKeeper::start("").await;
    let raw = server.raw().await;
    let lasting = CreateMode::Persistent.with_acls(Acls::anyone_all());
    raw.mkdir(DIRECTORY, &lasting).await.expect("made");
    let note = format!("{DIRECTORY}/note");
    raw.create(&note, b"", &lasting).await.expect("made");
    drop(raw);
    server.wear_out(&note, i32::MAX).await;
    server
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_are_not_given_twice_where_numbers_are() {
    beside_others::<ZooKeeper>(async |_| {
        let server = worn_out().await;
        let raw = server.raw().await;
        let keys = async || {
            let mut keys = raw.list_children(DIRECTORY).await.unwrap();
            keys.retain(|key| key != "note");
            keys
        };
        let there_are = async |count: usize| {
            eventually(SOON, "they are there", async || keys().await.len() == count).await;
        };
        let (one, two) = (server.client("/locks").await, server.client("/locks").await);
        for client in [&one, &two] {
            client.mutex("worn").lock().await.unwrap().unlock().await.unwrap();
        }
        let wait = |client: &distlock::Client| {
            let mutex = client.mutex("worn");
            tokio::spawn(async move { mutex.lock().await })
        };
        let first = one.mutex("worn").lock().await.unwrap();
        assert!(first.key().ends_with("-lock-2147483647"), "{}", first.key());
        let second = wait(&two);
        there_are(2).await;
        let first_key = first.key().to_owned();
        first.unlock().await.unwrap();
        let second = within(SOON, "it is granted", second).await.unwrap().unwrap();
        let third = wait(&one);
        there_are(2).await;
        let fourth = wait(&two);
        there_are(3).await;
        let first_name = first_key.rsplit_once('/').unwrap().1;
        assert!(!keys().await.iter().any(|key| key == first_name), "a name came again");
        // A waiter that gives up is no holder that lets go.
        third.abort();
        there_are(2).await;
        throughout(Duration::from_secs(1), "one holds the lock", async || {
            second.is_valid() && !fourth.is_finished()
        })
        .await;
        second.unlock().await.unwrap();
        let fourth = within(SOON, "it is granted", fourth).await.unwrap().unwrap();
        fourth.unlock().await.unwrap();
        there_are(0).await;
    })
    .await;
}

/// Nodes with labels have numbers, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn order_holds_where_numbers_tell_none() {
    beside_others::<ZooKeeper>(async |_| {
        let server = worn_out().await;
        let client = server.client("/locks").await;
        let mut held = client.mutex("worn").lock().await.unwrap();
        let mut waiting = Vec::new();
        let raw = server.raw().await;
        for others in 1..4 {
            let mutex = client.mutex("worn");
            waiting.push(tokio::spawn(async move { mutex.lock().await }));
            eventually(SOON, "it has joined", async || {
                // The note, and the holder.
                raw.list_children(DIRECTORY).await.unwrap().len() == others + 2
            })
            .await;
        }
        for (number, next) in waiting.into_iter().enumerate() {
            let token = held.fencing_token();
            held.unlock().await.unwrap();
            held = within(SOON, &format!("{number} is next"), next).await.unwrap().unwrap();
            assert!(held.fencing_token() > token);
        }
        held.unlock().await.unwrap();
    })
    .await;
}
