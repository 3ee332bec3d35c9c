//! Tells a history: who did what, and what each server has after it.

use super::{
    model::Step,
    state::{Data, Role, Stage, State},
};

const CLIENTS: [&str; 2] = ["A", "B"];
const SERVERS: [&str; 3] = ["P", "R", "S"];

/// The queues of the servers, the holders.
pub(super) fn sum_up(state: &State) -> String {
    let mut told = String::new();
    for (name, server) in SERVERS.iter().zip(&state.servers) {
        let mark = match server.role {
            Role::Absent => continue,
            Role::Primary => "",
            Role::ReplicaOf(_) => "'",
        };
        told += &format!("{name}{mark} {} ", queue(&server.data));
    }
    let holders: Vec<_> = state.holders().map(|client| CLIENTS[client]).collect();
    if !holders.is_empty() {
        told += &format!("held by {}", holders.join(" and "));
    }
    told
}

/// With the ticks that their sessions have left, and the quarantine.
fn queue(data: &Data) -> String {
    let entry = |entry: &super::state::Entry| {
        let left = data.sessions[entry.client].map_or(0, |session| session.lease);
        format!("{}{}:{left}", CLIENTS[entry.client], entry.token)
    };
    let entries: Vec<_> = data.queue.iter().map(entry).collect();
    let closed = if data.quarantine > 0 { format!("-{}", data.quarantine) } else { String::new() };
    format!("[{}]{closed}", entries.join(" "))
}

pub(super) fn tell(before: &State, step: Step, after: &State) -> String {
    let over = |c: usize| after.clients[c].stage == Stage::Over;
    let at = |c: usize| before.clients[c].at.map_or("?", |s| SERVERS[s]);
    let (c, text) = match step {
        Step::Tick => return "a tick passes".into(),
        Step::Replicate(s) => return format!("{} has all that its primary has", SERVERS[s]),
        Step::Promote(s) => return format!("{} is promoted", SERVERS[s]),
        Step::Follow(s, to) => {
            return format!("{} begins to follow {}, with nothing", SERVERS[s], SERVERS[to]);
        }
        Step::Wipe(s) => return format!("{} is started again, with nothing", SERVERS[s]),
        Step::Forget(s) => return format!("{} is started again, as it was before", SERVERS[s]),
        Step::Open(c, s) => (c, format!("opens its session on {}", SERVERS[s])),
        Step::Move(c, s) => (c, format!("connects to {}", SERVERS[s])),
        Step::Leave(c) => (c, format!("leaves, on {}", at(c))),
        Step::Proved(c) => {
            let left = after.clients[c].deadline;
            (c, format!("is told that its keepalive counts: {left} ticks"))
        }
        Step::Join(c) | Step::Look(c) | Step::Beat(c) if over(c) => {
            (c, format!("asks {}, and its session is over", at(c)))
        }
        Step::Join(c) => (c, format!("joins on {}", at(c))),
        Step::Beat(c) => (c, format!("sends a keepalive to {}", at(c))),
        Step::Look(c) => match after.clients[c].stage {
            Stage::Told { .. } => (c, format!("looks on {}: nobody is ahead", at(c))),
            Stage::Holding { .. } => (c, format!("looks on {}, and is granted", at(c))),
            Stage::Idle => (c, format!("looks on {}: its entry is gone", at(c))),
            _ => (c, format!("looks on {}, and is not let in", at(c))),
        },
    };
    format!("{} {text}", CLIENTS[c])
}
