//! Describes a history: each step, and the state of the nodes after it.

use super::{
    model::Step,
    state::{Node, Stage, State},
};

const NAMES: [&str; 2] = ["A", "B"];

/// Returns the values on the nodes with their remaining ticks and the counters, and the holders.
pub(super) fn sum_up(state: &State) -> String {
    let node = |node: &Node| {
        let value = node.value.map_or("-".to_owned(), |key| {
            format!("{}{}:{}", NAMES[key.client], key.attempt, node.left)
        });
        let spoiled = if node.spoiled > 0 { "!" } else { "" };
        format!("{value}#{}{spoiled}", node.counter)
    };
    let nodes: Vec<_> = state.nodes.iter().map(node).collect();
    let holders: Vec<_> = state.holders().map(|client| NAMES[client]).collect();
    let held = if holders.is_empty() { "" } else { "held by " };
    format!("{:26} {held}{}", nodes.join(" "), holders.join(" and "))
}

pub(super) fn describe(before: &State, step: Step, after: &State) -> String {
    let (c, text) = match step {
        Step::Tick => return "a tick passes".into(),
        Step::End(_) => return "a node's value expires, by its clock".into(),
        Step::Restart(_) => return "a node is restarted empty".into(),
        Step::Jump(_) => return "a node's clock is set forward".into(),
        Step::ApplyLate(_) => return "a late request arrives at its node".into(),
        Step::DropLate(_) => return "a late request is lost for good".into(),
        Step::Begin(c) => (c, "starts to acquire the lock".into()),
        Step::Take(c, n) => match before.nodes[n].value {
            None => (c, "takes a node".into()),
            Some(_) => (c, "learns from a node that the other client has it".into()),
        },
        Step::TakeUnheard(c, _) => (c, "asks a node, whose reply is lost".into()),
        Step::TakeLate(c, _) => (c, "asks a node; the request is delayed".into()),
        Step::Propose(c) => match after.clients[c].stage {
            Stage::Raising { token } => (c, format!("has a majority, and proposes token {token}")),
            _ => (c, "has a majority, and asks no more nodes".into()),
        },
        Step::Raise(c, _) => (c, "has a node raise its counter".into()),
        Step::RaiseUnheard(c, _) => (c, "has a node raise its counter; the reply is lost".into()),
        Step::Grant(c) => match before.clients[c].stage {
            Stage::Ready { token } if after.clients[c].stage == Stage::Holding => {
                (c, format!("is granted the lock with token {token}"))
            }
            _ => (c, "is too late".into()),
        },
        Step::GiveUp(c) => (c, "gives up".into()),
        Step::Unlock(c) => (c, "releases the lock".into()),
        Step::Renew(c) => (c, "starts to renew it".into()),
        Step::Extend(c, _) => {
            (c, format!("asks a node to keep it; its deadline is {}", after.clients[c].deadline))
        }
        Step::ExtendUnheard(c, _) => (c, "asks a node to keep it; the reply is lost".into()),
        Step::ExtendLate(c, _) => (c, "asks a node to keep it; the request is delayed".into()),
        Step::Release(c, _) => (c, "has a node delete it".into()),
    };
    format!("{} {text}", NAMES[c])
}
