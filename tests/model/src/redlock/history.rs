//! Tells a history: who did what, and what the nodes have after it.

use super::{
    model::Step,
    state::{Node, Stage, State},
};

const NAMES: [&str; 2] = ["A", "B"];

/// The values on the nodes, with the ticks that they have left and the counters, and the holders.
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

pub(super) fn tell(before: &State, step: Step, after: &State) -> String {
    let (c, text) = match step {
        Step::Tick => return "a tick passes".into(),
        Step::End(_) => return "what a node has ends, by its clock".into(),
        Step::Restart(_) => return "a node is emptied and started again".into(),
        Step::Jump(_) => return "a node's clock is set forward".into(),
        Step::ApplyLate(_) => return "a late request comes to its node".into(),
        Step::DropLate(_) => return "a late request is lost for good".into(),
        Step::Begin(c) => (c, "begins to take the lock".into()),
        Step::Take(c, n) => match before.nodes[n].value {
            None => (c, "takes a node".into()),
            Some(_) => (c, "is told by a node that another one has it".into()),
        },
        Step::TakeUnheard(c, _) => (c, "asks a node, whose answer is lost".into()),
        Step::TakeLate(c, _) => (c, "asks a node; the request is delayed".into()),
        Step::Propose(c) => match after.clients[c].stage {
            Stage::Raising { token } => (c, format!("has a majority, and proposes token {token}")),
            _ => (c, "has a majority, and asks for no more".into()),
        },
        Step::Raise(c, _) => (c, "has a node raise its counter".into()),
        Step::RaiseUnheard(c, _) => (c, "has a node raise its counter, and is not told".into()),
        Step::Grant(c) => match before.clients[c].stage {
            Stage::Ready { token } if after.clients[c].stage == Stage::Holding => {
                (c, format!("is granted the lock with token {token}"))
            }
            _ => (c, "is too late".into()),
        },
        Step::GiveUp(c) => (c, "gives up".into()),
        Step::Unlock(c) => (c, "gives the lock back".into()),
        Step::Renew(c) => (c, "begins to renew it".into()),
        Step::Extend(c, _) => {
            (c, format!("asks a node to keep it, and counts on {}", after.clients[c].deadline))
        }
        Step::ExtendUnheard(c, _) => (c, "asks a node to keep it, and is not told".into()),
        Step::ExtendLate(c, _) => (c, "asks a node to keep it; the request is delayed".into()),
        Step::Release(c, _) => (c, "has a node delete it".into()),
    };
    format!("{} {text}", NAMES[c])
}
