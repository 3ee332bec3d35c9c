//! Giving locks back, on all nodes.

use std::{sync::Arc, time::Duration};

use super::{
    keys::Key,
    nodes::Nodes,
    round::{Outcome, Round, Vote},
    script::Call,
};
use crate::runtime::{Backoff, clock, executor::spawn_beside};

/// Gives locks back on all nodes, also on those that were silent; goes on in the background until
/// each has said so, or must have lost the value by itself. Tells of each what came of it as soon
/// as that is known, within the time that a node may take.
pub(super) async fn give_back(nodes: &Nodes, keys: &[Key], ttl: Duration) -> Vec<Round> {
    let mut rounds = vec![Round::new(nodes.len()); keys.len()];
    let mut answers = nodes.ask_all(&Call::release(keys));
    let mut waiting: Vec<usize> = (0..nodes.len()).collect();
    while rounds.iter().any(|round| round.freed() == Outcome::Open) {
        let Some(said) = answers.next().await else { break };
        if let Some(reply) = &said.reply {
            waiting.retain(|node| *node != said.node);
            for (index, round) in rounds.iter_mut().enumerate() {
                // What is not there is not there, whatever the node has forgotten.
                round.count(if reply.has(index) { Vote::Yes } else { Vote::No });
            }
        } else {
            rounds.iter_mut().for_each(|round| round.count(Vote::Silent));
        }
    }
    if !waiting.is_empty() {
        let (nodes, keys) = (nodes.clone(), keys.to_vec());
        spawn_beside(async move {
            let mut waiting = waiting;
            while let Some(said) = answers.next().await {
                if said.reply.is_some() {
                    waiting.retain(|node| *node != said.node);
                }
            }
            for node in waiting {
                insist(&nodes, node, &keys, ttl);
            }
        });
    }
    rounds
}

/// The same for an attempt that nobody waits for any more. The requests are under way when this
/// returns: a later one comes after them. `taken`: the nodes that may have it. Others are not
/// asked, and where there are none nothing is left behind, however often a lock is tried.
pub(super) fn give_up(nodes: &Nodes, key: &Key, taken: &[usize], ttl: Duration) {
    if taken.is_empty() {
        return;
    }
    let (nodes, keys) = (nodes.clone(), vec![key.clone()]);
    let mut answers = nodes.ask(taken.iter().copied(), |_| Call::release(&keys));
    spawn_beside(async move {
        while let Some(said) = answers.next().await {
            if said.reply.is_none() {
                insist(&nodes, said.node, &keys, ttl);
            }
        }
    });
}

/// Gives locks back on a node that was silent, for as long as they may be there. One task does so
/// for all locks of the node.
fn insist(nodes: &Nodes, node: usize, keys: &[Key], ttl: Duration) {
    let Some(strays) = nodes.strays(node).map(Arc::clone) else { return };
    if !strays.add(keys, ttl, clock::now()) {
        return;
    }
    let nodes = nodes.clone();
    spawn_beside(async move {
        let mut backoff = Backoff::default();
        loop {
            let keys = strays.next(clock::now());
            if keys.is_empty() {
                return;
            }
            backoff.pause().await;
            let mut answers = nodes.ask([node], |_| Call::release(&keys));
            if answers.next().await.is_some_and(|said| said.reply.is_some()) {
                strays.freed(&keys);
                backoff = Backoff::default();
            }
        }
    });
}
