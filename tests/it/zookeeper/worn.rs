//! A directory in which 2^31 nodes were created: from then on the server assigns the same number to
//! every node.

use std::time::Duration;

use zookeeper_client::{Acls, CreateMode};

use crate::{
    common::{
        Case, SOON, Waiter, eventually, handover, own_cases, release_both, take_turn,
        zookeeper::{Setup, ZooKeeper},
    },
    zookeeper::own::OwnZooKeeper,
};

const DIRECTORY: &str = "/locks/worn";

/// The directory outlives its waiters, like the directory of a semaphore with a note, or a
/// directory that an operator has created.
async fn worn_out<const KIND: usize>(t: &Case<Setup<KIND>>) -> OwnZooKeeper {
    let mut server = OwnZooKeeper::like(t, "").await;
    let raw = server.raw().await;
    let lasting = CreateMode::Persistent.with_acls(Acls::anyone_all());
    raw.mkdir(DIRECTORY, &lasting).await.expect("created");
    let note = format!("{DIRECTORY}/note");
    raw.create(&note, b"", &lasting).await.expect("created");
    drop(raw);
    server.wear_out(&note, i32::MAX).await;
    server
}

own_cases! { ZooKeeper, beside_others,
    names_stay_unique_after_sequence_numbers_overflow,
    order_holds_after_sequence_numbers_overflow,
}

pub(crate) mod cases {
    use super::*;

    pub(crate) async fn names_stay_unique_after_sequence_numbers_overflow<const KIND: usize>(
        t: &Case<Setup<KIND>>,
    ) {
        let server = worn_out(t).await;
        let raw = server.raw().await;
        let keys = async || {
            let mut keys = raw.list_children(DIRECTORY).await.unwrap();
            keys.retain(|key| key != "note");
            keys
        };
        let wait_for_nodes = async |count: usize| {
            eventually(SOON, "the nodes exist", async || keys().await.len() == count).await;
        };
        let (one, two) = (server.client("/locks").await, server.client("/locks").await);
        for client in [&one, &two] {
            take_turn(client, "worn").await;
        }
        let first = one.mutex("worn").lock().await.unwrap();
        assert!(first.key().ends_with("-lock-2147483647"), "{}", first.key());
        let second = Waiter::of(&two, "worn");
        wait_for_nodes(2).await;
        let first_key = first.key().to_owned();
        let second = handover(first, second).await;
        let third = Waiter::of(&one, "worn");
        wait_for_nodes(2).await;
        let fourth = Waiter::of(&two, "worn");
        wait_for_nodes(3).await;
        let first_name = first_key.rsplit_once('/').unwrap().1;
        assert!(!keys().await.iter().any(|key| key == first_name), "a name was reused");
        // A waiter that gives up must not look like a holder that releases.
        third.cancel();
        wait_for_nodes(2).await;
        fourth.waits_behind(&second, Duration::from_secs(1)).await;
        release_both(second, fourth).await;
        wait_for_nodes(0).await;
    }

    /// Nodes with labels have numbers, too.
    pub(crate) async fn order_holds_after_sequence_numbers_overflow<const KIND: usize>(
        t: &Case<Setup<KIND>>,
    ) {
        let server = worn_out(t).await;
        let client = server.client("/locks").await;
        let mut held = client.mutex("worn").lock().await.unwrap();
        let mut waiting = Vec::new();
        let raw = server.raw().await;
        for others in 1..4 {
            waiting.push(Waiter::of(&client, "worn"));
            eventually(SOON, "the waiter has joined", async || {
                // The note, and the holder.
                raw.list_children(DIRECTORY).await.unwrap().len() == others + 2
            })
            .await;
        }
        for next in waiting {
            let token = held.fencing_token();
            held = handover(held, next).await;
            assert!(held.fencing_token() > token);
        }
        held.unlock().await.unwrap();
    }
}
