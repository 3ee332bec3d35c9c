//! Describes a history: each step, and the queue after it.

use super::{
    model::Step,
    state::{Key, Stage, State, View, Wait},
};

const NAMES: [&str; 3] = ["A", "B", "C"];

pub(super) fn queue(state: &State) -> String {
    let key = |key: &Key| format!("{}{}", NAMES[key.client], key.n);
    let keys: Vec<_> = state.queue.iter().map(key).collect();
    format!("[{}]", keys.join(" "))
}

/// Returns the clients that believe that they hold the lock.
pub(super) fn holders(state: &State) -> String {
    let holders = (0..NAMES.len()).filter(|client| state.holds(*client));
    let names: Vec<_> = holders.map(|client| NAMES[client]).collect();
    if names.is_empty() { String::new() } else { format!("held by {}", names.join(" and ")) }
}

fn ahead(wait: Wait) -> u8 {
    wait.ahead.unwrap_or_default()
}

pub(super) fn describe(before: &State, step: Step, after: &State) -> String {
    let stages = |c: usize| (before.clients[c].stage, after.clients[c].stage);
    let (c, text) = match step {
        Step::Tick => return "a tick passes".into(),
        Step::Delete(n) => return format!("an operator deletes key {n}"),
        Step::Join(c) => match stages(c) {
            (Stage::Doubt, Stage::Joined(wait)) => (
                c,
                format!("repeats the request to join; its key is {}; the reply is sent", wait.own),
            ),
            (_, Stage::Joined(wait)) => {
                (c, format!("requests to join, and gets key {}; the reply is sent", wait.own))
            }
            _ => (c, String::new()),
        },
        Step::JoinLate(c) => {
            (c, "requests to join; the request is delayed, and considered lost".into())
        }
        Step::ApplyLate(c) => (c, "'s late request to join is applied".into()),
        Step::DropLate(c) => (c, "'s late request to join is lost for good".into()),
        Step::LoseReply(c) => (c, "gets no reply".into()),
        Step::JoinAnswered(c) => match stages(c).1 {
            Stage::Behind(wait) => (c, format!("learns: behind key {}", ahead(wait))),
            Stage::Holding { .. } => (c, "learns: no key is ahead; it is granted".into()),
            _ => (c, "learns: no key is ahead, but its deadline has passed".into()),
        },
        Step::Watch(c) => match stages(c).1 {
            Stage::Watching(wait) if !wait.view.has(ahead(wait)) => {
                (c, format!("watches key {}, which is deleted, and is not notified", ahead(wait)))
            }
            Stage::Watching(wait) => (c, format!("watches key {}, which exists", ahead(wait))),
            _ => (c, "tries to watch, and learns that the key is deleted".into()),
        },
        Step::CatchUp(c) => match stages(c) {
            (Stage::Watching(_), Stage::Woken(wait)) => {
                (c, format!("is notified that key {} is deleted", ahead(wait)))
            }
            _ => (c, "'s server catches up".into()),
        },
        Step::Look(c) => match stages(c).1 {
            Stage::Holding { .. } => (c, "reads the queue, and is granted".into()),
            Stage::Behind(wait) => {
                (c, format!("reads the queue, and is behind key {}", ahead(wait)))
            }
            _ => (c, "reads the queue, and its key is deleted".into()),
        },
        Step::Recheck(c) => (c, "rechecks, and its key is deleted".into()),
        Step::Leave(c) => match stages(c).0 {
            Stage::Holding { .. } => (c, "releases the lock".into()),
            Stage::Leaving(_) => (c, "deletes its key after a retry".into()),
            _ => (c, "gives up, and deletes its key".into()),
        },
        Step::LoseLeave(c) => (c, "requests to delete its key; the request is lost".into()),
        Step::LookAgain(c) => (c, "searches again for leftover keys".into()),
        Step::Renew(c) => (c, "renews its session; the reply is under way".into()),
        Step::RenewalAnswered(c) => {
            let left = after.clients[c].deadline;
            (c, format!("gets the reply, and has {left} more ticks"))
        }
        Step::EvictionNoticed(c) => (c, "is notified that its key was deleted".into()),
        Step::GiveUp(c) => (c, "gives its session up".into()),
        Step::Expire(c) => (c, "'s session is ended by the store".into()),
    };
    let gap = if text.starts_with('\'') { "" } else { " " };
    format!("{}{gap}{text}", NAMES[c])
}
