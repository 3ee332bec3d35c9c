//! The invariants, and the situations that must be reached.

use stateright::Property;

use super::{
    model::Lock,
    state::{Broken, Client, Key, Stage, State, View},
};
use crate::check::Histories;

pub(crate) fn all() -> Vec<Property<Histories<Lock>>> {
    vec![
        Property::always("exclusion", |_, state: &State| exclusion(state)),
        Property::always("no early grant", |_, state: &State| state.broken != Some(Broken::Early)),
        Property::always("grants in order", |_, state: &State| state.broken != Some(Broken::Order)),
        Property::always("no false alarm", |_, state: &State| {
            state.broken != Some(Broken::FalseAlarm)
        }),
        Property::always("no lost wake-up", |_, state: &State| !lost_wake_up(state)),
        Property::always("no orphan", |_, state: &State| {
            !state.queue.iter().any(|key| orphan(state, key))
        }),
        Property::always("no stranded waiter", |_, state: &State| !stranded(state)),
        Property::sometimes("handover", |_, state: &State| served(state)),
        Property::sometimes("expiry with a successor", |_, state: &State| {
            served(state) && state.clients.iter().any(|client| client.expired)
        }),
        Property::sometimes("cancel in the middle", |lock, state: &State| {
            state.left.deletes == lock.bounds.deletes && cancelled_in_the_middle(state)
        }),
        Property::sometimes("late write cleaned up", |_, state: &State| state.cleaned),
        Property::sometimes("holder's key deleted", |_, state: &State| {
            state.clients.iter().any(|client| client.evicted_while_held)
        }),
        Property::sometimes("lock granted next to a holder without a key", |_, state: &State| {
            (0..state.clients.len()).filter(|client| state.holds(*client)).count() > 1
        }),
    ]
}

/// Two guards are never valid at once, unless an operator deleted the key of one of them.
fn exclusion(state: &State) -> bool {
    let sound = |client: &usize| state.holds(*client) && !state.clients[*client].evicted_while_held;
    (0..state.clients.len()).filter(sound).count() <= 1
}

/// Returns `true` if a client waits for an event that cannot come: its server is up to date, and
/// the watched key does not exist or is not ahead.
fn lost_wake_up(state: &State) -> bool {
    let keys = state.keys();
    state.clients.iter().any(|client| match client.stage {
        Stage::Watching(wait) => {
            let knows_all = wait.view == keys.up_to(wait.own) && wait.view.has(wait.own);
            knows_all && !wait.ahead.is_some_and(|ahead| wait.view.ahead_of(wait.own).has(ahead))
        }
        _ => false,
    })
}

/// Returns `true` if no client will delete the key while its session lives, and no attempt uses it.
fn orphan(state: &State, key: &Key) -> bool {
    let client = &state.clients[key.client];
    let is_current = client.is_busy() && client.attempt == key.attempt;
    let in_doubt = matches!(client.stage, Stage::Doubt | Stage::Leaving(None));
    // A key behind the attempt's own key blocks no waiter until that is deleted, and is then
    // searched for.
    let to_come = client.doubtful && client.own().is_some_and(|own| own < key.n);
    let accounted = client.stage == Stage::Over
        || client.expired
        || client.again >= Some(key.attempt)
        || is_current && (in_doubt || to_come || client.own() == Some(key.n));
    !accounted
}

/// Returns `true` if the queue has a key and no step is pending: it stays unless time passes or a
/// client cancels.
fn stranded(state: &State) -> bool {
    let keys = state.keys();
    let rests = |client: &Client| match client.stage {
        Stage::Idle => true,
        Stage::Over => client.expired,
        Stage::Watching(wait) => wait.view == keys.up_to(wait.own) && wait.view.has(wait.own),
        _ => false,
    };
    let at_rest =
        |client: &Client| rests(client) && client.late.is_none() && client.again.is_none();
    !state.queue.is_empty() && state.clients.iter().all(at_rest)
}

/// Returns `true` if a client that had to wait holds the lock.
fn served(state: &State) -> bool {
    state.clients.iter().any(|client| matches!(client.stage, Stage::Holding { waited: true, .. }))
}

/// Returns `true` if a client is woken while keys are ahead of it, although no operator deleted a
/// key and no session expired.
fn cancelled_in_the_middle(state: &State) -> bool {
    !state.clients.iter().any(|client| client.expired)
        && state.clients.iter().any(|client| match client.stage {
            Stage::Woken(wait) => {
                wait.seen && !wait.first && wait.view.ahead_of(wait.own).len() > 0
            }
            _ => false,
        })
}
