//! Describes a history: each step, and the state of every server after it.

use super::{
    model::Step,
    state::{Data, Role, Stage, State},
};

const CLIENTS: [&str; 2] = ["A", "B"];
const SERVERS: [&str; 3] = ["P", "R", "S"];

/// Returns the queues of the servers, and the holders.
pub(super) fn sum_up(state: &State) -> String {
    let mut text = String::new();
    for (name, server) in SERVERS.iter().zip(&state.servers) {
        let mark = match server.role {
            Role::Absent => continue,
            Role::Primary => "",
            Role::ReplicaOf(_) => "'",
        };
        text += &format!("{name}{mark} {} ", queue(&server.data));
    }
    let holders: Vec<_> = state.holders().map(|client| CLIENTS[client]).collect();
    if !holders.is_empty() {
        text += &format!("held by {}", holders.join(" and "));
    }
    text
}

/// Returns the entries with the remaining ticks of their sessions, and the quarantine.
fn queue(data: &Data) -> String {
    let entry = |entry: &super::state::Entry| {
        let left = data.sessions[entry.client].map_or(0, |session| session.lease);
        format!("{}{}:{left}", CLIENTS[entry.client], entry.token)
    };
    let entries: Vec<_> = data.queue.iter().map(entry).collect();
    let closed = if data.quarantine > 0 { format!("-{}", data.quarantine) } else { String::new() };
    format!("[{}]{closed}", entries.join(" "))
}

pub(super) fn describe(before: &State, step: Step, after: &State) -> String {
    let over = |c: usize| after.clients[c].stage == Stage::Over;
    let at = |c: usize| before.clients[c].at.map_or("?", |s| SERVERS[s]);
    let (c, text) = match step {
        Step::Tick => return "a tick passes".into(),
        Step::Replicate(s) => return format!("{} has caught up with its primary", SERVERS[s]),
        Step::Promote(s) => return format!("{} is promoted", SERVERS[s]),
        Step::Follow(s, to) => {
            return format!("{} becomes an empty replica of {}", SERVERS[s], SERVERS[to]);
        }
        Step::Wipe(s) => return format!("{} is restarted empty", SERVERS[s]),
        Step::Forget(s) => return format!("{} is restarted without its last writes", SERVERS[s]),
        Step::Open(c, s) => (c, format!("opens its session on {}", SERVERS[s])),
        Step::Move(c, s) => (c, format!("connects to {}", SERVERS[s])),
        Step::Leave(c) => (c, format!("leaves, on {}", at(c))),
        Step::Proved(c) => {
            let left = after.clients[c].deadline;
            (c, format!("learns that its keepalive counts: {left} ticks"))
        }
        Step::Join(c) | Step::Look(c) | Step::Beat(c) if over(c) => {
            (c, format!("queries {}, and its session has ended", at(c)))
        }
        Step::Join(c) => (c, format!("joins on {}", at(c))),
        Step::Beat(c) => (c, format!("sends a keepalive to {}", at(c))),
        Step::Look(c) => match after.clients[c].stage {
            Stage::Unblocked { .. } => (c, format!("reads {}: no entry is ahead", at(c))),
            Stage::Holding { .. } => (c, format!("reads {}, and is granted", at(c))),
            Stage::Idle => (c, format!("reads {}: its entry is deleted", at(c))),
            _ => (c, format!("reads {}, and is not granted", at(c))),
        },
    };
    format!("{} {text}", CLIENTS[c])
}
