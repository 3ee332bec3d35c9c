//! Acquires a lock on a majority of the nodes, and raises its token.

use super::RedlockStore;
use crate::backend::redlock::{
    keys::Key,
    nodes::Said,
    round::{Outcome, Round, VALUE},
    script::{Call, Reply},
    token::{self, Answer},
};

/// The largest number of proposals, if other clients raise the counter in between.
const PROPOSALS: u32 = 4;

/// The result of an attempt.
pub(super) enum Taken {
    Token(u64),
    Occupied,
    /// The reason as text.
    Not(String),
    /// A majority of the nodes denies access, for this reason.
    Denied(String),
}

/// Returns the result of an attempt without a majority.
fn failed(why: String, round: &Round) -> Taken {
    round.denial().map_or(Taken::Not(why), Taken::Denied)
}

/// Returns `true` if no more replies are needed. A reply that does not count yet may count with the
/// next one, if that shows the same clock.
fn is_settled(round: &Round) -> bool {
    round.taken() == Outcome::Ours || round.is_lost()
}

impl RedlockStore {
    /// Asks the nodes for the lock, and proposes its token. `having`: receives the nodes that may
    /// have the value.
    pub(super) async fn take(&self, key: &Key, having: &mut Vec<usize>) -> Taken {
        let mut all = Vec::new();
        let (mut counter, mut left) = (0, None);
        let token = self.nodes.proposal();
        let call = Call::take(key, self.ttl, token);
        let has = |reply: &Reply| reply.has(0);
        let mut count = |all: &mut Vec<Said>, having: &mut Vec<usize>, said: Said| {
            if let Some(reply) = &said.reply {
                counter = counter.max(reply.counter());
                left = left.max(reply.left());
            }
            if !said.sent || said.reply.as_ref().is_some_and(|reply| !reply.has(0)) {
                having.retain(|node| *node != said.node);
            }
            all.push(said);
            self.nodes.round(all, has)
        };
        let mut round = self.nodes.round(&all, has);
        // If several clients want the lock, the first node decides which of them queries the
        // others. Otherwise each client might get a few nodes, and none a majority.
        let tried = if self.contended.is(&key.lock) { self.nodes.first() } else { None };
        if let Some(first) = tried {
            having.push(first);
            let mut answers = self.nodes.ask([first], |_| call.clone());
            if let Some(said) = answers.next().await {
                let another = said.reply.clone().filter(|reply| !reply.has(0));
                round = count(&mut all, having, said);
                if let Some(another) = another {
                    self.contended.meet_again(&key.lock, another.left());
                    return Taken::Occupied;
                }
            }
        }
        let others = (0..self.nodes.len()).filter(|node| Some(*node) != tried);
        having.extend(others.clone());
        let mut answers = self.nodes.ask(others, |_| call.clone());
        while !is_settled(&round)
            && let Some(said) = answers.next().await
        {
            round = count(&mut all, having, said);
        }
        let raised = self.nodes.round(&all, Reply::raised);
        match round.taken() {
            // All nodes of the majority have raised their counters.
            Outcome::Ours if raised.taken() == Outcome::Ours && self.nodes.is_timely(token) => {
                Taken::Token(token)
            }
            Outcome::Ours => self.fence(key, counter.max(token)).await,
            Outcome::NotOurs => {
                self.contended.meet(&key.lock, left);
                Taken::Occupied
            }
            Outcome::Open | Outcome::Unknown => failed(round.words(VALUE), &round),
        }
    }

    /// Has a majority of the nodes with the value raise their counters to a new token.
    async fn fence(&self, key: &Key, counter: u64) -> Taken {
        let mut token = token::propose(counter, self.nodes.time());
        for _ in 0..PROPOSALS {
            let is_raised = |reply: &Reply| reply.answer() == Answer::Raised;
            let mut all = Vec::new();
            let mut round = self.nodes.round(&all, is_raised);
            let mut answers = self.nodes.ask_all(&Call::confirm(key, token));
            while !is_settled(&round)
                && let Some(answer) = answers.next().await
            {
                all.push(answer);
                round = self.nodes.round(&all, is_raised);
            }
            let said = all.iter().filter_map(|said| Some(said.reply.as_ref()?.answer()));
            let said: Vec<_> = said.collect();
            if round.taken() == Outcome::Ours {
                return Taken::Token(token);
            }
            match token::propose_again(token, &said) {
                Some(next) => token = next,
                None => {
                    let words = round.words("the token");
                    return failed(format!("the token was not confirmed: {words}"), &round);
                }
            }
        }
        Taken::Not("other clients keep raising the lock's counter".into())
    }
}
