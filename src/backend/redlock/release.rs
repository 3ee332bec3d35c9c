//! Releases locks on all nodes.

use std::{sync::Arc, time::Duration};

use super::{
    keys::Key,
    nodes::Nodes,
    round::{Outcome, Round, Vote},
    script::Call,
};
use crate::runtime::{Backoff, clock, executor::spawn_beside};

/// Releases locks on all nodes, including those that did not reply. It continues in the background
/// until each node has confirmed the release, or must have expired the value. Returns the result
/// for each lock as soon as it is known, at most after the time limit of a node.
pub(super) async fn give_back(nodes: &Nodes, keys: &[Key], ttl: Duration) -> Vec<Round> {
    let mut rounds = vec![Round::new(nodes.len()); keys.len()];
    let mut answers = nodes.ask_all(&Call::release(keys));
    let mut waiting: Vec<usize> = (0..nodes.len()).collect();
    while rounds.iter().any(|round| round.freed() == Outcome::Open) {
        let Some(said) = answers.next().await else { break };
        if let Some(reply) = &said.reply {
            waiting.retain(|node| *node != said.node);
            for (index, round) in rounds.iter_mut().enumerate() {
                // A missing value is a fact, whatever the node has forgotten.
                round.count(if reply.has(index) { Vote::Yes } else { Vote::No });
            }
        } else {
            rounds.iter_mut().for_each(|round| round.count(said.vote(|_| false)));
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

/// Releases an attempt that no caller waits for. The requests have been sent when this returns, so
/// later requests come after them. `taken`: the nodes that may have the value. The other nodes are
/// not queried. If there are none, nothing is left behind, however often a lock is tried.
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

/// Releases locks on a node that did not reply, for as long as the values may exist. One task per
/// node does this for all locks.
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
