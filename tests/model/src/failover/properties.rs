//! The invariants, and the situations that must be reached.

use stateright::Property;

use super::{
    model::Failover,
    state::{Role, Stage, State},
};
use crate::check::Histories;

pub(super) fn all() -> Vec<Property<Histories<Failover>>> {
    vec![
        Property::always("exclusion", |_, state: &State| state.holders().count() <= 1),
        Property::always("tokens rise", |_, state: &State| !state.falling),
        Property::sometimes("a holder continues on the promoted server", |_, state: &State| {
            state.kept
        }),
        Property::sometimes("the promoted server grants", |_, state: &State| {
            granted_by(state, |server| server.promoted)
        }),
        Property::sometimes("an emptied server grants", |model, state: &State| {
            model.bounds.promotions == 0
                && model.bounds.wipes > 0
                && granted_by(state, |server| server.id > 1)
        }),
        Property::sometimes("lost writes are noticed", |_, state: &State| state.noticed),
    ]
}

fn granted_by(state: &State, which: impl Fn(&super::state::Server) -> bool) -> bool {
    state.holders().any(|client| match state.clients[client].stage {
        Stage::Holding { by, .. } => {
            let primaries = state.servers.iter().filter(|server| server.role == Role::Primary);
            primaries.filter(|server| server.id == by).any(&which)
        }
        _ => false,
    })
}
