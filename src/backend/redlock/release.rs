//! Giving locks back, on all nodes.

use std::time::Duration;

use super::{
    keys::Key,
    nodes::Nodes,
    round::{Outcome, Round, Vote},
    script::Call,
};
use crate::runtime::{Backoff, clock, executor::spawn_beside};

/// For how many TTLs a node that is silent is asked.
const TTLS: u32 = 4;

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
            insist(nodes, waiting, keys, ttl).await;
        });
    }
    rounds
}

/// The same for an attempt that nobody waits for any more. The requests are under way when this
/// returns: a later one comes after them.
pub(super) fn give_up(nodes: &Nodes, key: &Key, ttl: Duration) {
    let (nodes, keys) = (nodes.clone(), vec![key.clone()]);
    let mut answers = nodes.ask_all(&Call::release(&keys));
    spawn_beside(async move {
        let mut silent = Vec::new();
        while let Some(said) = answers.next().await {
            silent.extend(said.reply.is_none().then_some(said.node));
        }
        insist(nodes, silent, keys, ttl).await;
    });
}

/// Gives locks back on nodes that were silent, for as long as they may be there: longer than a TTL
/// where a node's clock was set back meanwhile.
async fn insist(nodes: Nodes, mut silent: Vec<usize>, keys: Vec<Key>, ttl: Duration) {
    let began = clock::now();
    let mut backoff = Backoff::default();
    while !silent.is_empty() && clock::now().saturating_sub(began) <= ttl * TTLS {
        backoff.pause().await;
        let mut answers = nodes.ask(silent.iter().copied(), |_| Call::release(&keys));
        while let Some(said) = answers.next().await {
            if said.reply.is_some() {
                silent.retain(|node| *node != said.node);
            }
        }
    }
}
