//! The invariants, and the situations that must be reached.

use stateright::Property;

use super::{
    model::Redlock,
    state::{NODES, Node, Stage, State},
};
use crate::check::Histories;

pub(super) fn all() -> Vec<Property<Histories<Redlock>>> {
    vec![
        Property::always("exclusion", |_, state: &State| state.holders().count() <= 1),
        Property::always("tokens rise", |_, state: &State| !state.falling),
        Property::always("no orphan", |_, state: &State| {
            !state.nodes.iter().any(|node| is_orphan(state, node))
        }),
        Property::sometimes("the lock passes on", |_, state: &State| {
            state.holders().any(|client| client > 0) && state.granted > 1
        }),
        Property::sometimes("a holder has a bare majority", |_, state: &State| {
            state.holders().any(|client| had_by(state, client) == NODES / 2 + 1)
        }),
        Property::sometimes("a client is too late to be granted", |_, state: &State| {
            state.too_late
        }),
        Property::sometimes("a restarted node has the value again", |model, state: &State| {
            model.bounds.restarts > state.left.restarts
                && state.nodes.iter().all(|node| node.spoiled == 0)
                && state.holders().any(|client| had_by(state, client) == NODES)
        }),
    ]
}

fn had_by(state: &State, client: usize) -> usize {
    let key = Some(state.key(client));
    state.nodes.iter().filter(|node| node.value == key).count()
}

/// Returns `true` if the node has the value of an ended attempt that no client is about to delete
/// there.
fn is_orphan(state: &State, node: &Node) -> bool {
    let Some(key) = node.value else { return false };
    let goes_on = state.key(key.client) == key && state.clients[key.client].stage != Stage::Idle;
    !goes_on && !node.seen[key.client].releasing && !node.stray
}
